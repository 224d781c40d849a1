//! The handshake: connects to a worker, and opens a session or joins an existing one.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use transport::greet::{self, Credentials, Greeted};
use transport::{Endpoint, Link, Transport, TransportError, tls};
use wire::{Hello, MAX_VERSION, MIN_VERSION, Operation, Purpose, RejectCode, Welcome, WireError, capability};

use super::redirect::Redirects;
use crate::config::{Candidate, Config, OpenError};
use crate::memory::reservation::Reservation;

/// Timeout for the Welcome. A worker that answered the Hello is alive, but may still have to start a device.
const WELCOME_PATIENCE: Duration = Duration::from_secs(30);
/// The shortest timeout of an attempt to connect.
const SHORTEST_ATTEMPT: Duration = Duration::from_millis(100);
/// Backoff between attempts to connect: doubled each time, up to the longest.
pub const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// See [`FIRST_PAUSE`].
pub const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// A program that has waited this long for its first connection prints a notice, if at least as much time is left.
const WAITING_NOTICE: Duration = Duration::from_secs(2);

/// Identity of the session across connections.
#[derive(Debug)]
pub struct Identity {
    /// The worker's names for the session.
    pub access: Mutex<Access>,
    /// What client and worker both can.
    pub capabilities: u64,
    /// Time until the worker replied, network latency included.
    pub distance: Duration,
    /// The address range of device memory, reserved for the lifetime of the session.
    _arena: Reservation,
}

/// How the worker knows the session. Changes when the session fails over.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The worker's number for the session.
    pub id: u64,
    /// Proof that a connection belongs to the session.
    pub secret: [u8; 32],
    /// How long the worker keeps the session without a connection.
    pub grace: Duration,
}

impl Access {
    pub fn of(welcome: &Welcome) -> Access {
        Access {
            id: welcome.session_id,
            secret: welcome.session_secret,
            grace: Duration::from_millis(welcome.grace_ms.into()),
        }
    }
}

/// Connects and opens a new session. `config` then names the worker that accepted it.
pub fn open(config: &mut Config) -> Result<(Link, Identity, Welcome), OpenError> {
    let reservation = Reservation::find().map_err(OpenError::Reserve)?;
    let (base, bytes) = (reservation.base(), reservation.bytes());
    let (link, welcome, distance) = connect_first(config, (base, bytes))?;
    let arena = if reservation.contains(welcome.arena_base, welcome.arena_bytes) {
        reservation
    } else {
        drop(reservation);
        let (base, bytes) = (welcome.arena_base, welcome.arena_bytes);
        Reservation::at(base, bytes).map_err(|source| OpenError::RangeInUse { base, bytes, source })?
    };
    let identity = Identity {
        access: Mutex::new(Access::of(&welcome)),
        capabilities: (capabilities(config) | memory_link(&link)) & welcome.capabilities,
        distance,
        _arena: arena,
    };
    config.host.debug(format_args!(
        "session {} on {} ({}{}), {} devices",
        welcome.session_id,
        welcome.worker,
        config.endpoint,
        if link.transport() == Transport::SharedMemory { ", shared memory" } else { "" },
        welcome.devices.len()
    ));
    Ok((link, identity, welcome))
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
        | capability::DIRECT_COPIES_END
        | capability::REDIRECTS
        | heartbeat
        | if config.retention.failover.is_some() { capability::REPLAY } else { 0 }
}

/// The capability of a link that goes through shared memory.
fn memory_link(link: &Link) -> u64 {
    if link.transport() == Transport::SharedMemory { capability::MEMORY_LINK } else { 0 }
}

/// Whether to ask for shared memory. A connection of several links has only sockets.
fn may_share_memory(config: &Config, endpoint: &Endpoint) -> bool {
    matches!(endpoint, Endpoint::Unix { .. })
        && !config.copies.sockets_only
        && config.copies.links.is_none_or(|links| links == 1)
}

/// The Hello of this client, with a new nonce.
pub fn hello(config: &Config) -> Result<Hello, TransportError> {
    Ok(Hello {
        min_version: MIN_VERSION,
        max_version: MAX_VERSION,
        capabilities: capabilities(config),
        purpose: Purpose::Session as u8,
        client: config.program.clone(),
        pid: std::process::id(),
        nonce: greet::nonce()?,
        ..Hello::default()
    })
}

