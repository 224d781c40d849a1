//! The supervisor: listens, accepts and authenticates connections, and hands them to sessions.
//!
//! It never touches a device. A misbehaving connection costs one thread until the handshake timeout, or until other connections
//! need its slot (`supervisor/handshakes.rs`).

mod admission;
mod adoption;
pub(crate) mod allowance;
mod broker;
mod checkpoints;
mod child;
mod compiler_process;
mod custody;
mod departed;
mod drain;
mod folder;
mod greeting;
mod handshakes;
pub(crate) mod ledgers;
mod oom;
pub(crate) mod probe;
mod process;
mod proxy;
mod saved;
mod sessions;
pub(crate) mod tenants;
pub(crate) mod tokens;
mod upgrade;
mod upkeep;

use std::io::Write;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use transport::{Endpoint, Link, Listener, TransportError, greet, tls};
use wire::{Frame, MAX_HANDSHAKE_BYTES, Opcode, Purpose, RejectCode, capability, decode_request};
use worker_status::{DeviceStatus, SessionStatus, Status};

use crate::config::WorkerConfig;
use crate::confine;
use crate::error::{WorkerError, one_line};
use crate::keeper::raise_descriptor_limit;
use crate::session_report::SessionReport;
use crate::supervisor::admission::Admission;
use crate::supervisor::adoption::Estate;
use crate::supervisor::checkpoints::{CheckpointStore, NO_FOLDER, Revival};
use crate::supervisor::custody::{Custody, Held, listener_key};
use crate::supervisor::departed::DepartedSession;
use crate::supervisor::drain::{Drain, Stage};
use crate::supervisor::greeting::{AuthenticatedClient, HandshakeCheck, Refusal};
use crate::supervisor::handshakes::{Caps, HandshakeSlot, Handshakes, Origin};
use crate::supervisor::probe::{DeviceSummary, probe};
use crate::supervisor::saved::Note;
use crate::supervisor::sessions::{Programs, Sessions};
use crate::supervisor::tenants::{Tenants, Who};
use crate::supervisor::tokens::{Role, TokensError};

/// Poll interval for detecting that a worker is idle.
const IDLE_LOOK: Duration = Duration::from_secs(1);

/// Poll interval for the end of a drain.
const DRAIN_LOOK: Duration = Duration::from_millis(20);

/// How long an upgrade waits for handshakes that are under way.
const UPGRADE_HANDSHAKES: Duration = Duration::from_secs(2);

