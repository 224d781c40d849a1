//! Checkpoints: states of running sessions, from which they continue if their process or the machine dies.
//!
//! They are stored in a folder of this worker, or sent to a peer: another worker, which then continues the session. A worker with a
//! folder also holds checkpoints of sessions that run elsewhere, until a client reports that the worker of its session is lost: those
//! of workers whose peer it is, and those of sessions that have left, which may die before their next checkpoint.

mod chain;
mod merged;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use transport::{Link, greet, lower_priority};
use wire::SessionId;
use worker_client::{
    ChunkReader, MoveError, WorkerAddress, discard_checkpoint, give_written, in_new_processes,
    renew_checkpoints, store_checkpoint,
};

use super::departed::{Death, DepartedSession};
use super::folder::lock_folder;
use super::saved::Note;
use super::sessions::{Afterlife, Sessions};
use super::tenants::Tenants;
use crate::config::CheckpointConfig;
use crate::error::one_line;
use crate::session::snapshot::SnapshotError;
use chain::Chains;
use merged::Merged;

/// Timeout for each part of a checkpoint. The first part arrives with the session's next request, so an idle session reaches it.
const TIMEOUT: Duration = Duration::from_secs(3600);
/// Timeout for each part of a checkpoint that another worker sends.
const PEER_TIMEOUT: Duration = Duration::from_secs(90);
/// Increments up to this size never cause a new chain.
const SMALL_CHAIN: u64 = 64 << 20;
/// How long checkpoints of sessions that run elsewhere are held after the last one, or after the last time that their worker renewed
/// them: worker and client may both be gone for good.
const HELD_FOR: Duration = Duration::from_secs(24 * 3600);
/// Interval at which a worker renews the checkpoints of its running sessions at the peer. An idle session sends no new ones.
const RENEWAL: Duration = Duration::from_secs(3600);
/// Longest pause after checkpoints of a session have failed.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// How long a restore waits for a checkpoint that is being stored, and how often it looks.
const STORING: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(10);

/// What a worker without a folder replies to a peer.
pub(super) const NO_FOLDER: &str = "this worker stores no checkpoints: start it with --checkpoint DIR";

/// Why a checkpoint was not stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    File(#[from] SnapshotError),
    #[error("the peer does not store it")]
    Peer(#[source] MoveError),
}

impl StoreError {
    /// Whether the session sent no checkpoint: it has ended, or its client keeps no journal.
    fn is_expected(&self) -> bool {
        match self {
            StoreError::File(SnapshotError::Io(it)) | StoreError::Peer(MoveError::File(it)) => {
                it.get_ref().is_some() || it.kind() == ErrorKind::NotConnected
            }
            _ => false,
        }
    }
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> StoreError {
        StoreError::File(error.into())
    }
}

