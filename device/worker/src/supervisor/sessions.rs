//! The supervisor's table of sessions: one process each, reached through its control socket.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use limits::OutOfMemoryKills;
use parking_lot::{Condvar, Mutex};
use toolchain::Toolchain;
use wire::{Field, Hello};
use worker_status::SessionStatus;

use crate::control::{Control, ToSession, ToSupervisor};
use crate::error::WorkerError;
use crate::session_report::SessionReport;
use crate::supervisor::allowance::SeatGuard;
use crate::supervisor::broker::Broker;
use crate::supervisor::child;
use crate::supervisor::compiler_process::CompilerProcess;
use crate::supervisor::custody::{Custody, Held, HeldSession, compiler_key, process_key, session_key};
use crate::supervisor::departed::{Death, DepartedSession, DepartedSessions};
use crate::supervisor::oom;
use crate::supervisor::process::{Exit, Process, open_pidfd};
use crate::supervisor::saved::Note;
use crate::supervisor::tenants::{Tenant, Who};

/// Timeout for a session's report; a session that misses it is listed without numbers.
const REPORT_TIMEOUT: Duration = Duration::from_millis(500);
/// Timeout for the exit of a session's process whose control socket has closed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(15);

struct Session {
    tenant: Arc<Tenant>,
    secret: [u8; 32],
    control: Arc<Control>,
    client: String,
    pid: u32,
    peer: String,
    /// Process id of the session's executor.
    process: u32,
    since: Instant,
    report: Arc<(Mutex<(u64, SessionReport)>, Condvar)>,
    /// Its seat on the limits page.
    seat: Option<u32>,
}

impl Session {
    fn note(&self, id: u64) -> Note {
        Note {
            session: id,
            tenant: self.tenant.name.clone(),
            client: self.client.clone(),
            secret: self.secret,
        }
    }
}

/// Programs and their arguments, started with a control socket as file descriptor 3.
#[derive(Debug)]
pub(crate) struct Programs {
    pub session: Vec<PathBuf>,
    /// Complete environment of session processes.
    pub session_environment: Vec<(OsString, OsString)>,
    pub compiler: Vec<PathBuf>,
}

/// All sessions by id.
pub(crate) struct Sessions {
    sessions: Mutex<HashMap<u64, Session>>,
    gone: Condvar,
    limit: usize,
    programs: Programs,
    worker: String,
    tickets: AtomicU64,
    pub(super) broker: Broker,
    departed: DepartedSessions,
    custody: Arc<Custody>,
    afterlife: OnceLock<Box<dyn Afterlife>>,
    /// How many restorations are under way.
    restorations: Arc<AtomicUsize>,
    /// Whether the worker ends all its sessions. They have not ended by themselves, and may continue from their checkpoints.
    is_ending: AtomicBool,
}

/// Sessions are being restored that are not in the table yet, until this is dropped.
#[derive(Debug)]
pub(crate) struct Restoration(Arc<AtomicUsize>);

impl Drop for Restoration {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What happens to a session whose process has exited.
pub(crate) trait Afterlife: Send + Sync {
    /// Called when the process died. Returns true if the session is being restored; its client then waits.
    fn died(&self, note: &Note) -> bool;
    /// Called when the session has ended or, if `has_left`, moved to another worker or into a file.
    fn ended(&self, note: &Note, has_left: bool);
    /// The session of another worker, if this one has a checkpoint of it.
    fn held(&self, session: u64) -> Option<Note>;
}

impl Sessions {
    pub(crate) fn new(limit: usize, programs: Programs, worker: String, custody: &Arc<Custody>) -> Sessions {
        Sessions {
            sessions: Mutex::new(HashMap::new()),
            gone: Condvar::new(),
            limit,
            programs,
            worker,
            tickets: AtomicU64::new(0),
            broker: Broker::new(Arc::clone(custody)),
            departed: DepartedSessions::new(Arc::clone(custody)),
            custody: Arc::clone(custody),
            afterlife: OnceLock::new(),
            restorations: Arc::default(),
            is_ending: AtomicBool::new(false),
        }
    }

    /// Sets what happens to sessions whose process has exited.
    pub(crate) fn set_afterlife(&self, afterlife: Box<dyn Afterlife>) {
        let _ = self.afterlife.set(afterlife);
    }