/// Listens and serves until SIGTERM or SIGINT, or until the worker was idle for the configured time.
pub fn supervise(config: WorkerConfig) -> Result<(), WorkerError> {
    // Before any thread starts, so that every thread inherits the signal mask and only the signalfd receives the signals.
    let signals = block_signals()?;
    if let Some(limits) = &config.session.limits {
        limits.check()?;
    }
    let devices = probe(&config.session)?;
    confine::announce(&config.session);
    for token in &config.tokens {
        transport::token::check_strength(&token.label(), &token.token).map_err(TokensError::from)?;
    }
    let only_admins = config.tokens.iter().all(|token| token.role == Role::Admin);
    if config.tokens_file.is_none() && only_admins && !config.tokens.is_empty() {
        return Err(WorkerError::OnlyAdmin);
    }
    raise_descriptor_limit();
    // First, since it locks the folder that the keeper's socket is in.
    let drain = config.drain.clone().map(Drain::new).transpose();
    let drain = drain
        .map_err(|source| WorkerError::Io { what: "cannot use the folder of saved sessions", source })?;
    let (custody, items) = config.handover.as_ref().map(Custody::open).transpose()?.unwrap_or_default();
    let custody = Arc::new(custody);
    let mut estate = Estate::new(items);
    let tenants = Arc::new(Tenants::new(
        config.session.clone(),
        devices.len() as u32,
        config.max_sessions as u32,
        config.tokens.clone(),
        config.tokens_file.clone(),
        config.ledgers.as_ref(),
        estate.pages(&custody),
    )?);
    let server = config.tls.as_ref().map(tls::Identity::server_config).transpose()?;
    let mut listeners = Vec::new();
    let mut upgraded = false;
    for (index, endpoint) in config.listen.iter().enumerate() {
        let listener = match estate.listener(index, endpoint) {
            Some(listener) => {
                upgraded = true;
                listener
            }
            None => Listener::bind(endpoint)?,
        };
        if !listener.is_local() && !tenants.have_tokens() {
            return Err(WorkerError::TokenRequired { endpoint: endpoint.to_string() });
        }
        if !listener.is_local() && server.is_none() {
            tracing::warn!(
                "{endpoint} is plain TCP that other machines can reach: programs, their data and results cross the network \
                 unencrypted; use --listen tls://HOST:PORT with --tls-self-signed or --tls-cert"
            );
        }
        if matches!(endpoint, Endpoint::Tls { .. }) && server.is_none() {
            return Err(WorkerError::NoCertificate { endpoint: endpoint.to_string() });
        }
        listeners.push((listener, endpoint.clone()));
    }
    let worker = format!("remora {} ({})", env!("CARGO_PKG_VERSION"), config.session.backend.name());
    let programs = Programs {
        session: config.executor.clone(),
        session_environment: config.executor_environment.clone(),
        compiler: config.compiler.clone(),
    };
    let supervisor = Arc::new(Supervisor {
        sessions: Arc::new(Sessions::new(config.max_sessions, programs, worker.clone(), &custody)),
        tenants,
        tls: server,
        devices,
        worker,
        started: Instant::now(),
        handshakes: Arc::new(Handshakes::new(Caps::default())),
        admission: Admission::new(estate.elsewhere.take(), &custody),
        drain: drain.map(Arc::new),
        revival: OnceLock::new(),
        custody,
        upgraded,
        config,
    });
    supervisor.custody.settle();
    estate.adopt(&supervisor.sessions, &supervisor.tenants, &supervisor.custody);
    // Before the first client is accepted, so that it finds its session suspended and waits.
    let saved = supervisor.drain.as_ref().map(|drain| drain.expect_saved(&supervisor.sessions));
    let revival = supervisor.start_checkpoints(saved.as_deref().unwrap_or_default())?;
    upkeep::measure(Arc::clone(&supervisor.tenants))
        .map_err(|source| WorkerError::Io { what: "cannot start the thread that measures usage", source })?;
    for (listener, asked) in &listeners {
        supervisor.leave_token(listener);
        supervisor.announce(listener, asked)?;
    }
    upkeep::trim(Arc::clone(&supervisor.tenants))
        .map_err(|source| WorkerError::Io { what: "cannot start the ledger thread", source })?;
    supervisor.restore(saved.unwrap_or_default()).map_err(|source| WorkerError::Io {
        what: "cannot start the thread that resumes sessions",
        source,
    })?;
    if let Some((revival, notes)) = revival {
        let restoration = supervisor.sessions.restoration();
        let revive = move || {
            notes.iter().for_each(|note| revival.revive(note));
            drop(restoration);
        };
        std::thread::Builder::new().name("revival".to_owned()).spawn(revive).map_err(|source| {
            WorkerError::Io { what: "cannot start the thread that continues sessions", source }
        })?;
    }
    let result = supervisor.accept_until_signalled(&listeners, signals);
    drop(listeners);
    supervisor.tenants.forget_local();
    supervisor.sessions.end_all();
    supervisor.custody.end();
    result
}

/// Sessions of an earlier worker that are to continue from their checkpoints.
type Pending = (Arc<Revival>, Vec<Note>);

struct Supervisor {
    config: WorkerConfig,
    sessions: Arc<Sessions>,
    tenants: Arc<Tenants>,
    tls: Option<Arc<rustls::ServerConfig>>,
    devices: Vec<DeviceSummary>,
    worker: String,
    started: Instant,
    handshakes: Arc<Handshakes>,
    admission: Admission,
    drain: Option<Arc<Drain>>,
    /// Checkpoints, if they are configured.
    revival: OnceLock<Arc<Revival>>,
    custody: Arc<Custody>,
    /// Whether the listening sockets are those of the program that this one replaced.
    upgraded: bool,
}

impl Supervisor {
    fn announce(&self, listener: &Listener, asked: &Endpoint) -> Result<(), WorkerError> {
        let io = |source| WorkerError::Io { what: "cannot announce the listening address", source };
        let bound = match (listener.endpoint().map_err(io)?, self.speaks_tls(asked)) {
            (Endpoint::Tcp { host, port }, true) => Endpoint::Tls { host, port },
            (endpoint, _) => endpoint,
        };
        tracing::info!("{} listening on {bound}", self.worker);
        // A process that waited for this line has read it from the replaced program.
        if self.config.announce && !self.upgraded {
            let mut out = std::io::stdout().lock();
            writeln!(out, "listening on {bound}").and_then(|()| out.flush()).map_err(io)?;
        }
        Ok(())
    }