/// Why a session cannot continue from its checkpoint.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RestoreError {
    #[error("it has no complete checkpoint")]
    None,
    #[error("{0}")]
    Refused(String),
    #[error("its checkpoint cannot be read")]
    File(#[from] SnapshotError),
    #[error(transparent)]
    Move(#[from] MoveError),
}

/// Where checkpoints are, and what is known of each session.
#[derive(Debug)]
pub(crate) struct CheckpointStore {
    interval: Duration,
    peer: Option<WorkerAddress>,
    folder: Option<Folder>,
    /// The chains of sessions that run here.
    chains: Mutex<HashMap<u64, Chain>>,
    /// Sessions that run elsewhere.
    held: Mutex<HashMap<u64, Note>>,
    /// Sessions whose checkpoint a peer is just sending.
    arriving: Mutex<HashSet<u64>>,
    /// Held while a session that ran elsewhere becomes one of this worker.
    claims: Mutex<()>,
}

/// The folder of this worker.
#[derive(Debug)]
struct Folder {
    /// Sessions that run here, or ran when the worker was killed.
    own: Chains,
    /// Sessions that run elsewhere.
    elsewhere: Chains,
    /// Locked as long as a worker uses the folder.
    _lock: File,
}

/// The checkpoints of one session.
#[derive(Clone, Copy, Debug, Default)]
struct Chain {
    /// Size of the complete checkpoint, and of the changes since; 0 if there is none, or if the last one failed.
    complete: u64,
    changes: u64,
    /// The peer may have checkpoints of the session, also if the last one failed.
    at_peer: bool,
    /// A checkpoint was requested and is not stored yet.
    busy: bool,
    /// How many checkpoints have failed since the last one that was stored, and when the next one is due.
    failures: u32,
    not_before: Option<Instant>,
    /// What happens when the checkpoint that is under way is stored.
    fate: Fate,
}

impl Chain {
    /// The chain after a failure, with a pause that doubles each time: every attempt copies the memory of the session.
    fn failed(self, interval: Duration) -> Chain {
        let failures = self.failures.saturating_add(1);
        let pause = interval.saturating_mul(1 << failures.min(16)).min(LONGEST_PAUSE.max(interval));
        Chain { failures, not_before: Some(Instant::now() + pause), ..Chain::default() }
    }
}

/// Whether a session still needs its checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fate {
    #[default]
    Runs,
    /// It has ended: nobody needs them.
    Ended,
    /// It continues elsewhere, from a checkpoint that is not in this folder.
    Elsewhere,
}

impl CheckpointStore {
    /// Opens the folder, and creates it if it does not exist. Fails if another worker uses it.
    pub(crate) fn open(config: CheckpointConfig) -> io::Result<CheckpointStore> {
        let CheckpointConfig { folder, peer, interval } = config;
        let open = |root: std::path::PathBuf| {
            let lock = lock_folder(&root)?;
            let (own, elsewhere) = (Chains::new(root.join("sessions")), Chains::new(root.join("elsewhere")));
            io::Result::Ok(Folder { own, elsewhere, _lock: lock })
        };
        let folder = folder.map(open).transpose()?;
        let held =
            folder.iter().flat_map(|it| it.elsewhere.notes()).map(|note| (note.session, note)).collect();
        Ok(CheckpointStore {
            interval,
            peer,
            folder,
            chains: Mutex::default(),
            held: Mutex::new(held),
            arriving: Mutex::default(),
            claims: Mutex::default(),
        })
    }

    /// Starts the thread that requests checkpoints, and removes held ones that nobody needs.
    pub(crate) fn start(self: &Arc<CheckpointStore>, sessions: &Arc<Sessions>) -> io::Result<()> {
        // Sessions that an earlier supervisor started, which may have sent their checkpoints to the peer.
        let adopted = Chain { at_peer: self.peer.is_some(), ..Chain::default() };
        let running = sessions.notes();
        self.chains.lock().extend(running.iter().map(|note| (note.session, adopted)));
        let (store, sessions) = (Arc::clone(self), Arc::clone(sessions));
        let run = move || {
            let mut renewed = Instant::now();
            loop {
                std::thread::sleep(store.interval);
                for note in sessions.notes() {
                    store.request(&sessions, note);
                }
                if renewed.elapsed() >= RENEWAL {
                    renewed = Instant::now();
                    store.renew();
                }
                store.expire(HELD_FOR);
            }
        };
        std::thread::Builder::new().name("checkpoints".to_owned()).spawn(run).map(drop)
    }

