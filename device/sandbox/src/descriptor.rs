//! File descriptor helpers for the processes of the sandbox. Everything here may run between fork and exec: no allocation.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Descriptors passed to a command have numbers below this, our own are above.
pub(crate) const FIRST_OWN: i32 = 100;

/// Creates a close-on-exec pipe: reading end, writing end.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: the array has room for both numbers.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: both were just created and have no other owner.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Makes reads non-blocking.
pub(crate) fn set_nonblocking(descriptor: &OwnedFd) -> io::Result<()> {
    // SAFETY: sets flags of an open descriptor.
    check(unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) }).map(drop)
}

/// Closes all descriptors except the given ones, which must be sorted.
pub(crate) fn close_others(kept: &[i32]) {
    let mut next: u32 = 0;
    for &descriptor in kept {
        let descriptor = descriptor as u32;
        if descriptor > next {
            // SAFETY: closes numbers that nothing in this process uses any more.
            unsafe { libc::syscall(libc::SYS_close_range, next, descriptor - 1, 0) };
        }
        next = descriptor + 1;
    }
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_close_range, next, u32::MAX, 0) };
}

/// Duplicates a descriptor to a number in our own range, with close-on-exec.
pub(crate) fn raise(descriptor: i32) -> io::Result<i32> {
    // SAFETY: creates a new descriptor.
    check(unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, FIRST_OWN) })
}

/// Writes all bytes, retrying after signals.
pub(crate) fn write_all(descriptor: i32, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the slice is readable for its length.
        let written = unsafe { libc::write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
        match written {
            count if count > 0 => bytes = &bytes[count as usize..],
            0 => return Err(io::Error::from_raw_os_error(libc::EIO)),
            _ => {
                let error = io::Error::last_os_error();
                if error.raw_os_error() != Some(libc::EINTR) {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// Converts the result of a system call.
pub(crate) fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Converts the result of a raw system call.
pub(crate) fn check_long(result: libc::c_long) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}
