//! How much may be queued on a stream before whoever queues more has to wait.
//!
//! The worker takes what comes without waiting for the device, so somebody else has to stop a thread that posts faster than its
//! stream works. Here that thread alone is stopped, as on a machine whose queue is full; were it the worker that stopped
//! reading, every thread of the session would wait with it. Every so often a mark goes along with the work. A thread that
//! comes to the next one while the mark before the last is not reached waits for that. Marks are told of by the worker, so a
//! stream that keeps up costs no round trip.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use hip_api::types::hipEventDisableTiming;
use parking_lot::Mutex;

use crate::progress::{Mark, Standing, Watched};
use crate::runtime::{Event, Runtime};
use crate::thread;

/// Commands between two marks. Three times as many are the most that one stream can have queued.
const INTERVAL: u32 = 1 << 14;
const MARKS: usize = 3;

/// What one stream has used.
#[derive(Debug, Default)]
pub struct Credit {
    used: AtomicU32,
    /// The marks, used in turn, once the first interval is over.
    marks: Mutex<Marks>,
}

#[derive(Debug, Default)]
struct Marks {
    events: Vec<Arc<Event>>,
    next: usize,
}

impl Credit {
    /// One more command is about to be queued on stream `id`.
    #[inline]
    pub fn use_one(&self, runtime: &Runtime, id: u64, device: usize) {
        let used = self.used.fetch_add(1, Ordering::Relaxed);
        if used % INTERVAL == INTERVAL - 1 {
            self.mark(runtime, id, device);
        }
    }

    /// Sends a mark and waits for the one before the last. What fails here fails again where it is reported.
    #[cold]
    fn mark(&self, runtime: &Runtime, id: u64, device: usize) {
        // A thread that a stream waits for must not wait for a stream.
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
        if oldest.mark.standing() == Standing::Pending {
            runtime.connection.take_news();
        }
        if oldest.mark.standing() == Standing::Pending {
            // Asked of the connection itself: failures of what was posted are for a call of the program.
            let _ = runtime.connection.call(&wire::SynchronizeEvent { event: oldest.id }, cause);
        }
    }

    /// The device was reset: the marks are gone already.
    pub fn reset(&self, runtime: &Runtime) {
        for event in self.marks.lock().events.drain(..) {
            runtime.connection.progress().forget(Watched::Event(event.id));
        }
    }

    /// The stream is gone.
    pub fn forget(&self, runtime: &Runtime) {
        for event in self.marks.lock().events.drain(..) {
            runtime.events.remove(event.id);
            runtime.connection.progress().forget(Watched::Event(event.id));
            let gone = wire::DestroyEvent { event: event.id };
            let _ = runtime.connection.post(&gone, &[], thread::current_call());
        }
    }
}

fn new_mark(runtime: &Runtime, device: usize) -> Option<Arc<Event>> {
    let flags = hipEventDisableTiming;
    let recorded = AtomicBool::new(false);
    let mark = Arc::new(Mark::default());
    let (id, event) = runtime.events.insert_with(|id| Event { id, device, flags, recorded, mark })?;
    runtime.connection.progress().attach(Watched::Event(id), &event.mark);
    let made = wire::CreateEvent { event: id, device: runtime.devices[device].ordinal, flags };
    runtime.connection.post(&made, &[], thread::current_call()).ok()?;
    Some(event)
}
