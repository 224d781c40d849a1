//! Memory of this process: pages inside the session's reservation, and allocations of their own.

use std::ffi::c_void;
use std::io;

use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_DECOMMIT, MEM_RELEASE, MEM_RESERVE, MEMORY_BASIC_INFORMATION, PAGE_GUARD, PAGE_NOACCESS,
    PAGE_READWRITE, VirtualAlloc, VirtualFree, VirtualQuery,
};

/// Page size.
pub const PAGE: usize = 4096;

/// Makes pages of the session's reservation accessible.
///
/// # Safety
/// The pages must lie in the reservation of a session and be reserved for the caller alone.
pub unsafe fn commit(start: *mut c_void, bytes: usize) -> io::Result<()> {
    // SAFETY: guaranteed by the caller.
    let at = unsafe { VirtualAlloc(start, bytes, MEM_COMMIT, PAGE_READWRITE) };
    if at.is_null() { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Frees the memory of pages inside the session's reservation, which stay reserved.
///
/// # Safety
/// As for [`commit`], and nothing may use the pages any more.
pub unsafe fn decommit(start: *mut c_void, bytes: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { VirtualFree(start, bytes, MEM_DECOMMIT) };
}

/// Maps zeroed memory anywhere.
pub fn map(bytes: usize) -> io::Result<*mut c_void> {
    // SAFETY: a fresh allocation replaces nothing.
    let start = unsafe { VirtualAlloc(std::ptr::null(), bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE) };
    if start.is_null() { Err(io::Error::last_os_error()) } else { Ok(start) }
}

/// Unmaps memory of [`map`].
///
/// # Safety
/// `start` must be from `map`, and nothing may use it any more.
pub unsafe fn unmap(start: *mut c_void, _bytes: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { VirtualFree(start, 0, MEM_RELEASE) };
}

/// Reserves memory that is never freed, at this address if it is free. [`grow_pool`] makes parts of it usable.
pub fn map_pool(hint: usize, bytes: usize) -> io::Result<usize> {
    for at in [hint as *const c_void, std::ptr::null()] {
        // SAFETY: a fresh reservation replaces nothing.
        let start = unsafe { VirtualAlloc(at, bytes, MEM_RESERVE, PAGE_NOACCESS) };
        if !start.is_null() {
            return Ok(start as usize);
        }
    }
    Err(io::Error::last_os_error())
}

/// Prepares a part of the pool for use. Parts that are in use already keep their content.
///
/// # Safety
/// The range must lie in a pool of [`map_pool`].
pub unsafe fn grow_pool(start: usize, bytes: usize) -> io::Result<()> {
    // SAFETY: guaranteed by the caller; committing committed pages changes nothing.
    unsafe { commit(start as *mut c_void, bytes.max(1)) }
}

/// Whether a whole range is accessible memory of this process.
pub fn is_mapped(address: u64, bytes: u64) -> bool {
    let (mut at, end) = (address, address + bytes);
    while at < end {
        let mut found = MEMORY_BASIC_INFORMATION::default();
        let size = size_of::<MEMORY_BASIC_INFORMATION>();
        // SAFETY: the structure is writable for its size; the range itself is not accessed.
        if unsafe { VirtualQuery(at as *const c_void, &raw mut found, size) } == 0
            || found.State != MEM_COMMIT
            || found.Protect & (PAGE_NOACCESS | PAGE_GUARD) != 0
        {
            return false;
        }
        at = found.BaseAddress as u64 + found.RegionSize as u64;
    }
    true
}
