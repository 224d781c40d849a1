//! The tuning cache: the fastest tile size of contractions, by device and size; saved to a file if one is set.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use parking_lot::Mutex;
use tensor_core::error::DeviceError;

/// The file header: format and version.
const MAGIC: &[u8; 8] = b"PFTUNE\x00\x01";
/// Larger files are not valid.
const MAX_BYTES: u64 = 16 << 20;
const MAX_ENTRIES: usize = 100_000;
const MAX_KEY: usize = 256;

/// Counters of the tuning cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TuningStatistics {
    /// Lookups that found a result.
    pub hits: u64,
    /// Lookups that found none.
    pub misses: u64,
    /// Stored results.
    pub entries: usize,
}

/// The results so far. Keys contain version, device, type and sizes.
#[derive(Debug, Default)]
pub struct TuningCache {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    search: bool,
    file: Option<PathBuf>,
    entries: BTreeMap<String, u32>,
    hits: u64,
    misses: u64,
}

/// The tuning cache of this process.
pub fn tuning_cache() -> &'static TuningCache {
    static CACHE: OnceLock<TuningCache> = OnceLock::new();
    CACHE.get_or_init(TuningCache::default)
}

impl TuningCache {
    /// Enables trying every alternative for unknown contractions, which takes a while the first time.
    pub fn enable_exhaustive_search(&self, search: bool) {
        self.state.lock().search = search;
    }

    /// Whether steps without a result are measured.
    pub fn is_exhaustive(&self) -> bool {
        self.state.lock().search
    }

    /// Loads a file, if it exists, and saves to it from now on. Damaged files and other versions count as empty.
    pub fn set_cache_file(&self, path: &Path) -> Result<(), DeviceError> {
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(DeviceError::Unavailable(format!(
                "{}: the path must not contain \"..\"",
                path.display()
            )));
        }
        let mut state = self.state.lock();
        match read(path) {
            Ok(bytes) => state.entries.extend(parse(&bytes).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(DeviceError::Unavailable(format!("{}: {error}", path.display()))),
        }
        state.file = Some(path.to_owned());
        Ok(())
    }

    /// Clears all entries, and those of the file.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        *state = State { search: state.search, file: state.file.take(), ..State::default() };
        state.save();
    }

    /// The counters.
    pub fn statistics(&self) -> TuningStatistics {
        let state = self.state.lock();
        TuningStatistics { hits: state.hits, misses: state.misses, entries: state.entries.len() }
    }

    /// Returns the choice for a key.
    pub(crate) fn find(&self, key: &str) -> Option<u32> {
        let mut state = self.state.lock();
        let found = state.entries.get(key).copied();
        match found {
            Some(_) => state.hits += 1,
            None => state.misses += 1,
        }
        found
    }

    pub(crate) fn keep(&self, key: &str, choice: u32) {
        let mut state = self.state.lock();
        if key.len() <= MAX_KEY && state.entries.len() < MAX_ENTRIES {
            state.entries.insert(key.to_owned(), choice);
            state.save();
        }
    }
}

impl State {
    /// A failure to write is ignored: it only costs another search later.
    fn save(&self) {
        let Some(path) = &self.file else { return };
        let mut bytes = MAGIC.to_vec();
        for (key, choice) in &self.entries {
            bytes.extend((key.len() as u16).to_le_bytes());
            bytes.extend(key.as_bytes());
            bytes.extend(choice.to_le_bytes());
        }
        bytes.extend(crate::source::hash(&bytes).as_bytes());
        let mut draft = path.clone().into_os_string();
        draft.push(format!(".{}", std::process::id()));
        if fs::write(&draft, &bytes).and_then(|()| fs::rename(&draft, path)).is_err() {
            let _ = fs::remove_file(&draft);
        }
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns `None` if the bytes are not in the format of `save`.
fn parse(bytes: &[u8]) -> Option<BTreeMap<String, u32>> {
    if bytes.len() as u64 > MAX_BYTES {
        return None;
    }
    let (content, sum) = bytes.split_at_checked(bytes.len().checked_sub(32)?)?;
    if crate::source::hash(content).as_bytes() != sum {
        return None;
    }
    let mut rest = content.strip_prefix(MAGIC)?;
    let mut entries = BTreeMap::new();
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let (key, after) = after.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        let (choice, after) = after.split_first_chunk::<4>()?;
        if key.len() > MAX_KEY || entries.len() >= MAX_ENTRIES {
            return None;
        }
        entries.insert(String::from_utf8(key.to_vec()).ok()?, u32::from_le_bytes(*choice));
        rest = after;
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_outlive_the_process_and_damaged_files_count_as_empty() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tuning");
        let cache = TuningCache::default();
        cache.set_cache_file(&file).unwrap();
        assert_eq!(cache.find("gfx942 64x64"), None);
        cache.keep("gfx942 64x64", 32);
        cache.keep("gfx90a 64x64", 16);
        let other = TuningCache::default();
        other.set_cache_file(&file).unwrap();
        assert_eq!(other.find("gfx942 64x64"), Some(32));
        assert_eq!(other.statistics(), TuningStatistics { hits: 1, misses: 0, entries: 2 });
        let good = fs::read(&file).unwrap();
        for cut in 0..good.len() {
            let mut bad = good.clone();
            bad[cut] ^= 1;
            assert_eq!(parse(&bad), None);
            assert_eq!(parse(&good[..cut]), None);
        }
        fs::write(&file, &good[1..]).unwrap();
        let fresh = TuningCache::default();
        fresh.set_cache_file(&file).unwrap();
        assert_eq!(fresh.statistics().entries, 0);
        other.clear();
        assert_eq!(parse(&fs::read(&file).unwrap()), Some(BTreeMap::new()));
    }

    #[test]
    fn paths_that_climb_are_refused() {
        let cache = TuningCache::default();
        assert!(cache.set_cache_file(Path::new("a/../../b")).unwrap_err().to_string().contains(".."));
        assert!(cache.set_cache_file(Path::new("/")).is_err());
    }
}
