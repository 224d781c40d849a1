//! Written pages of this process. Windows reports them only for memory that was allocated with MEM_WRITE_WATCH, and a session's
//! addresses are reserved without it: the record of so large a range would use much memory. So there is no tracker, and mirrors
//! are compared as a whole.

use std::convert::Infallible;
use std::io;
use std::ops::Range;

/// Reports which pages of the watched ranges were written; there never is one.
#[derive(Debug)]
pub struct Tracker(Infallible);

impl Tracker {
    /// Fails.
    pub fn open() -> io::Result<Tracker> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Starts watching whole pages.
    ///
    /// # Safety
    /// The range must be memory that its owner keeps committed until `forget`.
    pub unsafe fn watch(&self, _start: u64, _bytes: u64) -> io::Result<()> {
        match self.0 {}
    }

    /// Stops watching a range.
    pub fn forget(&self, _start: u64, _bytes: u64) {
        match self.0 {}
    }

    /// Appends the ranges of a watched range that were written since the last query.
    pub fn take(&self, _start: u64, _bytes: u64, _written: &mut Vec<Range<usize>>) -> io::Result<()> {
        match self.0 {}
    }
}
