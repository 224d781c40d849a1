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
