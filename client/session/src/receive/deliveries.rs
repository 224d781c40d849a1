//! Bytes that were requested in advance and arrive by token.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::pending::Destination;

/// Destinations of bytes requested in advance, by token.
#[derive(Debug, Default)]
pub struct Deliveries {
    expected: Mutex<HashMap<u64, Expected>>,
}

struct Expected {
    destination: Destination,
    left: usize,
    /// The program addresses that the bytes end up at.
    covers: std::ops::Range<u64>,
    /// Runs when all bytes have arrived.
    then: Option<Box<dyn FnOnce() + Send>>,
}

impl std::fmt::Debug for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Expected").field("left", &self.left).field("covers", &self.covers).finish()
    }
}

impl Deliveries {
    /// Registers the destination of bytes that will arrive under this token.
    pub fn expect(&self, token: u64, destination: Destination) {
        let start = destination.start.as_ptr() as u64;
        let covers = start..start + destination.bytes as u64;
        self.expect_then(token, destination, covers, None);
    }

    /// Like [`expect`](Self::expect), with a function that runs when the last byte has arrived.
    pub fn expect_then(
        &self,
        token: u64,
        destination: Destination,
        covers: std::ops::Range<u64>,
        then: Option<Box<dyn FnOnce() + Send>>,
    ) {
        if destination.bytes > 0 {
            let expected = Expected { destination, left: destination.bytes, covers, then };
            self.expected.lock().insert(token, expected);
        }
    }

    /// Whether bytes are still to arrive for any of these addresses.
    pub fn is_expected_at(&self, addresses: &std::ops::Range<u64>) -> bool {
        let expected = self.expected.lock();
        expected.values().any(|it| it.covers.start < addresses.end && addresses.start < it.covers.end)
    }

    /// Drops an entry whose request could not be sent.
    pub fn forget(&self, token: u64) {
        self.expected.lock().remove(&token);
    }

    /// The destination of a piece; `None` if it is not expected or does not fit.
    pub fn find(&self, token: u64, offset: u64, bytes: usize) -> Option<Destination> {
        let expected = self.expected.lock();
        let destination = expected.get(&token)?.destination;
        let offset = usize::try_from(offset).ok()?;
        if offset.checked_add(bytes)? > destination.bytes {
            return None;
        }
        // SAFETY: within the destination, as just checked.
        Some(Destination { start: unsafe { destination.start.add(offset) }, bytes, home: destination.home })
    }

    /// Counts the bytes of a piece that was written to its destination. Returns whether it was the last one; the caller then
    /// calls [`complete`](Self::complete).
    pub fn delivered(&self, token: u64, bytes: usize) -> bool {
        let mut expected = self.expected.lock();
        let Some(it) = expected.get_mut(&token) else { return false };
        it.left = it.left.saturating_sub(bytes);
        it.left == 0
    }

    /// Reports that all bytes have arrived.
    pub fn complete(&self, token: u64) {
        let then = self.expected.lock().remove(&token).and_then(|it| it.then);
        if let Some(then) = then {
            then();
        }
    }

    /// Expects all bytes of unfinished deliveries again: the session is replayed.
    pub fn restart(&self) {
        for it in self.expected.lock().values_mut() {
            it.left = it.destination.bytes;
        }
    }
}
