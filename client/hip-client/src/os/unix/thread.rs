//! The calling thread, and the clock of traces.

/// The system's number of this thread, and its name.
pub fn identity() -> (u32, String) {
    let mut name = [0u8; 16];
    // SAFETY: gettid returns a number; prctl writes at most 16 bytes, NUL included, to the array.
    let number = unsafe {
        libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr());
        libc::syscall(libc::SYS_gettid) as u32
    };
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    (number, String::from_utf8_lossy(name).into_owned())
}

/// Nanoseconds of CLOCK_MONOTONIC: it is system-wide, so traces of several processes align.
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes only to the local struct.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
