//! Replay: opens a session with another worker, and sends the journal to it.

use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use transport::Link;
use wire::{Flags, ReceiveCounter, ReportMirrors, Welcome, capability};

use super::Failover;
use crate::config::{Candidate, Config};
use crate::link::handshake::{Access, FIRST_PAUSE, LONGEST_PAUSE, connect_first};
use crate::link::reattach::{AWAY_PATIENCE, NotReached};
use crate::receive::incoming::{Incoming, OutgoingLock, ReadError};
use crate::send::outgoing::Outgoing;
use crate::shared::Shared;
use crate::status;

/// How long workers are tried until the session is given up. A worker that the system restarts is back by then.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a replay may wait for a single result.
const STALL: Duration = Duration::from_secs(600);
/// How often the threads of a replay check whether the other one has failed.
const LOOK: Duration = Duration::from_millis(20);
/// Size of the pieces in which the journal is sent.
const PIECE: u64 = 1 << 20;

/// What a replay starts from.
#[derive(Clone, Copy)]
enum Origin {
    /// A new session.
    New,
    /// A session that was restored from a checkpoint after this many requests.
    Checkpoint { received: u64 },
    /// A session that is running and has received this many requests, perhaps some of them in a replay that was interrupted.
    Continued { received: u64 },
}

/// Why a replay failed.
enum ReplayError {
    /// The results differ, so another worker does not help.
    Diverged(String),
    Failed(String),
}

impl From<io::Error> for ReplayError {
    fn from(error: io::Error) -> ReplayError {
        ReplayError::Failed(error.to_string())
    }
}

impl From<ReadError> for ReplayError {
    fn from(error: ReadError) -> ReplayError {
        match error {
            ReadError::Broken(error) => error.into(),
            ReadError::Wire(error) => ReplayError::Failed(error.to_string()),
            ReadError::Diverged(text) => ReplayError::Diverged(text),
        }
    }
}

