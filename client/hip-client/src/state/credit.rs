//! Backpressure: limits how many commands one stream may have queued.
//!
//! The worker accepts commands without waiting for the device, so the client has to stop a thread that posts faster than
//! its stream executes. Only that thread is stopped, as on a local GPU whose queue is full; if the worker stopped reading
//! instead, every thread of the session would wait. A marker event is recorded after every `INTERVAL` commands. A thread
//! that records the next marker waits if the marker before the previous one is not reached. The worker pushes
//! notifications of reached markers, so a stream that keeps up costs no round trips.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use super::objects::Event;

/// Commands between two markers. One stream can have at most three times as many queued.
const INTERVAL: u32 = 1 << 14;

/// Command counter and markers of one stream.
#[derive(Debug, Default)]
pub struct Credit {
    used: AtomicU32,
    /// The marker events, used round-robin; created at the end of the first interval.
    pub markers: Mutex<Markers>,
}

/// The marker events of a stream.
#[derive(Debug, Default)]
pub struct Markers {
    pub events: Vec<Arc<Event>>,
    /// Number of markers recorded so far.
    pub recorded: usize,
}

impl Credit {
    /// Counts one more command. Returns whether a marker is due.
    #[inline]
    pub fn count(&self) -> bool {
        let used = self.used.fetch_add(1, Ordering::Relaxed);
        used % INTERVAL == INTERVAL - 1
    }
}
