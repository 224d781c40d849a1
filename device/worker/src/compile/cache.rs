//! Compile cache: results of run-time compilation on disk, keyed by the hash of all inputs.
//!
//! Each tenant has a folder that only the worker's user can open, and only compiler services write to it. So no tenant can read,
//! probe or replace what another one compiled.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use hip_api::types::HIPRTC_SUCCESS;
use sha2::{Digest, Sha256};
use toolchain::Toolchain;
use wire::{Field, Reader};

use crate::compile::prelude;
use crate::compile::task::{Request, Response};

/// Limit on the cached results of one tenant; beyond it the oldest are removed.
const MAX_TENANT_BYTES: u64 = 256 << 20;
/// Limit on the cached results of all tenants; beyond it the oldest of all are removed.
const MAX_BYTES: u64 = 1 << 30;
/// Cache format version, part of every key: results of older formats are not found.
const VERSION: &str = "3";

/// The cache of one tenant.
#[derive(Debug)]
pub(crate) struct CompileCache {
    folder: PathBuf,
}

impl CompileCache {
    pub(crate) fn new(folder: PathBuf) -> CompileCache {
        CompileCache { folder }
    }

    /// Returns the folder of a tenant below the root folder of all tenants.
    pub(crate) fn of_tenant(all: &Path, token: Option<&[u8]>) -> PathBuf {
        all.join(crate::store::tenant("remora 2026 tenant of a compile cache", token))
    }

    /// Computes the cache key: a hash of everything that can change the result.
    pub(crate) fn key(toolchain: &Toolchain, request: &Request) -> String {
        let mut fixed = vec![VERSION.to_owned(), prelude::text()];
        // Updating the compiler, the headers or the libraries changes these.
        for path in [&toolchain.clang, &toolchain.hip.join("include/hip"), &toolchain.device_libs] {
            let path = path.canonicalize().unwrap_or_else(|_| path.clone());
            fixed.push(path.display().to_string());
            let data = fs::metadata(&path);
            fixed.push(data.map_or_else(
                |_| String::new(),
                |data| format!("{} {} {}", data.size(), data.mtime(), data.mtime_nsec()),
            ));
        }
        let mut all = Vec::new();
        fixed.put(&mut all);
        for text in [&request.isa, &request.name, &request.source] {
            text.put(&mut all);
        }
        request.headers.put(&mut all);
        request.options.put(&mut all);
        request.expressions.put(&mut all);
        Sha256::digest(&all).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn get(&self, key: &str) -> Option<Response> {
        let bytes = fs::read(self.folder.join(key)).ok()?;
        let mut reader = Reader::new(&bytes);
        let kept = wire::reply::Compile::take(&mut reader).ok()?;
        reader.finish("kept result").ok()?;
        Some(Response {
            status: HIPRTC_SUCCESS,
            log: kept.log,
            lowered: kept.lowered,
            code: kept.code.0,
            bitcode: kept.bitcode.0,
        })
    }

    /// Stores a result. A failure to store does not fail the compilation.
    pub(crate) fn keep(&self, key: &str, response: &Response) {
        let kept = wire::reply::Compile {
            status: 0,
            log: response.log.clone(),
            lowered: response.lowered.clone(),
            code: wire::Bytes(response.code.clone()),
            bitcode: wire::Bytes(response.bitcode.clone()),
        };
        let mut bytes = Vec::new();
        kept.put(&mut bytes);
        if let Err(error) = self.write(key, &bytes) {
            tracing::warn!("cannot store a compiled program in the cache {}: {error}", self.folder.display());
        }
    }

    fn write(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(bytes)?;
        file.persist(self.folder.join(key)).map_err(|error| error.error)?;
        prune(vec![self.folder.clone()], MAX_TENANT_BYTES)?;
        let all = self.folder.parent().map(folders_in).transpose()?;
        prune(all.unwrap_or_default(), MAX_BYTES)
    }
}

fn folders_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.flatten();
    // Skips folders that do not have a tenant's name; they may hold anything.
    let is_tenant = |entry: &fs::DirEntry| {
        entry.file_type().is_ok_and(|kind| kind.is_dir())
            && entry.file_name().to_str().is_some_and(crate::store::is_tenant)
    };
    Ok(entries.filter(is_tenant).map(|entry| entry.path()).collect())
}

/// Removes the oldest results in some folders until the rest fits.
fn prune(folders: Vec<PathBuf>, most: u64) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in folders.iter().flat_map(fs::read_dir).flatten().flatten() {
        // Another session may have removed it meanwhile.
        let Ok(data) = entry.metadata() else { continue };
        files.push((data.modified()?, data.len(), entry.path()));
    }
    let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
    files.sort();
    for (_, bytes, path) in files {
        if total <= most {
            break;
        }
        let _ = fs::remove_file(path);
        total -= bytes;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(text: &str) -> Response {
        Response {
            code: text.as_bytes().to_vec(),
            ..crate::compile::task::finished(HIPRTC_SUCCESS, String::new())
        }
    }

    #[test]
    fn tenants_neither_find_nor_replace_results_of_each_other() {
        let all = tempfile::tempdir().unwrap();
        let folders = [None, Some(&b"one"[..]), Some(&b"two"[..])]
            .map(|token| CompileCache::of_tenant(all.path(), token));
        assert!(folders[0] != folders[1] && folders[1] != folders[2] && folders[0] != folders[2]);
        let [_, one, two] = folders.map(CompileCache::new);
        one.keep("key", &response("one's"));
        assert!(two.get("key").is_none());
        two.keep("key", &response("two's"));
        assert_eq!(one.get("key").unwrap().code, b"one's");
        let mode = fs::metadata(&one.folder).unwrap().mode();
        assert_eq!(mode & 0o077, 0, "{mode:o}");
    }

    #[test]
    fn the_oldest_results_go_first_and_files_of_others_stay() {
        let all = tempfile::tempdir().unwrap();
        let [one, two] = [Some(&b"one"[..]), Some(&b"two"[..])]
            .map(|token| CompileCache::new(CompileCache::of_tenant(all.path(), token)));
        let other = all.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("file"), "not ours").unwrap();
        for (age, cache) in [&one, &two].into_iter().enumerate() {
            cache.keep("key", &response("some code"));
            let file = fs::File::options().append(true).open(cache.folder.join("key")).unwrap();
            let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1000 + age as u64);
            file.set_modified(time).unwrap();
        }
        let one_file = fs::metadata(one.folder.join("key")).unwrap().len();
        prune(folders_in(all.path()).unwrap(), one_file).unwrap();
        assert!(one.get("key").is_none() && two.get("key").is_some());
        assert!(other.join("file").exists());
    }
}
