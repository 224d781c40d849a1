//! Direct copies to a worker on the same machine whose device memory is the memory of one of its processes
//! (process_vm_writev and process_vm_readv instead of a socket).
//!
//! Accesses only a process of the same user, and only if the worker offered it over a unix socket whose peer credentials
//! the kernel confirms. The caller must first synchronize with the stream. The copies end with the connection, because the session may
//! then move to another process.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use transport::Link;
use wire::Welcome;

/// The most bytes per system call.
const MOST: usize = 1 << 30;
/// Poll interval for the end of copies.
const LOOK: Duration = Duration::from_micros(50);

/// The process whose memory is the device memory.
#[derive(Debug)]
pub struct DirectCopy {
    pid: libc::pid_t,
    /// The kernel denied access, or the connection has ended; copies are not tried again.
    refused: AtomicBool,
    /// Number of copies in progress.
    running: AtomicUsize,
}

impl DirectCopy {
    /// The process that the worker names, if it is trustworthy.
    pub fn of(link: &Link, welcome: &Welcome) -> Option<DirectCopy> {
        let pid = libc::pid_t::try_from(welcome.neighbour).ok().filter(|pid| *pid > 0)?;
        let peer = link.unix_peer()?;
        // SAFETY: returns a number and cannot fail.
        let user = unsafe { libc::geteuid() };
        (peer.uid == user).then(|| DirectCopy::new(pid))
    }

    fn new(pid: libc::pid_t) -> DirectCopy {
        DirectCopy { pid, refused: AtomicBool::new(false), running: AtomicUsize::new(0) }
    }

    /// Refuses copies from now on, and waits for those in progress.
    pub fn end(&self) {
        // Both sides use sequentially consistent operations: either a copy sees that it is refused, or this sees that it is running.
        self.refused.store(true, Ordering::SeqCst);
        while self.running.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(LOOK);
        }
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

    fn each(&self, bytes: usize, copy: impl FnMut(usize, usize) -> isize) -> bool {
        self.running.fetch_add(1, Ordering::SeqCst);
        let done = self.copy_all(bytes, copy);
        self.running.fetch_sub(1, Ordering::SeqCst);
        done
    }

    fn copy_all(&self, bytes: usize, mut copy: impl FnMut(usize, usize) -> isize) -> bool {
        let mut done = 0;
        while done < bytes {
            if self.refused.load(Ordering::SeqCst) {
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
        let own = DirectCopy::new(std::process::id() as libc::pid_t);
        let mut there = vec![0u8; 10_000];
        assert!(own.write(there.as_mut_ptr() as u64, &[7; 10_000]));
        assert!(there.iter().all(|byte| *byte == 7));
        let mut back = vec![0; 10_000];
        assert!(own.read(there.as_ptr() as u64, &mut back) && back == there);
        assert!(!own.read(0x10, &mut back));
        assert!(!own.read(there.as_ptr() as u64, &mut back), "not tried again");
    }

    #[test]
    fn no_copy_runs_after_the_end() {
        let own = DirectCopy::new(std::process::id() as libc::pid_t);
        let there = vec![0u8; 1 << 20];
        let address = there.as_ptr() as u64;
        std::thread::scope(|scope| {
            let copies = scope.spawn(|| {
                let mut into = vec![0; 1 << 20];
                while own.read(address, &mut into) {}
                own.running.load(Ordering::SeqCst)
            });
            own.end();
            assert_eq!((own.running.load(Ordering::SeqCst), copies.join().unwrap()), (0, 0));
        });
        assert!(!own.read(address, &mut [0; 16]));
    }

    #[test]
    fn nobody_is_reached_over_anything_but_a_named_unix_socket() {
        let (left, _right) = Link::pair().unwrap();
        let welcome = Welcome { neighbour: 1, ..Welcome::default() };
        assert!(DirectCopy::of(&left, &welcome).is_none());
    }
}
