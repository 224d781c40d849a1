//! Messages on stderr: one line per subject, never from a hot path.

use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::process::env;

/// Prints one line on stderr. Errors are ignored, for example a closed stderr.
pub fn line(text: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "remora: {text}");
}

/// Prints one line on stderr if `TF_DEBUG` is set.
pub fn debug(text: fmt::Arguments<'_>) {
    if env::debug() {
        line(text);
    }
}

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