    /// Returns the secret of a current or former session, but only to the tenant that owns it.
    pub(crate) fn secret_of(&self, id: u64, who: &Who) -> Option<[u8; 32]> {
        let tenant = &who.tenant()?.name;
        let sessions = self.sessions.lock();
        let here = sessions.get(&id).map(|session| (session.tenant.name.clone(), session.secret));
        // Under the lock: a session that returns leaves one table and enters the other.
        let found = here
            .or_else(|| self.departed.find(id).map(|departed| (departed.tenant, departed.secret)))
            .or_else(|| self.held(id).map(|note| (note.tenant, note.secret)));
        drop(sessions);
        found.filter(|(owner, _)| owner == tenant).map(|(_, secret)| secret)
    }

    /// Whether a session is running here, or was and is remembered, or could continue here.
    pub(crate) fn knows(&self, id: u64) -> bool {
        let sessions = self.sessions.lock();
        sessions.contains_key(&id) || self.departed.find(id).is_some() || self.held(id).is_some()
    }

    fn held(&self, id: u64) -> Option<Note> {
        self.afterlife.get()?.held(id)
    }

    pub(crate) fn has(&self, id: u64) -> bool {
        self.sessions.lock().contains_key(&id)
    }

    /// Waits until the process of a session that no longer accepts orders has exited.
    pub(crate) fn wait_until_gone(&self, id: u64) {
        let deadline = Instant::now() + EXIT_TIMEOUT;
        let mut sessions = self.sessions.lock();
        while sessions.contains_key(&id) && !self.gone.wait_until(&mut sessions, deadline).timed_out() {}
    }

    /// Whether a session is still running here after some time, if it was.
    pub(crate) fn outlives(&self, id: u64, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut sessions = self.sessions.lock();
        while sessions.contains_key(&id) && !self.gone.wait_until(&mut sessions, deadline).timed_out() {}
        sessions.contains_key(&id)
    }

    /// Sessions that were here and have left.
    pub(crate) fn departed(&self) -> &DepartedSessions {
        &self.departed
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sessions.lock().is_empty() && !self.departed.has_suspended()
    }

    /// Returns why a tenant cannot start another session: a text that names the limit that is reached.
    pub(crate) fn full(&self, tenant: &Tenant) -> Option<String> {
        let sessions = self.sessions.lock();
        if sessions.len() >= self.limit {
            return Some(format!("{} sessions are running, which is this worker's limit", self.limit));
        }
        let own = sessions.values().filter(|session| session.tenant.name == tenant.name).count();
        let limit = tenant.max_sessions.filter(|limit| own >= *limit)?;
        Some(format!("{own} sessions of {} are running, and its limit is {limit}", tenant.name))
    }

    /// Ends the sessions of a tenant that was removed.
    pub(crate) fn end_of(&self, tenant: &str) {
        for (id, session) in self.sessions.lock().iter().filter(|(_, it)| it.tenant.name == tenant) {
            tracing::info!(
                "session {} of {} ended: tenant {tenant} was removed",
                wire::SessionId(*id),
                session.client
            );
            // SAFETY: the descriptor stays open as long as the session is in the map.
            unsafe { libc::shutdown(session.control.raw_fd(), libc::SHUT_RDWR) };
        }
    }

