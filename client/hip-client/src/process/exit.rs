//! Fork and exit handling of the session.
//!
//! A forked child has no sender thread and must not use its parent's socket: there the session is marked as over and its
//! file descriptor is closed. At exit the session is closed properly, within a deadline.
//!
//! Order of an exit: thread-local destructors of the thread that called it; then atexit handlers and destructors of
//! static objects, newest first; then the destructors (DT_FINI_ARRAY) of libraries. Programs free memory and launch
//! kernels in the first two, so the session is closed in the last. The handlers include `__hipUnregisterFatBinary` of
//! every compiled file; older handlers may still use what it would remove, so it does nothing during exit.

use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::Duration;

use session::Connection;

use super::{env, open};
use crate::os::hooks;
use crate::state::thread;
use crate::telemetry::{observe, report};

const FAREWELL: Duration = Duration::from_secs(2);

/// The session of this process. Never freed: exit handlers may run while threads still use it.
static CURRENT: AtomicPtr<Connection> = AtomicPtr::new(std::ptr::null_mut());

/// Makes this session the one that is closed at exit and abandoned in forked children.
pub fn register(connection: &'static Connection) {
    CURRENT.store(std::ptr::from_ref(connection).cast_mut(), Ordering::Release);
}

/// The process is running its exit handlers.
static EXITING: AtomicBool = AtomicBool::new(false);

/// Sets `EXITING` before any handler runs that is already registered. Called when GPU code of the program is first used:
/// its `__hipUnregisterFatBinary` is registered by then.
pub fn notice_exit() {
    extern "C" fn notice() {
        EXITING.store(true, Ordering::Release);
    }
    hooks::at_exit(notice);
}

/// Whether the process is exiting, as far as this thread can tell.
///
/// A thread that has run its thread-local destructors and still makes calls is running exit handlers, or is closing a
/// library from its last destructors. The latter is rare, and its only cost is that the library's GPU code stays loaded.
pub fn is_exiting() -> bool {
    EXITING.load(Ordering::Acquire) || hooks::is_exiting() || thread::has_ended()
}

/// Runs in the child after fork. Threads that do not exist here may hold locks, so only atomics are accessed.
pub extern "C" fn forked() {
    observe::forked();
    open::forget_failures_after_fork();
    let current = CURRENT.swap(std::ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: null or leaked.
    if let Some(connection) = unsafe { current.as_ref() } {
        connection.forget_after_fork();
    }
}

/// Runs when the process exits, after everything else: see `os/`.
pub extern "C" fn exiting() {
    // Keeps CURRENT set: running threads then find a closed session instead of opening a new one.
    // SAFETY: null or leaked.
    if let Some(connection) = unsafe { CURRENT.load(Ordering::Acquire).as_ref() } {
        // A panic must not unwind into C.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            if hooks::THREADS_OUTLIVE_EXIT || connection.is_idle() {
                connection.close(FAREWELL);
            }
            if env::statistics() {
                report::line(format_args!("{}", connection.statistics()));
            }
        }));
    }
    // After closing, so that the trace includes the last calls and the device spans of the worker.
    observe::finish();
}
