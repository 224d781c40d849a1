//! Where and how to connect, and why a session could not be opened.

use std::io;
use std::time::Duration;

use transport::tls::Trust;
use transport::{DEFAULT_PORT, Endpoint, TransportError};

use crate::failover::FailoverConfig;
use crate::host::{Host, StandardError, Traffic};
use crate::link::liveness::DEFAULT_SILENCE_TIMEOUT;
use crate::send::upload::When;

/// Where and how to connect.
#[derive(Clone, Debug)]
pub struct Config {
    /// The worker.
    pub endpoint: Endpoint,
    /// The worker's token, if it wants one.
    pub token: Option<Vec<u8>>,
    /// Trusted CA or fingerprint, for a TLS endpoint.
    pub trust: Option<Trust>,
    /// Workers to try if that one does not accept the session, in this order.
    pub others: Vec<Candidate>,
    /// Timeout of the first connection, and of each attempt to replace a broken one.
    pub connect_timeout: Duration,
    /// Reconnects after the worker has been silent for this long. `None`: waits for the system to report a broken
    /// connection.
    pub silence_timeout: Option<Duration>,
    /// Waits for the reply of every request.
    pub strict: bool,
    /// The program name that the worker logs.
    pub program: String,
    /// What is kept of requests.
    pub retention: Retention,
    /// How copies are optimized.
    pub copies: CopyPolicy,
    /// The library around the session.
    pub host: &'static dyn Host,
    /// The observer of a trace or summary, if one was requested.
    pub traffic: Option<&'static dyn Traffic>,
}

impl Config {
    /// The workers of the list, in order.
    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        let own = Candidate {
            endpoint: self.endpoint.clone(),
            token: self.token.clone(),
            trust: self.trust.clone(),
        };
        std::iter::once(own).chain(self.others.iter().cloned()).collect()
    }
}

/// A worker, and what it takes to connect to it.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The worker.
    pub endpoint: Endpoint,
    /// Its token, if it wants one.
    pub token: Option<Vec<u8>>,
    /// Trusted CA or fingerprint, for a TLS endpoint.
    pub trust: Option<Trust>,
}

/// What is kept of requests.
#[derive(Clone, Debug, Default)]
pub struct Retention {
    /// Limits of unacknowledged requests.
    pub window: Window,
    /// Limits of failover: the session continues on another worker if its own dies. `None`: it ends.
    pub failover: Option<FailoverConfig>,
}

impl Default for Window {
    fn default() -> Window {
        Window { bytes: 8 << 20, frames: 32 << 10 }
    }
}

/// Limits of unacknowledged requests. Both are powers of two.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Bytes in the ring.
    pub bytes: usize,
    /// Frames in the ring.
    pub frames: usize,
}

/// How copies are optimized, if the worker can.
#[derive(Clone, Copy, Debug, Default)]
pub struct CopyPolicy {
    /// When uploads are hashed, so that a later run can skip sending them.
    pub hashing: When,
    /// When uploads are compressed.
    pub packing: When,
    /// Number of TCP links that copies are spread over; by default chosen by the latency of the worker.
    pub links: Option<u16>,
    /// Exchanges no bytes through shared memory with a worker on this machine.
    pub sockets_only: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            endpoint: Endpoint::tcp("127.0.0.1", DEFAULT_PORT),
            token: None,
            trust: None,
            others: Vec::new(),
            connect_timeout: Duration::from_secs(3),
            silence_timeout: Some(DEFAULT_SILENCE_TIMEOUT),
            strict: false,
            program: String::new(),
            retention: Retention::default(),
            copies: CopyPolicy::default(),
            host: &StandardError,
            traffic: None,
        }
    }
}

/// Why a session could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No address range for device memory is free in this process.
    #[error("cannot reserve an address range for device memory: {0}")]
    Reserve(#[source] io::Error),
    /// The worker chose a range that this process uses otherwise.
    #[error("the worker's address range {base:#x} + {bytes:#x} is already in use in this process: {source}")]
    RangeInUse {
        /// First address of the range.
        base: u64,
        /// Size of the range.
        bytes: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// No worker accepted the session.
    #[error("no session with a worker at {endpoint}: {}{others}", source.line())]
    Connect {
        /// The address of the first worker.
        endpoint: Endpoint,
        /// The transport's reason.
        source: TransportError,
        /// Addresses and reasons of the other workers in the list, formatted for the message.
        others: Box<str>,
    },
    /// The request window could not be allocated.
    #[error("no memory for the request window: {0}")]
    Window(#[source] io::Error),
    /// A thread of the session could not be started.
    #[error("the {name} thread cannot start: {source}")]
    Thread {
        /// What the thread is for.
        name: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}