    /// Requests a checkpoint of a session, unless one is under way.
    fn request(self: &Arc<CheckpointStore>, sessions: &Sessions, note: Note) {
        let mut chains = self.chains.lock();
        let chain = chains.entry(note.session).or_default();
        let is_early = chain.not_before.is_some_and(|time| Instant::now() < time);
        if is_early || std::mem::replace(&mut chain.busy, true) {
            return;
        }
        let complete = chain.complete == 0 || chain.changes > chain.complete.max(SMALL_CHAIN);
        drop(chains);
        let session = note.session;
        // Where the client finds it, if not here.
        let place = self.peer.as_ref().map(WorkerAddress::as_redirect).unwrap_or_default();
        let links = Link::pair().and_then(|(ours, theirs)| Ok((ours, theirs.try_clone_fd()?)));
        let started = links.and_then(|(ours, theirs)| {
            if !sessions.checkpoint(session, complete, place, &theirs) {
                return Err(ErrorKind::NotConnected.into());
            }
            let store = Arc::clone(self);
            std::thread::Builder::new().name("checkpoint".to_owned()).spawn(move || {
                lower_priority();
                let stored = store.receive(&ours, &note);
                store.finished(session, complete, &stored);
            })
        });
        if let Err(error) = started {
            self.finished(session, complete, &Err(error.into()));
        }
    }

    fn finished(&self, session: u64, complete: bool, stored: &Result<u64, StoreError>) {
        let mut chains = self.chains.lock();
        let Some(chain) = chains.get_mut(&session) else { return };
        let id = SessionId(session);
        let is_expected = stored.as_ref().is_err_and(StoreError::is_expected);
        let at_peer = chain.at_peer || (self.peer.is_some() && !is_expected);
        let (before, fate) = (*chain, chain.fate);
        *chain = match stored {
            Ok(size) if complete => Chain { complete: *size, at_peer, ..Chain::default() },
            Ok(size) => {
                Chain { complete: chain.complete, changes: chain.changes + size, at_peer, ..Chain::default() }
            }
            // The next one must not refer to this one.
            Err(error) => {
                let text = one_line(error);
                match is_expected || before.failures > 0 {
                    true => tracing::debug!("no checkpoint of session {id}: {text}"),
                    false => tracing::warn!("no checkpoint of session {id}: {text}"),
                }
                match is_expected {
                    true => Chain { at_peer, ..Chain::default() },
                    false => Chain { at_peer, ..before.failed(self.interval) },
                }
            }
        };
        if before.failures > 0 && stored.is_ok() {
            tracing::info!("session {id} has checkpoints again, after {} that failed", before.failures);
        }
        if fate == Fate::Elsewhere {
            chains.remove(&session);
        }
        drop(chains);
        match fate {
            Fate::Runs => {}
            Fate::Ended => self.discard(session),
            Fate::Elsewhere => self.folder.iter().for_each(|folder| folder.own.discard(session)),
        }
    }

    /// A session needs no further checkpoints here. Returns its chain, unless a checkpoint is under way: then `fate` follows it.
    fn conclude(&self, session: u64, fate: Fate) -> Option<Chain> {
        let mut chains = self.chains.lock();
        match chains.get_mut(&session) {
            Some(chain) if chain.busy => {
                chain.fate = fate;
                None
            }
            _ => Some(chains.remove(&session).unwrap_or_default()),
        }
    }

    /// Stores a checkpoint that a session of this worker sends. Returns its size.
    fn receive(&self, link: &Link, note: &Note) -> Result<u64, StoreError> {
        link.set_read_timeout(Some(TIMEOUT))?;
        let mut chunks = ChunkReader::new(link);
        let start = Instant::now();
        let size = match (&self.peer, &self.folder) {
            (Some(peer), folder) => {
                let note = wire::StoreCheckpoint {
                    session: note.session,
                    secret: note.secret,
                    tenant: note.tenant.clone(),
                    client: note.client.clone(),
                };
                let size = store_checkpoint(peer, &note, &mut chunks).map_err(StoreError::Peer)?;
                // The peer has a newer checkpoint now than the one in this folder, from which the session may have been restored.
                folder.iter().for_each(|folder| folder.own.discard(note.session));
                size
            }
            (None, Some(folder)) => folder.own.store(&mut chunks, note)?,
            (None, None) => return Err(StoreError::Refused("there is no place for it".to_owned())),
        };
        // A session that has returned to this worker has a newer one now.
        self.discard_held(note.session);
        let (id, seconds) = (SessionId(note.session), start.elapsed().as_secs_f64());
        tracing::debug!("checkpoint of session {id}: {size} bytes in {seconds:.2} s");
        // A session that has just ended does not read it. One that misses it sends a complete checkpoint next.
        let _ = greet::send(link, &wire::Done { session: note.session });
        Ok(size)
    }

