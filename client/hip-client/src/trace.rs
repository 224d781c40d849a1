//! What the connection tells people: counters, and single lines on stderr.

use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a session, as they are now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Requests a thread waited for.
    pub round_trips: u64,
    /// Requests nobody waited for.
    pub posted: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// Connections after the first.
    pub reconnects: u64,
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} round trips, {} posted, {} bytes sent, {} received, {} reconnects",
            self.round_trips, self.posted, self.bytes_sent, self.bytes_received, self.reconnects
        )
    }
}

/// The counters themselves. What is posted is not counted: it is what was appended and not waited for.
#[derive(Debug, Default)]
pub struct Counters {
    pub round_trips: AtomicU64,
    pub bytes_sent: AtomicU64,
    pub bytes_received: AtomicU64,
    pub reconnects: AtomicU64,
}

impl Counters {
    pub fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }
}

/// One line on stderr. A closed stderr is no reason to fail.
pub fn line(text: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "remora: {text}");
}

/// One line on stderr if `TF_DEBUG` asks for it.
pub fn debug(text: fmt::Arguments<'_>) {
    if crate::env::debug() {
        line(text);
    }
}
