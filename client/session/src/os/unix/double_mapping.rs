//! Memory that is mapped twice.

use std::io;

/// Maps `bytes` bytes, a multiple of the page size, twice in succession; returns the address of the first mapping.
pub fn map(bytes: usize) -> io::Result<*mut u8> {
    // SAFETY: a new file descriptor, a fresh reservation of twice the size, and two mappings inside it; each result
    // is checked and nothing else owns any of them.
    unsafe {
        let file = libc::memfd_create(c"remora-ring".as_ptr(), libc::MFD_CLOEXEC);
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        let result = map_file(file, bytes);
        libc::close(file);
        result
    }
}

/// # Safety
/// `file` is a memory file descriptor the caller owns.
unsafe fn map_file(file: i32, bytes: usize) -> io::Result<*mut u8> {
    let failed = |at: *mut libc::c_void| at == libc::MAP_FAILED;
    // SAFETY: see `map`: the reservation is owned by this function, so mapping over it replaces no other mapping.
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
            let at = libc::mmap(base.add(half), bytes, access, libc::MAP_SHARED | libc::MAP_FIXED, file, 0);
            if failed(at) {
                let error = io::Error::last_os_error();
                libc::munmap(base, 2 * bytes);
                return Err(error);
            }
        }
        Ok(base.cast())
    }
}

/// Removes both mappings.
///
/// # Safety
/// [`map`] returned the address for this size, and nothing refers to the memory any more.
pub unsafe fn unmap(base: *mut u8, bytes: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { libc::munmap(base.cast(), 2 * bytes) };
}
