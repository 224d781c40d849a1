//! Memory of this process: pages inside the session's reservation, and mappings of their own.

use std::ffi::c_void;
use std::io;

/// Page size.
pub const PAGE: usize = 4096;

/// Makes pages of the session's reservation accessible.
///
/// # Safety
/// The pages must lie in the reservation of a session and be reserved for the caller alone.
pub unsafe fn commit(start: *mut c_void, bytes: usize) -> io::Result<()> {
    // SAFETY: guaranteed by the caller.
    let failed = unsafe { libc::mprotect(start, bytes, libc::PROT_READ | libc::PROT_WRITE) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Frees the memory of pages inside the session's reservation, which stay reserved.
///
/// # Safety
/// As for [`commit`], and nothing may use the pages any more.
pub unsafe fn decommit(start: *mut c_void, bytes: usize) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: guaranteed by the caller; the pages return to PROT_NONE without memory.
    unsafe { libc::mmap(start, bytes, libc::PROT_NONE, flags, -1, 0) };
}

/// Maps zeroed memory anywhere.
pub fn map(bytes: usize) -> io::Result<*mut c_void> {
    mapped(std::ptr::null_mut(), bytes, 0)
}

/// Unmaps memory of [`map`].
///
/// # Safety
/// `start` must be from `map` with the same size, and nothing may use it any more.
pub unsafe fn unmap(start: *mut c_void, bytes: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { libc::munmap(start, bytes) };
}

/// Maps memory that is never unmapped, at this address if it is free. It uses physical memory on first access.
pub fn map_pool(hint: usize, bytes: usize) -> io::Result<usize> {
    mapped(hint as *mut c_void, bytes, libc::MAP_NORESERVE).map(|start| start as usize)
}

/// Prepares a part of the pool for use. Linux needs nothing.
///
/// # Safety
/// The range must lie in a pool of [`map_pool`].
pub unsafe fn grow_pool(_start: usize, _bytes: usize) -> io::Result<()> {
    Ok(())
}

fn mapped(hint: *mut c_void, bytes: usize, more: i32) -> io::Result<*mut c_void> {
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | more);
    // SAFETY: a fresh anonymous mapping replaces nothing; the address is only a hint.
    let start = unsafe { libc::mmap(hint, bytes, access, flags, -1, 0) };
    if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(start) }
}

/// Whether a whole range is mapped in this process.
pub fn is_mapped(address: u64, bytes: u64) -> bool {
    const PIECE: u64 = 1 << 30;
    let page = PAGE as u64;
    let (mut at, end) = (address & !(page - 1), address + bytes);
    let mut pages = vec![0; (end - at).min(PIECE).div_ceil(page) as usize];
    while at < end {
        let piece = (end - at).min(PIECE);
        // SAFETY: mincore does not access the range, and `pages` has a byte for each page of a piece.
        if unsafe { libc::mincore(at as *mut c_void, piece as usize, pages.as_mut_ptr()) } != 0 {
            return false;
        }
        at += piece;
    }
    true
}
