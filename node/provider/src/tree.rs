//! Access to kernel files below a root folder, which tests can choose. Unreadable files are treated as missing, reads do not block, and
//! sizes are bounded.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Most bytes read of a file.
const FILE_LIMIT: u64 = 64 << 10;
/// Most entries read of a folder.
const FOLDER_LIMIT: usize = 4096;

/// A file system tree below a root folder.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    pub fn new(root: impl Into<PathBuf>) -> Tree {
        Tree { root: root.into() }
    }

    /// Returns the real path of a file of this tree.
    pub fn path(&self, below: impl AsRef<Path>) -> PathBuf {
        let below = below.as_ref();
        self.root.join(below.strip_prefix("/").unwrap_or(below))
    }

    /// Returns the bytes of a regular file, at most `FILE_LIMIT`.
    pub fn bytes(&self, below: impl AsRef<Path>) -> Option<Vec<u8>> {
        // Non-blocking, so that opening a FIFO does not wait for a writer.
        let file =
            OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(self.path(below)).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(FILE_LIMIT).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Returns the text of a file without surrounding white space; `None` if it is empty.
    pub fn text(&self, below: impl AsRef<Path>) -> Option<String> {
        let bytes = self.bytes(below)?;
        let text = std::str::from_utf8(&bytes).ok()?.trim_matches(['\0', ' ', '\t', '\n', '\r']);
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// Parses a file that contains a single decimal number.
    pub fn number<T: std::str::FromStr>(&self, below: impl AsRef<Path>) -> Option<T> {
        self.text(below)?.parse().ok()
    }

    /// Parses a file that contains a single hexadecimal number, with or without `0x`.
    pub fn hexadecimal(&self, below: impl AsRef<Path>) -> Option<u64> {
        let text = self.text(below)?;
        u64::from_str_radix(text.strip_prefix("0x").unwrap_or(&text), 16).ok()
    }

    /// Returns the names in a folder, sorted.
    pub fn names(&self, below: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(below)) else { return Vec::new() };
        let name = |entry: std::io::Result<fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
        let mut names: Vec<String> = entries.take(FOLDER_LIMIT).filter_map(name).collect();
        names.sort_unstable();
        names
    }

    /// Returns the names in a folder that are numbers, sorted numerically.
    pub fn numbers(&self, below: impl AsRef<Path>) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.names(below).iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    }

    pub fn is_folder(&self, below: impl AsRef<Path>) -> bool {
        self.path(below).is_dir()
    }

    /// Writes to an existing file, such as a driver attribute.
    pub fn write(&self, below: impl AsRef<Path>, text: &str) -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file =
            options.write(true).truncate(true).custom_flags(libc::O_NONBLOCK).open(self.path(below))?;
        file.write_all(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_is_no_sensible_file_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let tree = Tree::new(folder.path());
        fs::write(at("number"), " 42\n").unwrap();
        fs::write(at("garbage"), [0xff, 0xfe, 0x00]).unwrap();
        fs::write(at("large"), vec![b'1'; 1 << 20]).unwrap();
        symlink("loop-b", at("loop-a")).unwrap();
        symlink("loop-a", at("loop-b")).unwrap();
        let pipe = std::ffi::CString::new(at("pipe").to_str().unwrap()).unwrap();
        // SAFETY: the path is a C string that lives until the call returns.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        assert_eq!(tree.number::<u64>("/number"), Some(42));
        assert_eq!(tree.number::<u64>("large"), None);
        assert_eq!(tree.bytes("large").unwrap().len() as u64, FILE_LIMIT);
        for name in ["garbage", "loop-a", "pipe", "missing", "."] {
            assert_eq!(tree.text(name), None, "{name}");
        }
        assert!(tree.names("loop-a").is_empty());
    }
}
