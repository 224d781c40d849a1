//! Observers: measure the work of a running session from outside of its program.

use std::time::Duration;

use transport::{Link, greet};
use wire::MAX_HANDSHAKE_BYTES;

use crate::address::WorkerAddress;
use crate::administration::{MoveError, PATIENCE, failed, said};

/// An observer of a running session. The session's program cannot influence what it measures.
#[derive(Debug)]
pub struct Observer {
    worker: String,
    link: Link,
}

impl Observer {
    /// Observes a session until this is dropped. A session has one observer at a time.
    pub fn new(at: &WorkerAddress, session: u64) -> Result<Observer, MoveError> {
        let link = at.ask(&wire::Observe { session })?;
        let worker = at.endpoint.to_string();
        link.set_read_timeout(Some(PATIENCE)).map_err(failed(&worker))?;
        greet::expect::<wire::Done>(&link, MAX_HANDSHAKE_BYTES).map_err(said(&worker))?;
        Ok(Observer { worker, link })
    }

    /// Starts a measurement. With `count`, devices that can count instructions do so, which makes kernels slower.
    pub fn start(&self, count: bool) -> Result<(), MoveError> {
        let request = wire::Measure { start: true, count, ..wire::Measure::default() };
        self.measure(&request, Duration::ZERO).map(drop)
    }

    /// Ends a measurement as soon as the session has handled this many requests since it began, and its devices are idle. Waits at
    /// most `patience`; the result says whether that was enough.
    pub fn end(&self, requests: u64, patience: Duration) -> Result<wire::Measured, MoveError> {
        let patience_ms = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
        let request = wire::Measure { requests, patience_ms, ..wire::Measure::default() };
        self.measure(&request, patience)
    }

    fn measure(&self, request: &wire::Measure, patience: Duration) -> Result<wire::Measured, MoveError> {
        let timeout = patience.saturating_add(PATIENCE);
        self.link.set_read_timeout(Some(timeout)).map_err(failed(&self.worker))?;
        greet::send(&self.link, request)
            .and_then(|()| greet::expect(&self.link, MAX_HANDSHAKE_BYTES))
            .map_err(said(&self.worker))
    }
}