    /// Starts a process for a new session and hands it the connection.
    pub(crate) fn start(
        self: &Arc<Sessions>,
        tenant: &Arc<Tenant>,
        hello: &Hello,
        version: u16,
        peer: &str,
        connection: OwnedFd,
    ) -> Result<u64, WorkerError> {
        let failed = |what| move |source| WorkerError::Io { what, source };
        let mut random = [0; 40];
        getrandom::fill(&mut random)
            .map_err(|error| failed("cannot get random bytes")(std::io::Error::other(error.to_string())))?;
        let (secret, id) = random.split_at(32);
        let mut key = [0; 32];
        key.copy_from_slice(secret);
        // Never 0, which means "no session yet".
        let id = id.iter().fold(0u64, |id, byte| id << 8 | u64::from(*byte)) | 1;

        let (ours, theirs) = Control::pair().map_err(failed("cannot create a control socket"))?;
        let child = self.spawn(&theirs).map_err(failed("cannot start the session's process"))?;
        drop(theirs);
        let config = Box::new(tenant.config.clone());
        let seat = seat(tenant, &ours)?;
        let has_compiler = has_compiler(tenant);
        let start = ToSession::Start {
            config,
            session_id: id,
            secret: key,
            worker: self.worker.clone(),
            has_compiler,
        };
        let sent = ours.send(&start, None).and_then(|()| attach(&ours, hello, version, &connection));
        sent.map_err(failed("cannot send orders to the session's process"))?;

        let note = HeldSession {
            session: id,
            secret: key,
            tenant: tenant.name.clone(),
            client: hello.client.clone(),
            pid: hello.pid,
            peer: peer.to_owned(),
            started: unix_seconds(),
            seat: tenant.allowance.as_ref().zip(seat.as_ref()).map(|(all, seat)| (all.id(), seat.number())),
        };
        self.leave(&note, &ours, &child);
        let watched = Watched::new(tenant, Process::Started(child), seat, Arc::new(ours));
        self.sessions.lock().insert(id, watched.session(&note, Instant::now()));
        self.watch_on_thread(id, watched).map_err(failed("cannot start a thread for the session"))?;
        Ok(id)
    }

    /// Leaves a session to the next supervisor.
    fn leave(&self, note: &HeldSession, control: &Control, child: &Child) {
        if !self.custody.is_on() {
            return;
        }
        match open_pidfd(child.id()) {
            Ok(handle) => {
                let held = Held::Process { session: note.session, pid: child.id() };
                self.custody.put(&held, Some(handle.as_raw_fd()));
                self.custody.put(&Held::Session(note.clone()), Some(control.raw_fd()));
            }
            Err(error) => tracing::warn!(
                "session {} would end with this supervisor: {error}",
                wire::SessionId(note.session)
            ),
        }
    }

    /// Adds a session of an earlier supervisor to the table and serves it.
    pub(super) fn adopt_running(
        self: &Arc<Sessions>,
        note: &HeldSession,
        watched: Watched,
    ) -> std::io::Result<()> {
        let age = Duration::from_secs(unix_seconds().saturating_sub(note.started));
        let since = Instant::now().checked_sub(age).unwrap_or_else(Instant::now);
        self.sessions.lock().insert(note.session, watched.session(note, since));
        self.watch_on_thread(note.session, watched)
    }

    fn watch_on_thread(self: &Arc<Sessions>, id: u64, watched: Watched) -> std::io::Result<()> {
        let sessions = Arc::clone(self);
        let watch = move || sessions.watch(id, watched);
        std::thread::Builder::new().name("session".to_owned()).spawn(watch).map(drop)
    }

    /// Announces that sessions are about to be restored, so that nobody takes the table for complete.
    pub(crate) fn restoration(&self) -> Restoration {
        self.restorations.fetch_add(1, Ordering::AcqRel);
        Restoration(Arc::clone(&self.restorations))
    }

    /// Starts a process for a session that arrives over a link.
    pub(crate) fn resume(
        self: &Arc<Sessions>,
        tenant: &Arc<Tenant>,
        link: &OwnedFd,
    ) -> Result<(), WorkerError> {
        let failed = |what| move |source| WorkerError::Io { what, source };
        let restoration = self.restoration();
        let (ours, theirs) = Control::pair().map_err(failed("cannot create a control socket"))?;
        let child = self.spawn(&theirs).map_err(failed("cannot start the session's process"))?;
        drop(theirs);
        let seat = seat(tenant, &ours)?;
        let order = ToSession::Resume {
            config: Box::new(tenant.config.clone()),
            worker: self.worker.clone(),
            has_compiler: has_compiler(tenant),
        };
        ours.send(&order, Some(link.as_raw_fd()))
            .map_err(failed("cannot send orders to the session's process"))?;
        let (sessions, tenant) = (Arc::clone(self), Arc::clone(tenant));
        std::thread::Builder::new()
            .name("session".to_owned())
            .spawn(move || sessions.adopt(&tenant, child, seat, Arc::new(ours), restoration))
            .map_err(failed("cannot start a thread for the session"))?;
        Ok(())
    }

