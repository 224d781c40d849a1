//! Where messages go: to the callback that was registered, if one was.

use std::ffi::{CString, c_char};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How bad it is. There is no level above `Error`: agents end themselves when they hear of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Info,
    Warn,
    Error,
}

/// What an agent registers: level and message, both only valid during the call.
pub type Callback = unsafe extern "C" fn(level: *const c_char, message: *const c_char);

static CALLBACK: AtomicUsize = AtomicUsize::new(0);

/// Takes the place of whatever was registered before.
pub fn register(callback: Option<Callback>) {
    CALLBACK.store(callback.map_or(0, |callback| callback as usize), Ordering::Release);
}

/// Must not be called with a lock held: the callback may call this library.
pub fn say(level: Level, message: &str) {
    let callback = CALLBACK.load(Ordering::Acquire);
    if callback == 0 {
        return;
    }
    // SAFETY: the number was made from such a function, and from nothing else, by `register`.
    let callback: Callback = unsafe { std::mem::transmute::<usize, Callback>(callback) };
    let level = match level {
        Level::Info => c"INFO",
        Level::Warn => c"WARN",
        Level::Error => c"ERROR",
    };
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    // SAFETY: whoever registered the callback promised that it can be called with two C strings.
    unsafe { callback(level.as_ptr(), message.as_ptr()) };
}
