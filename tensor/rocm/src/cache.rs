//! The disk cache of compiled kernels: one file for each module, and for each kernel a link to the module that contains it. Files
//! are written atomically; damaged ones count as missing.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::source::hash;

/// Larger files are not valid cache files.
const MAX_MODULE: u64 = 64 << 20;
const MAX_LINK: u64 = 64;

/// A folder of compiled kernels.
#[derive(Debug)]
pub(crate) struct DiskCache {
    folder: PathBuf,
}

impl DiskCache {
    pub(crate) fn new(folder: &Path) -> DiskCache {
        DiskCache { folder: folder.to_owned() }
    }

    /// Returns the module that contains a kernel: its hash and its code.
    pub(crate) fn find(&self, key: &str) -> Option<(String, Vec<u8>)> {
        let module = String::from_utf8(self.read(&format!("{key}.link"), MAX_LINK)?).ok()?;
        if module.len() != 32 || !module.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let code = self.read(&format!("{module}.module"), MAX_MODULE)?;
        (hash(&code) == module).then_some((module, code))
    }

    /// Stores a module for its kernels. A failure to write is ignored: the module is compiled again next time.
    pub(crate) fn keep(&self, keys: &[String], code: &[u8]) {
        let module = hash(code);
        let written = fs::create_dir_all(&self.folder)
            .and_then(|()| self.write(&format!("{module}.module"), code))
            .and_then(|()| {
                keys.iter().try_for_each(|key| self.write(&format!("{key}.link"), module.as_bytes()))
            });
        drop(written);
    }

    fn read(&self, name: &str, limit: u64) -> Option<Vec<u8>> {
        let file = fs::File::open(self.folder.join(name)).ok()?;
        let mut bytes = Vec::new();
        file.take(limit + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= limit).then_some(bytes)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let draft = self.folder.join(format!("{name}.{}.{number}", std::process::id()));
        let written = fs::write(&draft, bytes).and_then(|()| fs::rename(&draft, self.folder.join(name)));
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_found_and_what_was_damaged_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::new(&folder.path().join("kernels"));
        assert_eq!(cache.find("a"), None);
        cache.keep(&["a".to_owned(), "b".to_owned()], b"code");
        let (module, code) = cache.find("b").unwrap();
        assert_eq!(code, b"code");
        let file = folder.path().join(format!("kernels/{module}.module"));
        fs::write(&file, b"cod").unwrap();
        assert_eq!(cache.find("a"), None);
        cache.keep(&["a".to_owned()], b"code");
        assert!(cache.find("a").is_some());
        fs::write(folder.path().join("kernels/a.link"), b"../../../etc/passwd").unwrap();
        assert_eq!(cache.find("a"), None);
        // No temporary files are left.
        assert_eq!(fs::read_dir(folder.path().join("kernels")).unwrap().count(), 3);
    }
}
