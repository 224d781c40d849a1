//! Ends the process when the program's last thread has ended.
//!
//! A process ends, with status 0 and its exit handlers, when its last thread ends: the main thread may call
//! `pthread_exit` and leave the rest to other threads. The library's threads never end by themselves and block all
//! signals, so without this module the process would remain, and not even SIGTERM would end it.
//!
//! The library's threads are recognized by their names. The thread that runs host functions has a different name
//! ([`session::HOST_FUNCTION_THREAD`]), because
//! threads created by a host function inherit it and belong to the program.

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use session::spawn_quietly;

/// Prefix of the library's thread names, in every copy of the library.
const PREFIX: &str = "remora-";
/// The name of the thread that ends the process. There is only one, even with several copies of the library.
const EXIT: &str = "remora-exit";

/// Thread id of the thread that runs host functions; 0 for none.
static CALLBACK_THREAD: AtomicU32 = AtomicU32::new(0);
/// The exit handlers are running.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Marks this thread as the one that runs host functions.
pub fn runs_callbacks() {
    // SAFETY: returns a number and accesses no memory.
    let own = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    CALLBACK_THREAD.store(own, Ordering::Relaxed);
}

/// Ends the process if no thread of the program is left. Called by an idle thread of the library; reads one small file.
pub fn end_if_last() {
    let callbacks = CALLBACK_THREAD.load(Ordering::Relaxed);
    if !main_has_ended() || !others_are_ours(callbacks) || ENDING.swap(true, Ordering::AcqRel) {
        return;
    }
    // Runs on a new thread, because exit handlers may launch kernels that the calling thread has to send. It unblocks
    // signals, so that hanging handlers can be interrupted.
    let end = || {
        // SAFETY: the set is local; any thread may call `exit`, and no thread of the program is left to call it
        // concurrently.
        unsafe {
            let mut none = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            libc::pthread_sigmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
            libc::exit(0);
        }
    };
    if spawn_quietly(EXIT, end).is_err() {
        // The next check tries again.
        ENDING.store(false, Ordering::Release);
    }
}

/// Whether the main thread has ended while the process still runs. False if /proc cannot be read.
fn main_has_ended() -> bool {
    let mut stat = [0; 512];
    let Ok(bytes) = std::fs::File::open("/proc/self/stat").and_then(|mut file| file.read(&mut stat)) else {
        return false;
    };
    // The state follows the name, which is in parentheses and may contain any character.
    let stat = &stat[..bytes];
    let name_end = stat.iter().rposition(|byte| *byte == b')');
    name_end.and_then(|end| stat.get(end + 2)) == Some(&b'Z')
}

/// Whether every thread other than the main one belongs to the library.
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
            // A thread of the program, or one that has just ended; the next check decides.
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
        // Threads of the test harness do not belong to the library.
        assert!(!others_are_ours(0));
    }
}
