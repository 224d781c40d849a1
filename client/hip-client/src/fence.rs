//! When a copy from the host counts as made.
//!
//! HIP returns from such a copy when it is done. Here the bytes may still be on their way when the call returns, which nobody can
//! tell as long as all other work waits for them. Streams that wait for no other would not: if there are any, the copy is
//! waited for, and one that is created later waits for the copies before it by an event.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hip_api::types::*;
use parking_lot::Mutex;

use crate::calls::Status;
use crate::calls::stream::StreamRef;
use crate::progress::Mark;
use crate::runtime::{Event, Runtime};

/// The event behind the last copy on a null stream, by the stream's number.
#[derive(Debug, Default)]
pub struct Fences(Mutex<HashMap<u64, u64>>);

impl Fences {
    /// The events of a device are gone, and so is what they stood for.
    pub fn forget(&self, null_stream: u64) {
        self.0.lock().remove(&null_stream);
    }
}

impl Runtime {
    /// Called after a copy from the host was posted to `at`, and before the program goes on.
    pub fn copy_made(&self, at: StreamRef) -> Status {
        if self.all_wait_for(at) {
            self.fence(at)?;
            // A stream that was created meanwhile may have looked for the event before it was there.
            if self.all_wait_for(at) {
                return Ok(());
            }
        }
        self.call(&wire::SynchronizeStream { stream: at.id }).map(|_| ())
    }

    /// Has a new stream wait for the copies that were made before it.
    pub fn wait_for_copies(&self, stream: u64) -> Status {
        let fences = self.fences.0.lock();
        fences.values().try_for_each(|&event| self.post(&wire::WaitEvent { stream, event }, &[]))
    }

    /// Whether work on any stream waits for what is before it on this one.
    fn all_wait_for(&self, at: StreamRef) -> bool {
        let is_null = at.id == u64::from(self.devices[at.device].ordinal);
        let apart = |stream: &crate::runtime::Stream| stream.flags & hipStreamNonBlocking != 0;
        is_null && self.devices.len() == 1 && self.streams.find(apart).is_none()
    }

    fn fence(&self, at: StreamRef) -> Status {
        let mut fences = self.fences.0.lock();
        let event = match fences.get(&at.id) {
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
                fences.insert(at.id, event);
                event
            }
        };
        self.post(&wire::RecordEvent { event, stream: at.id }, &[])
    }
}
