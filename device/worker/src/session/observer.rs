//! Serves the observer of a session: a second client that measures the session's work. The session's program cannot influence it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use backend::{Counters, Scope};
use transport::{Link, greet};
use wire::{MAX_HANDSHAKE_BYTES, Measure, Measured, RejectCode};

use crate::session::shared::Shared;

/// Longest pause between two looks at the devices. The first ones are shorter: most measurements end at once.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);
const SHORTEST_PAUSE: Duration = Duration::from_micros(20);

impl Shared {
    /// Serves an observer on a thread, until it closes its link.
    pub(super) fn observe(self: &Arc<Shared>, link: Link) {
        if self.observed.swap(true, Ordering::AcqRel) {
            let _ = greet::send(&link, &RejectCode::Failed.reject("the session has another observer"));
            return;
        }
        let shared = Arc::clone(self);
        let serve = move || {
            let _ = shared.serve_observer(&link);
            shared.stop_measuring();
            shared.observed.store(false, Ordering::Release);
        };
        if std::thread::Builder::new().name("observer".to_owned()).spawn(serve).is_err() {
            self.observed.store(false, Ordering::Release);
        }
    }

    fn serve_observer(&self, link: &Link) -> Result<(), transport::TransportError> {
        greet::send(link, &wire::Done { session: self.facts.session_id })?;
        loop {
            let request: Measure = greet::expect(link, MAX_HANDSHAKE_BYTES)?;
            let measured = match request.start {
                true => self.start_measuring(request.count),
                false => self.measured(&request),
            };
            greet::send(link, &measured)?;
        }
    }

    fn start_measuring(&self, count: bool) -> Measured {
        self.stop_measuring();
        self.outgoing.observation.turn(true);
        self.outgoing.record_spans();
        if count {
            for device in 0..self.device.info().len() as u32 {
                // Not every back end can count.
                let _ = self.device.begin_counting(device);
            }
        }
        Measured { requests: self.handled(), ..Measured::default() }
    }

    /// Waits until the session has done its work, and returns what that was.
    fn measured(&self, request: &Measure) -> Measured {
        let start = Instant::now();
        let patience = Duration::from_millis(request.patience_ms.into());
        let is_idle = loop {
            // In this order: a request that was handled has queued its work.
            let handled = self.handled() >= request.requests;
            // A fault ends all work.
            if handled && self.device.query(Scope::Everything).unwrap_or(true) {
                break true;
            }
            let elapsed = start.elapsed();
            if elapsed >= patience {
                break false;
            }
            std::thread::sleep((elapsed / 8).clamp(SHORTEST_PAUSE, LONGEST_PAUSE));
        };
        if self.outgoing.observation.is_on() {
            // Back ends that learn times late report the rest now.
            self.device.record_spans(false);
        }
        let totals = self.outgoing.observation.totals();
        let counters = self.stop_measuring();
        let spans = &self.outgoing.spans;
        let (begin, end) =
            totals.extent.map_or((0, 0), |(begin, end)| (spans.nanoseconds(begin), spans.nanoseconds(end)));
        Measured {
            is_idle,
            requests: self.handled(),
            begin,
            end,
            kernels: totals.kernels,
            copied: totals.copied,
            filled: totals.filled,
            written: totals.written,
            read: totals.read,
            lost: totals.lost,
            counters,
        }
    }

    /// Ends a measurement. Returns the counters of all devices together.
    fn stop_measuring(&self) -> Vec<u64> {
        if !self.outgoing.observation.is_on() {
            return Vec::new();
        }
        let mut joined: Option<Counters> = None;
        for device in 0..self.device.info().len() as u32 {
            if let Ok(counters) = self.device.end_counting(device) {
                joined.get_or_insert_default().join(&counters);
            }
        }
        self.outgoing.observation.turn(false);
        self.outgoing.record_spans();
        joined.map_or_else(Vec::new, |counters| counters.numbers())
    }

    /// Number of requests that were handled since the session began.
    fn handled(&self) -> u64 {
        self.counters.requests.load(Ordering::Acquire)
    }
}
