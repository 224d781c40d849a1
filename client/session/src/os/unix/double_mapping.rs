//! Memory for a ring buffer, mapped twice so that no frame is split at its end.

use std::io;

/// Memory mapped twice in succession, so that a range that wraps around is contiguous.
#[derive(Debug)]
pub struct DoubleMapping {
    base: *mut u8,
    bytes: usize,
}

impl DoubleMapping {
    /// Maps `bytes` bytes, a multiple of the page size and a power of two.
    pub fn new(bytes: usize) -> io::Result<DoubleMapping> {
        // SAFETY: a new file descriptor, a fresh reservation of twice the size, and two mappings inside it; each result
        // is checked and nothing else owns any of them.
        unsafe {
            let file = libc::memfd_create(c"remora-ring".as_ptr(), libc::MFD_CLOEXEC);
            if file < 0 {
                return Err(io::Error::last_os_error());
            }
            let result = DoubleMapping::map(file, bytes);
            libc::close(file);
            result
        }
    }

    /// # Safety
    /// `file` is a memory file descriptor the caller owns.
    unsafe fn map(file: i32, bytes: usize) -> io::Result<DoubleMapping> {
        let failed = |at: *mut libc::c_void| at == libc::MAP_FAILED;
        // SAFETY: see `new`: the reservation is owned by this function, so mapping over it replaces no other mapping.
        unsafe {
            if libc::ftruncate(file, bytes as libc::off_t) != 0 {
                return Err(io::Error::last_os_error());
            }
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let base = libc::mmap(std::ptr::null_mut(), 2 * bytes, libc::PROT_NONE, flags, -1, 0);
            if failed(base) {
                return Err(io::Error::last_os_error());
            }
            for half in [0, bytes] {
                let access = libc::PROT_READ | libc::PROT_WRITE;
                let at =
                    libc::mmap(base.add(half), bytes, access, libc::MAP_SHARED | libc::MAP_FIXED, file, 0);
                if failed(at) {
                    let error = io::Error::last_os_error();
                    libc::munmap(base, 2 * bytes);
                    return Err(error);
                }
            }
            Ok(DoubleMapping { base: base.cast(), bytes })
        }
    }

    /// Size of one of the two mappings.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of a position, counted without wrapping.
    ///
    /// # Safety
    /// At most `bytes` bytes from the returned address on may be accessed.
    #[inline]
    pub unsafe fn at(&self, position: u64) -> *mut u8 {
        // SAFETY: the offset is below `bytes`, and twice as many are mapped.
        unsafe { self.base.add(position as usize & (self.bytes - 1)) }
    }
}

impl Drop for DoubleMapping {
    fn drop(&mut self) {
        // SAFETY: this object owns the mapping, and nothing refers to it any more.
        unsafe { libc::munmap(self.base.cast(), 2 * self.bytes) };
    }
}
