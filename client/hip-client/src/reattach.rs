//! Opens a session, and reattaches to it when its connection breaks.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use transport::greet::{self, Credentials};
use transport::{Endpoint, Link, TransportError, tls};
use wire::{Hello, MAX_VERSION, MIN_VERSION, Operation, Purpose, RejectCode, Welcome, WireError, capability};

use crate::connection::{Config, OpenError, Shared};
use crate::incoming::{Incoming, ReadError};
use crate::reserve::Reservation;
use crate::trace::{self, Counters};

/// Timeout for the Welcome. A worker that answered the Hello is alive, but may still have to start a device.
const WELCOME_PATIENCE: Duration = Duration::from_secs(30);
/// How long a failure to open a session is returned to further attempts without a retry.
const FAILURE_MEMORY: Duration = Duration::from_secs(5);
/// Backoff between reconnect attempts: doubled each time, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// A program that has waited this long for its first connection prints a notice, if at least as much time is left.
const WAITING_NOTICE: Duration = Duration::from_secs(2);
/// A host that refuses connections for this long no longer has a worker, whatever the grace period.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(5);
/// How many redirects are followed before one worker must accept the session.
const MOST_REDIRECTS: usize = 8;

/// hipErrorOutOfMemory: the status of calls after the worker's process was killed for lack of memory.
const STATUS_OUT_OF_MEMORY: i32 = 2;

/// Identity of the session across connections.
#[derive(Debug)]
pub struct Session {
    id: u64,
    secret: [u8; 32],
    grace: Duration,
    pub capabilities: u64,
    /// Time until the worker replied, network latency included.
    pub distance: Duration,
    /// The address range of device memory, reserved for the lifetime of the session.
    _arena: Reservation,
}

/// Connects and opens a new session.
pub fn open(config: &Config) -> Result<(Link, Session, Welcome), OpenError> {
    let reservation = Reservation::find()
        .map_err(|error| OpenError(format!("cannot reserve an address range for device memory: {error}")))?;
    let hello =
        || Ok(Hello { arena_base: reservation.base(), arena_bytes: reservation.bytes(), ..hello(config)? });
    let (link, welcome, distance) = connect_first(config, hello)?;
    let arena = if reservation.contains(welcome.arena_base, welcome.arena_bytes) {
        reservation
    } else {
        drop(reservation);
        Reservation::at(welcome.arena_base, welcome.arena_bytes).map_err(|error| {
            OpenError(format!(
                "the worker's address range {:#x} + {:#x} is already in use in this process: {error}",
                welcome.arena_base, welcome.arena_bytes
            ))
        })?
    };
    let session = Session {
        id: welcome.session_id,
        secret: welcome.session_secret,
        grace: Duration::from_millis(welcome.grace_ms.into()),
        capabilities: capabilities(config) & welcome.capabilities,
        distance,
        _arena: arena,
    };
    trace::debug(format_args!(
        "session {} on {} ({}), {} devices",
        session.id,
        welcome.worker,
        config.endpoint,
        welcome.devices.len()
    ));
    Ok((link, session, welcome))
}

/// The last failure to open a session, with its time. Locked while a session is being opened.
static LAST_FAILURE: Mutex<Option<(Instant, OpenError)>> = Mutex::new(None);

/// Runs in a forked child: the thread that may have held the lock does not exist here.
pub fn forget_failures_after_fork() {
    if LAST_FAILURE.is_locked() {
        // SAFETY: the child has one thread, which called fork and so is not inside `remember_failures`.
        unsafe { LAST_FAILURE.force_unlock() };
    }
}

/// Returns a recent failure again instead of making another attempt, and prints each failure once.
pub fn remember_failures<T>(attempt: impl FnOnce() -> Result<T, OpenError>) -> Result<T, OpenError> {
    let mut last = LAST_FAILURE.lock();
    if let Some((when, error)) = &*last
        && when.elapsed() < FAILURE_MEMORY
    {
        return Err(error.clone());
    }
    let result = attempt();
    *last = result.as_ref().err().map(|error| {
        trace::line(format_args!("{error}"));
        (Instant::now(), error.clone())
    });
    result
}