    /// Writes a token file for the worker's own user if the worker has no tokens. It is for systems where the kernel does not
    /// report the user of a TCP connection.
    fn leave_token(&self, listener: &Listener) {
        let Ok(Endpoint::Tcp { port, .. }) = listener.endpoint() else { return };
        if self.tenants.have_tokens() {
            return;
        }
        for folder in &self.config.local_tokens {
            match self.tenants.add_local(folder, port) {
                Ok(()) => return,
                Err(error) => tracing::debug!("cannot write a local token: {}", one_line(&error)),
            }
        }
    }

    /// Reloads the tokens file. An invalid file changes nothing.
    fn reload(&self) {
        match self.tenants.load() {
            Ok(gone) => {
                tracing::info!("tokens reloaded; {} tenants were removed", gone.len());
                gone.iter().for_each(|tenant| self.sessions.end_of(tenant));
            }
            Err(error) => {
                tracing::error!("tokens not reloaded, the old ones stay in use: {}", one_line(&error))
            }
        }
    }

    /// Executes the program that is now in the place of this one. Returns if that is not possible, and the worker continues.
    fn upgrade(&self, listeners: &[(Listener, Endpoint)]) {
        let refuse = |text: &str| tracing::error!("no upgrade in place, this program continues: {text}");
        let Some(config) = self.config.handover.as_ref().filter(|_| self.custody.is_on()) else {
            return refuse("it needs a folder of saved sessions and an --orphan-timeout above 0");
        };
        if self.stage() != Stage::Off {
            return refuse("the worker is shutting down");
        }
        let Some(program) = config.program.first() else { return refuse("the program is not known") };
        if let Err(text) = upgrade::check(program, &config.version_arguments) {
            return refuse(&text);
        }
        // Nothing is accepted meanwhile: connections wait in the queues of the listening sockets.
        let deadline = Instant::now() + UPGRADE_HANDSHAKES;
        while self.handshakes.is_open() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        for (index, (listener, endpoint)) in listeners.iter().enumerate() {
            let held = Held::Listener { index, endpoint: endpoint.to_string() };
            self.custody.put(&held, Some(listener.raw_fd()));
        }
        tracing::info!("upgrade in place: executing {}", program.to_string_lossy());
        let error = upgrade::execute(&config.program);
        (0..listeners.len()).for_each(|index| self.custody.remove(listener_key(index)));
        refuse(&format!("{}: {error}", program.to_string_lossy()));
    }

    /// Resumes saved sessions while the worker already serves others.
    fn restore(self: &Arc<Supervisor>, notes: Vec<Note>) -> std::io::Result<()> {
        let Some(drain) = self.drain.clone().filter(|_| !notes.is_empty()) else { return Ok(()) };
        let supervisor = Arc::clone(self);
        let restoration = self.sessions.restoration();
        let restore = move || {
            drain.restore(&supervisor.sessions, &supervisor.tenants, &notes);
            drop(restoration);
        };
        std::thread::Builder::new().name("restore".to_owned()).spawn(restore).map(drop)
    }

    /// Starts checkpoints, if they are configured. Returns the sessions of an earlier worker that are to continue: not those that it
    /// has saved, which are newer.
    fn start_checkpoints(&self, saved: &[Note]) -> Result<Option<Pending>, WorkerError> {
        let Some(config) = self.config.checkpoints.clone() else { return Ok(None) };
        let failed = |source| WorkerError::Io { what: "cannot use the folder of checkpoints", source };
        let store = Arc::new(CheckpointStore::open(config).map_err(failed)?);
        store.start(&self.sessions).map_err(failed)?;
        let (sessions, tenants) = (Arc::downgrade(&self.sessions), Arc::clone(&self.tenants));
        let revival = Arc::new(Revival { store, sessions, tenants });
        self.sessions.set_afterlife(Box::new(Arc::clone(&revival)));
        let _ = self.revival.set(Arc::clone(&revival));
        let mut notes = revival.store.list();
        notes.retain(|note| {
            !saved.iter().any(|it| it.session == note.session) && !self.sessions.has(note.session)
        });
        for note in &notes {
            let away = DepartedSession::new(note.tenant.clone(), note.secret, None);
            self.sessions.departed().insert(note.session, away);
        }
        Ok(Some((revival, notes)))
    }

