//! Reserves addresses of this process.

use std::io;

/// ThreadSanitizer occupies most addresses and leaves the lowest to programs.
#[allow(unexpected_cfgs, reason = "set by `cargo xtask conformance threads` alone")]
const INSTRUMENTED: bool = cfg!(watched);
/// The first base tried: far from program, heap, libraries and stack on every Linux in use.
pub const FIRST_BASE: u64 = if INSTRUMENTED { 0x0020_0000_0000 } else { 0x2000_0000_0000 };
pub const BASE_STEP: u64 = if INSTRUMENTED { 0x0010_0000_0000 } else { 0x0400_0000_0000 };
/// The range of a lost session stays reserved, so this is also the number of sessions that a process can have in turn.
pub const BASES: u64 = if INSTRUMENTED { 4 } else { 16 };
/// Largest first; systems that limit the address space get a smaller range.
pub const SIZES: &[u64] = if INSTRUMENTED { &[64 << 30] } else { &[4 << 40, 1 << 40, 256 << 30, 64 << 30] };

/// Reserves exactly this range, if it is unused.
pub fn reserve(base: u64, bytes: u64) -> io::Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: MAP_FIXED_NOREPLACE replaces no mapping, and PROT_NONE gives no access.
    let mapped = unsafe { libc::mmap(base as *mut _, bytes as usize, libc::PROT_NONE, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    if mapped as u64 != base {
        // A kernel without MAP_FIXED_NOREPLACE treats the address as a hint.
        // SAFETY: this function just made the mapping.
        unsafe { release(mapped as u64, bytes) };
        return Err(io::ErrorKind::AddrInUse.into());
    }
    Ok(())
}

/// Releases a range.
///
/// # Safety
/// The range was reserved by [`reserve`], and nothing in it is used any more.
pub unsafe fn release(base: u64, bytes: u64) {
    // SAFETY: guaranteed by the caller.
    unsafe { libc::munmap(base as *mut _, bytes as usize) };
}
