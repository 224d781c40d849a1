//! Direct copies to a worker on the same machine whose device memory is the memory of one of its processes
//! (process_vm_writev and process_vm_readv instead of a socket).
//!
//! Accesses only a process of the same user, and only if the worker offered it over a unix socket whose peer credentials
//! the kernel confirms. The caller must first synchronize with the stream.

use std::sync::atomic::{AtomicBool, Ordering};

use transport::Link;
use wire::Welcome;

/// The most bytes per system call.
const MOST: usize = 1 << 30;

/// The process whose memory is the device memory.
#[derive(Debug)]
pub struct DirectCopy {
    pid: libc::pid_t,
    /// The kernel denied access; it is not tried again.
    refused: AtomicBool,
}

impl DirectCopy {
    /// The process that the worker names, if it is trustworthy.
    pub fn of(link: &Link, welcome: &Welcome) -> Option<DirectCopy> {
        let pid = libc::pid_t::try_from(welcome.neighbour).ok().filter(|pid| *pid > 0)?;
        let peer = link.unix_peer()?;
        // SAFETY: returns a number and cannot fail.
        let user = unsafe { libc::geteuid() };
        (peer.uid == user).then_some(DirectCopy { pid, refused: AtomicBool::new(false) })
    }

    /// Copies to device memory. On false the memory there is undefined, and the caller must copy over the socket.
    pub fn write(&self, destination: u64, bytes: &[u8]) -> bool {
        self.each(bytes.len(), |at, length| {
            let ours = libc::iovec { iov_base: bytes[at..].as_ptr().cast_mut().cast(), iov_len: length };
            let theirs = libc::iovec { iov_base: (destination as usize + at) as *mut _, iov_len: length };
            // SAFETY: the local range is readable for its length; the remote range is not memory of this process.
            unsafe { libc::process_vm_writev(self.pid, &ours, 1, &theirs, 1, 0) }
        })
    }

    /// Copies from device memory. On false the contents of `into` are undefined, and the caller must copy over the
    /// socket.
    pub fn read(&self, source: u64, into: &mut [u8]) -> bool {
        self.each(into.len(), |at, length| {
            let ours = libc::iovec { iov_base: into[at..].as_mut_ptr().cast(), iov_len: length };
            let theirs = libc::iovec { iov_base: (source as usize + at) as *mut _, iov_len: length };
            // SAFETY: the local range is writable for its length; the remote range is not memory of this process.
            unsafe { libc::process_vm_readv(self.pid, &ours, 1, &theirs, 1, 0) }
        })
    }

    fn each(&self, bytes: usize, mut copy: impl FnMut(usize, usize) -> isize) -> bool {
        let mut done = 0;
        while done < bytes {
            if self.refused.load(Ordering::Relaxed) {
                return false;
            }
            match copy(done, (bytes - done).min(MOST)) {
                copied @ 1.. => done += copied as usize,
                _ => {
                    self.refused.store(true, Ordering::Relaxed);
                    return false;
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_reached_is_refused_and_not_tried_again() {
        let own = DirectCopy { pid: std::process::id() as libc::pid_t, refused: AtomicBool::new(false) };
        let mut there = vec![0u8; 10_000];
        assert!(own.write(there.as_mut_ptr() as u64, &[7; 10_000]));
        assert!(there.iter().all(|byte| *byte == 7));
        let mut back = vec![0; 10_000];
        assert!(own.read(there.as_ptr() as u64, &mut back) && back == there);
        assert!(!own.read(0x10, &mut back));
        assert!(!own.read(there.as_ptr() as u64, &mut back), "not tried again");
    }

    #[test]
    fn nobody_is_reached_over_anything_but_a_named_unix_socket() {
        let (left, _right) = Link::pair().unwrap();
        let welcome = Welcome { neighbour: 1, ..Welcome::default() };
        assert!(DirectCopy::of(&left, &welcome).is_none());
    }
}