    /// Supervises a process that restores a session, from before the session's id is known.
    fn adopt(
        &self,
        tenant: &Arc<Tenant>,
        child: Child,
        seat: Option<SeatGuard>,
        control: Arc<Control>,
        restoration: Restoration,
    ) {
        let first = loop {
            match control.receive() {
                // The restoring process may need more device memory before its session is in the map.
                Ok(Some((ToSupervisor::Grow { ticket, device, bytes }, _))) => {
                    grow(tenant, &control, ticket, device, bytes);
                }
                other => break other,
            }
        };
        let Ok(Some((ToSupervisor::Arrived { session_id, secret, client, pid }, _))) = first else {
            let _ = reap(Process::Started(child));
            return;
        };
        let note = HeldSession {
            session: session_id,
            secret,
            tenant: tenant.name.clone(),
            client,
            pid,
            peer: "resumed".to_owned(),
            started: unix_seconds(),
            seat: tenant.allowance.as_ref().zip(seat.as_ref()).map(|(all, seat)| (all.id(), seat.number())),
        };
        let mut sessions = self.sessions.lock();
        // If the session is returning to this worker, its old process may still be exiting.
        let deadline = Instant::now() + EXIT_TIMEOUT;
        while sessions.contains_key(&session_id)
            && self.departed.find(session_id).is_some()
            && !self.gone.wait_until(&mut sessions, deadline).timed_out()
        {}
        let refused = if session_id == 0 {
            Some("the session has no id".to_owned())
        } else if sessions.contains_key(&session_id) {
            Some(format!("session {} is already running here", wire::SessionId(session_id)))
        } else if sessions.len() >= self.limit {
            Some(format!("{} sessions are running, which is this worker's limit", self.limit))
        } else {
            None
        };
        let order = match refused {
            Some(text) => ToSession::Refused { ticket: 0, text },
            None => {
                tracing::info!(
                    "session {} of {} (pid {pid}) resumed",
                    wire::SessionId(session_id),
                    note.client
                );
                self.leave(&note, &control, &child);
                ToSession::Adopted
            }
        };
        let adopted = matches!(order, ToSession::Adopted);
        let watched = Watched::new(tenant, Process::Started(child), seat, control);
        if adopted {
            sessions.insert(session_id, watched.session(&note, Instant::now()));
            self.departed.remove(session_id);
        }
        drop((sessions, restoration));
        let sent = watched.control.send(&order, None);
        if adopted && sent.is_ok() {
            return self.watch(session_id, watched);
        }
        if adopted {
            self.sessions.lock().remove(&session_id);
            self.forget(session_id);
        }
        let _ = reap(watched.process);
    }

    /// Takes back what was left to the next supervisor for a session that has ended.
    pub(super) fn forget(&self, id: u64) {
        for key in [session_key(id), process_key(id), compiler_key(id)] {
            self.custody.remove(key);
        }
    }

    /// All sessions, for a worker that saves them.
    pub(crate) fn notes(&self) -> Vec<Note> {
        let sessions = self.sessions.lock();
        sessions.iter().map(|(id, session)| session.note(*id)).collect()
    }

    /// Orders a running session to write a checkpoint to the peer of a link. `place` is where its client finds it, if not here. Returns
    /// false if it cannot.
    pub(crate) fn checkpoint(&self, id: u64, complete: bool, place: String, link: &OwnedFd) -> bool {
        let sessions = self.sessions.lock();
        let Some(session) = sessions.get(&id) else { return false };
        session.control.send(&ToSession::Checkpoint { complete, place }, Some(link.as_raw_fd())).is_ok()
    }

    /// Hands the link of an observer to a running session. Returns false if it cannot.
    pub(crate) fn observe(&self, id: u64, link: &OwnedFd) -> bool {
        let sessions = self.sessions.lock();
        let Some(session) = sessions.get(&id) else { return false };
        session.control.send(&ToSession::Observe, Some(link.as_raw_fd())).is_ok()
    }

    /// Orders a running session to hand itself over to the peer of a link. Returns false if it cannot.
    pub(crate) fn depart(&self, id: u64, patience_ms: u32, link: &OwnedFd) -> bool {
        let sessions = self.sessions.lock();
        let Some(session) = sessions.get(&id) else { return false };
        session.control.send(&ToSession::Depart { patience_ms }, Some(link.as_raw_fd())).is_ok()
    }

