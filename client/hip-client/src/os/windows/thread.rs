//! The calling thread, and the clock of traces.

use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};
use windows_sys::Win32::System::Threading::GetCurrentThreadId;

/// The system's number of this thread, and its name.
pub fn identity() -> (u32, String) {
    // SAFETY: returns a number.
    let number = unsafe { GetCurrentThreadId() };
    let thread = std::thread::current();
    (number, thread.name().map_or_else(|| format!("thread {number}"), str::to_owned))
}

/// Nanoseconds of the performance counter: it is system-wide, so traces of several processes align.
pub fn now() -> u64 {
    let (mut count, mut frequency) = (0, 1);
    // SAFETY: both write one number; they do not fail on any supported Windows.
    unsafe {
        QueryPerformanceCounter(&raw mut count);
        QueryPerformanceFrequency(&raw mut frequency);
    }
    (count as u128 * 1_000_000_000 / frequency.max(1) as u128) as u64
}
