//! Executable memory for machine code: written once, then mapped read-execute and never writable again (W^X).
//!
//! Manages the mappings and enforces the limit on their total size.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Limit on executable memory in bytes, per process. Each session is a separate process, so this is also the limit per session.
const LIMIT: usize = 64 << 20;

static HELD: AtomicUsize = AtomicUsize::new(0);

/// A mapping with machine code.
#[derive(Debug)]
pub struct Executable {
    start: NonNull<u8>,
    size: usize,
}

// SAFETY: the mapping is never written after it was sealed, and exists until the value is dropped.
unsafe impl Send for Executable {}
// SAFETY: as above.
unsafe impl Sync for Executable {}

impl Executable {
    /// Maps `code` for execution. Returns `None` if the limit is reached or `mmap` or `mprotect` fails.
    pub fn new(code: &[u8]) -> Option<Executable> {
        let size = code.len().max(1).next_multiple_of(4096);
        if HELD.fetch_add(size, Ordering::Relaxed) + size > LIMIT {
            HELD.fetch_sub(size, Ordering::Relaxed);
            return None;
        }
        // SAFETY: creates a new private mapping; existing mappings are not affected.
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
        // SAFETY: this value owns the mapping, which is writable and large enough.
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
        // SAFETY: this value owns the mapping, and its owner does not call the code after dropping it.
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
