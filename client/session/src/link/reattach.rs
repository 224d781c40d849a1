//! Reattaches to a session when its connection breaks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use transport::{Link, TransportError};
use wire::{Hello, Purpose, RejectCode, Welcome, WireError, capability};

use super::handshake::{
    FIRST_PAUSE, LONGEST_PAUSE, connect, connect_session, hello, is_away, is_out_of_memory,
};
use super::redirect::Redirects;
use crate::counters::Counters;
use crate::os::direct_copy::DirectCopy;
use crate::receive::incoming::{Incoming, ReadError};
use crate::send::outgoing::Outgoing;
use crate::shared::Shared;
use crate::status;

/// A host that refuses connections for this long no longer has a worker, whatever the grace period.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(5);
/// The same for a session that can fail over. A worker that is restarted, and whose session processes live on, is back by then.
const FAILOVER_REFUSAL_PATIENCE: Duration = Duration::from_secs(2);
/// How long a session that can fail over waits for a worker that does not answer.
const FAILOVER_PATIENCE: Duration = Duration::from_secs(10);
/// How long a worker that has saved the session may take to come back, for instance because its machine restarts.
pub(crate) const AWAY_PATIENCE: Duration = Duration::from_secs(600);

/// Why a session could not be reached.
#[derive(Debug)]
pub(crate) struct NotReached {
    pub text: String,
    /// Whether the worker replied that it does not have the session, so that waiting does not help.
    pub is_final: bool,
}

