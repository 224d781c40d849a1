//! The thread-local switch for recording gradients.

use std::cell::Cell;

thread_local! {
    static ENABLED: Cell<bool> = const { Cell::new(true) };
}

pub fn is_enabled() -> bool {
    ENABLED.get()
}

pub fn set_enabled(enabled: bool) {
    ENABLED.set(enabled);
}

/// Sets the mode, and restores the previous one on drop.
#[derive(Debug)]
pub struct Guard {
    before: bool,
}

impl Guard {
    pub fn new(enabled: bool) -> Guard {
        Guard { before: ENABLED.replace(enabled) }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        ENABLED.set(self.before);
    }
}
