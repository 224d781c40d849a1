//! Execution spans of streams, for a client that records them: collected on the device's threads, pushed in batches.
//!
//! Costs one relaxed load per completed command while recording is off. Never blocks and never grows beyond a limit: spans that a
//! client does not take are dropped and counted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use backend::{FunctionId, Span, StreamId, Task};
use parking_lot::Mutex;
use wire::span_kind;

use crate::outgoing::outbox::Outbox;

/// Batch size that is pushed at once.
const BATCH: usize = 256;
/// Limit on spans collected while the client takes none.
const MOST: usize = 1 << 14;
/// Limit on function names kept, and on the characters of a name that are sent.
const MOST_NAMES: usize = 1 << 18;
const NAME_LETTERS: usize = 512;

pub(crate) struct Spans {
    on: AtomicBool,
    origin: Instant,
    /// Clock value at the origin.
    elapsed_before: AtomicU64,
    gathered: Mutex<Gathered>,
}

#[derive(Default)]
struct Gathered {
    spans: Vec<wire::Span>,
    lost: u64,
    /// How many of the lost spans have been reported to the client.
    told_lost: u64,
    /// Names of functions that have not been sent yet.
    names: HashMap<FunctionId, String>,
    telling: Vec<(FunctionId, String)>,
    /// Devices of streams.
    devices: HashMap<StreamId, u32>,
}

impl Default for Spans {
    fn default() -> Spans {
        Spans {
            on: AtomicBool::new(false),
            origin: Instant::now(),
            elapsed_before: AtomicU64::new(0),
            gathered: Mutex::default(),
        }
    }
}

impl Spans {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    pub(crate) fn turn(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// Returns the current time of the clock that spans are reported in.
    pub(crate) fn clock(&self) -> u64 {
        self.nanoseconds(Instant::now())
    }

    pub(crate) fn nanoseconds(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.origin).as_nanos() as u64;
        since.saturating_add(self.elapsed_before.load(Ordering::Relaxed))
    }

    /// Continues the clock of another process.
    pub(crate) fn resume_clock(&self, nanoseconds: u64) {
        self.elapsed_before.store(nanoseconds, Ordering::Relaxed);
    }

    /// Registers a function.
    pub(crate) fn name(&self, function: FunctionId, name: &str) {
        if !self.is_on() {
            return;
        }
        let mut gathered = self.gathered.lock();
        if gathered.names.len() < MOST_NAMES {
            gathered.names.insert(function, name.chars().take(NAME_LETTERS).collect());
        }
    }

    /// Registers a stream.
    pub(crate) fn stream(&self, stream: StreamId, device: u32) {
        if self.is_on() {
            self.gathered.lock().devices.insert(stream, device);
        }
    }

    pub(crate) fn stream_gone(&self, stream: StreamId) {
        if self.is_on() {
            self.gathered.lock().devices.remove(&stream);
        }
    }

    /// Adds a span. Returns whether there are enough for a batch.
    pub(crate) fn add(&self, span: &Span) -> bool {
        let (kind, amount, function) = match span.task {
            Task::Kernel { function, work_items } => (span_kind::KERNEL, work_items, function),
            Task::Copy { bytes } => (span_kind::COPY, bytes, 0),
            Task::Fill { bytes } => (span_kind::FILL, bytes, 0),
            Task::Write { bytes } => (span_kind::WRITE, bytes, 0),
            Task::Read { bytes } => (span_kind::READ, bytes, 0),
        };
        let begin = self.nanoseconds(span.begin);
        let span = wire::Span {
            stream: span.stream,
            device: span.device,
            kind,
            request_id: span.tag as u32,
            begin,
            end: self.nanoseconds(span.end).max(begin),
            amount,
            function,
        };
        let mut gathered = self.gathered.lock();
        if gathered.spans.len() >= MOST {
            gathered.lost += 1;
            return false;
        }
        if let Some(name) = gathered.names.remove(&function) {
            gathered.telling.push((function, name));
        }
        gathered.spans.push(span);
        gathered.spans.len() >= BATCH
    }

    /// Counts work of which no span could be recorded.
    pub(crate) fn lose(&self) {
        self.gathered.lock().lost += 1;
    }

    /// Device of a stream. The null stream of a device has the device's number.
    pub(crate) fn device_of(&self, stream: StreamId) -> u32 {
        self.gathered.lock().devices.get(&stream).copied().unwrap_or(stream as u32)
    }

    /// Pushes the collected spans, if there is window space.
    pub(crate) fn tell(&self, outbox: &Outbox) {
        if !self.is_on() {
            return;
        }
        // Locked while pushing: batches must be sent in the order of their contents.
        let mut gathered = self.gathered.lock();
        if gathered.spans.is_empty() && gathered.lost == gathered.told_lost || !outbox.has_room() {
            return;
        }
        gathered.told_lost = gathered.lost;
        let spans = std::mem::take(&mut gathered.spans);
        let functions = std::mem::take(&mut gathered.telling);
        outbox.push_at_once(&wire::Spans { lost: gathered.lost, functions, spans }, &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(function: FunctionId, at: Instant) -> Span {
        let task = Task::Kernel { function, work_items: 64 };
        Span { stream: 7, device: 1, tag: 5 | 9 << 32, task, begin: at, end: at }
    }

    #[test]
    fn a_name_is_told_with_the_first_span_of_its_function() {
        let spans = Spans::default();
        spans.name(3, "before anyone asked");
        spans.turn(true);
        spans.name(4, "kernel");
        let now = Instant::now();
        assert!(!spans.add(&kernel(3, now)) && !spans.add(&kernel(4, now)) && !spans.add(&kernel(4, now)));
        let gathered = spans.gathered.lock();
        assert_eq!(gathered.telling, [(4, "kernel".to_owned())]);
        assert_eq!(gathered.spans.len(), 3);
        assert_eq!((gathered.spans[0].request_id, gathered.spans[0].amount), (5, 64));
    }

    #[test]
    fn what_is_not_taken_is_dropped_and_counted() {
        let spans = Spans::default();
        spans.turn(true);
        let now = Instant::now();
        for _ in 0..MOST + 10 {
            spans.add(&kernel(1, now));
        }
        let gathered = spans.gathered.lock();
        assert_eq!((gathered.spans.len(), gathered.lost), (MOST, 10));
    }
}