    /// Hands a new connection to a running session. Returns false if it cannot.
    pub(crate) fn reattach(
        &self,
        id: u64,
        hello: &Hello,
        version: u16,
        peer: &str,
        connection: &OwnedFd,
    ) -> bool {
        let mut sessions = self.sessions.lock();
        let Some(session) = sessions.get_mut(&id) else { return false };
        session.peer = peer.to_owned();
        attach(&session.control, hello, version, connection).is_ok()
    }

    /// Hands an additional link to a running session. Returns false if it cannot.
    pub(crate) fn join(&self, id: u64, place: u16, link: &OwnedFd) -> bool {
        let sessions = self.sessions.lock();
        let Some(session) = sessions.get(&id) else { return false };
        session.control.send(&ToSession::Join { place }, Some(link.as_raw_fd())).is_ok()
    }

    /// Requests a report from every session, or from those of one tenant. Also returns whether sessions are being restored, if the
    /// reports are not those of one tenant.
    pub(crate) fn report(&self, tenant: Option<&str>) -> (Vec<(SessionStatus, SessionReport)>, bool) {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed) + 1;
        let mut asked = Vec::new();
        let sessions = self.sessions.lock();
        // Under the lock: a session that is restored is then announced or in the table.
        let restores = tenant.is_none() && self.restorations.load(Ordering::Acquire) > 0;
        for (id, session) in sessions.iter() {
            if tenant.is_some_and(|tenant| session.tenant.name != tenant) {
                continue;
            }
            let _ = session.control.send(&ToSession::Report { ticket }, None);
            let status = SessionStatus {
                id: *id,
                tenant: session.tenant.name.clone(),
                client: session.client.clone(),
                pid: session.pid,
                peer: session.peer.clone(),
                process: session.process,
                age_s: session.since.elapsed().as_secs(),
                spent_ns: match (&session.tenant.allowance, session.seat) {
                    (Some(allowance), Some(seat)) => allowance.spent_by(seat),
                    _ => Vec::new(),
                },
                ..SessionStatus::default()
            };
            asked.push((status, Arc::clone(&session.report)));
        }
        drop(sessions);
        let deadline = Instant::now() + REPORT_TIMEOUT;
        let mut reports = Vec::new();
        for (mut status, slot) in asked {
            let mut report = slot.0.lock();
            while report.0 < ticket && !slot.1.wait_until(&mut report, deadline).timed_out() {}
            let report = report.1.clone();
            status.connected = report.connected;
            status.requests = report.requests;
            status.round_trips = report.round_trips;
            status.bytes_received = report.bytes_received;
            status.bytes_sent = report.bytes_sent;
            status.load_percent.clone_from(&report.load_percent);
            status.memory_used = report.memory_used.clone();
            reports.push((status, report));
        }
        reports.sort_by_key(|(status, _)| std::cmp::Reverse(status.age_s));
        (reports, restores)
    }

    /// Ends every session and waits for their processes to exit.
    pub(crate) fn end_all(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        let mut sessions = self.sessions.lock();
        for session in sessions.values() {
            // SAFETY: the descriptor stays open as long as the session is in the map.
            unsafe { libc::shutdown(session.control.raw_fd(), libc::SHUT_RDWR) };
        }
        // Longer than `reap` waits before it kills a process that does not exit.
        let deadline = Instant::now() + EXIT_TIMEOUT + Duration::from_secs(1);
        while !sessions.is_empty() && !self.gone.wait_until(&mut sessions, deadline).timed_out() {}
    }

    fn spawn(&self, theirs: &Control) -> std::io::Result<Child> {
        let Some(mut command) = child::command(&self.programs.session, theirs) else {
            return Err(std::io::Error::other("no executor program is configured for sessions"));
        };
        command.env_clear().envs(self.programs.session_environment.iter().cloned());
        oom::go_first(&mut command);
        command.spawn()
    }

