//! Logging through the registered callback.

use std::ffi::{CString, c_char};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Severity of a message. There is no level above `Error`, because agents exit when they receive one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// For information.
    Info,
    /// Something is not as expected.
    Warn,
    /// A call failed.
    Error,
}

/// Log callback of an agent. Level and message are valid only during the call.
pub type Callback = unsafe extern "C" fn(level: *const c_char, message: *const c_char);

static CALLBACK: AtomicUsize = AtomicUsize::new(0);

/// Registers a callback and replaces the previous one; `None` removes it.
pub fn register(callback: Option<Callback>) {
    CALLBACK.store(callback.map_or(0, |callback| callback as usize), Ordering::Release);
}

/// Logs a message. Must not be called with a lock held, because the callback may call this library.
pub fn log(level: Level, message: &str) {
    let callback = CALLBACK.load(Ordering::Acquire);
    if callback == 0 {
        return;
    }
    // SAFETY: a non-zero value was stored by `register`, which converts it from a `Callback`.
    let callback: Callback = unsafe { std::mem::transmute::<usize, Callback>(callback) };
    let level = match level {
        Level::Info => c"INFO",
        Level::Warn => c"WARN",
        Level::Error => c"ERROR",
    };
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    // SAFETY: by the interface, a registered callback accepts two C strings.
    unsafe { callback(level.as_ptr(), message.as_ptr()) };
}
