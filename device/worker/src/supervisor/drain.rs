//! Drain: when the worker is terminated, its sessions move to a successor, or are saved in a folder and resumed at the next start.
//!
//! While they leave, the worker accepts connections: clients learn that they have to wait, or where to go.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use transport::Link;
use worker_client::{Departing, MoveError, give, in_new_processes};

use super::departed::{Death, DepartedSession};
use super::handshakes::Handshakes;
use super::saved::{Note, SavedSessions};
use super::sessions::Sessions;
use super::tenants::{Tenant, Tenants};
use crate::config::DrainConfig;
use crate::error::one_line;

/// How many sessions leave at the same time: more would compete for the disk or the network.
const AT_ONCE: usize = 4;
/// Timeout for clients to reconnect and learn that their session has left; the worker ends after it.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long handshakes that are under way may take.
const HANDSHAKES: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(5);
/// How long the process of a saved session may take to exit.
const LEAVING: Duration = Duration::from_secs(2);

/// The progress of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stage {
    /// The worker serves.
    Off = 0,
    /// Sessions are leaving.
    Leaving = 1,
    /// All have left, or the time is over.
    Done = 2,
}

/// The drain of a worker.
#[derive(Debug)]
pub(crate) struct Drain {
    config: DrainConfig,
    saved: Option<Arc<SavedSessions>>,
    stage: AtomicU8,
    /// When the worker ends even if a session is still being written.
    end: OnceLock<Instant>,
}

impl Drain {
    /// Opens the folder of saved sessions.
    pub(crate) fn new(config: DrainConfig) -> std::io::Result<Drain> {
        let saved = config.folder.as_deref().map(SavedSessions::open).transpose()?.map(Arc::new);
        Ok(Drain { config, saved, stage: AtomicU8::new(Stage::Off as u8), end: OnceLock::new() })
    }

