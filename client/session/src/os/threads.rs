//! Threads of the library, which must not run signal handlers of the program.

use std::io;
use std::thread::Thread;

/// Starts a thread with all signals blocked: the program's signal handlers expect to run on its own threads.
pub fn spawn_quietly(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
    // SAFETY: both sets are local; the signal mask of this thread is restored.
    unsafe {
        let mut all = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        Ok(thread?.thread().clone())
    }
}
