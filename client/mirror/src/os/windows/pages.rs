//! Memory of whole pages.

use std::io;
use std::ptr::NonNull;

use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_RELEASE, MEM_RESERVE, PAGE_READWRITE, VirtualAlloc, VirtualFree,
};

/// Maps zeroed memory, which uses physical memory on first access.
pub(crate) fn map(bytes: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: a fresh allocation affects no existing memory.
    let start =
        unsafe { VirtualAlloc(std::ptr::null(), bytes.max(1), MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE) };
    NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)
}

/// Unmaps memory of [`map`].
///
/// # Safety
/// `start` must be from `map`, and nothing may refer to it any more.
pub(crate) unsafe fn unmap(start: NonNull<u8>, _bytes: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { VirtualFree(start.as_ptr().cast(), 0, MEM_RELEASE) };
}
