//! Priorities of threads that write checkpoints.

/// Lowers the priority of the calling thread for good, so that what the program waits for runs first.
pub(crate) fn lower_priority() {
    // Not the lowest one: a thread that holds a lock of the kernel or of the allocator must still get some time on a busy machine.
    const STEPS: libc::c_int = 10;
    // SAFETY: takes no pointers. On Linux the value belongs to the calling thread. If it cannot be changed, the thread works as usual.
    unsafe { libc::nice(STEPS) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn niceness() -> i32 {
        // SAFETY: takes no pointers; 0 is the calling thread.
        unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
    }

    #[test]
    fn only_the_calling_thread_gets_a_lower_priority() {
        let before = niceness();
        let lowered = std::thread::spawn(|| {
            lower_priority();
            niceness()
        });
        assert_eq!((lowered.join().unwrap(), niceness()), ((before + 10).min(19), before));
    }
}