    /// Starts the compiler service of a session and sends the session its socket. Replaces one that has exited.
    fn start_compiler(&self, session: u64, watched: &Watched, service: &mut Option<CompilerProcess>) {
        let Watched { tenant, control, seat, .. } = watched;
        // First, so that a session has one service at a time.
        *service = None;
        let seat = tenant.config.limits.zip(seat.as_ref());
        let started = CompilerProcess::start(&self.programs.compiler, &tenant.config.compiler, seat);
        let (refused, socket) = match started {
            Ok((process, socket)) => {
                self.custody.put(&Held::Compiler { session, pid: process.id() }, None);
                *service = Some(process);
                (None, Some(socket))
            }
            Err(error) => (Some(format!("it could not be started: {error}")), None),
        };
        // The session may have ended, so a failed send is ignored.
        let _ = control.send(&ToSession::Compiler { refused }, socket.as_ref().map(AsRawFd::as_raw_fd));
    }

    /// Serves a session's messages until its process has exited.
    fn watch(&self, id: u64, watched: Watched) {
        let (mut compiler, mut has_ended) = (None, false);
        let kills = OutOfMemoryKills::now();
        let Watched { tenant, control, report, .. } = &watched;
        let mut renewed = match watched.process {
            Process::Started(_) => true,
            // On this thread: a hostile executor may not read its socket.
            Process::Adopted { .. } => control.send(&ToSession::Supervised, None).is_err(),
        };
        while let Ok(Some((message, attached))) = control.receive::<ToSupervisor>() {
            if !renewed && message.is_repeated() {
                continue;
            }
            match self.broker.serve(id, &tenant.name, control, message, attached) {
                None => {}
                Some(ToSupervisor::Renewed) => renewed = true,
                Some(ToSupervisor::Ended) => has_ended = true,
                Some(ToSupervisor::Compiler {}) => self.start_compiler(id, &watched, &mut compiler),
                Some(ToSupervisor::Report { ticket, report: fresh }) => {
                    *report.0.lock() = (ticket, fresh);
                    report.1.notify_all();
                }
                Some(ToSupervisor::Grow { ticket, device, bytes }) => {
                    grow(tenant, control, ticket, device, bytes);
                }
                Some(ToSupervisor::Left { endpoint }) => {
                    let secret = self.sessions.lock().get(&id).map(|session| session.secret);
                    if let Some(secret) = secret {
                        tracing::info!(
                            "session {} is {}",
                            wire::SessionId(id),
                            endpoint.as_deref().unwrap_or("suspended")
                        );
                        let departed = DepartedSession::new(tenant.name.clone(), secret, endpoint);
                        self.departed.insert(id, departed);
                    }
                }
                Some(_) => break,
            }
        }
        self.broker.forget(id);
        // Kills every compiler of the session before its seat is freed.
        drop(compiler);
        let Watched { tenant, process, seat, .. } = watched;
        let ended = reap(process);
        // Frees the seat only now: the process has exited and uses no shared device any more.
        drop(seat);
        let death = match &ended {
            Ok(Exit::Status(status)) if oom::was_killed(*status, &kills) => Some(Death::OutOfMemory),
            Ok(Exit::Status(status)) if !status.success() => Some(Death::Status(*status)),
            Ok(Exit::Unknown) if !has_ended && self.departed.find(id).is_none() => Some(Death::Unknown),
            _ => None,
        };
        self.forget(id);
        let mut sessions = self.sessions.lock();
        let session = sessions.remove(&id);
        if let (Some(session), Some(death)) = (&session, &death) {
            // Before the session leaves the map as other threads see it.
            let continues = self.afterlife.get().is_some_and(|it| it.died(&session.note(id)));
            let departed = match continues {
                true => DepartedSession::new(tenant.name.clone(), session.secret, None),
                false => DepartedSession::dead(tenant.name.clone(), session.secret, death.clone()),
            };
            self.departed.insert(id, departed);
        }
        drop(sessions);
        self.gone.notify_all();
        if let (None, Some(session), Some(afterlife)) = (&death, &session, self.afterlife.get()) {
            let has_left = self.departed.find(id).is_some();
            if has_left || !self.is_ending.load(Ordering::Relaxed) {
                afterlife.ended(&session.note(id), has_left);
            }
        }
        let client = session.map(|session| session.client).unwrap_or_default();
        match ended {
            Ok(Exit::Unknown) => tracing::info!("session {} of {client} ended", wire::SessionId(id)),
            Ok(Exit::Status(status)) if status.success() => {
                tracing::info!("session {} of {client} ended", wire::SessionId(id))
            }
            Ok(Exit::Status(status)) => {
                let text = death.map_or_else(|| status.to_string(), |death| death.reason().1);
                tracing::error!("session {} of {client}: {text}", wire::SessionId(id));
            }
            Err(error) => tracing::error!("session {} of {client}: {error}", wire::SessionId(id)),
        }
    }
}

