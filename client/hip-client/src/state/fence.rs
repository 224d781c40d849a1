//! Which streams have to wait for posted host-to-device copies.

use std::collections::{BTreeSet, HashMap};

use parking_lot::Mutex;

/// Orders copies before the work of non-blocking streams.
#[derive(Debug, Default)]
pub struct Fences(pub(super) Mutex<FenceState>);

#[derive(Debug, Default)]
pub(super) struct FenceState {
    /// The event recorded after the last copy on a null stream, by the stream's number.
    pub events: HashMap<u64, u64>,
    /// The program's non-blocking streams. Each exists on the worker as long as it is in this set.
    pub apart: BTreeSet<u64>,
}

impl Fences {
    /// Removes a stream that is about to be destroyed.
    pub fn leave(&self, stream: u64) {
        self.0.lock().apart.remove(&stream);
    }

    /// Drops the event of a device's null stream and its streams, after a device reset.
    pub fn forget(&self, null_stream: u64, is_there: impl Fn(u64) -> bool) {
        let mut state = self.0.lock();
        state.events.remove(&null_stream);
        state.apart.retain(|stream| is_there(*stream));
    }
}
