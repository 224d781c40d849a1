//! Messages of the HIP functions on stderr: one line per subject, never from a hot path.

use std::sync::atomic::{AtomicU64, Ordering};

pub use crate::trace::{debug, line};

/// Reports once per function that it is not supported.
pub fn absent(number: u16, name: &str) {
    static SAID: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];
    let (word, bit) = (usize::from(number) / 64, 1 << (number % 64));
    if SAID[word].fetch_or(bit, Ordering::Relaxed) & bit == 0 {
        let reason = hip_api::meta::function(number).and_then(hip_api::refusal::reason);
        line(format_args!(
            "{name} is not supported ({}); it returns hipErrorNotSupported (see docs/hip-coverage.md)",
            reason.unwrap_or("no reason recorded")
        ));
    }
}