/// A session's process and what the thread that serves it needs.
pub(super) struct Watched {
    tenant: Arc<Tenant>,
    process: Process,
    seat: Option<SeatGuard>,
    control: Arc<Control>,
    report: Arc<(Mutex<(u64, SessionReport)>, Condvar)>,
}

impl Watched {
    pub(super) fn new(
        tenant: &Arc<Tenant>,
        process: Process,
        seat: Option<SeatGuard>,
        control: Arc<Control>,
    ) -> Watched {
        let report = Arc::new((Mutex::new((0, SessionReport::default())), Condvar::new()));
        Watched { tenant: Arc::clone(tenant), process, seat, control, report }
    }

    /// The session's row in the table.
    fn session(&self, note: &HeldSession, since: Instant) -> Session {
        Session {
            tenant: Arc::clone(&self.tenant),
            secret: note.secret,
            control: Arc::clone(&self.control),
            client: note.client.clone(),
            pid: note.pid,
            peer: note.peer.clone(),
            process: self.process.id(),
            since,
            report: Arc::clone(&self.report),
            seat: self.seat.as_ref().map(SeatGuard::number),
        }
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Answers a session's request for more device memory than was granted.
fn grow(tenant: &Tenant, control: &Control, ticket: u64, device: u32, bytes: u64) {
    let granted = tenant.allowance.as_ref().is_some_and(|it| it.grow(device, bytes));
    let _ = control.send(&ToSession::Grown { ticket, granted }, None);
}

/// Whether sessions can compile. Checked for each session, because a toolchain may be installed at any time.
fn has_compiler(tenant: &Tenant) -> bool {
    Toolchain::find(tenant.config.compiler.toolchain.as_deref()).is_ok()
}

/// Assigns a new process a seat on its tenant's limits page, if there is one.
fn seat(tenant: &Tenant, control: &Control) -> Result<Option<SeatGuard>, WorkerError> {
    let failed = |what| move |source| WorkerError::Io { what, source };
    let (Some(allowance), Some(limits)) = (&tenant.allowance, tenant.config.limits) else { return Ok(None) };
    let seat = allowance.take_seat().map_err(failed("no free seat on the limits page"))?;
    let order = ToSession::Sit { limits, seat: seat.number() };
    let sent = control.send(&order, Some(seat.descriptor()));
    sent.map_err(failed("cannot send orders to the session's process"))?;
    Ok(Some(seat))
}

/// Waits for the exit of a process whose control socket is closed. Kills it after a timeout: hostile code may close the socket
/// and keep running.
fn reap(mut process: Process) -> std::io::Result<Exit> {
    let deadline = Instant::now() + EXIT_TIMEOUT;
    let mut pause = Duration::from_millis(1);
    while Instant::now() < deadline {
        if let Some(exit) = process.try_wait()? {
            return Ok(exit);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
    process.kill()?;
    loop {
        if let Some(exit) = process.try_wait()? {
            return Ok(exit);
        }
        std::thread::sleep(pause);
    }
}

fn attach(control: &Control, hello: &Hello, version: u16, connection: &OwnedFd) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    hello.put(&mut bytes);
    control.send(&ToSession::Attach { hello: bytes, version }, Some(connection.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_all_sessions_says_whether_some_are_being_restored() {
        let programs =
            Programs { session: Vec::new(), session_environment: Vec::new(), compiler: Vec::new() };
        let sessions = Sessions::new(1, programs, String::new(), &Arc::default());
        assert!(!sessions.report(None).1);
        let [first, second] = [(); 2].map(|()| sessions.restoration());
        drop(first);
        assert!(sessions.report(None).1 && !sessions.report(Some("one")).1);
        drop(second);
        assert!(!sessions.report(None).1);
    }
}
