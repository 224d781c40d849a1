//! File descriptors that represent objects of the worker: small memfd files that programs pass to each other like a
//! driver's descriptors.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, IntoRawFd, RawFd};
use std::os::unix::fs::FileExt;

use crate::os::object_kind::Kind;

/// Whether there are such descriptors.
pub const SUPPORTED: bool = true;
/// Identifies our files.
const MAGIC: [u8; 8] = *b"remora\0\x01";

/// Creates a descriptor, owned by the program.
pub fn make(kind: Kind, content: [u8; 32]) -> std::io::Result<RawFd> {
    // SAFETY: the name is NUL-terminated; the descriptor is new and owned by the file.
    let file = unsafe {
        let fd = libc::memfd_create(c"remora-handle".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        File::from_raw_fd(fd)
    };
    let mut bytes = MAGIC.to_vec();
    bytes.push(kind as u8);
    bytes.extend_from_slice(&content);
    file.write_all_at(&bytes, 0)?;
    Ok(file.into_raw_fd())
}

/// The content of a descriptor of the program; `None` if it is not one of ours. The program keeps ownership.
pub fn read(kind: Kind, fd: RawFd) -> Option<[u8; 32]> {
    if fd < 0 {
        return None;
    }
    // SAFETY: never dropped, so the program's descriptor is not closed; reading one that is not open fails.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
    let mut bytes = [0; 41];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let known = bytes[..8] == MAGIC && bytes[8] == kind as u8;
    let content = bytes[9..].first_chunk().copied();
    content.filter(|_| known)
}

/// The descriptor in an untyped argument. HIP 6 passes a pointer to it, HIP 7 the number itself; no address is as small
/// as a descriptor.
///
/// # Safety
/// `handle` is a descriptor or points to one.
pub unsafe fn of(handle: *const std::ffi::c_void) -> RawFd {
    const LOWEST_ADDRESS: usize = 1 << 16;
    let value = handle as usize;
    if value < LOWEST_ADDRESS {
        return value as RawFd;
    }
    // SAFETY: guaranteed by the caller.
    unsafe { handle.cast::<RawFd>().read_unaligned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_says_what_it_stands_for_and_others_say_nothing() {
        let fd = make(Kind::Memory, [7; 32]).unwrap();
        assert_eq!(read(Kind::Memory, fd), Some([7; 32]));
        assert_eq!(read(Kind::Memory, fd), Some([7; 32]), "reading does not use it up");
        assert_eq!(read(Kind::Pool, fd), None);
        // SAFETY: a number, and the address of one.
        unsafe {
            assert_eq!(of(fd as usize as *const _), fd);
            assert_eq!(of((&raw const fd).cast()), fd);
            libc::close(fd);
        }
        assert_eq!(read(Kind::Memory, fd), None);
        assert_eq!(read(Kind::Memory, -1), None);
    }
}