    /// Stores a checkpoint that another worker sends.
    pub(crate) fn receive_for_peer(&self, link: &Link, note: Note) -> Result<(), StoreError> {
        let Some(folder) = &self.folder else { return Err(StoreError::Refused(NO_FOLDER.to_owned())) };
        let session = note.session;
        // A transfer of a supervisor that was killed may not have ended yet.
        if !self.arriving.lock().insert(session) {
            return Err(StoreError::Refused("another checkpoint of the session is being stored".to_owned()));
        }
        let stored = link
            .set_read_timeout(Some(PEER_TIMEOUT))
            .map_err(StoreError::from)
            .and_then(|()| Ok(folder.elsewhere.store(&mut ChunkReader::new(link), &note)?));
        self.arriving.lock().remove(&session);
        stored?;
        self.held.lock().insert(session, note);
        Ok(())
    }

    /// Renews held checkpoints of sessions that still run on another worker.
    pub(crate) fn renew_held(&self, sessions: &[u64]) {
        let Some(folder) = &self.folder else { return };
        let held = |session: &&u64| self.held.lock().contains_key(*session);
        sessions.iter().filter(held).for_each(|session| folder.elsewhere.renew(*session));
    }

    /// Renews the checkpoints of all running sessions at the peer.
    fn renew(&self) {
        let Some(peer) = &self.peer else { return };
        let chains = self.chains.lock();
        let sessions: Vec<u64> =
            chains.iter().filter(|(_, chain)| chain.at_peer).map(|(session, _)| *session).collect();
        drop(chains);
        if let Err(error) = renew_checkpoints(peer, sessions) {
            tracing::warn!("the peer may remove checkpoints of idle sessions: {}", one_line(&error));
        }
    }

    /// Removes the held checkpoints of a session that has ended.
    pub(crate) fn discard_held(&self, session: u64) {
        let held = self.held.lock().remove(&session);
        if let (Some(folder), Some(_)) = (&self.folder, held) {
            folder.elsewhere.discard(session);
        }
    }

    /// Removes held checkpoints that are too old.
    fn expire(&self, limit: Duration) {
        let Some(folder) = &self.folder else { return };
        let sessions: Vec<u64> = self.held.lock().keys().copied().collect();
        for session in sessions.into_iter().filter(|session| folder.elsewhere.age(*session) > limit) {
            let hours = limit.as_secs() / 3600;
            tracing::info!(
                "removed the checkpoints of session {}: unused for {hours} hours",
                SessionId(session)
            );
            self.discard_held(session);
        }
    }

    /// Holds the checkpoints of a session that has left, in case that it dies before its next one. A peer does so too.
    fn hold(&self, note: &Note) {
        let session = note.session;
        // One that is under way cannot be stored any more: its folder is moved, or is removed afterwards.
        self.conclude(session, Fate::Elsewhere);
        let Some(folder) = self.folder.as_ref().filter(|folder| folder.own.has(session)) else { return };
        match folder.elsewhere.take(&folder.own, session) {
            Ok(()) => drop(self.held.lock().insert(session, note.clone())),
            Err(error) => {
                tracing::warn!("cannot hold the checkpoints of session {}: {error}", SessionId(session))
            }
        }
    }

    /// Makes a session that ran elsewhere one of this worker. Returns false if that fails.
    fn claim(&self, session: u64) -> bool {
        let Some(folder) = &self.folder else { return false };
        // Without the lock on `held`: every handshake takes it.
        match folder.own.take(&folder.elsewhere, session) {
            Ok(()) => self.held.lock().remove(&session).is_some(),
            Err(error) => {
                let id = SessionId(session);
                tracing::error!("cannot take over the checkpoint of session {id}: {error}");
                false
            }
        }
    }

