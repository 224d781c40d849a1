//! Backpressure: limits how many commands one stream may have queued.
//!
//! The worker accepts commands without waiting for the device, so the client has to stop a thread that posts faster than
//! its stream executes. Only that thread is stopped, as on a local GPU whose queue is full; if the worker stopped reading
//! instead, every thread of the session would wait. A marker event is recorded after every `INTERVAL` commands. A thread
//! that records the next marker waits if the marker before the previous one is not reached. The worker pushes
//! notifications of reached markers, so a stream that keeps up costs no round trips.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use hip_api::types::hipEventDisableTiming;
use parking_lot::Mutex;

use crate::state::runtime::{Event, Runtime};
use crate::state::thread;
use session::progress::{Completion, ProgressMark, WatchTarget};

/// Commands between two markers. One stream can have at most three times as many queued.
const INTERVAL: u32 = 1 << 14;
const MARKS: usize = 3;

/// Command counter and markers of one stream.
#[derive(Debug, Default)]
pub struct Credit {
    used: AtomicU32,
    /// The marker events, used round-robin; created at the end of the first interval.
    marks: Mutex<Marks>,
}

#[derive(Debug, Default)]
struct Marks {
    events: Vec<Arc<Event>>,
    next: usize,
}

impl Credit {
    /// Counts one more command about to be queued on stream `id`.
    #[inline]
    pub fn use_one(&self, runtime: &Runtime, id: u64, device: usize) {
        let used = self.used.fetch_add(1, Ordering::Relaxed);
        if used % INTERVAL == INTERVAL - 1 {
            self.mark(runtime, id, device);
        }
    }

    /// Records a marker and waits for the one before the previous. A failure here recurs in a call that reports it.
    #[cold]
    fn mark(&self, runtime: &Runtime, id: u64, device: usize) {
        // Waiting here would deadlock a host function: its stream waits for this thread.
        if thread::holds_stream() {
            return;
        }
        let cause = thread::current_call();
        let mut marks = self.marks.lock();
        if marks.events.is_empty() {
            marks.events = (0..MARKS).filter_map(|_| new_mark(runtime, device)).collect();
        }
        let number = marks.events.len();
        if number < MARKS {
            return;
        }
        let event = &marks.events[marks.next % number];
        let stamp = event.mark.advance();
        event.mark.watch(stamp);
        let record = wire::RecordWatched { event: event.id, stream: id, stamp };
        if runtime.connection.post(&record, &[], cause).is_err() {
            return;
        }
        marks.next += 1;
        let oldest = Arc::clone(&marks.events[marks.next % number]);
        let was_sent = marks.next >= number;
        drop(marks);
        if !was_sent {
            return;
        }
        if oldest.mark.completion() == Completion::Pending {
            runtime.connection.read_available();
        }
        if oldest.mark.completion() == Completion::Pending {
            // Calls the connection directly: errors of posted requests must be reported by a HIP call of the program.
            let _ = runtime.connection.call(&wire::SynchronizeEvent { event: oldest.id }, cause);
        }
    }

    /// Forgets the markers after a device reset, which has already destroyed them.
    pub fn reset(&self, runtime: &Runtime) {
        for event in self.marks.lock().events.drain(..) {
            runtime.connection.progress().forget(WatchTarget::Event(event.id));
        }
    }

    /// Destroys the markers of a destroyed stream.
    pub fn forget(&self, runtime: &Runtime) {
        for event in self.marks.lock().events.drain(..) {
            runtime.events.remove(event.id);
            runtime.connection.progress().forget(WatchTarget::Event(event.id));
            let gone = wire::DestroyEvent { event: event.id };
            let _ = runtime.connection.post(&gone, &[], thread::current_call());
        }
    }
}

fn new_mark(runtime: &Runtime, device: usize) -> Option<Arc<Event>> {
    let flags = hipEventDisableTiming;
    let recorded = AtomicBool::new(false);
    let mark = Arc::new(ProgressMark::default());
    let (id, event) = runtime.events.insert_with(|id| Event { id, device, flags, recorded, mark })?;
    runtime.connection.progress().attach(WatchTarget::Event(id), &event.mark);
    let made = wire::CreateEvent { event: id, device: runtime.devices[device].ordinal, flags };
    runtime.connection.post(&made, &[], thread::current_call()).ok()?;
    Some(event)
}
