//! Events of the device, forwarded to the client: failures, host functions, spans, kernel output.

use std::sync::{Arc, Weak};

use backend::{DeviceError, Notifier, Span, Tag};
use wire::MAX_DELIVER_PIECE;

use crate::outgoing::Outgoing;
use crate::outgoing::watches::Watches;

/// The characters of a kernel's name that are sent for a progress report; this push does not wait for space.
const LONGEST_NAME: usize = 200;

/// Forwards events from the device's threads to the client. Holds the sending half weakly, because that holds the device.
pub(crate) struct DeviceEvents {
    outgoing: Weak<Outgoing>,
    watches: Weak<Watches>,
}

impl Notifier for DeviceEvents {
    fn failed(&self, tag: Tag, error: &DeviceError) {
        tracing::debug!(request = tag as u32, "command failed: {error}");
        if let Some(outgoing) = self.outgoing.upgrade() {
            outgoing.outbox.late_error(tag as u32, (tag >> 32) as u16, error);
        }
    }

    fn host_function(&self, token: u64, status: Result<(), DeviceError>) {
        if let Some(watches) = self.watches.upgrade() {
            watches.sweep();
        }
        let status = status.err().map_or(0, |error| error.code.0 as i32);
        if let Some(outgoing) = self.outgoing.upgrade() {
            // The host function may read memory that earlier work changed.
            outgoing.tell_changes();
            outgoing.outbox.push(&wire::Callback { token, status }, &[]);
        }
    }

    fn translating(&self, kernel: Option<&str>) {
        if let Some(outgoing) = self.outgoing.upgrade() {
            let kernel = kernel.unwrap_or_default().chars().take(LONGEST_NAME).collect();
            outgoing.outbox.push_at_once(&wire::Translating { kernel }, &[]);
        }
    }

    fn spent(&self, span: &Span) {
        let Some(outgoing) = self.outgoing.upgrade() else { return };
        outgoing.observation.add(span);
        if outgoing.spans.is_on() && outgoing.spans.add(span) {
            outgoing.spans.tell(&outgoing.outbox);
        }
    }

    fn span_lost(&self) {
        if let Some(outgoing) = self.outgoing.upgrade() {
            outgoing.observation.lose();
            outgoing.spans.lose();
        }
    }

    fn output(&self, text: &[u8]) {
        self.print(libc::STDOUT_FILENO as u32, text);
    }

    fn error_output(&self, text: &[u8]) {
        self.print(libc::STDERR_FILENO as u32, text);
    }
}

impl DeviceEvents {
    pub(crate) fn new(outgoing: &Arc<Outgoing>, watches: &Arc<Watches>) -> DeviceEvents {
        DeviceEvents { outgoing: Arc::downgrade(outgoing), watches: Arc::downgrade(watches) }
    }

    fn print(&self, fd: u32, text: &[u8]) {
        let Some(outgoing) = self.outgoing.upgrade() else { return };
        for piece in text.chunks(MAX_DELIVER_PIECE as usize) {
            outgoing.outbox.push(&wire::Output { fd }, piece);
        }
    }
}
