//! Handles that represent objects of the worker and are passed between processes. Windows programs would pass a HANDLE
//! (`hipMemHandleTypeWin32`), which is not implemented; exporting one fails.

use std::io;

/// A file descriptor of the C runtime.
pub type RawFd = i32;

/// The kind of object a descriptor represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Memory = 1,
    Pool = 2,
}

/// Fails.
pub fn make(_kind: Kind, _content: [u8; 32]) -> io::Result<RawFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns `None`: there are no descriptors of ours.
pub fn read(_kind: Kind, _fd: RawFd) -> Option<[u8; 32]> {
    None
}

/// Returns an invalid descriptor.
///
/// # Safety
/// None to keep; the signature is the same on all systems.
pub unsafe fn of(_handle: *const std::ffi::c_void) -> RawFd {
    -1
}