    /// The sessions that can continue, from a worker that was killed.
    pub(crate) fn list(&self) -> Vec<Note> {
        self.folder.as_ref().map(|folder| folder.own.notes()).unwrap_or_default()
    }

    /// Whether a session has a complete checkpoint in the folder.
    fn has(&self, session: u64) -> bool {
        self.folder.as_ref().is_some_and(|folder| folder.own.has(session))
    }

    /// Removes the checkpoints of a session that has ended, here and at the peer.
    fn discard(&self, session: u64) {
        let Some(chain) = self.conclude(session, Fate::Ended) else { return };
        if let Some(folder) = &self.folder {
            folder.own.discard(session);
        }
        let Some(peer) = self.peer.clone().filter(|_| chain.at_peer) else {
            return;
        };
        let discard = move || {
            if let Err(error) = discard_checkpoint(&peer, session) {
                let (id, text) = (SessionId(session), one_line(&error));
                tracing::warn!("the checkpoints of session {id} stay at the peer for a day: {text}");
            }
        };
        if let Err(error) = std::thread::Builder::new().name("checkpoint".to_owned()).spawn(discard) {
            tracing::warn!("cannot remove the checkpoints of session {}: {error}", SessionId(session));
        }
    }

    /// Waits until the last checkpoint of a session is stored, or has failed: a complete one removes the chain before it.
    fn wait_until_stored(&self, session: u64) {
        let start = Instant::now();
        let is_busy = || self.chains.lock().get(&session).is_some_and(|chain| chain.busy);
        while is_busy() && start.elapsed() < STORING {
            std::thread::sleep(LOOK);
        }
    }

    /// Starts a process that continues a session from its last checkpoint.
    fn restore(&self, sessions: &Arc<Sessions>, tenants: &Tenants, note: &Note) -> Result<(), RestoreError> {
        self.wait_until_stored(note.session);
        // The new process knows nothing of this chain: its first checkpoint is complete, and starts the next one.
        let mut chains = self.chains.lock();
        let at_peer = chains.get(&note.session).is_some_and(|chain| chain.at_peer);
        chains.insert(note.session, Chain { at_peer, ..Chain::default() });
        drop(chains);
        let files = self.folder.as_ref().map(|folder| folder.own.chain(note.session)).unwrap_or_default();
        let merged = Merged::open(&files)?.ok_or(RestoreError::None)?;
        let tenant = tenants.tenant_for(Some(&note.tenant)).map_err(RestoreError::Refused)?;
        let restored = in_new_processes(|| {
            let link = sessions.resume_from_here(&tenant)?;
            give_written("this worker", &link, |to| merged.write(to).map_err(io::Error::other))
        });
        Ok(restored.map(drop)?)
    }
}

/// Continues sessions whose process or worker died.
pub(crate) struct Revival {
    pub(crate) store: Arc<CheckpointStore>,
    pub(crate) sessions: Weak<Sessions>,
    pub(crate) tenants: Arc<Tenants>,
}

impl Revival {
    /// Continues a session, or records why that failed.
    pub(crate) fn revive(&self, note: &Note) {
        let Some(sessions) = self.sessions.upgrade() else { return };
        let start = Instant::now();
        let (id, client) = (SessionId(note.session), &note.client);
        match self.store.restore(&sessions, &self.tenants, note) {
            Ok(()) => tracing::info!(
                "session {id} of {client} continues from its checkpoint after {:.2} s",
                start.elapsed().as_secs_f64()
            ),
            Err(error) => {
                let text = one_line(&error);
                tracing::error!("session {id} of {client} cannot continue from its checkpoint: {text}");
                let dead = DepartedSession::dead(note.tenant.clone(), note.secret, Death::Lost(text));
                sessions.departed().insert(note.session, dead);
                self.store.discard(note.session);
            }
        }
    }

