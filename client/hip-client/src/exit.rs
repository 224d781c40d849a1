//! What happens to the session when the process forks or exits.
//!
//! A forked child has no sender thread and must not touch its parent's socket: there the session counts as
//! over and its descriptor is closed. At exit the session is ended properly, within a deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};
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

/// Called by the loader with the library. What is asked for first is told last: the destructors of the program's own objects,
/// and of libraries that need this one, may still free what they hold.
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = ask_to_be_told;

/// Asks to be told of forks and of the end.
extern "C" fn ask_to_be_told() {
    // SAFETY: both handlers are plain functions of this library; they touch only what is never freed.
    unsafe {
        libc::pthread_atfork(None, None, Some(forked));
        libc::atexit(exiting);
    }
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
