//! Memory that holds machine code: written once, then executable and never writable again.
//!
//! Owns the mapping and the limit on how much there may be; refuses to know what the code does.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Executable bytes this process may hold. A session is a process of its own, so this is also the limit of a session.
const LIMIT: usize = 64 << 20;

static HELD: AtomicUsize = AtomicUsize::new(0);

/// Machine code at its place.
#[derive(Debug)]
pub struct Executable {
    start: NonNull<u8>,
    size: usize,
}

// SAFETY: the mapping is never written after it was made, and stays until the value is dropped.
unsafe impl Send for Executable {}
// SAFETY: as above.
unsafe impl Sync for Executable {}

impl Executable {
    /// Maps `code` for execution. `None` when the limit is reached or the system refuses.
    pub fn new(code: &[u8]) -> Option<Executable> {
        let size = code.len().max(1).next_multiple_of(4096);
        if HELD.fetch_add(size, Ordering::Relaxed) + size > LIMIT {
            HELD.fetch_sub(size, Ordering::Relaxed);
            return None;
        }
        // SAFETY: a fresh private mapping; nothing else is touched.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            HELD.fetch_sub(size, Ordering::Relaxed);
            return None;
        }
        let executable = Executable { start: NonNull::new(start.cast())?, size };
        // SAFETY: the mapping is ours, writable and large enough.
        let sealed = unsafe {
            std::ptr::copy_nonoverlapping(code.as_ptr(), executable.start.as_ptr(), code.len());
            libc::mprotect(start, size, libc::PROT_READ | libc::PROT_EXEC)
        };
        (sealed == 0).then_some(executable)
    }

    pub fn start(&self) -> *const u8 {
        self.start.as_ptr()
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and whoever drops the value calls the code no more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.size) };
        HELD.fetch_sub(self.size, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_executable_and_not_writable() {
        // mov eax, 42; ret
        let code = Executable::new(&[0xb8, 42, 0, 0, 0, 0xc3]).unwrap();
        // SAFETY: the bytes are a function of this signature.
        let answer = unsafe { std::mem::transmute::<*const u8, extern "sysv64" fn() -> u32>(code.start()) };
        assert_eq!(answer(), 42);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let start = format!("{:x}-", code.start() as usize);
        let line = maps.lines().find(|line| line.starts_with(&start)).unwrap();
        assert!(line.contains("r-xp"), "{line}");
    }
}
