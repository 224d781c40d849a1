//! Reserves addresses of this process.

use std::io;

use windows_sys::Win32::System::Memory::{
    MEM_RELEASE, MEM_RESERVE, PAGE_NOACCESS, VirtualAlloc, VirtualFree,
};

/// The first base tried: far from program, heap, libraries and stack, and free on a Linux worker too.
pub const FIRST_BASE: u64 = 0x2000_0000_0000;
pub const BASE_STEP: u64 = 0x0400_0000_0000;
/// The range of a lost session stays reserved, so this is also the number of sessions that a process can have in turn.
pub const BASES: u64 = 16;
/// Largest first; systems that limit the address space get a smaller range. Smaller than on Linux: Wine keeps a byte per page, so
/// that 4 TiB would use 1 GiB of memory.
pub const SIZES: &[u64] = &[1 << 40, 256 << 30, 64 << 30];

/// Reserves exactly this range, if it is unused.
pub fn reserve(base: u64, bytes: u64) -> io::Result<()> {
    // SAFETY: reserves unused addresses or fails; gives no access.
    let start = unsafe { VirtualAlloc(base as *const _, bytes as usize, MEM_RESERVE, PAGE_NOACCESS) };
    if start.is_null() {
        return Err(io::Error::last_os_error());
    }
    if start as u64 != base {
        // The system rounds the address down to its allocation granularity.
        // SAFETY: this function just reserved it.
        unsafe { release(start as u64, bytes) };
        return Err(io::ErrorKind::AddrInUse.into());
    }
    Ok(())
}

/// Releases a range.
///
/// # Safety
/// The range was reserved by [`reserve`], and nothing in it is used any more.
pub unsafe fn release(base: u64, _bytes: u64) {
    // SAFETY: guaranteed by the caller; a reservation is released as a whole.
    unsafe { VirtualFree(base as *mut _, 0, MEM_RELEASE) };
}
