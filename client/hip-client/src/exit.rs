//! What happens to the session when the process forks or exits.
//!
//! A forked child has no sender thread and must not touch its parent's socket: there the session counts as
//! over and its descriptor is closed. At exit the session is ended properly, within a deadline.
//!
//! The order of an exit: thread-local destructors of the thread that called it, then atexit handlers and destructors of static
//! objects, the newest first, then the destructors (DT_FINI_ARRAY) of libraries. Programs free memory and launch kernels in all of
//! the former, so the session ends in the latter. The handlers also include `__hipUnregisterFatBinary` of every compiled file; what
//! it would remove may still be used by handlers that are older, so it does nothing then.

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
    // SAFETY: the handler is a plain function of this library; it touches only what is never freed.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) };
}

/// Called by the dynamic linker at exit, after every atexit handler and static destructor of the process, and after the destructors
/// of libraries that need this one. The library is never unloaded before.
#[used]
#[unsafe(link_section = ".fini_array")]
static UNLOADED: extern "C" fn() = exiting;

/// The process is in its exit handlers.
static EXITING: AtomicBool = AtomicBool::new(false);

/// Has the exit noticed before any handler runs that is registered already. Called when GPU code of the program is first used: its
/// `__hipUnregisterFatBinary` is registered by then.
pub fn notice_exit() {
    extern "C" fn notice() {
        EXITING.store(true, Ordering::Release);
    }
    // SAFETY: the handler is a plain function of this library, which is never unloaded.
    unsafe { libc::atexit(notice) };
}

/// Whether the process exits, as far as this thread can tell.
///
/// A thread that has run its thread-local destructors and still makes calls is in exit handlers, or closes a library from its last
/// destructors. The latter is rare, and all it costs is that the library's GPU code stays loaded.
pub fn is_exiting() -> bool {
    EXITING.load(Ordering::Acquire) || crate::thread::has_ended()
}

/// The session got a new connection.
pub fn replaced(shared: &Shared, descriptor: i32) {
    if std::ptr::eq(CURRENT.load(Ordering::Acquire), shared) {
        DESCRIPTOR.store(descriptor, Ordering::Release);
    }
}

/// In the child. Locks may be held by threads that do not exist here, so only atomics are touched.
extern "C" fn forked() {
    watch::forked();
    crate::reattach::forget_failures_after_fork();
    let current = CURRENT.swap(std::ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: null or leaked.
    if let Some(shared) = unsafe { current.as_ref() } {
        shared.over.store(true, Ordering::Release);
        shared.closing.store(true, Ordering::Release);
        let descriptor = DESCRIPTOR.swap(-1, Ordering::AcqRel);
        // SAFETY: the child's copy of the socket; the parent's stays open, and no one in the child uses it.
        unsafe { libc::close(descriptor) };
    }
}

extern "C" fn exiting() {
    // Kept in place: threads still running find the session closed rather than open a new one.
    // SAFETY: null or leaked.
    if let Some(shared) = unsafe { CURRENT.load(Ordering::Acquire).as_ref() } {
        // Nothing may unwind into C.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            shared.close(Instant::now() + FAREWELL);
            if env::statistics() {
                trace::line(format_args!("{}", shared.statistics()));
            }
        }));
    }
    // The last calls and what the device told of its time are in there now.
    watch::finish();
}
