//! Fork and exit handling of the session.
//!
//! A forked child has no sender thread and must not use its parent's socket: there the session is marked as over and its
//! file descriptor is closed. At exit the session is closed properly, within a deadline.
//!
//! Order of an exit: thread-local destructors of the thread that called it; then atexit handlers and destructors of
//! static objects, newest first; then the destructors (DT_FINI_ARRAY) of libraries. Programs free memory and launch
//! kernels in the first two, so the session is closed in the last. The handlers include `__hipUnregisterFatBinary` of
//! every compiled file; older handlers may still use what it would remove, so it does nothing during exit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};
use std::time::{Duration, Instant};

use crate::connection::Shared;
use crate::{env, trace, watch};

const FAREWELL: Duration = Duration::from_secs(2);

/// The session of this process. Never freed: exit handlers may run while threads still use it.
static CURRENT: AtomicPtr<Shared> = AtomicPtr::new(std::ptr::null_mut());
static DESCRIPTOR: AtomicI32 = AtomicI32::new(-1);

pub fn register(shared: &Arc<Shared>) {
    DESCRIPTOR.store(shared.link.lock().raw_fd(), Ordering::Release);
    CURRENT.store(Arc::into_raw(shared.clone()).cast_mut(), Ordering::Release);
}

/// Called by the dynamic linker when it has loaded the library.
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;

extern "C" fn loaded() {
    // SAFETY: the handler is a plain function of this library; it accesses only objects that are never freed.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) };
}

/// Called by the dynamic linker at exit, after every atexit handler and static destructor of the process, and after the
/// destructors of libraries that depend on this one. The library is never unloaded earlier.
#[used]
#[unsafe(link_section = ".fini_array")]
static UNLOADED: extern "C" fn() = exiting;

/// The process is running its exit handlers.
static EXITING: AtomicBool = AtomicBool::new(false);

/// Sets `EXITING` before any handler runs that is already registered. Called when GPU code of the program is first used:
/// its `__hipUnregisterFatBinary` is registered by then.
pub fn notice_exit() {
    extern "C" fn notice() {
        EXITING.store(true, Ordering::Release);
    }
    // SAFETY: the handler is a plain function of this library, which is never unloaded.
    unsafe { libc::atexit(notice) };
}

/// Whether the process is exiting, as far as this thread can tell.
///
/// A thread that has run its thread-local destructors and still makes calls is running exit handlers, or is closing a
/// library from its last destructors. The latter is rare, and its only cost is that the library's GPU code stays loaded.
pub fn is_exiting() -> bool {
    EXITING.load(Ordering::Acquire) || crate::thread::has_ended()
}

/// Records the file descriptor of the session's new connection.
pub fn replaced(shared: &Shared, descriptor: i32) {
    if std::ptr::eq(CURRENT.load(Ordering::Acquire), shared) {
        DESCRIPTOR.store(descriptor, Ordering::Release);
    }
}

/// Runs in the child after fork. Threads that do not exist here may hold locks, so only atomics are accessed.
extern "C" fn forked() {
    watch::forked();
    crate::reattach::forget_failures_after_fork();
    let current = CURRENT.swap(std::ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: null or leaked.
    if let Some(shared) = unsafe { current.as_ref() } {
        shared.over.store(true, Ordering::Release);
        shared.closing.store(true, Ordering::Release);
        let descriptor = DESCRIPTOR.swap(-1, Ordering::AcqRel);
        // SAFETY: the child's copy of the socket; the parent's stays open, and nothing in the child uses it.
        unsafe { libc::close(descriptor) };
    }
}

extern "C" fn exiting() {
    // Keeps CURRENT set: running threads then find a closed session instead of opening a new one.
    // SAFETY: null or leaked.
    if let Some(shared) = unsafe { CURRENT.load(Ordering::Acquire).as_ref() } {
        // A panic must not unwind into C.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            shared.close(Instant::now() + FAREWELL);
            if env::statistics() {
                trace::line(format_args!("{}", shared.statistics()));
            }
        }));
    }
    // After closing, so that the trace includes the last calls and the device spans of the worker.
    watch::finish();
}
