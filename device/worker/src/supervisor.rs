//! The process that listens: accepts, checks who is there, and hands connections to sessions.
//!
//! It never touches a device. A connection that misbehaves costs one thread for at most the handshake's time limit.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use transport::{Endpoint, Link, Listener, TransportError, greet, tls};
use wire::{Frame, MAX_HANDSHAKE_BYTES, Opcode, Purpose, RejectCode, decode_request};

use crate::allowance::{self, Allowance};
use crate::compile::CompilerConfig;
use crate::compile_cache::CompileCache;
use crate::config::{SessionConfig, WorkerConfig, WorkerError};
use crate::confine;
use crate::greeting::{self, Guest, Refusal};
use crate::probe::{DeviceSummary, probe};
use crate::proxy;
use crate::sessions::{Programs, Sessions};
use crate::status::{DeviceStatus, Status};

/// Connections that may be in their handshake at the same time.
const MAX_HANDSHAKES: usize = 256;
/// Between two looks whether anybody uses a worker that ends when nobody does.
const IDLE_LOOK: Duration = Duration::from_secs(1);

/// Listens and serves until SIGTERM or SIGINT, or until nobody has used it for as long as was said.
pub fn supervise(config: WorkerConfig) -> Result<(), WorkerError> {
    // Before any thread exists, so that every thread inherits it and only the descriptor below sees the signals.
    let signals = block_signals()?;
    if let Some(limits) = &config.session.limits {
        limits.check()?;
    }
    let devices = probe(&config.session)?;
    confine::announce(&config.session);
    let allowance = config.session.limits.map(|limits| {
        Allowance::new(limits, devices.len() as u32, config.max_sessions as u32)
            .map_err(|source| WorkerError::Io { what: "no page of limits", source })
    });
    let allowance = allowance.transpose()?;
    let server = config.tls.as_ref().map(tls::Identity::server_config).transpose()?;
    let mut listeners = Vec::new();
    for endpoint in &config.listen {
        let listener = Listener::bind(endpoint)?;
        if !listener.is_local() && config.token.is_none() {
            return Err(WorkerError::TokenRequired { endpoint: endpoint.to_string() });
        }
        if matches!(endpoint, Endpoint::Tls { .. }) && server.is_none() {
            return Err(WorkerError::NoCertificate { endpoint: endpoint.to_string() });
        }
        listeners.push((listener, endpoint.clone()));
    }
    let session = SessionConfig {
        compiler: CompilerConfig {
            cache: config
                .session
                .compiler
                .cache
                .as_ref()
                .map(|all| CompileCache::of_tenant(all, config.token.as_deref())),
            ..config.session.compiler.clone()
        },
        uploads: config.session.uploads.clone().map(|uploads| uploads.of_tenant(config.token.as_deref())),
        ..config.session.clone()
    };
    let worker = format!("remora {} ({})", env!("CARGO_PKG_VERSION"), config.session.backend.name());
    let supervisor = Arc::new(Supervisor {
        sessions: Arc::new(Sessions::new(
            config.max_sessions,
            Programs {
                session: config.executor.clone(),
                session_environment: config.executor_environment.clone(),
                compiler: config.compiler.clone(),
            },
            session,
            worker.clone(),
            allowance,
        )),
        tls: server,
        devices,
        worker,
        started: Instant::now(),
        handshakes: AtomicUsize::new(0),
        config,
    });
    for (listener, asked) in &listeners {
        supervisor.announce(listener, asked)?;
    }
    allowance::measure(Arc::clone(&supervisor.sessions))
        .map_err(|source| WorkerError::Io { what: "no thread that measures", source })?;
    let result = supervisor.accept_until_signalled(&listeners, signals);
    drop(listeners);
    supervisor.sessions.end_all();
    result
}

struct Supervisor {
    config: WorkerConfig,
    sessions: Arc<Sessions>,
    tls: Option<Arc<rustls::ServerConfig>>,
    devices: Vec<DeviceSummary>,
    worker: String,
    started: Instant,
    handshakes: AtomicUsize,
}

impl Supervisor {
    fn announce(&self, listener: &Listener, asked: &Endpoint) -> Result<(), WorkerError> {
        let io = |source| WorkerError::Io { what: "the address cannot be announced", source };
        let bound = match (listener.endpoint().map_err(io)?, self.speaks_tls(asked)) {
            (Endpoint::Tcp { host, port }, true) => Endpoint::Tls { host, port },
            (endpoint, _) => endpoint,
        };
        tracing::info!("{} listening on {bound}", self.worker);
        if self.config.announce {
            let mut out = std::io::stdout().lock();
            writeln!(out, "listening on {bound}").and_then(|()| out.flush()).map_err(io)?;
        }
        Ok(())
    }

    fn speaks_tls(&self, endpoint: &Endpoint) -> bool {
        self.tls.is_some() && !matches!(endpoint, Endpoint::Unix { .. })
    }

