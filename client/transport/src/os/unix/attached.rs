//! Bytes with a descriptor attached, over a unix socket.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Size of the buffer for control messages, in words of 8 bytes. The kernel closes descriptors that do not fit.
const CONTROL_WORDS: usize = 8;

/// Sends bytes in one call, with a descriptor attached if there is one. Returns how many were sent. Never raises SIGPIPE; `flags` are
/// added.
pub fn send_attached(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    attached: Option<RawFd>,
    flags: libc::c_int,
) -> io::Result<usize> {
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut space = [0u64; CONTROL_WORDS];
    // SAFETY: all-zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if let Some(fd) = attached {
        message.msg_control = space.as_mut_ptr().cast();
        // SAFETY: the control buffer is aligned, large enough for one descriptor, and outlives the call.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(size_of::<RawFd>() as u32) as _;
            let entry = libc::CMSG_FIRSTHDR(&message);
            (*entry).cmsg_level = libc::SOL_SOCKET;
            (*entry).cmsg_type = libc::SCM_RIGHTS;
            (*entry).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
            std::ptr::write_unaligned(libc::CMSG_DATA(entry).cast::<RawFd>(), fd);
        }
    }
    // SAFETY: every buffer named in the message lives until the call returns.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL | flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives bytes in one call, and the first descriptor that is attached to them. Returns how many were received. Further descriptors
/// are closed, so that a hostile peer cannot exhaust those of this process.
pub fn receive_attached(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut space = [0u64; CONTROL_WORDS];
    // SAFETY: all-zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = space.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&space) as _;
    // SAFETY: every buffer named in the message is writable and outlives the call.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    let mut attached = None;
    // SAFETY: the kernel has filled the control buffer, and the macros walk it within its length. Every descriptor in it belongs to
    // this process from here on.
    unsafe {
        let mut entry = libc::CMSG_FIRSTHDR(&message);
        while !entry.is_null() {
            if (*entry).cmsg_level == libc::SOL_SOCKET && (*entry).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*entry).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let descriptors = libc::CMSG_DATA(entry).cast::<RawFd>();
                for at in 0..bytes / size_of::<RawFd>() {
                    let fd = OwnedFd::from_raw_fd(std::ptr::read_unaligned(descriptors.add(at)));
                    attached.get_or_insert(fd);
                }
            }
            entry = libc::CMSG_NXTHDR(&message, entry);
        }
    }
    Ok((received, attached))
}
