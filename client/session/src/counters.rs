//! Counters of a session.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// A snapshot of a session's counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Requests that a thread waited for.
    pub round_trips: u64,
    /// Requests sent without waiting.
    pub posted: u64,
    /// Bytes written to the sockets.
    pub bytes_sent: u64,
    /// Bytes read from the sockets.
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

/// The live counters. Posted requests are not counted here: they are the appended requests minus the round trips.
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
