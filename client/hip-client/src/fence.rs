//! When a copy from the host counts as made.
//!
//! HIP returns from such a copy when it is done. Here the bytes may still be on their way when the call returns, which nobody can
//! tell as long as all other work waits for them. Streams that wait for no other do not by themselves: they are made to, by an event
//! behind the copy, whether they are there already or are created later. So nothing is waited for here.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hip_api::types::*;
use parking_lot::Mutex;

use crate::calls::Status;
use crate::calls::stream::StreamRef;
use crate::progress::Mark;
use crate::runtime::{Event, Runtime};

/// With more streams apart than this, waiting for the copy costs less than telling all of them.
const MOST_TOLD: usize = 32;

/// What orders copies before the work of streams that wait for no other.
#[derive(Debug, Default)]
pub struct Fences(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The event behind the last copy on a null stream, by the stream's number.
    events: HashMap<u64, u64>,
    /// The program's streams that wait for no other. The worker knows each of them as long as it is here.
    apart: BTreeSet<u64>,
}

impl Fences {
    /// A stream is about to be destroyed.
    pub fn leave(&self, stream: u64) {
        self.0.lock().apart.remove(&stream);
    }

    /// The events and streams of a device are gone, and so is what they stood for.
    pub fn forget(&self, null_stream: u64, is_there: impl Fn(u64) -> bool) {
        let mut state = self.0.lock();
        state.events.remove(&null_stream);
        state.apart.retain(|stream| is_there(*stream));
    }
}

impl Runtime {
    /// Called after a copy from the host was posted to `at`, and before the program goes on.
    pub fn copy_made(&self, at: StreamRef) -> Status {
        let is_null = at.id == u64::from(self.devices[at.device].ordinal);
        // Streams of other devices wait for none of this one's, and those beside a stream of the program's do not either.
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

    /// Has a new stream of the program, which waits for no other, wait for the copies that were made before it.
    pub fn wait_for_copies(&self, stream: u64) -> Status {
        let mut state = self.fences.0.lock();
        state.apart.insert(stream);
        state.events.values().try_for_each(|&event| self.post(&wire::WaitEvent { stream, event }, &[]))
    }

    /// Puts the event of a null stream behind what is there now.
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
                    mark: Arc::new(Mark::default()),
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
