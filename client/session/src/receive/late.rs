//! Failures of posted requests, which a later call reports.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use wire::LateError;

use crate::host::Host;

/// Bounds the memory used if the program never checks for errors.
const MOST: usize = 1024;

/// The failures that no call has reported yet.
#[derive(Debug, Default)]
pub struct LateErrors {
    waiting: Mutex<Vec<LateError>>,
    /// Whether there are any: a check without the lock.
    any: AtomicBool,
    last_shown: Mutex<String>,
}

impl LateErrors {
    /// Stores a failure, and shows it to the user unless it repeats the one before.
    pub fn add(&self, host: &dyn Host, error: LateError) {
        // A device fault is sticky: every later posted request fails with the same text. Show it once.
        let mut shown = self.last_shown.lock();
        if *shown != error.text {
            host.late_error(&error);
            shown.clone_from(&error.text);
        }
        drop(shown);
        let mut waiting = self.waiting.lock();
        if waiting.len() < MOST {
            waiting.push(error);
        }
        self.any.store(true, Ordering::Release);
    }

    /// Takes the oldest failure.
    #[inline]
    pub fn take(&self) -> Option<LateError> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let mut waiting = self.waiting.lock();
        let error = (!waiting.is_empty()).then(|| waiting.remove(0));
        self.any.store(!waiting.is_empty(), Ordering::Release);
        error
    }
}