impl Shared {
    /// Replaces a broken connection and continues the session, or ends the session. The caller holds the reader role;
    /// this function takes the outgoing lock too, so no other thread uses the socket meanwhile.
    pub fn recover(&self, incoming: &mut Incoming, error: ReadError) {
        incoming.stream.shutdown();
        let error = self.liveness.begin_reattaching(error);
        let mut outgoing = self.outgoing.lock();
        let result = match &error {
            _ if self.closing.load(Ordering::Relaxed) => Err("the session is closed".to_owned()),
            ReadError::Wire(error) => Err(format!(
                "the worker at {} breaks the protocol, the session is lost: {error}",
                self.place.lock()
            )),
            ReadError::Broken(error) => {
                trace::debug(format_args!("the connection broke ({error}), reconnecting"));
                self.reconnect(incoming, error)
            }
        };
        let resumed = result.and_then(|(link, welcome)| {
            if welcome.received < self.ring.freed() {
                let (first, last) = (welcome.received + 1, self.ring.freed());
                return Err(format!("the session is lost: {}", WireError::NotKept { first, last }));
            }
            self.ring
                .acknowledge(welcome.received, self.sender.sent())
                .map_err(|error| format!("the session is lost: {error}"))?;
            if welcome.capabilities & capability::RESUMED != 0 {
                self.uploads.forget();
            }
            Ok((link, welcome.received))
        });
        match resumed {
            Ok((link, received)) => {
                self.strands.forget();
                *self.link.lock() = link.clone();
                outgoing.resume(link.clone(), received);
                self.sender.resume(received);
                incoming.resume(link);
                Counters::add(&self.counters.reconnects, 1);
                self.generation.fetch_add(1, Ordering::AcqRel);
                drop(outgoing);
                self.reattached();
                self.sender.wake();
                let desk = self.desk.lock();
                self.desk_changed.notify_all();
                drop(desk);
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
        let mut place = self.place.lock().clone();
        loop {
            let hello = Hello {
                session_id: self.session.id,
                received: incoming.counter.received(),
                ..hello(&self.config).map_err(|error| error.0)?
            };
            attempts += 1;
            let error = match connect::<Welcome>(&self.config, &place, &hello, Some(&self.session.secret)) {
                Ok((link, welcome, _)) => {
                    crate::exit::replaced(self, link.raw_fd());
                    *self.place.lock() = place;
                    return Ok((link, welcome));
                }
                Err(error) => error,
            };
            self.liveness.still_reattaching(error.line());
            match moved(&place, &error) {
                Some(Ok(next)) if redirects < MOST_REDIRECTS => {
                    trace::debug(format_args!("the session moved from {place} to {next}"));
                    redirects += 1;
                    (place, start, pause) = (next, Instant::now(), FIRST_PAUSE);
                    continue;
                }
                Some(Err(text)) => return Err(format!("the session is lost: {text}")),
                _ => {}
            }
            if is_away(&error) && !self.closing.load(Ordering::Relaxed) {
                // The worker is up and reports that the session will return: restart the timeout.
                start = Instant::now();
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
            let refused = matches!(&error, TransportError::Connect { source, .. }
                if matches!(source.kind(), std::io::ErrorKind::ConnectionRefused | std::io::ErrorKind::NotFound));
            let hopeless = matches!(&error, TransportError::Wire(WireError::Rejected { code, .. })
                if *code != RejectCode::Full && *code != RejectCode::Failed)
                || (refused && start.elapsed() > REFUSAL_PATIENCE)
                || start.elapsed() > self.session.grace
                || self.closing.load(Ordering::Relaxed);
            if is_out_of_memory(&error) {
                self.lost_as.store(STATUS_OUT_OF_MEMORY, Ordering::Relaxed);
            }
            if hopeless {
                return Err(format!(
                    "the session with {place} is lost: the connection broke ({cause}) and {attempts} attempts in \
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
    pub fn mend(&self, generation: u64) {
        self.seek(|| self.generation.load(Ordering::Acquire) != generation);
    }
}

/// Connects an additional link (strand) to a session's connection.
pub fn join(shared: &Shared, place: u16) -> Result<Link, TransportError> {
    let own = hello(&shared.config).map_err(|error| std::io::Error::other(error.0))?;
    let hello = Hello {
        purpose: Purpose::Strand as u8,
        session_id: shared.session.id,
        received: place.into(),
        ..own
    };
    let place = shared.place.lock().clone();
    let (link, _, _) = connect::<wire::Joined>(&shared.config, &place, &hello, Some(&shared.session.secret))?;
    Ok(link)
}

/// Capabilities of this client.
fn capabilities(config: &Config) -> u64 {
    let heartbeat = if config.silence_timeout.is_some() { capability::HEARTBEAT } else { 0 };
    capability::PLACED_MODULES
        | capability::SHARED_MEMORY
        | capability::HOST_LIMIT
        | capability::COMPILE
        | capability::UPLOADS
        | capability::SHORT_GREETING
        | capability::PACKED
        | capability::STRANDS
        | capability::SPANS
        | heartbeat
}

fn hello(config: &Config) -> Result<Hello, OpenError> {
    Ok(Hello {
        min_version: MIN_VERSION,
        max_version: MAX_VERSION,
        capabilities: capabilities(config),
        purpose: Purpose::Session as u8,
        client: config.program.clone(),
        pid: std::process::id(),
        nonce: greet::nonce().map_err(|error| OpenError(error.line()))?,
        ..Hello::default()
    })
}

/// The address that a redirecting worker names, or why the redirect is refused.
fn moved(from: &Endpoint, error: &TransportError) -> Option<Result<Endpoint, String>> {
    let TransportError::Wire(WireError::Rejected { code: RejectCode::Moved, text }) = error else {
        return None;
    };
    let to = match text.parse::<Endpoint>() {
        Ok(to) => to,
        Err(error) => return Some(Err(format!("{from} redirects to an invalid address: {error}"))),
    };
    let refused = match (from, &to) {
        (Endpoint::Tls { .. }, Endpoint::Tcp { .. } | Endpoint::Unix { .. }) => {
            Some("which is not encrypted, unlike this connection")
        }
        // A socket path is valid on one machine only.
        (Endpoint::Tcp { host, .. }, Endpoint::Unix { .. }) if !is_here(host) => Some("on another machine"),
        _ => None,
    };
    Some(match refused {
        Some(why) => Err(format!("{from} redirects to {to}, {why}")),
        None => Ok(to),
    })
}

fn is_here(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_away(error: &TransportError) -> bool {
    matches!(error, TransportError::Wire(WireError::Rejected { code: RejectCode::Away, .. }))
}

/// Makes the first connection. A worker that cannot be reached may be starting, so attempts continue until the connect
/// timeout.
fn connect_first(
    config: &Config,
    hello: impl Fn() -> Result<Hello, OpenError>,
) -> Result<(Link, Welcome, Duration), OpenError> {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    let mut told = false;
    loop {
        let left = config.connect_timeout.saturating_sub(start.elapsed());
        let error = match connect_within::<Welcome>(config, &config.endpoint, &hello()?, None, left) {
            Ok(connected) => return Ok(connected),
            Err(error) => error,
        };
        let left = config.connect_timeout.saturating_sub(start.elapsed());
        if left <= pause || !is_worth_another_attempt(&error) {
            return Err(OpenError(explain(config, &error)));
        }
        if !told && start.elapsed() >= WAITING_NOTICE && left >= WAITING_NOTICE {
            told = true;
            let seconds = left.as_secs_f64();
            trace::line(format_args!("waiting for a worker: {}; {seconds:.0} s left", error.line()));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Whether a worker that is starting or a network that is coming up could be the cause. A wrong token, a TLS failure or a
/// foreign service on the port will not go away.
fn is_worth_another_attempt(error: &TransportError) -> bool {
    use std::io::ErrorKind;
    match error {
        TransportError::Resolve { .. } => true,
        TransportError::Connect { source, .. } => {
            !matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidInput)
        }
        // A proxy closes the connection like this while its target is not up yet.
        TransportError::Closed => true,
        TransportError::Io(source) => {
            matches!(source.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
        }
        _ => false,
    }
}

/// Whether the worker reports that the session's process was killed for lack of memory.
fn is_out_of_memory(error: &TransportError) -> bool {
    matches!(error, TransportError::Wire(WireError::Rejected { code: RejectCode::OutOfMemory, .. }))
}

fn connect<Answer: Operation>(
    config: &Config,
    endpoint: &Endpoint,
    hello: &Hello,
    secret: Option<&[u8; 32]>,
) -> Result<(Link, Answer, Duration), TransportError> {
    connect_within(config, endpoint, hello, secret, config.connect_timeout)
}

fn connect_within<Answer: Operation>(
    config: &Config,
    endpoint: &Endpoint,
    hello: &Hello,
    secret: Option<&[u8; 32]>,
    timeout: Duration,
) -> Result<(Link, Answer, Duration), TransportError> {
    let start = Instant::now();
    let mut link = endpoint.connect(timeout)?;
    let left = || timeout.saturating_sub(start.elapsed()).max(Duration::from_millis(100));
    if let Endpoint::Tls { host, .. } = endpoint {
        let trust = config
            .trust
            .as_ref()
            .ok_or_else(|| TransportError::NoTrust { endpoint: endpoint.to_string() })?;
        link = tls::connect(link, host, tls::client_config(trust)?, left())?;
    }
    let credentials = Credentials { token: config.token.as_deref(), secret };
    let patience = match secret {
        // An existing session has no device to start. A connection that is silent now is replaced like any other.
        Some(_) => config.silence_timeout.map_or(WELCOME_PATIENCE, |silence| silence.min(WELCOME_PATIENCE)),
        None => WELCOME_PATIENCE,
    };
    let (answer, distance) = greet::greet_measured(&link, hello, &credentials, left(), patience)?;
    Ok((link, answer, distance))
}

/// Builds the error text: what was tried, what was found, what to do.
fn explain(config: &Config, error: &TransportError) -> String {
    let endpoint = &config.endpoint;
    let advice = match error {
        TransportError::Wire(WireError::Rejected { code: RejectCode::Access, .. }) => {
            "set REMORA_TOKEN or REMORA_TOKEN_FILE to the worker's token"
        }
        TransportError::Wire(WireError::Rejected { code: RejectCode::Version, .. }) => {
            "use client and worker of the same release"
        }
        TransportError::NoTrust { .. } => {
            "set REMORA_TLS_CA to the CA file, or to the sha256:... fingerprint that the worker prints when it starts"
        }
        TransportError::Wire(_) => "see the worker's log, or try `remora doctor`",
        _ => {
            "start one with `remora worker`, or name one in TF_WORKER_HOST and TF_WORKER_PORT or REMORA_WORKER"
        }
    };
    format!("no session with a worker at {endpoint}: {}; {advice}", error.line())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_is_followed_but_not_to_less_safety_nor_to_nonsense() {
        let go = |from: &str, to: &str| {
            let error = TransportError::Wire(WireError::from(RejectCode::Moved.reject(to)));
            moved(&from.parse().unwrap(), &error).unwrap()
        };
        assert_eq!(go("one:1", "two:2").unwrap(), "two:2".parse().unwrap());
        assert_eq!(go("one:1", "tls://two:2").unwrap(), "tls://two:2".parse().unwrap());
        assert!(go("tls://one:1", "tls://two:2").is_ok());
        assert!(go("tls://one:1", "two:2").is_err() && go("tls://one:1", "unix:/x").is_err());
        assert!(go("127.0.0.1:1", "unix:/x").is_ok() && go("one:1", "unix:/x").is_err());
        assert!(go("one:1", "http://two").is_err() && go("one:1", "").is_err());
        let other = TransportError::Wire(WireError::from(RejectCode::Full.reject("two:2")));
        assert!(moved(&"one:1".parse().unwrap(), &other).is_none());
    }
}
