//! Handles that represent objects of the worker and are passed between processes. Windows programs would pass a HANDLE
//! (`hipMemHandleTypeWin32`), which is not implemented.

use std::io;

use crate::os::object_kind::Kind;

/// Whether there are such descriptors.
pub const SUPPORTED: bool = false;

/// A file descriptor of the C runtime.
pub type RawFd = i32;

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
