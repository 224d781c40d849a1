//! The thread-local switch for recording gradients.

use std::cell::Cell;

thread_local! {
    static ENABLED: Cell<bool> = const { Cell::new(true) };
}

/// Whether operations of this thread record gradients.
pub fn is_enabled() -> bool {
    ENABLED.get()
}

/// Enables or disables the recording of gradients in this thread.
pub fn set_enabled(enabled: bool) {
    ENABLED.set(enabled);
}

/// Sets the mode, and restores the previous one on drop.
#[derive(Debug)]
pub struct Guard {
    before: bool,
}

impl Guard {
    /// Sets the mode until the guard is dropped.
    pub fn new(enabled: bool) -> Guard {
        Guard { before: ENABLED.replace(enabled) }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        ENABLED.set(self.before);
    }
}