    /// Starts to continue a session of another worker, whose client reports that its worker is lost. Returns false if this worker has
    /// no checkpoint of it.
    pub(crate) fn take_over(self: &Arc<Revival>, session: u64) -> bool {
        let Some(sessions) = self.sessions.upgrade() else { return false };
        // One connection at a time: the others find the session suspended, and wait.
        let _alone = self.store.claims.lock();
        let held = self.store.held.lock().get(&session).cloned();
        let Some(note) = held else { return false };
        // Before it leaves the table of held sessions, so that it is known at all times.
        let away = DepartedSession::new(note.tenant.clone(), note.secret, None);
        sessions.departed().insert(session, away.clone());
        if !self.store.claim(session) {
            sessions.departed().remove(session);
            return false;
        }
        let revives = self.revive_on_thread(&note);
        if !revives {
            let death = Some(Death::Lost("no thread can be started".to_owned()));
            sessions.departed().insert(session, DepartedSession { death, ..away });
        }
        revives
    }

    fn revive_on_thread(self: &Arc<Revival>, note: &Note) -> bool {
        let (revival, note) = (Arc::clone(self), note.clone());
        let restoration = self.sessions.upgrade().map(|sessions| sessions.restoration());
        let revive = move || {
            revival.revive(&note);
            drop(restoration);
        };
        std::thread::Builder::new().name("revival".to_owned()).spawn(revive).is_ok()
    }
}

impl Afterlife for Arc<Revival> {
    fn died(&self, note: &Note) -> bool {
        if self.store.has(note.session) {
            return self.revive_on_thread(note);
        }
        // Its client knows where its last checkpoint is, and connects there.
        self.store.conclude(note.session, Fate::Elsewhere);
        false
    }

    fn ended(&self, note: &Note, has_left: bool) {
        match has_left {
            true => self.store.hold(note),
            false => self.store.discard(note.session),
        }
    }

