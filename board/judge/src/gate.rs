//! The gate between user code and the worker. User code has no network and sees one Unix socket; the judge is at its other end.
//!
//! The gate opens the session itself, so user code neither knows the worker's token nor sends anything but requests of that session.
//! It passes on whole frames and counts them. While it is closed no request of the user code reaches the worker, so the judge decides
//! when its work can begin.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use transport::{Endpoint, Link, TransportError, greet};
use wire::{
    Challenge, Header, Hello, MAX_HANDSHAKE_BYTES, Opcode, Proof, Purpose, RejectCode, Welcome, capability,
};
use worker_client::WorkerAddress;

/// Timeout for connecting and for each step of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Timeout for the worker to start a session.
const START: Duration = Duration::from_secs(120);
/// Most sessions of a program without measurements.
const MOST_SESSIONS: usize = 4;
const BUFFER_BYTES: usize = 64 << 10;
/// Bytes of a request that are not counted as an upload: fields, and the arguments of a kernel.
const FIELDS_BYTES: u64 = 256;
/// Ways around the gate: shared memory and further connections. The gate offers neither side any of them. Spans are the observer's.
const HIDDEN: u64 = capability::MEMORY_LINK | capability::STRANDS | capability::SPANS;

/// What user code may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// One session, whose requests pass only while the gate is open.
    Measured,
    /// Some sessions, whose requests always pass.
    Free,
}

/// A gate and its socket.
#[derive(Debug)]
pub(crate) struct Gate {
    socket: PathBuf,
    /// Folder of the socket.
    _folder: tempfile::TempDir,
    state: Arc<State>,
}

/// Requests that have passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    pub requests: u64,
    /// Bytes of their contents, apart from fields.
    pub uploaded: u64,
}

#[derive(Debug, Default)]
struct State {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    is_open: bool,
    /// Number of sessions that were requested, and the first one that was opened.
    sessions: usize,
    session: Option<u64>,
    passed: Passed,
    /// Why there is no session.
    failed: Option<String>,
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}

