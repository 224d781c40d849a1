//! Stops a thread that posts faster than its stream executes, see [`credit`](super::credit).

use std::sync::Arc;

use hip_api::types::hipEventDisableTiming;
use session::progress::{Completion, WatchTarget};

use super::credit::Credit;
use super::objects::Event;
use super::runtime::Runtime;
use super::stream::StreamRef;
use super::thread;

const MARKERS: usize = 3;

impl Runtime {
    /// Counts one more command about to be queued on a stream.
    #[inline]
    pub fn use_credit(&self, credit: &Credit, at: StreamRef) {
        if credit.count() {
            self.mark(credit, at);
        }
    }

    /// Records a marker and waits for the one before the previous. A failure here recurs in a call that reports it.
    #[cold]
    fn mark(&self, credit: &Credit, at: StreamRef) {
        // Waiting here would deadlock a host function: its stream waits for this thread.
        if thread::holds_stream() {
            return;
        }
        let cause = thread::current_call();
        let mut markers = credit.markers.lock();
        if markers.events.is_empty() {
            markers.events = (0..MARKERS).filter_map(|_| self.new_marker(at.device)).collect();
        }
        let number = markers.events.len();
        if number < MARKERS {
            return;
        }
        let event = &markers.events[markers.recorded % number];
        let stamp = event.mark.advance();
        event.mark.watch(stamp);
        let record = wire::RecordWatched { event: event.id, stream: at.id, stamp };
        if self.connection.post(&record, &[], cause).is_err() {
            return;
        }
        markers.recorded += 1;
        let oldest = Arc::clone(&markers.events[markers.recorded % number]);
        let was_sent = markers.recorded >= number;
        drop(markers);
        if !was_sent {
            return;
        }
        if oldest.mark.completion() == Completion::Pending {
            self.connection.read_available();
        }
        if oldest.mark.completion() == Completion::Pending {
            // Calls the connection directly: errors of posted requests must be reported by a HIP call of the program.
            let _ = self.connection.call(&wire::SynchronizeEvent { event: oldest.id }, cause);
        }
    }

    /// Forgets the markers after a device reset, which has already destroyed them.
    pub fn reset_credit(&self, credit: &Credit) {
        for event in credit.markers.lock().events.drain(..) {
            self.connection.progress().forget(WatchTarget::Event(event.id));
        }
    }

    /// Destroys the markers of a destroyed stream.
    pub fn forget_credit(&self, credit: &Credit) {
        for event in credit.markers.lock().events.drain(..) {
            self.tables.events.remove(event.id);
            self.connection.progress().forget(WatchTarget::Event(event.id));
            let gone = wire::DestroyEvent { event: event.id };
            let _ = self.connection.post(&gone, &[], thread::current_call());
        }
    }

    fn new_marker(&self, device: usize) -> Option<Arc<Event>> {
        let flags = hipEventDisableTiming;
        let (id, event) = self.tables.events.insert_with(|id| Event::new(id, device, flags))?;
        self.connection.progress().attach(WatchTarget::Event(id), &event.mark);
        let made = wire::CreateEvent { event: id, device: self.devices[device].ordinal, flags };
        self.connection.post(&made, &[], thread::current_call()).ok()?;
        Some(event)
    }
}
