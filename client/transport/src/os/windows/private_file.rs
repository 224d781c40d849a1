//! Files that only their owner may read.
//!
//! Access control lists decide on Windows, and files inherit the list of their folder. The user's folders (`%USERPROFILE%`,
//! `%LOCALAPPDATA%`) grant access to that user and the administrators alone, so the folder is the protection here.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Returns `None`: a file has no mode.
pub(crate) fn shared_mode(_file: &File) -> io::Result<Option<u32>> {
    Ok(None)
}

/// Creates a new file with the access list of its folder.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Whether the file exists: only the user and the administrators can create files in the user's folders.
pub(crate) fn is_trusted(path: &Path) -> io::Result<bool> {
    std::fs::metadata(path).map(|data| data.is_file())
}
