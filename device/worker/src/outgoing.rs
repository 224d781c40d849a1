//! What a session sends to its client: frames, and the changes and spans that precede them.

pub(crate) mod device_events;
pub(crate) mod mirrors;
pub(crate) mod outbox;
pub(crate) mod spans;
pub(crate) mod watches;

use std::sync::Arc;

use backend::Device;
use wire::MAX_DELIVER_PIECE;

use mirrors::Mirrors;
use outbox::Outbox;
use spans::Spans;

/// The sending half of a session.
pub(crate) struct Outgoing {
    pub(crate) outbox: Outbox,
    /// Memory that is mirrored on the client.
    pub(crate) mirrors: Mirrors,
    /// Execution spans of streams, for a client that records them.
    pub(crate) spans: Spans,
    pub(crate) device: Arc<dyn Device>,
}

impl Outgoing {
    /// Must be called by the thread that will read the connection.
    pub(crate) fn new(device: Arc<dyn Device>) -> Outgoing {
        Outgoing {
            outbox: Outbox::new(Arc::clone(&device)),
            mirrors: Mirrors::default(),
            spans: Spans::default(),
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
