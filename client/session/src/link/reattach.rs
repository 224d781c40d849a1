//! Reattaches to a session when its connection breaks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use transport::{Link, TransportError};
use wire::{Hello, Purpose, RejectCode, Welcome, WireError, capability};

use super::handshake::{FIRST_PAUSE, LONGEST_PAUSE, connect, hello, is_away, is_out_of_memory, moved};
use crate::counters::Counters;
use crate::os::direct_copy::DirectCopy;
use crate::receive::incoming::{Incoming, ReadError};
use crate::shared::Shared;
use crate::status;

/// A host that refuses connections for this long no longer has a worker, whatever the grace period.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(5);
/// How long a worker that has saved the session may take to come back, for instance because its machine restarts.
const AWAY_PATIENCE: Duration = Duration::from_secs(600);
/// How many redirects are followed before one worker must accept the session.
const MOST_REDIRECTS: usize = 8;

impl Shared {
    /// Replaces a broken connection and continues the session, or ends the session. The caller holds the reader role;
    /// this function takes the outgoing lock too, so no other thread uses the socket meanwhile.
    pub fn recover(&self, incoming: &mut Incoming, error: ReadError) {
        incoming.stream.shutdown();
        let error = match error {
            ReadError::Broken(error) => ReadError::Broken(self.liveness.begin_reattaching(error)),
            error => error,
        };
        // The Hello of the next connection says so: the session may move to another process now.
        if let Some(direct) = self.direct_copy.lock().take() {
            direct.end();
        }
        let mut outgoing = self.sending.outgoing.lock();
        let result = match &error {
            _ if self.ending.closing.load(Ordering::Relaxed) => Err("the session is closed".to_owned()),
            ReadError::Wire(error) => Err(format!(
                "the worker at {} breaks the protocol, the session is lost: {error}",
                self.links.place.lock().endpoint
            )),
            ReadError::Broken(error) => {
                self.config.host.debug(format_args!("the connection broke ({error}), reconnecting"));
                self.reconnect(incoming, error)
            }
        };
        let resumed = result.and_then(|(link, welcome)| {
            if welcome.received < self.ring.freed() {
                let (first, last) = (welcome.received + 1, self.ring.freed());
                return Err(format!("the session is lost: {}", WireError::NotKept { first, last }));
            }
            self.ring
                .acknowledge(welcome.received, self.sending.sender.sent())
                .map_err(|error| format!("the session is lost: {error}"))?;
            if welcome.capabilities & capability::RESUMED != 0 {
                self.uploads.forget();
            }
            *self.direct_copy.lock() = DirectCopy::of(&link, &welcome).map(Arc::new);
            Ok((link, welcome.received))
        });
        match resumed {
            Ok((link, received)) => {
                self.links.extra.forget();
                *self.links.first.lock() = link.clone();
                outgoing.resume(link.clone(), received);
                self.sending.sender.resume(received);
                incoming.resume(link);
                Counters::add(&self.counters.reconnects, 1);
                self.links.generation.fetch_add(1, Ordering::AcqRel);
                drop(outgoing);
                self.reattached();
                self.sending.sender.wake();
                let pending = self.receiving.pending.lock();
                self.receiving.changed.notify_all();
                drop(pending);
            }
            Err(text) => {
                outgoing.broken = true;
                drop(outgoing);
                self.lose(text);
            }
        }
    }

    fn reconnect(&self, incoming: &Incoming, cause: &std::io::Error) -> Result<(Link, Welcome), String> {
        let mut start = Instant::now();
        let mut pause = FIRST_PAUSE;
        let mut attempts = 0;
        let mut redirects = 0;
        let mut is_saved = false;
        let mut place = self.links.place.lock().clone();
        loop {
            let hello = Hello {
                session_id: self.identity.id,
                received: incoming.counter.received(),
                ..hello(&self.config).map_err(|error| error.line())?
            };
            attempts += 1;
            let error = match connect::<Welcome>(&self.config, &place, &hello, Some(&self.identity.secret)) {
                Ok((link, welcome, _)) => {
                    self.links.note_descriptor(&link);
                    *self.links.place.lock() = place;
                    return Ok((link, welcome));
                }
                Err(error) => error,
            };
            self.liveness.still_reattaching(error.line());
            let endpoint = &place.endpoint;
            match moved(&place, &error) {
                Some(Ok(next)) if redirects < MOST_REDIRECTS => {
                    let to = &next.endpoint;
                    self.config.host.debug(format_args!("the session moved from {endpoint} to {to}"));
                    redirects += 1;
                    (place, start, pause) = (next, Instant::now(), FIRST_PAUSE);
                    continue;
                }
                Some(Err(text)) => return Err(format!("the session is lost: {text}")),
                _ => {}
            }
            if is_away(&error) && !self.ending.closing.load(Ordering::Relaxed) {
                // The worker is up and reports that the session will return: restart the timeout.
                start = Instant::now();
                if !is_saved {
                    self.config.host.debug(format_args!("{endpoint}: {}; waiting for it", error.line()));
                }
                is_saved = true;
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
            let refused = matches!(&error, TransportError::Connect { source, .. }
                if matches!(source.kind(), std::io::ErrorKind::ConnectionRefused | std::io::ErrorKind::NotFound));
            let hopeless = matches!(&error, TransportError::Wire(WireError::Rejected { code, .. })
                if *code != RejectCode::Full && *code != RejectCode::Failed)
                || (refused && !is_saved && start.elapsed() > REFUSAL_PATIENCE)
                || start.elapsed() > if is_saved { AWAY_PATIENCE } else { self.identity.grace }
                || self.ending.closing.load(Ordering::Relaxed);
            if is_out_of_memory(&error) {
                self.ending.lost_as.store(status::OUT_OF_MEMORY, Ordering::Relaxed);
            }
            if hopeless {
                return Err(format!(
                    "the session with {endpoint} is lost: the connection broke ({cause}) and {attempts} attempts in \
                     {:.1} s did not restore it: {}",
                    start.elapsed().as_secs_f64(),
                    error.line()
                ));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Waits until the connection of this generation is replaced, by the reading thread or by this one.
    pub fn wait_for_reconnect(&self, generation: u64) {
        self.read_until(|| self.links.generation.load(Ordering::Acquire) != generation);
    }

    /// Connects an extra link to the session's connection.
    pub fn join(&self, place: u16) -> Result<Link, TransportError> {
        let hello = Hello {
            purpose: Purpose::Strand as u8,
            session_id: self.identity.id,
            received: place.into(),
            ..hello(&self.config)?
        };
        let place = self.links.place.lock().clone();
        let (link, _, _) =
            connect::<wire::Joined>(&self.config, &place, &hello, Some(&self.identity.secret))?;
        Ok(link)
    }
}
