//! Cache of compiled kernels on disk. A file is a header, the cubin, and a hash of both: a damaged file is a miss.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::translate::Facts;

/// First line of every file. Changes with the format.
const MAGIC: &str = "remora-cubin-1";
const HASH_BYTES: usize = 32;

/// A folder of compiled kernels.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
    limit: u64,
}

impl Cache {
    /// A cache of at most `limit` bytes in `folder`, which is created if it does not exist.
    pub fn open(folder: &Path, limit: u64) -> std::io::Result<Cache> {
        // A confined process finds the folder and may not create one.
        if !folder.is_dir() {
            fs::create_dir_all(folder)?;
        }
        Ok(Cache { folder: folder.to_owned(), limit })
    }

    /// The cubin with this name.
    pub(crate) fn get(&self, name: &str) -> Option<(Facts, Vec<u8>)> {
        let path = self.folder.join(name);
        let bytes = fs::read(&path).ok()?;
        let parsed = parse(name, &bytes);
        match &parsed {
            // The time of the last use decides what is deleted first.
            Some(_) => drop(fs::File::open(&path).and_then(|file| file.set_modified(SystemTime::now()))),
            None => drop(fs::remove_file(&path)),
        }
        parsed
    }

    /// Stores a cubin. Failures are logged: the cache only saves time.
    pub(crate) fn put(&self, name: &str, facts: &Facts, cubin: &[u8]) {
        if let Err(error) = self.write(name, &render(name, facts, cubin)) {
            tracing::warn!("cannot cache a translation in {}: {error}", self.folder.display());
        }
    }

    fn write(&self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        self.make_room(bytes.len() as u64)?;
        // Renamed when complete, so that another process never reads a part of it.
        let temporary = self.folder.join(format!("{name}.{}", std::process::id()));
        let written = fs::File::create(&temporary).and_then(|mut file| file.write_all(bytes));
        let moved = written.and_then(|()| fs::rename(&temporary, self.folder.join(name)));
        moved.inspect_err(|_| drop(fs::remove_file(&temporary)))
    }

    /// Deletes the files that were not used for the longest time until `bytes` more fit.
    fn make_room(&self, bytes: u64) -> std::io::Result<()> {
        let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.folder)?.flatten() {
            let Ok(data) = entry.metadata() else { continue };
            if data.is_file() {
                let used = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                files.push((used, data.len(), entry.path()));
            }
        }
        files.sort();
        let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, size, path) in files {
            if total.saturating_add(bytes) <= self.limit {
                break;
            }
            fs::remove_file(path)?;
            total -= size;
        }
        Ok(())
    }
}

/// Contents of the file for a cubin.
fn render(name: &str, facts: &Facts, cubin: &[u8]) -> Vec<u8> {
    let Facts { entry, threads, lds_bytes, kernarg_bytes, cooperative } = facts;
    let header =
        format!("{MAGIC}\n{entry}\n{threads} {lds_bytes} {kernarg_bytes} {}\n", u32::from(*cooperative));
    let mut bytes = [header.as_bytes(), cubin].concat();
    bytes.extend_from_slice(digest(name, &bytes).as_bytes());
    bytes
}

fn parse(name: &str, bytes: &[u8]) -> Option<(Facts, Vec<u8>)> {
    let (body, hash) = bytes.split_at_checked(bytes.len().checked_sub(HASH_BYTES)?)?;
    if digest(name, body).as_bytes() != hash {
        return None;
    }
    let mut parts = body.splitn(4, |byte| *byte == b'\n');
    let mut line = || parts.next();
    if line()? != MAGIC.as_bytes() {
        return None;
    }
    let entry = String::from_utf8(line()?.to_vec()).ok()?;
    let numbers = String::from_utf8(line()?.to_vec()).ok()?;
    let numbers: Vec<u32> = numbers.split(' ').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    let [threads, lds_bytes, kernarg_bytes, cooperative] = numbers[..] else { return None };
    let facts = Facts { entry, threads, lds_bytes, kernarg_bytes, cooperative: cooperative != 0 };
    Some((facts, line()?.to_vec()))
}

fn digest(name: &str, body: &[u8]) -> blake3::Hash {
    let mut hash = blake3::Hasher::new();
    hash.update(name.as_bytes());
    hash.update(body);
    hash.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(threads: u32) -> Facts {
        Facts { entry: "k".to_owned(), threads, lds_bytes: 7, kernarg_bytes: 24, cooperative: true }
    }

    #[test]
    fn a_cubin_comes_back_as_it_was_stored() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(&folder.path().join("new"), 1 << 20).unwrap();
        assert!(cache.get("a").is_none());
        cache.put("a", &facts(64), b"one\ntwo\n\n\0");
        assert_eq!(cache.get("a"), Some((facts(64), b"one\ntwo\n\n\0".to_vec())));
        assert!(cache.get("b").is_none());
    }

    #[test]
    fn a_damaged_or_renamed_file_is_a_miss() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path(), 1 << 20).unwrap();
        cache.put("a", &facts(64), b"cubin");
        let whole = fs::read(folder.path().join("a")).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert!(parse("a", &damaged).is_none(), "byte {at}");
            assert!(parse("a", &whole[..at]).is_none(), "cut at {at}");
        }
        fs::write(folder.path().join("b"), &whole).unwrap();
        assert!(cache.get("b").is_none(), "a file under another name");
    }

    #[test]
    fn the_oldest_files_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path(), 2500).unwrap();
        for name in ["a", "b", "c"] {
            cache.put(name, &facts(64), &[0; 900]);
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(name == "c" || cache.get("a").is_some());
        }
        assert!(cache.get("b").is_none(), "not used since it was stored");
        assert!(cache.get("a").is_some() && cache.get("c").is_some());
    }
}