    pub(crate) fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Acquire) {
            0 => Stage::Off,
            1 if self.end.get().is_none_or(|end| Instant::now() < *end) => Stage::Leaving,
            _ => Stage::Done,
        }
    }

    /// Starts the drain on a thread. Returns false if sessions have no place to go, or a drain is under way.
    pub(crate) fn begin(self: &Arc<Drain>, sessions: &Arc<Sessions>, handshakes: &Arc<Handshakes>) -> bool {
        let has_place = self.saved.is_some() || self.config.successor.is_some();
        if !has_place || self.stage() != Stage::Off {
            return false;
        }
        self.end.get_or_init(|| Instant::now() + self.config.timeout + FAREWELL);
        // From now on new sessions are refused.
        self.stage.store(Stage::Leaving as u8, Ordering::Release);
        let (drain, sessions, handshakes) = (Arc::clone(self), Arc::clone(sessions), Arc::clone(handshakes));
        let started = std::thread::Builder::new().name("drain".to_owned()).spawn(move || {
            // A handshake that was under way may have opened a session.
            let settled = Instant::now() + HANDSHAKES;
            while Instant::now() < settled && handshakes.is_busy() {
                std::thread::sleep(LOOK);
            }
            let leaving = sessions.notes();
            if !leaving.is_empty() {
                drain.empty(&sessions, &leaving);
            }
            drain.stage.store(Stage::Done as u8, Ordering::Release);
        });
        if let Err(error) = &started {
            tracing::error!("cannot start the thread that saves the sessions: {error}");
        }
        started.is_ok()
    }

    fn empty(&self, sessions: &Sessions, leaving: &[Note]) {
        let start = Instant::now();
        let deadline = start + self.config.timeout;
        tracing::info!("stopping: {} sessions are to leave", leaving.len());
        let (next, left) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE.min(leaving.len()) {
                scope.spawn(|| {
                    while let Some(note) = leaving.get(next.fetch_add(1, Ordering::Relaxed)) {
                        match self.leave(sessions, note, deadline) {
                            Ok(()) => left.lock().push(note.session),
                            Err(error) => tracing::error!(
                                "session {} of {} ends with this worker: {}",
                                wire::SessionId(note.session),
                                note.client,
                                one_line(&error)
                            ),
                        }
                    }
                });
            }
        });
        let seconds = start.elapsed().as_secs_f64();
        let left = left.into_inner();
        tracing::info!("{} of {} sessions have left in {seconds:.1} s", left.len(), leaving.len());
        let farewell = Instant::now() + FAREWELL;
        while Instant::now() < farewell && !left.iter().all(|id| sessions.departed().is_informed(*id)) {
            std::thread::sleep(LOOK);
        }
    }

    /// Moves a session to the successor, or saves it.
    fn leave(&self, sessions: &Sessions, note: &Note, deadline: Instant) -> Result<(), MoveError> {
        let depart = || sessions.order_to_leave(note.session, deadline);
        if let Some(successor) = &self.config.successor {
            match in_new_processes(|| depart()?.move_to(successor, Some(&note.tenant), None)) {
                Err(error) if self.saved.is_some() => tracing::warn!(
                    "session {} is saved instead of moved: {}",
                    wire::SessionId(note.session),
                    one_line(&error)
                ),
                result => return result,
            }
        }
        let Some(saved) = &self.saved else { return Ok(()) };
        let mut file = saved.create(note.session).map_err(MoveError::File)?;
        let stopped = depart()?.write_to(&mut file)?;
        saved.keep(&file, note).map_err(MoveError::File)?;
        stopped.suspend().inspect_err(|_| saved.remove(note.session))
    }

    /// Remembers the saved sessions, so that their clients wait, and returns them.
    pub(crate) fn expect_saved(&self, sessions: &Sessions) -> Vec<Note> {
        let Some(saved) = &self.saved else { return Vec::new() };
        sessions.departed().keep_in(saved);
        let notes = saved.list().unwrap_or_else(|error| {
            tracing::error!("cannot read the saved sessions: {error}");
            Vec::new()
        });
        for note in notes.iter().filter(|note| !sessions.has(note.session)) {
            let away = DepartedSession::new(note.tenant.clone(), note.secret, None);
            sessions.departed().insert(note.session, away);
        }
        notes
    }

    /// Resumes saved sessions. A session that cannot be restored is set aside.
    pub(crate) fn restore(&self, sessions: &Arc<Sessions>, tenants: &Tenants, notes: &[Note]) {
        let Some(saved) = &self.saved else { return };
        for note in notes {
            // An earlier worker was killed after it had saved the session and before it ended the process: that one continues.
            if sessions.outlives(note.session, LEAVING) {
                saved.remove(note.session);
                continue;
            }
            match restore(saved, sessions, tenants, note) {
                Ok(()) => saved.remove(note.session),
                Err(text) => {
                    let file = saved.set_aside(note.session);
                    tracing::error!(
                        "session {} of {} cannot be resumed: {text}; its snapshot is {}",
                        wire::SessionId(note.session),
                        note.client,
                        file.display()
                    );
                    let dead = DepartedSession::dead(note.tenant.clone(), note.secret, Death::Lost(text));
                    sessions.departed().insert(note.session, dead);
                }
            }
        }
    }
}

fn restore(
    saved: &SavedSessions,
    sessions: &Arc<Sessions>,
    tenants: &Tenants,
    note: &Note,
) -> Result<(), String> {
    let tenant = tenants.tenant_for(Some(&note.tenant))?;
    let restored = in_new_processes(|| {
        let mut file = saved.snapshot(note.session).map_err(MoveError::File)?;
        let link = sessions.resume_from_here(&tenant)?;
        give("this worker", &link, &mut file)
    });
    restored.map(drop).map_err(|error| one_line(&error))
}

impl Sessions {
    /// Starts a process for a session of this worker. Returns the link on which it expects the snapshot.
    pub(super) fn resume_from_here(self: &Arc<Sessions>, tenant: &Arc<Tenant>) -> Result<Link, MoveError> {
        let (ours, theirs) = Link::pair().map_err(MoveError::File)?;
        let theirs = theirs.try_clone_fd().map_err(MoveError::File)?;
        self.resume(tenant, &theirs).map_err(|error| refused(one_line(&error)))?;
        Ok(ours)
    }

    /// Orders a session to leave, and returns the link on which it hands itself over.
    fn order_to_leave(&self, session: u64, deadline: Instant) -> Result<Departing, MoveError> {
        let patience = deadline.saturating_duration_since(Instant::now());
        let (ours, theirs) = Link::pair().map_err(MoveError::File)?;
        let theirs = theirs.try_clone_fd().map_err(MoveError::File)?;
        let patience_ms = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
        if !self.depart(session, patience_ms, &theirs) {
            return Err(refused("the session has ended".to_owned()));
        }
        drop(theirs);
        Departing::new("this worker", ours, patience)
    }
}

fn refused(text: String) -> MoveError {
    MoveError::Worker { endpoint: "this worker".to_owned(), text }
}