    fn held(&self, session: u64) -> Option<Note> {
        self.store.held.lock().get(&session).cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::keeper::wait_readable;

    fn with_peer(endpoint: &str) -> CheckpointStore {
        let peer = WorkerAddress {
            endpoint: endpoint.parse().unwrap(),
            token: None,
            trust: None,
            connect_timeout: Duration::from_secs(5),
        };
        let interval = Duration::from_secs(3600);
        CheckpointStore::open(CheckpointConfig { folder: None, peer: Some(peer), interval }).unwrap()
    }

    /// How a session declines a checkpoint that was requested while it ended.
    fn declined() -> Result<u64, StoreError> {
        Err(StoreError::Peer(MoveError::File(io::Error::other("the session has ended"))))
    }

    #[test]
    fn the_peer_discards_the_checkpoints_of_a_session_that_ended_during_its_last_one() {
        let peer = TcpListener::bind("127.0.0.1:0").unwrap();
        let store = with_peer(&peer.local_addr().unwrap().to_string());
        store.chains.lock().insert(7, Chain { busy: true, ..Chain::default() });
        store.finished(7, true, &Ok(100));
        store.chains.lock().get_mut(&7).unwrap().busy = true;
        store.discard(7);
        assert_eq!(store.chains.lock()[&7].fate, Fate::Ended, "the last checkpoint is still under way");
        store.finished(7, false, &declined());
        assert!(store.chains.lock().is_empty());
        assert!(
            wait_readable(peer.as_raw_fd(), Some(Instant::now() + Duration::from_secs(5))),
            "no connection"
        );
    }

    #[test]
    fn the_peer_is_not_contacted_for_a_session_that_sent_nothing() {
        let peer = TcpListener::bind("127.0.0.1:0").unwrap();
        let store = with_peer(&peer.local_addr().unwrap().to_string());
        store.chains.lock().insert(7, Chain { busy: true, ..Chain::default() });
        store.finished(7, true, &declined());
        store.discard(7);
        peer.set_nonblocking(true).unwrap();
        // Without a checkpoint at the peer no thread is started that could connect later.
        assert_eq!(peer.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    }

    fn with_folder(root: &std::path::Path) -> CheckpointStore {
        let (folder, interval) = (Some(root.to_owned()), Duration::from_secs(3600));
        CheckpointStore::open(CheckpointConfig { folder, peer: None, interval }).unwrap()
    }

    fn note(session: u64) -> Note {
        Note { session, tenant: String::new(), client: String::new(), secret: [0; 32] }
    }

    #[test]
    fn a_second_transfer_of_one_session_is_refused_while_the_first_one_runs() {
        let root = tempfile::tempdir().unwrap();
        let store = with_folder(root.path());
        store.arriving.lock().insert(7);
        let (link, _other) = Link::pair().unwrap();
        let error = store.receive_for_peer(&link, note(7)).unwrap_err();
        assert!(error.to_string().contains("another checkpoint"), "{error}");
    }

    #[test]
    fn a_transfer_that_fails_leaves_no_file() {
        let root = tempfile::tempdir().unwrap();
        let store = with_folder(root.path());
        let (own, elsewhere) = (root.path().join("sessions"), root.path().join("elsewhere"));
        let folder = store.folder.as_ref().unwrap();
        assert!(folder.own.store(&mut &b"no checkpoint"[..], &note(7)).is_err());
        assert!(folder.elsewhere.store(&mut &b"no checkpoint"[..], &note(7)).is_err());
        for part in [own, elsewhere] {
            assert_eq!(std::fs::read_dir(&part).unwrap().count(), 0, "{}", part.display());
        }
    }

    #[test]
    fn a_renewed_checkpoint_counts_as_new() {
        let root = tempfile::tempdir().unwrap();
        let store = with_folder(root.path());
        let folder = root.path().join("elsewhere").join(SessionId(7).to_string());
        std::fs::create_dir_all(&folder).unwrap();
        let file = File::create(folder.join("000001-000001.checkpoint")).unwrap();
        file.set_modified(std::time::SystemTime::now() - 2 * HELD_FOR).unwrap();
        store.held.lock().insert(7, note(7));
        let held = &store.folder.as_ref().unwrap().elsewhere;
        assert!(held.age(7) > HELD_FOR);
        store.renew_held(&[7]);
        assert!(held.age(7) < HELD_FOR);
        store.expire(HELD_FOR);
        assert!(folder.exists());
    }

    #[test]
    fn checkpoints_pause_longer_after_each_failure() {
        let store = with_peer("127.0.0.1:1");
        let failed = || Err(StoreError::Refused("the disk is full".to_owned()));
        let mut last = Duration::ZERO;
        for failures in 1..=20 {
            store.chains.lock().entry(7).or_default().busy = true;
            store.finished(7, true, &failed());
            let chain = store.chains.lock()[&7];
            assert_eq!((chain.failures, chain.busy), (failures, false));
            let pause = chain.not_before.unwrap().saturating_duration_since(Instant::now());
            assert!(pause >= last.saturating_sub(Duration::from_secs(1)), "{pause:?} {last:?}");
            last = pause;
        }
        store.finished(7, true, &Ok(1));
        assert_eq!(store.chains.lock()[&7].failures, 0);
    }

    #[test]
    fn a_checkpoint_that_is_under_way_when_its_session_leaves_is_not_kept() {
        let root = tempfile::tempdir().unwrap();
        let store = with_folder(root.path());
        store.chains.lock().insert(7, Chain { busy: true, ..Chain::default() });
        store.hold(&note(7));
        // The thread that stores it does not know that the session has left.
        let stored = root.path().join("sessions").join(SessionId(7).to_string());
        std::fs::create_dir_all(&stored).unwrap();
        store.finished(7, true, &Ok(100));
        assert!(!stored.exists() && store.chains.lock().is_empty());
    }
}