/// Whether the worker reports that the session will return.
pub fn is_away(error: &TransportError) -> bool {
    matches!(error, TransportError::Wire(WireError::Rejected { code: RejectCode::Away, .. }))
}

/// Makes the first connection, to the first worker of the list that accepts the session. Workers that cannot be reached may be
/// starting, so attempts continue until the connect timeout.
pub fn connect_first(config: &mut Config, arena: (u64, u64)) -> Result<(Link, Welcome, Duration), OpenError> {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    let mut notified = false;
    let candidates = config.candidates();
    // A worker that does not answer at all must leave time for the others.
    let share = config.connect_timeout / candidates.len() as u32;
    loop {
        let mut failures = Vec::new();
        for candidate in &candidates {
            let left = config.connect_timeout.saturating_sub(start.elapsed()).min(share);
            match connect_new(config, candidate, &candidates, arena, left) {
                Ok((connected, Candidate { endpoint, token, trust })) => {
                    config.others = candidates;
                    // A worker to which one of the list redirects is not in the list, which stays complete then.
                    if let Some(at) = config.others.iter().position(|it| it.endpoint == endpoint) {
                        config.others.remove(at);
                    }
                    (config.endpoint, config.token, config.trust) = (endpoint, token, trust);
                    return Ok(connected);
                }
                Err(failure) => {
                    config.host.debug(format_args!("{}: {}", candidate.endpoint, failure.line()));
                    failures.push(failure);
                }
            }
        }
        let left = config.connect_timeout.saturating_sub(start.elapsed());
        if left <= pause || !failures.iter().any(|failure| failure.is_worth_another_attempt) {
            return Err(refused(&candidates, failures));
        }
        if !notified && start.elapsed() >= WAITING_NOTICE && left >= WAITING_NOTICE {
            notified = true;
            let seconds = left.as_secs_f64();
            let reason = failures.first().map(Failure::line).unwrap_or_default();
            config.host.line(format_args!("waiting for a worker: {reason}; {seconds:.0} s left"));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Why an attempt to open a session failed.
struct Failure {
    error: TransportError,
    /// The redirects that were followed, as text; empty if there were none.
    redirects: String,
    is_worth_another_attempt: bool,
}

impl Failure {
    fn line(&self) -> String {
        format!("{}{}", self.error.line(), self.redirects)
    }
}

/// Makes one attempt to open a session at a worker, or at the one to which it redirects because its sessions move there. Returns the
/// worker that opened it.
fn connect_new(
    config: &Config,
    candidate: &Candidate,
    candidates: &[Candidate],
    arena: (u64, u64),
    timeout: Duration,
) -> Result<((Link, Welcome, Duration), Candidate), Failure> {
    let start = Instant::now();
    let mut worker = candidate.clone();
    let mut redirects = Redirects::default();
    loop {
        // A worker to which another redirects may be gone. Time must be left to ask that other one again.
        let left = match redirects.is_empty() {
            true => timeout,
            false => timeout.saturating_sub(start.elapsed()) / 2,
        };
        let connected = hello(config).and_then(|hello| {
            let hello = Hello { arena_base: arena.0, arena_bytes: arena.1, ..hello };
            connect_session(config, &worker, &hello, None, left.max(SHORTEST_ATTEMPT))
        });
        let error = match connected {
            Ok(connected) => return Ok((connected, worker)),
            Err(error) => error,
        };
        worker = match redirects.follow(&worker, &error, candidates) {
            Some(Ok(next)) => next,
            Some(Err(text)) => {
                let error = WireError::from(RejectCode::Moved.reject(text)).into();
                return Err(Failure { error, redirects: String::new(), is_worth_another_attempt: false });
            }
            None => {
                // The next attempt asks the worker of the list again, which may have stopped to redirect.
                let is_worth_another_attempt = !redirects.is_empty() || is_worth_another_attempt(&error);
                let redirects = redirects.text(&worker.endpoint);
                return Err(Failure { error, redirects, is_worth_another_attempt });
            }
        };
    }
}

/// The reasons of all workers of the list, which has at least one.
fn refused(candidates: &[Candidate], mut failures: Vec<Failure>) -> OpenError {
    let rest = candidates[1..].iter().zip(&failures[1..]);
    let rest: String =
        rest.map(|(other, failure)| format!("; at {}: {}", other.endpoint, failure.line())).collect();
    let Failure { error, redirects, .. } = failures.swap_remove(0);
    OpenError::Connect {
        endpoint: candidates[0].endpoint.clone(),
        source: error,
        others: format!("{redirects}{rest}").into(),
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
pub fn is_out_of_memory(error: &TransportError) -> bool {
    matches!(error, TransportError::Wire(WireError::Rejected { code: RejectCode::OutOfMemory, .. }))
}

/// Makes one attempt to open or continue a session, through shared memory if both sides can.
pub fn connect_session(
    config: &Config,
    worker: &Candidate,
    hello: &Hello,
    secret: Option<&[u8; 32]>,
    timeout: Duration,
) -> Result<(Link, Welcome, Duration), TransportError> {
    let start = Instant::now();
    let endpoint = &worker.endpoint;
    let over_socket = |hello: &Hello, left| {
        let (link, greeted) = connect_within::<Welcome>(config, worker, hello, secret, left)?;
        Ok((link, greeted.answer, greeted.distance))
    };
    if !may_share_memory(config, endpoint) {
        return over_socket(hello, timeout);
    }
    let asking = Hello { capabilities: hello.capabilities | capability::MEMORY_LINK, ..hello.clone() };
    let (link, greeted) = connect_within::<Welcome>(config, worker, &asking, secret, timeout)?;
    if greeted.answer.capabilities & capability::MEMORY_LINK == 0 {
        return Ok((link, greeted.answer, greeted.distance));
    }
    let shared = match greeted.memory {
        Some(memory) => link.over_memory(&memory),
        // A forwarding proxy passes bytes, but no descriptors.
        None => Err(std::io::Error::other("the worker's shared memory did not arrive")),
    };
    match shared {
        Ok(link) => Ok((link, greeted.answer, greeted.distance)),
        Err(error) => {
            config.host.debug(format_args!("{endpoint}: no shared memory ({error}); using the socket"));
            let hello = Hello { nonce: greet::nonce()?, ..hello.clone() };
            over_socket(&hello, timeout.saturating_sub(start.elapsed()).max(SHORTEST_ATTEMPT))
        }
    }
}

/// Makes one attempt to connect an additional link within the configured timeout.
pub fn connect<Answer: Operation>(
    config: &Config,
    worker: &Candidate,
    hello: &Hello,
    secret: Option<&[u8; 32]>,
) -> Result<(Link, Answer), TransportError> {
    let (link, greeted) = connect_within(config, worker, hello, secret, config.connect_timeout)?;
    Ok((link, greeted.answer))
}

fn connect_within<Answer: Operation>(
    config: &Config,
    worker: &Candidate,
    hello: &Hello,
    secret: Option<&[u8; 32]>,
    timeout: Duration,
) -> Result<(Link, Greeted<Answer>), TransportError> {
    let start = Instant::now();
    let Candidate { endpoint, token, trust } = worker;
    let mut link = endpoint.connect(timeout)?;
    let left = || timeout.saturating_sub(start.elapsed()).max(SHORTEST_ATTEMPT);
    if let Endpoint::Tls { host, .. } = endpoint {
        let trust =
            trust.as_ref().ok_or_else(|| TransportError::NoTrust { endpoint: endpoint.to_string() })?;
        link = tls::connect(link, host, tls::client_config(trust)?, left())?;
    }
    let credentials = Credentials { token: token.as_deref(), secret };
    let patience = match secret {
        // An existing session has no device to start. A connection that is silent now is replaced like any other.
        Some(_) => config.silence_timeout.map_or(WELCOME_PATIENCE, |silence| silence.min(WELCOME_PATIENCE)),
        None => WELCOME_PATIENCE,
    };
    let greeted = greet::greet_attached(&link, hello, &credentials, left(), patience)?;
    Ok((link, greeted))
}
