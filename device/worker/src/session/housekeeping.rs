//! The housekeeping thread of a session: acknowledgements, heartbeats, load, and clients that have gone.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use transport::{Link, Transport};

use crate::session::shared::Shared;
use crate::session_report::SessionReport;

/// Period of the housekeeping thread.
const TICK: Duration = Duration::from_millis(50);
/// Ticks between two load measurements.
const LOAD_TICKS: u32 = 20;
/// Ticks between two heartbeats while the worker is busy with one frame.
const BEAT_TICKS: u32 = 3;

impl Shared {
    /// The housekeeping thread: acknowledges requests when no reply has done so, and measures device load.
    pub(super) fn run_housekeeping(&self) {
        let devices = self.device.info().len() as u32;
        let mut before: Vec<u64> = vec![0; devices as usize];
        let mut measured = Instant::now();
        let mut seen = 0;
        let mut alone = None;
        let mut beaten = Beaten::default();
        for tick in 0u32.. {
            std::thread::sleep(TICK);
            // Before anything that may block on the socket.
            self.outgoing.outbox.send_due_pong();
            if tick % BEAT_TICKS == 0 {
                self.beat(&mut beaten);
            }
            let received = self.outgoing.outbox.received();
            // A full queue behind work that never ends blocks the reader, which then never sees that its client has closed the
            // connection.
            let is_alone = received == seen && self.is_alone();
            alone = is_alone.then(|| alone.unwrap_or_else(Instant::now));
            if alone.is_some_and(|since: Instant| since.elapsed() >= self.facts.grace_closed)
                && self.supervision.extension(self.facts.grace_lost).is_none()
            {
                self.end("its client disconnected while its work was still running");
            }
            if received == seen {
                // Nothing arrived for a whole tick: the client is idle and can free the frames it keeps.
                self.outgoing.outbox.acknowledge();
            }
            seen = received;
            self.outgoing.spans.tell(&self.outgoing.outbox);
            if tick % LOAD_TICKS == 0 {
                let elapsed = measured.elapsed().as_nanos().max(1) as f32;
                measured = Instant::now();
                let now: Vec<u64> = (0..devices).map(|device| self.device.busy_ns(device)).collect();
                let load = now.iter().zip(&before).map(|(now, before)| {
                    (now.saturating_sub(*before) as f32 / elapsed * 100.0).clamp(0.0, 100.0)
                });
                *self.counters.loads.lock() = load.collect();
                before = now;
            }
        }
    }

    /// Returns the session's numbers for the worker's status.
    pub(super) fn report(&self) -> SessionReport {
        let devices = 0..self.device.info().len() as u32;
        SessionReport {
            memory_used: devices.map(|at| self.device.memory(at).map_or(0, |memory| memory.used)).collect(),
            load_percent: self.counters.loads.lock().clone(),
            connected: self.outgoing.outbox.is_connected(),
            in_shared_memory: self
                .connection
                .reading
                .lock()
                .as_ref()
                .is_some_and(|link| link.transport() == Transport::SharedMemory),
            requests: self.counters.requests.load(Ordering::Relaxed),
            round_trips: self.counters.round_trips.load(Ordering::Relaxed),
            bytes_received: self.counters.bytes_received.load(Ordering::Relaxed),
            bytes_sent: self.outgoing.outbox.sent(),
        }
    }

    /// Sends a heartbeat while a frame takes long to receive or handle: a large body over a slow network, or work that waits for
    /// room in a queue. The client's Pings are stuck behind that frame, and the client would take the silence for a dead link.
    fn beat(&self, before: &mut Beaten) {
        let requests = self.outgoing.outbox.received();
        let same_frame = std::mem::replace(&mut before.requests, requests) == requests;
        if self.connection.activity.is_busy(&mut before.bytes)
            && same_frame
            && self.connection.wants_beats.load(Ordering::Relaxed)
            && self.connection.reading.lock().is_some()
        {
            self.outgoing.outbox.pong();
        }
    }

    /// Whether the client closed its end while its requests are still being read, and no other connection has arrived since.
    fn is_alone(&self) -> bool {
        let ended = self.connection.reading.lock().as_ref().is_some_and(Link::has_ended);
        let pending = self.connection.pending.lock();
        ended
            && pending.attachment.is_none()
            && pending.departure.is_none()
            && !self.ending.load(Ordering::Relaxed)
    }
}

/// Receive counters at the housekeeping thread's last heartbeat check.
#[derive(Default)]
struct Beaten {
    requests: u64,
    bytes: u64,
}