    fn stage(&self) -> Stage {
        self.drain.as_ref().map_or(Stage::Off, |drain| drain.stage())
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
                _ if self.stage() == Stage::Done => return Ok(()),
                _ if self.stage() == Stage::Leaving => DRAIN_LOOK.as_millis() as libc::c_int,
                None => -1,
                Some(limit) => {
                    if !self.sessions.is_empty() || self.handshakes.is_busy() {
                        used = Instant::now();
                    }
                    let left = limit.saturating_sub(used.elapsed());
                    if left.is_zero() {
                        tracing::info!("stopping: no session for {limit:?}");
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
                let signal = next_signal(signals);
                // Without a tokens file, SIGHUP keeps its usual meaning: the terminal closed.
                if signal == Some(libc::SIGHUP) && self.config.tokens_file.is_some() {
                    self.reload();
                    continue;
                }
                if signal == Some(libc::SIGUSR2) {
                    self.upgrade(listeners);
                    continue;
                }
                // A second signal, and an interrupt from the keyboard, end the worker at once.
                if signal == Some(libc::SIGTERM)
                    && self.drain.as_ref().is_some_and(|drain| drain.begin(&self.sessions, &self.handshakes))
                {
                    continue;
                }
                tracing::info!("stopping: signal received");
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
                        // Probably out of file descriptors: wait for some to close instead of spinning.
                        std::thread::sleep(std::time::Duration::from_millis(20));
                    }
                }
            }
        }
    }

    /// Performs the handshake of a connection on a separate thread.
    fn receive(self: &Arc<Supervisor>, link: Link, peer: String, encrypted: bool) {
        let slot = self.handshakes.enter(&link, Origin::of(&link));
        let supervisor = Arc::clone(self);
        let greet = move || {
            let done = supervisor.greet(link, &peer, encrypted, &slot);
            match done {
                Ok(()) => {}
                // Already logged when it was closed to make room for another connection.
                Err(_) if slot.was_closed() => {}
                // Not an error, and a waiting client retries often.
                Err(Refusal::Rejected(it))
                    if [RejectCode::Moved as u32, RejectCode::Away as u32].contains(&it.code) =>
                {
                    tracing::debug!("{peer} redirected or asked to retry later: {}", it.text);
                }
                Err(refusal) => {
                    supervisor.handshakes.warn(format_args!("{peer} refused: {}", one_line(&refusal)));
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().name("greeting".to_owned()).spawn(greet) {
            self.handshakes.warn(format_args!("cannot start a thread for a connection: {error}"));
        }
    }

    fn greet(&self, link: Link, peer: &str, encrypted: bool, slot: &HandshakeSlot) -> Result<(), Refusal> {
        let timeout = self.config.handshake_timeout;
        let link = match &self.tls {
            Some(config) if encrypted => {
                greeting::expect_tls(&link, timeout)?;
                tls::accept(link, Arc::clone(config), timeout)?
            }
            _ => link,
        };
        let check = HandshakeCheck { tenants: &self.tenants, sessions: &self.sessions, slot, timeout };
        let client = check.welcome(&link)?;
        if client.hello.purpose == Purpose::Inspect as u8 {
            let text = self.status(&client.who).to_json();
            return Ok(greet::send(&link, &wire::Status { text })?);
        }
        if client.hello.purpose == Purpose::Administer as u8 {
            return self.administer(&link, &client.who);
        }
        self.open(&link, peer, &client)
    }

    /// Handles an administration request: hands the link to the session that is to leave, or to a new process for one that
    /// arrives.
    fn administer(&self, link: &Link, who: &Who) -> Result<(), Refusal> {
        let refuse = |code: RejectCode, text: String| {
            let reject = code.reject(text);
            let _ = greet::send(link, &reject);
            Err(Refusal::Rejected(reject))
        };
        let reject = |text: String| refuse(RejectCode::BadRequest, text);
        link.set_read_timeout(Some(self.config.handshake_timeout)).map_err(TransportError::from)?;
        let Frame { header, payload } = greet::receive(link, MAX_HANDSHAKE_BYTES)?;
        link.set_read_timeout(None).map_err(TransportError::from)?;
        // Checked only now: the client reads the reply after it has sent its request.
        if !who.may_administer() {
            let text = "this token is for sessions and cannot administer the worker: set REMORA_ADMIN_TOKEN_FILE to the token that the \
                        worker was given with --admin-token-file";
            return refuse(RejectCode::Access, text.to_owned());
        }
        if header.is(Opcode::Redirect) {
            let (it, _) = decode_request::<wire::Redirect>(&payload).map_err(TransportError::from)?;
            return match self.sessions.departed().redirect(it.session, it.endpoint) {
                true => Ok(greet::send(link, &wire::Done { session: it.session })?),
                false => reject(format!("session {} has not left this worker", wire::SessionId(it.session))),
            };
        }
        if header.is(Opcode::StoreCheckpoint) {
            let (it, _) = decode_request::<wire::StoreCheckpoint>(&payload).map_err(TransportError::from)?;
            let session = it.session;
            return match self.store_for_peer(link, it) {
                Ok(()) => Ok(greet::send(link, &wire::Done { session })?),
                Err(text) => reject(text),
            };
        }
        if header.is(Opcode::DiscardCheckpoint) {
            let (it, _) =
                decode_request::<wire::DiscardCheckpoint>(&payload).map_err(TransportError::from)?;
            if let Some(revival) = self.revival.get() {
                revival.store.discard_held(it.session);
            }
            return Ok(greet::send(link, &wire::Done { session: it.session })?);
        }
        if header.is(Opcode::RenewCheckpoints) {
            let (it, _) = decode_request::<wire::RenewCheckpoints>(&payload).map_err(TransportError::from)?;
            if let Some(revival) = self.revival.get() {
                revival.store.renew_held(&it.sessions);
            }
            return Ok(greet::send(link, &wire::Done { session: 0 })?);
        }
        if header.is(Opcode::OpenElsewhere) {
            let (it, _) = decode_request::<wire::OpenElsewhere>(&payload).map_err(TransportError::from)?;
            self.admission.redirect(Some(it.endpoint).filter(|endpoint| !endpoint.is_empty()));
            return Ok(greet::send(link, &wire::Done { session: 0 })?);
        }
        let fd = if link.is_encrypted() { proxy::start(link) } else { link.try_clone_fd() };
        let fd = fd.map_err(TransportError::from)?;
        if header.is(Opcode::Snapshot) {
            let (it, _) = decode_request::<wire::Snapshot>(&payload).map_err(TransportError::from)?;
            return match self.sessions.depart(it.session, it.patience_ms, &fd) {
                true => Ok(()),
                false => reject(format!("session {} not found", wire::SessionId(it.session))),
            };
        }
        if header.is(Opcode::Observe) {
            let (it, _) = decode_request::<wire::Observe>(&payload).map_err(TransportError::from)?;
            return match self.sessions.observe(it.session, &fd) {
                true => Ok(()),
                false => reject(format!("session {} not found", wire::SessionId(it.session))),
            };
        }
        if header.is(Opcode::Resume) || header.is(Opcode::ResumeFor) {
            let named = match header.is(Opcode::ResumeFor) {
                true => {
                    Some(decode_request::<wire::ResumeFor>(&payload).map_err(TransportError::from)?.0.tenant)
                }
                false => None,
            };
            return match self.tenants.tenant_for(named.as_deref()) {
                Ok(tenant) => self.sessions.resume(&tenant, &fd).or_else(|error| reject(one_line(&error))),
                Err(text) => reject(text),
            };
        }
        reject(format!("{} is not an administration request", wire::name(header.opcode)))
    }

    /// Stores the checkpoint of a session of another worker.
    fn store_for_peer(&self, link: &Link, checkpoint: wire::StoreCheckpoint) -> Result<(), String> {
        let wire::StoreCheckpoint { session, secret, tenant, client } = checkpoint;
        let Some(revival) = self.revival.get() else {
            return Err(NO_FOLDER.to_owned());
        };
        // Known now rather than when the session is to continue.
        let tenant = self.tenants.tenant_for(Some(&tenant))?.name.clone();
        let is_here = self.sessions.has(session)
            || self
                .sessions
                .departed()
                .find(session)
                .is_some_and(|it| it.death.is_none() && it.endpoint.is_none());
        if is_here {
            return Err(format!("session {} continues on this worker", wire::SessionId(session)));
        }
        let note = Note { session, tenant, client, secret };
        revival.store.receive_for_peer(link, note).map_err(|error| one_line(&error))
    }

    /// Hands a connection to a new session, or to the existing one that it names.
    fn open(&self, link: &Link, peer: &str, client: &AuthenticatedClient) -> Result<(), Refusal> {
        let AuthenticatedClient { hello, version, who } = client;
        let reject = |code: RejectCode, text: String| {
            let reject = code.reject(text);
            let _ = greet::send(link, &reject);
            Err(Refusal::Rejected(reject))
        };
        let Some(tenant) = who.tenant() else {
            let text =
                "this token is for administration and cannot open a session: use the token of a tenant";
            return reject(RejectCode::Access, text.to_owned());
        };
        if hello.session_id == 0 {
            return self.open_new(link, peer, client, tenant);
        }
        let gone = || match self.sessions.departed().ask(hello.session_id) {
            Some(DepartedSession { death: Some(death), .. }) => {
                let (code, text) = death.reason();
                reject(code, text)
            }
            Some(DepartedSession { endpoint: Some(endpoint), .. }) => reject(RejectCode::Moved, endpoint),
            Some(_) => reject(RejectCode::Away, "the session is suspended".to_owned()),
            // It returned after the caller looked for it.
            None if self.sessions.has(hello.session_id) => {
                reject(RejectCode::Away, "the session is being resumed".to_owned())
            }
            None => reject(RejectCode::UnknownSession, "the session has ended".to_owned()),
        };
        // A session that is running here again takes precedence over the record that it had left.
        if !self.sessions.has(hello.session_id) {
            let is_lost = hello.capabilities & capability::RESTORED != 0;
            if is_lost && self.revival.get().is_some_and(|it| it.take_over(hello.session_id)) {
                let text = "the session is being restored from its checkpoint";
                return reject(RejectCode::Away, text.to_owned());
            }
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
        if self.sessions.reattach(hello.session_id, hello, *version, peer, &connection) {
            tracing::info!(
                "session {} of {} continues from {peer}",
                wire::SessionId(hello.session_id),
                hello.client
            );
            return Ok(());
        }
        // Its process is exiting. Only then is it known whether the session continues elsewhere.
        self.sessions.wait_until_gone(hello.session_id);
        gone()
    }

    /// Builds the worker's status as `who` may see it: a tenant sees its own sessions and their usage.
    fn status(&self, who: &Who) -> Status {
        let (reports, restores) = self.sessions.report(who.sees_only());
        let allowance = match who {
            Who::Tenant(tenant) => tenant.allowance.as_ref(),
            Who::Admin | Who::Owner(_) => self.tenants.shared(),
        };
        let devices = self.devices.iter().enumerate().map(|(at, device)| {
            let used = |report: &SessionReport| report.memory_used.get(at).copied().unwrap_or(0);
            let load = |report: &SessionReport| report.load_percent.get(at).copied().unwrap_or(0.0);
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
                limits: allowance.map(|allowance| allowance.status(at as u32)),
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
            sessions: reports.iter().map(|(status, report)| self.with_transport(status, report)).collect(),
            restores,
        }
    }
}

impl Supervisor {
    /// Adds what carries the connection. The session's process does not know: what it reads may be decrypted by this one.
    fn with_transport(&self, status: &SessionStatus, report: &SessionReport) -> SessionStatus {
        let transport = match () {
            () if !report.connected => "",
            () if report.in_shared_memory => "shared memory",
            () if status.peer.starts_with("unix:") => "unix socket",
            () if self.tls.is_some() => "tls",
            () => "tcp",
        };
        SessionStatus { transport: transport.to_owned(), ..status.clone() }
    }
}

fn block_signals() -> Result<libc::c_int, WorkerError> {
    // SAFETY: plain system calls on a signal set that outlives them.
    let fd = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        libc::sigaddset(&raw mut set, libc::SIGINT);
        libc::sigaddset(&raw mut set, libc::SIGHUP);
        libc::sigaddset(&raw mut set, libc::SIGUSR2);
        libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        libc::signalfd(-1, &set, libc::SFD_CLOEXEC)
    };
    if fd < 0 {
        let source = std::io::Error::last_os_error();
        return Err(WorkerError::Io { what: "cannot create a signalfd", source });
    }
    Ok(fd)
}

/// Reads the pending signal.
fn next_signal(signals: libc::c_int) -> Option<libc::c_int> {
    // SAFETY: all-zero is a valid value of the structure, and it is writable for the length passed.
    unsafe {
        let mut news: libc::signalfd_siginfo = std::mem::zeroed();
        let bytes = size_of_val(&news);
        let read = libc::read(signals, (&raw mut news).cast(), bytes);
        (read == bytes as isize).then_some(news.ssi_signo as libc::c_int)
    }
}
