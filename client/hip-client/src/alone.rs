//! Ends the process when the program's last thread has ended.
//!
//! A process ends, with status 0 and its exit handlers, when the last of its threads ends: the main thread may call `pthread_exit`
//! and leave the rest to others. The library's own threads never end by themselves and block all signals, so without this the
//! process would stay, and not even SIGTERM would end it.
//!
//! Threads of the library are known by their names. The thread that runs host functions has another name, because threads that a host
//! function creates inherit it and are the program's own.

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::outgoing::spawn_quietly;

/// What the names of the library's threads begin with, in every copy of the library.
const PREFIX: &str = "remora-";
/// The name of the thread that ends the process. There is one, whichever copy of the library started it.
const EXIT: &str = "remora-exit";
/// The name of the thread that runs host functions.
pub const CALLBACKS: &str = "hip-callbacks";

/// The thread that runs host functions; 0 for none.
static CALLBACK_THREAD: AtomicU32 = AtomicU32::new(0);
/// The exit handlers run.
static ENDING: AtomicBool = AtomicBool::new(false);

/// This thread runs host functions from now on.
pub fn runs_callbacks() {
    // SAFETY: returns a number and touches no memory.
    let own = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    CALLBACK_THREAD.store(own, Ordering::Relaxed);
}

/// Ends the process if no thread of the program is left. For a thread of the library that is idle; one small file is read.
pub fn end_if_alone() {
    let callbacks = CALLBACK_THREAD.load(Ordering::Relaxed);
    if !main_has_ended() || !others_are_ours(callbacks) || ENDING.swap(true, Ordering::AcqRel) {
        return;
    }
    // On a thread of its own, because exit handlers may launch kernels that this one has to send. It takes signals again, so that
    // handlers that hang can be stopped.
    let end = || {
        // SAFETY: the set is local; `exit` may be called by any thread, and no thread of the program is left to call it too.
        unsafe {
            let mut none = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            libc::pthread_sigmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
            libc::exit(0);
        }
    };
    if spawn_quietly(EXIT, end).is_err() {
        // The next look tries again.
        ENDING.store(false, Ordering::Release);
    }
}

/// Whether the main thread has ended and the process has not. Where /proc cannot be read this is never seen.
fn main_has_ended() -> bool {
    let mut stat = [0; 512];
    let Ok(bytes) = std::fs::File::open("/proc/self/stat").and_then(|mut file| file.read(&mut stat)) else {
        return false;
    };
    // The state follows the name, which is in parentheses and may have any character in it.
    let stat = &stat[..bytes];
    let name_end = stat.iter().rposition(|byte| *byte == b')');
    name_end.and_then(|end| stat.get(end + 2)) == Some(&b'Z')
}

/// Whether every thread besides the main one is the library's.
fn others_are_ours(callbacks: u32) -> bool {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return false };
    for task in tasks {
        let Ok(task) = task else { return false };
        let Some(thread) = task.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            return false;
        };
        if thread == std::process::id() || thread == callbacks {
            continue;
        }
        match std::fs::read_to_string(task.path().join("comm")) {
            Ok(name) if name.starts_with(PREFIX) && !name.starts_with(EXIT) => {}
            // The program's; or it has ended in the meantime, and the next look decides.
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_whose_main_thread_runs_is_left_alone() {
        assert!(!main_has_ended());
        // Threads of the test harness are not the library's.
        assert!(!others_are_ours(0));
    }
}
