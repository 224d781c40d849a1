//! Folders with programs' memory: readable by their owner only, and used by one worker at a time.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Creates a folder, and the ones above it, unless it exists.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Creates an empty file.
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Creates a folder and locks it as long as the returned file is open. Fails if another worker uses it.
pub(crate) fn lock_folder(folder: &Path) -> io::Result<File> {
    create_folder(folder)?;
    let lock = create_file(&folder.join("lock"))?;
    // SAFETY: the descriptor is open.
    if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        return Err(io::Error::other(format!("another worker uses {}", folder.display())));
    }
    Ok(lock)
}