impl Shared {
    /// Continues the session on another worker, or in another process of the same one. `cause` says why it was lost. The caller holds
    /// the reader role.
    pub fn fail_over(
        &self,
        incoming: &mut Incoming,
        outgoing: &mut Outgoing,
        cause: String,
    ) -> Result<(), String> {
        let Some(failover) = &self.sending.failover else { return Err(cause) };
        if self.ending.closing.load(Ordering::Relaxed) {
            return Err(cause);
        }
        let last = self.journal_all(failover).map_err(|why| format!("{cause}; {why}"))?;
        let mut failure =
            format!("the session can continue only from its checkpoint, on {}", self.links.endpoint());
        let current = self.links.worker.lock().endpoint.clone();
        let place = failover.lock().and_then(|state| {
            // A checkpoint repeats less than a replay from the start. It is skipped only if it is on the worker that was just lost
            // and a replay from the start is possible.
            state.place.clone().filter(|place| !state.is_whole || place.endpoint != current)
        });
        if let Some(place) = place {
            match self.continue_from_checkpoint(&place, incoming, outgoing, &cause) {
                Ok(()) => return Ok(()),
                Err(text) => failure = text,
            }
        }
        if failover.lock().is_some_and(|state| !state.is_whole) {
            return Err(format!("{cause}; {failure}"));
        }
        let start = self.announce(failover, last, &cause);
        let mut pause = FIRST_PAUSE;
        loop {
            let replayed = self
                .open_replacement(failover)
                .and_then(|link| self.replay(failover, incoming, outgoing, (&link, Origin::New), last));
            match replayed {
                Ok(()) => {
                    self.ending.lost_as.store(status::LOST, Ordering::Relaxed);
                    self.announce_end(start);
                    return Ok(());
                }
                Err(ReplayError::Diverged(text)) => return Err(format!("the session is lost: {text}")),
                Err(ReplayError::Failed(text)) => {
                    if start.elapsed() > PATIENCE || self.ending.closing.load(Ordering::Relaxed) {
                        return Err(format!("{cause}; failover failed: {text}"));
                    }
                    self.config.host.debug(format_args!("failover: {text}; trying again"));
                    self.liveness.still_reattaching(text);
                }
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Continues the session on the worker that has its last checkpoint. If nothing else can continue it, waits for that worker: its
    /// machine may be restarting.
    fn continue_from_checkpoint(
        &self,
        place: &Candidate,
        incoming: &mut Incoming,
        outgoing: &mut Outgoing,
        cause: &str,
    ) -> Result<(), String> {
        let host = self.config.host;
        host.line(format_args!("{cause}; failover: continuing from the checkpoint on {}", place.endpoint));
        let former = self.links.worker.lock().clone();
        let start = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.continue_at(place, incoming, outgoing) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            // Asked again in each round: an attempt may have shortened the history.
            let failover = self.sending.failover.as_ref();
            let is_last = failover.and_then(|it| it.lock()).is_some_and(|state| !state.is_whole);
            let is_over = start.elapsed() > AWAY_PATIENCE || self.ending.closing.load(Ordering::Relaxed);
            if error.is_final || !is_last || is_over {
                return Err(error.text);
            }
            if pause == FIRST_PAUSE {
                let limit = AWAY_PATIENCE.as_secs();
                host.line(format_args!("failover: waiting up to {limit} s for {}", place.endpoint));
            }
            // The former worker may be reachable again, with the session still running.
            if former.endpoint != place.endpoint && self.continue_at(&former, incoming, outgoing).is_ok() {
                return Ok(());
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Continues the session on a worker: from its checkpoint, or where it is if it is still running there.
    fn continue_at(
        &self,
        place: &Candidate,
        incoming: &mut Incoming,
        outgoing: &mut Outgoing,
    ) -> Result<(), NotReached> {
        *self.links.worker.lock() = place.clone();
        let lost = io::Error::other("the worker is lost");
        let first = self.reconnect(incoming, &lost, capability::RESTORED)?;
        let connect = |incoming: &Incoming, cause: &io::Error| self.reconnect(incoming, cause, 0);
        self.continue_restored(incoming, outgoing, first, connect)
            .map_err(|text| NotReached { text, is_final: true })
    }

    /// Continues a session from the point that its worker reports, usually that of a checkpoint. `connect` connects to it again if the
    /// link breaks.
    pub fn continue_restored(
        &self,
        incoming: &mut Incoming,
        outgoing: &mut Outgoing,
        first: (Link, Welcome),
        connect: impl Fn(&Incoming, &io::Error) -> Result<(Link, Welcome), NotReached>,
    ) -> Result<(), String> {
        let cause = match first.1.capabilities & capability::RESTORED {
            0 => "the session is still running",
            _ => "the session was restored from a checkpoint",
        };
        let Some(failover) = &self.sending.failover else {
            return Err(format!("{cause}, and has no journal"));
        };
        let last = self.journal_all(failover).map_err(|why| format!("{cause}; {why}"))?;
        let start = self.announce(failover, last, cause);
        let (mut link, mut welcome) = first;
        loop {
            let origin = match welcome.capabilities & capability::RESTORED {
                0 => Origin::Continued { received: welcome.received },
                _ => Origin::Checkpoint { received: welcome.received },
            };
            match self.replay(failover, incoming, outgoing, (&link, origin), last) {
                Ok(()) => {
                    self.announce_end(start);
                    return Ok(());
                }
                Err(ReplayError::Diverged(text)) => return Err(format!("the session is lost: {text}")),
                Err(ReplayError::Failed(text)) if start.elapsed() > PATIENCE => {
                    return Err(format!("the session is lost: the replay failed: {text}"));
                }
                Err(ReplayError::Failed(text)) => {
                    self.config.host.debug(format_args!("failover: {text}; trying again"));
                    (link, welcome) = connect(incoming, &io::Error::other(text))?;
                }
            }
        }
    }

    /// Moves everything that was requested, sent or not, to the journal. Returns the number of the last request. The caller holds the
    /// outgoing lock, so no other thread uses the ring's frames.
    fn journal_all(&self, failover: &Failover) -> Result<u64, String> {
        let last = self.ring.appended();
        self.free(last, last).map_err(|error| error.to_string())?;
        self.sending.sender.resume(last);
        let Some(mut state) = failover.lock() else {
            return Err(format!("failover is off: {}", failover.disabled().unwrap_or_default()));
        };
        state.is_idle = !self.arrivals.mirrors.may_lag();
        Ok(last)
    }

    /// Reports that a replay begins. Returns its time.
    fn announce(&self, failover: &Failover, last: u64, cause: &str) -> Instant {
        if let Some(state) = failover.lock() {
            let (requests, size) = (last + 1 - state.journal.first(), state.journal.bytes() as f64 / 1e6);
            drop(state);
            let host = self.config.host;
            host.line(format_args!("{cause}; failover: replaying up to {requests} requests ({size:.1} MB)"));
        }
        Instant::now()
    }

    fn announce_end(&self, start: Instant) {
        let (place, seconds) = (self.links.endpoint(), start.elapsed().as_secs_f64());
        let host = self.config.host;
        host.line(format_args!("failover: the session continues on {place} after {seconds:.1} s"));
    }

    fn replay(
        &self,
        failover: &Failover,
        incoming: &mut Incoming,
        outgoing: &mut Outgoing,
        (link, origin): (&Link, Origin),
        last: u64,
    ) -> Result<(), ReplayError> {
        let mirrors = self.arrivals.mirrors.any();
        let gate = Gate::default();
        let first = self.prepare(failover, incoming, link, origin, last)?;
        match failover.lock() {
            Some(mut state) => {
                if !matches!(origin, Origin::Continued { .. }) {
                    state.history.start_replay();
                    state.deferred.clear();
                    self.arrivals.deliveries.restart();
                }
                state.defers = mirrors;
                gate.open(state.history.limit());
            }
            None => return Err(ReplayError::Failed("the journal is gone".to_owned())),
        }
        self.uploads.forget();
        let result = std::thread::scope(|scope| {
            let sending = std::thread::Builder::new()
                .spawn_scoped(scope, || self.send_journal(failover, link, first..=last, &gate))?;
            let result = self.read_results(failover, incoming, &gate);
            if result.is_err() {
                gate.close();
                link.shutdown();
            }
            let sent = sending.join().unwrap_or_else(|_| Err(io::Error::other("the sending thread ended")));
            // A divergence is the cause of what the sending thread reports.
            result.and(sent.map_err(ReplayError::from))
        });
        result?;
        if mirrors {
            let mut request = Vec::new();
            wire::encode_request(&ReportMirrors {}, &[], Flags::UNSEQUENCED, 0, 0, &mut request);
            link.write_all(&request)?;
            self.read_while(incoming, || failover.lock().is_some_and(|state| state.defers))?;
        }
        if let Some(mut state) = failover.lock() {
            state.history.end_replay();
        }
        self.continue_sending(link, outgoing, last);
        Ok(self.apply_deferred(failover)?)
    }

    /// Starts to receive from a session. Returns the first request that it lacks.
    fn prepare(
        &self,
        failover: &Failover,
        incoming: &mut Incoming,
        link: &Link,
        origin: Origin,
        last: u64,
    ) -> Result<u64, ReplayError> {
        self.use_link(link, incoming);
        match origin {
            Origin::Continued { received } | Origin::Checkpoint { received } if received > last => {
                Err(ReplayError::Failed(format!("the worker has {received} requests of {last}")))
            }
            Origin::New => {
                incoming.counter = ReceiveCounter::new();
                Ok(1)
            }
            Origin::Continued { received } => Ok(received + 1),
            Origin::Checkpoint { received } => {
                if let Some(mut state) = failover.lock() {
                    // From here on the checkpoint is what counts, also for results that an earlier attempt has confirmed.
                    state.history.end_replay();
                    state.restoring = true;
                }
                self.read_while(incoming, || failover.lock().is_some_and(|state| state.restoring))?;
                match failover.lock().map(|state| state.journal.first()) {
                    Some(first) if first <= received + 1 => Ok(received + 1),
                    _ => Err(ReplayError::Failed("the checkpoint is older than the journal".to_owned())),
                }
            }
        }
    }

    /// Opens a new session for the same program.
    fn open_replacement(&self, failover: &Failover) -> Result<Link, ReplayError> {
        let failed = |text: String| ReplayError::Failed(text);
        let mut candidates = self.config.candidates();
        let current = self.links.worker.lock().clone();
        if !candidates.iter().any(|it| it.endpoint == current.endpoint) {
            candidates.insert(0, current);
        }
        let Candidate { endpoint, token, trust } = candidates.remove(0);
        let mut config = Config { endpoint, token, trust, others: candidates, ..self.config.clone() };
        let arena = failover.arena();
        let (link, welcome, _) =
            connect_first(&mut config, arena).map_err(|error| failed(error.to_string()))?;
        if let Some(text) = self.unsuitable(failover, &welcome) {
            return Err(failed(format!("the worker at {}: {text}", config.endpoint)));
        }
        self.links.note_descriptor(&link);
        let Config { endpoint, token, trust, .. } = config;
        *self.links.worker.lock() = Candidate { endpoint, token, trust };
        *self.identity.access.lock() = Access::of(&welcome);
        Ok(link)
    }

    /// Why a worker cannot continue the session.
    fn unsuitable(&self, failover: &Failover, welcome: &Welcome) -> Option<String> {
        // Each connection chooses its own transport.
        let missing = self.identity.capabilities & !welcome.capabilities & !capability::MEMORY_LINK;
        if (welcome.arena_base, welcome.arena_bytes) != failover.arena() {
            Some("the addresses of the session are taken in its new process".to_owned())
        } else if missing != 0 {
            Some(format!("it lacks capabilities that the session uses ({missing:#x})"))
        } else if self.arrivals.mirrors.any() && welcome.capabilities & capability::REPLAY == 0 {
            Some("it cannot report mapped memory".to_owned())
        } else {
            failover.difference(welcome)
        }
    }

    /// Sends the requests again, each after the results that it may depend on.
    fn send_journal(
        &self,
        failover: &Failover,
        link: &Link,
        requests: std::ops::RangeInclusive<u64>,
        gate: &Gate,
    ) -> io::Result<()> {
        let (mut next, last) = (*requests.start(), *requests.end());
        let (mut buffer, mut control) = (Vec::new(), Vec::new());
        let result = loop {
            control.clear();
            self.take_control(&mut control);
            if !control.is_empty() {
                link.write_all(&control)?;
            }
            if next > last {
                break Ok(());
            }
            let limit = match gate.wait(next) {
                Allowed::UpTo(limit) => limit.min(last),
                Allowed::NotYet => continue,
                Allowed::Never => break Err(io::Error::other("the replay has failed")),
            };
            let Some(mut state) = failover.lock() else { break Err(io::Error::other("the journal is gone")) };
            next += state.journal.read(next, limit, PIECE, &mut buffer)?;
            drop(state);
            link.write_all(&buffer)?;
        };
        gate.sent();
        result
    }

    /// Reads until all requests were sent and every result that the program knows has arrived again.
    fn read_results(
        &self,
        failover: &Failover,
        incoming: &mut Incoming,
        gate: &Gate,
    ) -> Result<(), ReplayError> {
        self.read_while(incoming, || {
            let Some(state) = failover.lock() else { return false };
            gate.open(state.history.limit());
            !(gate.is_sent() && state.history.is_confirmed())
        })
        .map_err(|error| {
            match (error, failover.lock().and_then(|state| state.history.waits_for())) {
                (ReplayError::Failed(text), Some(seen)) => {
                    ReplayError::Failed(format!("{text} (waiting for {seen:?})"))
                }
                (error, _) => error,
            }
        })
    }

    fn read_while(
        &self,
        incoming: &mut Incoming,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<(), ReplayError> {
        let mut heard = Instant::now();
        while goes_on() {
            if self.ending.closing.load(Ordering::Relaxed) {
                return Err(ReplayError::Failed("the session is closed".to_owned()));
            }
            if !incoming.has_buffered() && !incoming.stream.wait_readable(Some(LOOK))?.readable {
                if heard.elapsed() > STALL {
                    return Err(ReplayError::Failed("a repeated request has no result".to_owned()));
                }
                continue;
            }
            heard = Instant::now();
            self.read_frame(incoming, OutgoingLock::Held)?;
        }
        Ok(())
    }
}

/// Which requests may be sent, and whether all were.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    limit: u64,
    closed: bool,
    sent: bool,
}

enum Allowed {
    UpTo(u64),
    NotYet,
    Never,
}

impl Gate {
    /// Allows requests up to `limit`.
    fn open(&self, limit: u64) {
        let mut state = self.state.lock();
        if state.limit != limit {
            state.limit = limit;
            self.changed.notify_all();
        }
    }

    fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    fn sent(&self) {
        self.state.lock().sent = true;
    }

    fn is_sent(&self) -> bool {
        self.state.lock().sent
    }

    /// Waits a while until request `next` may be sent.
    fn wait(&self, next: u64) -> Allowed {
        let mut state = self.state.lock();
        if !state.closed && state.limit < next {
            self.changed.wait_for(&mut state, LOOK);
        }
        match () {
            () if state.closed => Allowed::Never,
            () if state.limit >= next => Allowed::UpTo(state.limit),
            () => Allowed::NotYet,
        }
    }
}