impl Gate {
    /// Listens on a new socket. The gate is closed.
    pub fn new(worker: &WorkerAddress, policy: Policy) -> io::Result<Gate> {
        if let Endpoint::Tls { .. } = worker.endpoint {
            let text = "host code can use workers only over TCP and unix sockets, not over TLS";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let folder = tempfile::Builder::new().prefix("worker-").tempdir()?;
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))?;
        let socket = folder.path().join("worker");
        let listener = UnixListener::bind(&socket)?;
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o777))?;
        let state = Arc::new(State::default());
        let entrance = Entrance { worker: worker.clone(), policy, state: Arc::clone(&state) };
        std::thread::Builder::new().name("gate".to_owned()).spawn(move || {
            // The thread ends with this process. Later connections fail because the socket file is removed.
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let entrance = entrance.clone();
                std::thread::spawn(move || entrance.serve(&Link::from_unix(stream)));
            }
        })?;
        Ok(Gate { socket, _folder: folder, state })
    }

    /// Returns the path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Waits for the session of the user code. Returns its id.
    pub fn session(&self, until: Instant) -> Result<u64, String> {
        let mut inner = self.state.lock();
        loop {
            if let Some(session) = inner.session {
                return Ok(session);
            }
            if let Some(text) = &inner.failed {
                return Err(text.clone());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err("it did not open a session in time".to_owned());
            }
            let waited = self.state.changed.wait_timeout(inner, left);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Lets requests pass.
    pub fn open(&self) {
        self.state.change(|inner| inner.is_open = true);
    }

    /// Lets no further request pass. Returns what has passed since the session began.
    pub fn close(&self) -> Passed {
        let mut inner = self.state.lock();
        inner.is_open = false;
        inner.passed
    }
}

/// Serves connections of user code.
#[derive(Clone)]
struct Entrance {
    worker: WorkerAddress,
    policy: Policy,
    state: Arc<State>,
}

impl Entrance {
    fn serve(&self, near: &Link) {
        let far = match self.admit(near) {
            Ok(far) => far,
            Err(error) => {
                let text = error.to_string();
                let _ = greet::send(near, &RejectCode::Failed.reject(text.clone()));
                return self.state.change(|inner| inner.failed = Some(text));
            }
        };
        let (back, to) = (far.clone(), near.clone());
        let replies = std::thread::spawn(move || {
            let _ = io::copy(&mut &back, &mut &to);
            to.shutdown();
        });
        let _ = self.pass(near, &far);
        far.shutdown();
        near.shutdown();
        let _ = replies.join();
    }

    /// Opens a session for a connection. Returns the link to the worker.
    fn admit(&self, near: &Link) -> Result<Link, TransportError> {
        near.set_read_timeout(Some(HANDSHAKE))?;
        let hello: Hello = greet::expect(near, MAX_HANDSHAKE_BYTES)?;
        let refuse = |text: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, text).into());
        if hello.purpose != Purpose::Session as u8 || hello.session_id != 0 {
            return refuse("user code may only open sessions");
        }
        let most = match self.policy {
            Policy::Measured => 1,
            Policy::Free => MOST_SESSIONS,
        };
        let mut inner = self.state.lock();
        inner.sessions += 1;
        let count = inner.sessions;
        drop(inner);
        if count > most {
            return refuse("user code has too many sessions");
        }
        let own = Hello {
            capabilities: hello.capabilities & !HIDDEN,
            nonce: greet::nonce()?,
            received: 0,
            ..hello.clone()
        };
        let far = self.worker.endpoint.connect(HANDSHAKE)?;
        let credentials = greet::Credentials { token: self.worker.token.as_deref(), secret: None };
        let welcome: Welcome = greet::greet(&far, &own, &credentials, HANDSHAKE, START)?;
        let wants_proof = hello.capabilities & capability::SHORT_GREETING == 0;
        let challenge = Challenge {
            version: welcome.version,
            nonce: greet::nonce()?,
            requires_token: false,
            wants_proof,
        };
        greet::send(near, &challenge)?;
        if wants_proof {
            greet::expect::<Proof>(near, MAX_HANDSHAKE_BYTES)?;
        }
        let session = welcome.session_id;
        let shown = Welcome { capabilities: welcome.capabilities & !HIDDEN, neighbour: 0, ..welcome };
        greet::send(near, &shown)?;
        near.set_read_timeout(None)?;
        self.state.change(|inner| inner.session = inner.session.or(Some(session)));
        Ok(far)
    }

    /// Passes on frames until one side closes its connection.
    fn pass(&self, near: &Link, far: &Link) -> Result<(), TransportError> {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let mut head = [0; Header::BYTES];
            near.read_exact(&mut head)?;
            let header = Header::decode(&head)?;
            let passes = match header.is_sequenced() {
                true => {
                    self.wait(&header);
                    true
                }
                // They keep the connection alive and free buffers. Others would change how it works.
                false => matches!(header.known(), Ok(Opcode::Ack | Opcode::Ping | Opcode::Pong)),
            };
            if passes {
                far.write_all(&head)?;
            }
            let mut left = header.payload_len;
            while left > 0 {
                let bytes = (left.min(BUFFER_BYTES as u64)) as usize;
                near.read_exact(&mut buffer[..bytes])?;
                if passes {
                    far.write_all(&buffer[..bytes])?;
                }
                left -= bytes as u64;
            }
        }
    }

    /// Waits until a request may pass, and counts it.
    fn wait(&self, header: &Header) {
        let mut inner = self.state.lock();
        while self.policy == Policy::Measured && !inner.is_open {
            inner = self.state.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        inner.passed.requests += 1;
        inner.passed.uploaded += header.payload_len.saturating_sub(FIELDS_BYTES);
    }
}