impl From<NotReached> for String {
    fn from(error: NotReached) -> String {
        error.text
    }
}

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
                self.links.endpoint()
            )),
            ReadError::Diverged(text) => Err(format!("the session is lost: {text}")),
            ReadError::Broken(error) => {
                self.config.host.debug(format_args!("the connection broke ({error}), reconnecting"));
                self.reattach(incoming, &mut outgoing, error)
                    .or_else(|text| self.fail_over(incoming, &mut outgoing, text))
            }
        };
        match result {
            Ok(()) => {
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

    /// Connects to the session again and continues where both sides are.
    fn reattach(
        &self,
        incoming: &mut Incoming,
        outgoing: &mut Outgoing,
        cause: &std::io::Error,
    ) -> Result<(), String> {
        let (link, welcome) = self.reconnect(incoming, cause, 0)?;
        let received = welcome.received;
        if welcome.capabilities & capability::RESTORED != 0 {
            let connect = |incoming: &Incoming, cause: &std::io::Error| self.reconnect(incoming, cause, 0);
            return self.continue_restored(incoming, outgoing, (link, welcome), connect);
        }
        if received < self.ring.freed() {
            let (first, last) = (received + 1, self.ring.freed());
            return Err(format!("the session is lost: {}", WireError::NotKept { first, last }));
        }
        self.free(received, self.sending.sender.sent())
            .map_err(|error| format!("the session is lost: {error}"))?;
        if welcome.capabilities & capability::RESUMED != 0 {
            self.uploads.forget();
        }
        let direct_copy = DirectCopy::of(&link, &welcome).filter(|_| self.sending.failover.is_none());
        *self.direct_copy.lock() = direct_copy.map(Arc::new);
        self.use_link(&link, incoming);
        self.continue_sending(&link, outgoing, received);
        Ok(())
    }

    /// Receives from a new connection.
    pub(crate) fn use_link(&self, link: &Link, incoming: &mut Incoming) {
        self.links.extra.forget();
        *self.links.first.lock() = link.clone();
        incoming.resume(link.clone());
    }

    /// Sends to a new connection whose worker has `received` frames.
    pub(crate) fn continue_sending(&self, link: &Link, outgoing: &mut Outgoing, received: u64) {
        outgoing.resume(link.clone(), received);
        self.sending.sender.resume(received);
    }

    /// Connects to the session again. `capabilities` are added to those of the client.
    pub(crate) fn reconnect(
        &self,
        incoming: &Incoming,
        cause: &std::io::Error,
        capabilities: u64,
    ) -> Result<(Link, Welcome), NotReached> {
        let lost = |text: String| NotReached { text, is_final: true };
        let mut start = Instant::now();
        let mut pause = FIRST_PAUSE;
        let mut attempts = 0;
        let mut redirects = Redirects::default();
        let mut is_saved = false;
        let mut worker = self.links.worker.lock().clone();
        let access = *self.identity.access.lock();
        // A session that can fail over does not wait as long for a worker that is gone.
        let can_fail_over = self.sending.failover.as_ref().is_some_and(|it| it.disabled().is_none());
        let (refusals, grace) = match can_fail_over {
            true => (FAILOVER_REFUSAL_PATIENCE, access.grace.min(FAILOVER_PATIENCE)),
            false => (REFUSAL_PATIENCE, access.grace),
        };
        loop {
            let usual = hello(&self.config).map_err(|error| lost(error.line()))?;
            let hello = Hello {
                session_id: access.id,
                received: incoming.counter.received(),
                capabilities: usual.capabilities | capabilities,
                ..usual
            };
            attempts += 1;
            let (config, secret) = (&self.config, Some(&access.secret));
            let error = match connect_session(config, &worker, &hello, secret, config.connect_timeout) {
                Ok((link, welcome, _)) => {
                    self.links.note_descriptor(&link);
                    *self.links.worker.lock() = worker;
                    return Ok((link, welcome));
                }
                Err(error) => error,
            };
            self.liveness.still_reattaching(error.line());
            match redirects.follow(&worker, &error, &self.config.candidates()) {
                Some(Ok(next)) => {
                    let (from, to) = (&worker.endpoint, &next.endpoint);
                    self.config.host.debug(format_args!("the session moved from {from} to {to}"));
                    (worker, start, pause) = (next, Instant::now(), FIRST_PAUSE);
                    continue;
                }
                Some(Err(text)) => return Err(lost(format!("the session is lost: {text}"))),
                None => {}
            }
            if is_away(&error) && !self.ending.closing.load(Ordering::Relaxed) {
                // The worker is up and reports that the session will return: restart the timeout.
                start = Instant::now();
                if !is_saved {
                    let from = &worker.endpoint;
                    self.config.host.debug(format_args!("{from}: {}; waiting for it", error.line()));
                }
                is_saved = true;
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
            let refused = matches!(&error, TransportError::Connect { source, .. }
                if matches!(source.kind(), std::io::ErrorKind::ConnectionRefused | std::io::ErrorKind::NotFound));
            let is_final = matches!(&error, TransportError::Wire(WireError::Rejected { code, .. })
                if *code != RejectCode::Full && *code != RejectCode::Failed);
            let hopeless = is_final
                || (refused && !is_saved && start.elapsed() > refusals)
                || start.elapsed() > if is_saved { AWAY_PATIENCE } else { grace }
                || self.ending.closing.load(Ordering::Relaxed);
            if is_out_of_memory(&error) {
                self.ending.lost_as.store(status::OUT_OF_MEMORY, Ordering::Relaxed);
            }
            if hopeless {
                let text = format!(
                    "the session with {} is lost: the connection broke ({cause}) and {attempts} attempts in \
                     {:.1} s did not restore it: {}",
                    worker.endpoint,
                    start.elapsed().as_secs_f64(),
                    error.line()
                );
                return Err(NotReached { text, is_final });
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
        let access = *self.identity.access.lock();
        let hello = Hello {
            purpose: Purpose::Strand as u8,
            session_id: access.id,
            received: place.into(),
            ..hello(&self.config)?
        };
        let worker = self.links.worker.lock().clone();
        let (link, _) = connect::<wire::Joined>(&self.config, &worker, &hello, Some(&access.secret))?;
        Ok(link)
    }
}
