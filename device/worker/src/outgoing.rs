//! What a session sends to its client: frames, and the changes and spans that precede them.

pub(crate) mod device_events;
pub(crate) mod mirrors;
pub(crate) mod observation;
pub(crate) mod outbox;
pub(crate) mod spans;
pub(crate) mod watches;

use std::sync::Arc;
use std::time::Instant;

use backend::{Device, Span, StreamId, Tag, Task};
use wire::MAX_DELIVER_PIECE;

use mirrors::Mirrors;
use observation::Observation;
use outbox::Outbox;
use spans::Spans;

/// The sending half of a session.
pub(crate) struct Outgoing {
    pub(crate) outbox: Outbox,
    /// Memory that is mirrored on the client.
    pub(crate) mirrors: Mirrors,
    /// Execution spans of streams, for a client that records them.
    pub(crate) spans: Spans,
    /// The work of the session, for an observer.
    pub(crate) observation: Observation,
    pub(crate) device: Arc<dyn Device>,
}

impl Outgoing {
    /// Must be called by the thread that will read the connection.
    pub(crate) fn new(device: Arc<dyn Device>) -> Outgoing {
        Outgoing {
            outbox: Outbox::new(Arc::clone(&device)),
            mirrors: Mirrors::default(),
            spans: Spans::default(),
            observation: Observation::default(),
            device,
        }
    }

    /// Sends changed mirrors and spans. Call this before the client is notified that work has ended: it must have the memory that
    /// work changed.
    pub(crate) fn tell_changes(&self) {
        self.mirrors.tell(&*self.device, &self.outbox);
        self.spans.tell(&self.outbox);
    }

    /// Sends the whole content of mirrors, for a client that has replayed the session.
    pub(crate) fn report_mirrors(&self) {
        self.mirrors.report(&*self.device, &self.outbox);
    }

    /// Whether the client or an observer needs the times of commands.
    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        self.spans.is_on() || self.observation.is_on()
    }

    /// Adds a write that the worker did itself, see `Device::direct`.
    pub(crate) fn wrote(&self, stream: StreamId, tag: Tag, bytes: u64, time: [Instant; 2]) {
        let [begin, end] = time;
        let device = self.spans.device_of(stream);
        let span = Span { stream, device, tag, task: Task::Write { bytes }, begin, end };
        self.observation.add(&span);
        if self.spans.is_on() {
            self.spans.add(&span);
        }
    }

    /// Records spans on the device if the client or an observer needs them.
    pub(crate) fn record_spans(&self) {
        self.device.record_spans(self.is_timed());
    }

    /// Stops recording spans and sends the remaining ones, when the session ends.
    pub(crate) fn last_spans(&self) {
        if self.spans.is_on() {
            self.device.record_spans(false);
            self.spans.tell(&self.outbox);
        }
    }
}

/// Sends a snapshot of memory in pieces. An empty one is sent as one empty piece.
pub(crate) fn deliver(outbox: &Outbox, token: u64, bytes: &[u8]) {
    let mut offset = 0;
    loop {
        let piece = &bytes[offset..bytes.len().min(offset + MAX_DELIVER_PIECE as usize)];
        outbox.push(&wire::Deliver { token, offset: offset as u64 }, piece);
        offset += piece.len();
        if offset >= bytes.len() {
            return;
        }
    }
}
