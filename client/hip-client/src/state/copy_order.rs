//! Orders posted host-to-device copies before work on non-blocking streams.
//!
//! HIP's synchronous copy returns when the copy is done. Here the bytes may still be in flight when the call returns; the
//! program cannot observe this as long as all later work waits for them. Non-blocking streams do not wait for the null
//! stream, so existing and later-created ones are made to wait for an event recorded after the copy. The client itself
//! does not wait.

use hip_api::types::*;

use super::Status;
use super::fence::FenceState;
use super::objects::Event;
use super::runtime::Runtime;
use super::stream::StreamRef;

/// With more non-blocking streams than this, waiting for the copy is cheaper than posting a wait to each of them.
const MOST_TOLD: usize = 32;

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
    fn fence(&self, state: &mut FenceState, at: StreamRef) -> Result<u64, hipError_t> {
        let event = match state.events.get(&at.id) {
            Some(event) => *event,
            None => {
                let flags = hipEventDisableTiming;
                let make = |id| Event::new(id, at.device, flags);
                let (event, _) = self.tables.events.insert_with(make).ok_or(hipErrorOutOfMemory)?;
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
