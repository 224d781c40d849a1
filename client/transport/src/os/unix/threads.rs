//! Threads of the library, which must not run signal handlers of the program.

use std::io;
use std::thread::Thread;

/// Starts a thread with all signals blocked: the program's signal handlers expect to run on its own threads.
pub fn spawn_quietly(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
    let thread = quietly(|| std::thread::Builder::new().name(name.to_owned()).spawn(run))?;
    Ok(thread.thread().clone())
}

/// Runs `start` with all signals blocked, which the threads that it starts inherit.
pub fn quietly<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are local; the signal mask of this thread is restored below.
    let before = unsafe {
        let mut all = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        before
    };
    let result = start();
    // SAFETY: the set is local.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    result
}

/// Lowers the priority of the calling thread for good, so that threads for which a program waits run first.
pub fn lower_priority() {
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
