//! File locks that keep two tasks from working on the same folder at once.

use crate::step;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// A held file lock. The kernel releases it when the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock of the file at `path`.
    pub fn take(path: &Path) -> Result<Lock> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let file = File::options()
            .create(true)
            .append(true)
            .open(path)
            .with_context(|| format!("cannot open the lock {}", path.display()))?;
        if flock(&file, libc::LOCK_EX | libc::LOCK_NB).is_err() {
            step::heading(&format!("waiting for another task that holds {}", path.display()));
            flock(&file, libc::LOCK_EX).with_context(|| format!("cannot lock {}", path.display()))?;
        }
        Ok(Lock { _file: file })
    }
}

fn flock(file: &File, operation: libc::c_int) -> io::Result<()> {
    loop {
        // SAFETY: flock takes a file descriptor, which `file` keeps open, and accesses no memory.
        if unsafe { libc::flock(file.as_raw_fd(), operation) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
