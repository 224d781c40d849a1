//! Orders posted host-to-device copies before work on non-blocking streams.
//!
//! HIP's synchronous copy returns when the copy is done. Here the bytes may still be in flight when the call returns; the
//! program cannot observe this as long as all later work waits for them. Non-blocking streams do not wait for the null
//! stream, so existing and later-created ones are made to wait for an event recorded after the copy. The client itself
//! does not wait.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hip_api::types::*;
use parking_lot::Mutex;

use crate::calls::Status;
use crate::calls::stream::StreamRef;
use crate::state::runtime::{Event, Runtime};
use session::progress::ProgressMark;

/// With more non-blocking streams than this, waiting for the copy is cheaper than posting a wait to each of them.
const MOST_TOLD: usize = 32;

/// Orders copies before the work of non-blocking streams.
#[derive(Debug, Default)]
pub struct Fences(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The event recorded after the last copy on a null stream, by the stream's number.
    events: HashMap<u64, u64>,
    /// The program's non-blocking streams. Each exists on the worker as long as it is in this set.
    apart: BTreeSet<u64>,
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

impl Runtime {
    /// Called after a host-to-device copy was posted to `at`, and before the call returns.
    pub fn copy_made(&self, at: StreamRef) -> Status {
        let is_null = at.id == u64::from(self.devices[at.device].ordinal);
        // Streams of other devices do not wait for this one's, and other streams do not wait for a stream of the program.
        if is_null && self.devices.len() == 1 {
            let mut state = self.fences.0.lock();
            if state.apart.len() <= MOST_TOLD {
                let event = self.fence(&mut state, at)?;
                let wait = |&stream: &u64| self.post(&wire::WaitEvent { stream, event }, &[]);
                return state.apart.iter().try_for_each(wait);
            }
        }
        self.call(&wire::SynchronizeStream { stream: at.id }).map(|_| ())
    }

    /// Makes a new non-blocking stream wait for the copies made before it.
    pub fn wait_for_copies(&self, stream: u64) -> Status {
        let mut state = self.fences.0.lock();
        state.apart.insert(stream);
        state.events.values().try_for_each(|&event| self.post(&wire::WaitEvent { stream, event }, &[]))
    }

    /// Records the event of a null stream after the work queued so far.
    fn fence(&self, state: &mut State, at: StreamRef) -> Result<u64, hipError_t> {
        let event = match state.events.get(&at.id) {
            Some(event) => *event,
            None => {
                let flags = hipEventDisableTiming;
                let make = |id| Event {
                    id,
                    device: at.device,
                    flags,
                    recorded: AtomicBool::new(false),
                    mark: Arc::new(ProgressMark::default()),
                };
                let (event, _) = self.events.insert_with(make).ok_or(hipErrorOutOfMemory)?;
                let device = self.devices[at.device].ordinal;
                self.post(&wire::CreateEvent { event, device, flags }, &[])?;
                state.events.insert(at.id, event);
                event
            }
        };
        self.post(&wire::RecordEvent { event, stream: at.id }, &[])?;
        Ok(event)
    }
}
