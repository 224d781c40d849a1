//! Finds the pages of this process that were written since the last query, with the kernel's help.
//!
//! Windows tracks writes to memory that was allocated with MEM_WRITE_WATCH. Other memory, such as what a program registers, is
//! compared as a whole.

use std::ffi::c_void;
use std::io;
use std::ops::Range;

use windows_sys::Win32::System::Memory::{GetWriteWatch, ResetWriteWatch};

/// `WRITE_WATCH_FLAG_RESET`.
const RESET: u32 = 1;
/// Limit on pages returned by one query.
const ANSWERS: usize = 1024;

/// Reports which pages of the watched ranges were written.
#[derive(Debug)]
pub struct Tracker;

impl Tracker {
    /// Opens a tracker.
    pub fn open() -> io::Result<Tracker> {
        Ok(Tracker)
    }

    /// Starts watching whole pages; fails for memory that the system does not track. They count as written until the first query.
    ///
    /// # Safety
    /// The range must be memory that its owner keeps committed until `forget`.
    pub unsafe fn watch(&self, start: u64, bytes: u64) -> io::Result<()> {
        let mut found = [std::ptr::null_mut(); 1];
        query(0, start, bytes, &mut found).map(drop)
    }

    /// Stops watching a range.
    pub fn forget(&self, start: u64, bytes: u64) {
        // SAFETY: clears a record of the system; the memory itself does not change. An error is ignored: the range may be freed
        // already.
        unsafe { ResetWriteWatch(start as *mut c_void, bytes as usize) };
    }

    /// Appends the ranges of a watched range that were written since the last query, as offsets from its start. Resets them.
    pub fn take(&self, start: u64, bytes: u64, written: &mut Vec<Range<usize>>) -> io::Result<()> {
        let mut found = [std::ptr::null_mut(); ANSWERS];
        loop {
            let (count, page) = query(RESET, start, bytes, &mut found)?;
            for address in &found[..count] {
                let from = (*address as u64 - start) as usize;
                let to = (from + page).min(bytes as usize);
                match written.last_mut() {
                    Some(last) if last.end == from => last.end = to,
                    _ => written.push(from..to),
                }
            }
            if count < ANSWERS {
                return Ok(());
            }
        }
    }
}

/// Returns the number of addresses of written pages found, and the page size.
fn query(flags: u32, start: u64, bytes: u64, found: &mut [*mut c_void]) -> io::Result<(usize, usize)> {
    let (mut count, mut page) = (found.len(), 0);
    // SAFETY: `found` has room for the number of addresses passed; the range itself is not accessed.
    let failed = unsafe {
        GetWriteWatch(
            flags,
            start as *const c_void,
            bytes as usize,
            found.as_mut_ptr(),
            &raw mut count,
            &raw mut page,
        )
    };
    if failed == 0 { Ok((count, page as usize)) } else { Err(io::ErrorKind::Unsupported.into()) }
}
