//! Threads of the library. Windows has no signals that a thread would have to block.

use std::io;
use std::thread::Thread;

/// Starts a thread.
pub fn spawn_quietly(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
    Ok(thread.thread().clone())
}

/// Runs `start`, which starts threads.
pub fn quietly<T>(start: impl FnOnce() -> T) -> T {
    start()
}

/// Does nothing: threads of the library keep the priority of the program.
pub fn lower_priority() {}