    fn accept_until_signalled(
        self: &Arc<Supervisor>,
        listeners: &[(Listener, Endpoint)],
        signals: libc::c_int,
    ) -> Result<(), WorkerError> {
        let mut polls: Vec<libc::pollfd> = listeners
            .iter()
            .map(|(listener, _)| listener.raw_fd())
            .chain([signals])
            .map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 })
            .collect();
        let mut used = Instant::now();
        loop {
            let patience = match self.config.exit_when_idle {
                None => -1,
                Some(limit) => {
                    if !self.sessions.is_empty() || self.handshakes.load(Ordering::Relaxed) > 0 {
                        used = Instant::now();
                    }
                    let left = limit.saturating_sub(used.elapsed());
                    if left.is_zero() {
                        tracing::info!("no session for {limit:?}");
                        return Ok(());
                    }
                    left.min(IDLE_LOOK).as_millis().max(1) as libc::c_int
                }
            };
            // SAFETY: the array is valid for its length.
            let ready = unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, patience) };
            if ready < 0 {
                let source = std::io::Error::last_os_error();
                if source.kind() == std::io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(WorkerError::Io { what: "waiting for connections failed", source });
            }
            if polls[listeners.len()].revents != 0 {
                tracing::info!("told to stop");
                return Ok(());
            }
            for (poll, (listener, endpoint)) in polls.iter().zip(listeners) {
                if poll.revents == 0 {
                    continue;
                }
                match listener.accept() {
                    Ok((link, peer)) => self.receive(link, peer, self.speaks_tls(endpoint)),
                    Err(error) => {
                        tracing::warn!("accept failed: {error}");
                        // Out of descriptors, most likely: let some close instead of spinning.
                        std::thread::sleep(std::time::Duration::from_millis(20));
                    }
                }
            }
        }
    }

    /// Greets a connection on a thread of its own.
    fn receive(self: &Arc<Supervisor>, link: Link, peer: String, encrypted: bool) {
        if self.handshakes.fetch_add(1, Ordering::Relaxed) >= MAX_HANDSHAKES {
            self.handshakes.fetch_sub(1, Ordering::Relaxed);
            tracing::warn!("{peer} refused: {MAX_HANDSHAKES} handshakes are under way");
            return;
        }
        let supervisor = Arc::clone(self);
        let greet = move || {
            let done = supervisor.greet(link, &peer, encrypted);
            supervisor.handshakes.fetch_sub(1, Ordering::Relaxed);
            match done {
                Ok(()) => {}
                // No fault of anybody's, and a client that waits asks often.
                Err(Refusal::Rejected(it))
                    if [RejectCode::Moved as u32, RejectCode::Away as u32].contains(&it.code) =>
                {
                    tracing::debug!("{peer} sent on: {}", it.text);
                }
                Err(refusal) => tracing::warn!("{peer} refused: {}", line(&refusal)),
            }
        };
        if let Err(error) = std::thread::Builder::new().name("greeting".to_owned()).spawn(greet) {
            self.handshakes.fetch_sub(1, Ordering::Relaxed);
            tracing::error!("no thread for a connection: {error}");
        }
    }

    fn greet(&self, link: Link, peer: &str, encrypted: bool) -> Result<(), Refusal> {
        let timeout = self.config.handshake_timeout;
        let link = match &self.tls {
            Some(config) if encrypted => tls::accept(link, Arc::clone(config), timeout)?,
            _ => link,
        };
        let token = self.config.token.as_deref();
        let guest = greeting::welcome(&link, timeout, token, |id| self.sessions.secret_of(id))?;
        if guest.hello.purpose == Purpose::Inspect as u8 {
            let text = self.status().to_json();
            return Ok(greet::send(&link, &wire::Status { text })?);
        }
        if guest.hello.purpose == Purpose::Administer as u8 {
            return self.administer(&link);
        }
        self.open(&link, peer, &guest)
    }

    /// Hands a link to the session that is to leave, or to the process of one that comes.
    fn administer(&self, link: &Link) -> Result<(), Refusal> {
        let reject = |text: String| {
            let reject = RejectCode::BadRequest.reject(text);
            let _ = greet::send(link, &reject);
            Err(Refusal::Rejected(reject))
        };
        link.set_read_timeout(Some(self.config.handshake_timeout)).map_err(TransportError::from)?;
        let Frame { header, payload } = greet::receive(link, MAX_HANDSHAKE_BYTES)?;
        link.set_read_timeout(None).map_err(TransportError::from)?;
        if header.is(Opcode::Redirect) {
            let (it, _) = decode_request::<wire::Redirect>(&payload).map_err(TransportError::from)?;
            return match self.sessions.absent().redirect(it.session, it.endpoint) {
                true => Ok(greet::send(link, &wire::Done { session: it.session })?),
                false => reject(format!("session {:016x} has not left this worker", it.session)),
            };
        }
        let fd = if link.is_encrypted() { proxy::start(link) } else { link.try_clone_fd() };
        let fd = fd.map_err(TransportError::from)?;
        if header.is(Opcode::Snapshot) {
            let (it, _) = decode_request::<wire::Snapshot>(&payload).map_err(TransportError::from)?;
            return match self.sessions.depart(it.session, it.patience_ms, &fd) {
                true => Ok(()),
                false => reject(format!("there is no session {:016x}", it.session)),
            };
        }
        if header.is(Opcode::Resume) {
            return self.sessions.resume(&fd).or_else(|error| reject(line(&error)));
        }
        reject(format!("{} is no question to a worker", wire::name(header.opcode)))
    }

    /// Gives a connection to a new session, or to the one it belongs to.
    fn open(&self, link: &Link, peer: &str, guest: &Guest) -> Result<(), Refusal> {
        let Guest { hello, version } = guest;
        let reject = |code: RejectCode, text: String| {
            let reject = code.reject(text);
            let _ = greet::send(link, &reject);
            Err(Refusal::Rejected(reject))
        };
        if hello.session_id == 0 && self.sessions.is_full() {
            let text =
                format!("{} sessions are running, which is this worker's limit", self.config.max_sessions);
            return reject(RejectCode::Full, text);
        }
        let gone = || match self.sessions.absent().ask(hello.session_id).map(|absence| absence.endpoint) {
            Some(Some(endpoint)) => reject(RejectCode::Moved, endpoint),
            Some(None) => reject(RejectCode::Away, "the session is suspended".to_owned()),
            None => reject(RejectCode::UnknownSession, "the session has ended".to_owned()),
        };
        // A session that is here again comes before the word that it had left.
        if hello.session_id != 0 && !self.sessions.has(hello.session_id) {
            return gone();
        }
        let connection = if link.is_encrypted() { proxy::start(link) } else { link.try_clone_fd() };
        let connection = connection.map_err(TransportError::from)?;
        if hello.purpose == Purpose::Strand as u8 {
            return match self.sessions.join(hello.session_id, hello.received as u16, &connection) {
                true => Ok(()),
                false => gone(),
            };
        }
        if hello.session_id != 0 {
            if self.sessions.reattach(hello.session_id, hello, *version, peer, &connection) {
                tracing::info!("session {:016x} of {} continues from {peer}", hello.session_id, hello.client);
                return Ok(());
            }
            // Its process is about to end; whether the session is elsewhere is known when it has.
            self.sessions.wait_until_gone(hello.session_id);
            return gone();
        }
        match self.sessions.start(hello, *version, peer, connection) {
            Ok(id) => {
                tracing::info!("session {id:016x} of {} (pid {}) from {peer}", hello.client, hello.pid);
                Ok(())
            }
            Err(error) => reject(RejectCode::Failed, line(&error)),
        }
    }

    fn status(&self) -> Status {
        let reports = self.sessions.report();
        let devices = self.devices.iter().enumerate().map(|(at, device)| {
            let used =
                |report: &crate::status::SessionReport| report.memory_used.get(at).copied().unwrap_or(0);
            let load =
                |report: &crate::status::SessionReport| report.load_percent.get(at).copied().unwrap_or(0.0);
            DeviceStatus {
                ordinal: at as u32,
                name: device.name.clone(),
                isa: device.isa.clone(),
                memory_total: device.memory,
                memory_used: reports.iter().map(|(_, report)| used(report)).sum(),
                compute_units: device.compute_units,
                clock_mhz: device.clock_mhz,
                memory_clock_mhz: device.memory_clock_mhz,
                load_percent: reports
                    .iter()
                    .map(|(_, report)| load(report))
                    .fold(0.0, |sum, load| sum + load)
                    .min(100.0),
                sessions: reports.iter().filter(|(_, report)| used(report) > 0 || load(report) > 0.0).count()
                    as u32,
                limits: self.sessions.allowance().map(|allowance| allowance.status(at as u32)),
            }
        });
        Status {
            worker: self.worker.clone(),
            backend: self.config.session.backend.name().to_owned(),
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs(),
            uptime_ms: self.started.elapsed().as_millis() as u64,
            max_sessions: self.config.max_sessions,
            devices: devices.collect(),
            sessions: reports.iter().map(|(status, _)| status.clone()).collect(),
        }
    }
}

fn block_signals() -> Result<libc::c_int, WorkerError> {
    // SAFETY: plain system calls on a set that lives through them.
    let fd = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        libc::sigaddset(&raw mut set, libc::SIGINT);
        libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        libc::signalfd(-1, &set, libc::SFD_CLOEXEC)
    };
    if fd < 0 {
        let source = std::io::Error::last_os_error();
        return Err(WorkerError::Io { what: "signals cannot be watched", source });
    }
    Ok(fd)
}

/// An error with its causes on one line.
pub(crate) fn line(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        cause = error.source();
    }
    line
}
