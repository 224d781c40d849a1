//! System calls without libc.

use core::ffi::c_char;

use crate::elf::Source;
use crate::take_over::Generation;

const AT_FDCWD: isize = -100;
const O_CLOEXEC: isize = 0o2000000;

#[cfg(target_arch = "x86_64")]
mod number {
    pub const WRITE: isize = 1;
    pub const CLOSE: isize = 3;
    pub const READ_AT: isize = 17;
    pub const OPEN_AT: isize = 257;
    pub const ACCESS_AT: isize = 269;
}

#[cfg(target_arch = "aarch64")]
mod number {
    pub const WRITE: isize = 64;
    pub const CLOSE: isize = 57;
    pub const READ_AT: isize = 67;
    pub const OPEN_AT: isize = 56;
    pub const ACCESS_AT: isize = 48;
}

/// # Safety
/// As the system call requires.
unsafe fn call(number: isize, arguments: [isize; 4]) -> isize {
    let mut result = number;
    let [a, b, c, d] = arguments;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel preserves all registers except those named; the caller guarantees the memory accesses.
    unsafe {
        core::arch::asm!("syscall", inlateout("rax") result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        let mut first = a;
        core::arch::asm!("svc 0", in("x8") result, inlateout("x0") first, in("x1") b, in("x2") c, in("x3") d,
            options(nostack));
        result = first;
    }
    result
}

/// Whether a file can be read. The path must be NUL-terminated.
pub fn exists(path: &[u8]) -> bool {
    const R_OK: isize = 4;
    // SAFETY: the NUL is checked; the call reads only the path.
    path.ends_with(b"\0")
        && unsafe { call(number::ACCESS_AT, [AT_FDCWD, path.as_ptr() as isize, R_OK, 0]) } == 0
}

/// Writes to standard error. A failure, as with a closed one, is ignored.
pub fn complain(text: &[u8]) {
    // SAFETY: the call reads exactly the bytes of the slice.
    unsafe { call(number::WRITE, [2, text.as_ptr() as isize, text.len() as isize, 0]) };
}

/// A file open for reading.
#[derive(Debug)]
pub struct File(isize);

impl File {
    /// # Safety
    /// The path must be NUL-terminated.
    pub unsafe fn open(path: *const c_char) -> Option<File> {
        // SAFETY: guaranteed by the caller; the flags are those of a plain read.
        let descriptor = unsafe { call(number::OPEN_AT, [AT_FDCWD, path as isize, O_CLOEXEC, 0]) };
        (descriptor >= 0).then_some(File(descriptor))
    }
}

impl Source for File {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        let arguments = [self.0, into.as_mut_ptr() as isize, into.len() as isize, offset as isize];
        // SAFETY: the call writes at most the bytes of the slice.
        usize::try_from(unsafe { call(number::READ_AT, arguments) }).unwrap_or(0)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours and is not used again.
        unsafe { call(number::CLOSE, [self.0, 0, 0, 0]) };
    }
}

/// Returns the HIP generation of a file.
///
/// # Safety
/// The path must be NUL-terminated.
pub unsafe fn generation(path: *const c_char) -> Generation {
    // SAFETY: guaranteed by the caller.
    match unsafe { File::open(path) } {
        None => Generation::NoFile,
        Some(file) => crate::elf::generation(&file).map_or(Generation::Unknown, Generation::Known),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_opened_and_read_without_a_libc() {
        let path = std::ffi::CString::new(std::env::current_exe().unwrap().to_str().unwrap()).unwrap();
        assert!(exists(path.as_bytes_with_nul()) && !exists(b"/no/such/file\0") && !exists(b"/"));
        // SAFETY: a CString is NUL-terminated.
        let file = unsafe { File::open(path.as_ptr()) }.unwrap();
        let mut magic = [0; 4];
        assert_eq!((file.read_at(0, &mut magic), &magic), (4, b"\x7fELF"));
        // SAFETY: as above.
        assert_eq!(unsafe { generation(path.as_ptr()) }, Generation::Unknown);
        // SAFETY: as above.
        assert_eq!(unsafe { generation(c"/no/such/file".as_ptr()) }, Generation::NoFile);
    }
}
