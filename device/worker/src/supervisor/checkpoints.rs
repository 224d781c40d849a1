//! The folder of checkpoints: states of running sessions, from which they continue if their process or the machine dies.
//!
//! A session has a subfolder with a note of its owner and a chain of checkpoints: a complete one, and the changes since. A chain
//! that has grown to twice its first part is replaced by a new one. A file is renamed when it is complete, so a worker that is killed
//! leaves an older checkpoint, never a damaged one.

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use backend::Holding;
use parking_lot::Mutex;
use transport::{Link, greet};
use wire::SessionId;
use worker_client::{ChunkReader, give_written};

use super::departed::{Death, DepartedSession};
use super::saved::Note;
use super::sessions::{Afterlife, Sessions};
use super::tenants::Tenants;
use crate::config::CheckpointConfig;
use crate::error::one_line;
use crate::session::manifest::Manifest;
use crate::session::migrate_in::{Import, memory_parts};
use crate::session::snapshot::{Kind, Reader, SnapshotError, Writer};

/// Timeout for one checkpoint, from its request until it is stored. A session without requests takes none.
const TIMEOUT: Duration = Duration::from_secs(3600);
/// Increments up to this size never cause a new chain.
const SMALL_CHAIN: u64 = 64 << 20;
/// How often restoring is tried: by chance, an address of the session may be taken in a new process.
const ATTEMPTS: usize = 3;

/// Why a session cannot continue from its checkpoint.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RestoreError {
    #[error("it has no complete checkpoint")]
    None,
    #[error("{0}")]
    Refused(String),
    #[error("its checkpoint cannot be read")]
    File(#[from] SnapshotError),
}

impl From<io::Error> for RestoreError {
    fn from(error: io::Error) -> RestoreError {
        RestoreError::File(error.into())
    }
}

/// The folder, and what is known of each session.
#[derive(Debug)]
pub(crate) struct CheckpointStore {
    config: CheckpointConfig,
    chains: Mutex<HashMap<u64, Chain>>,
}

/// The checkpoints of one session.
#[derive(Clone, Copy, Debug, Default)]
struct Chain {
    /// Number of the chain, which counts up with every complete checkpoint.
    number: u64,
    /// Size of the complete checkpoint, and of the changes since.
    complete: u64,
    changes: u64,
    /// A checkpoint was requested and is not stored yet.
    busy: bool,
}

impl CheckpointStore {
    /// Opens the folder, and creates it if it does not exist. Readable by its owner only: checkpoints contain programs' memory.
    pub(crate) fn open(config: CheckpointConfig) -> io::Result<CheckpointStore> {
        create_folder(&config.folder)?;
        Ok(CheckpointStore { config, chains: Mutex::default() })
    }

    /// Starts the thread that requests checkpoints.
    pub(crate) fn start(self: &Arc<CheckpointStore>, sessions: &Arc<Sessions>) -> io::Result<()> {
        let (store, sessions) = (Arc::clone(self), Arc::clone(sessions));
        let run = move || {
            loop {
                std::thread::sleep(store.config.interval);
                for note in sessions.notes() {
                    store.request(&sessions, note);
                }
            }
        };
        std::thread::Builder::new().name("checkpoints".to_owned()).spawn(run).map(drop)
    }

    /// Requests a checkpoint of a session, unless one is under way.
    fn request(self: &Arc<CheckpointStore>, sessions: &Sessions, note: Note) {
        let mut chains = self.chains.lock();
        let chain = chains.entry(note.session).or_default();
        if std::mem::replace(&mut chain.busy, true) {
            return;
        }
        let complete = chain.number == 0 || chain.changes > chain.complete.max(SMALL_CHAIN);
        drop(chains);
        let session = note.session;
        let asked = Link::pair().and_then(|(ours, theirs)| Ok((ours, theirs.try_clone_fd()?)));
        let started = asked.and_then(|(ours, theirs)| {
            if !sessions.checkpoint(session, complete, &theirs) {
                return Err(ErrorKind::NotConnected.into());
            }
            let store = Arc::clone(self);
            std::thread::Builder::new().name("checkpoint".to_owned()).spawn(move || {
                if let Err(error) = store.receive(&ours, &note) {
                    // The session has ended, or its client keeps no journal.
                    tracing::debug!("no checkpoint of session {}: {}", SessionId(session), one_line(&error));
                }
                store.finished(session);
            })
        });
        if started.is_err() {
            self.finished(session);
        }
    }

    fn finished(&self, session: u64) {
        if let Some(chain) = self.chains.lock().get_mut(&session) {
            chain.busy = false;
        }
    }

    /// Stores a checkpoint that arrives over a link.
    fn receive(&self, link: &Link, note: &Note) -> Result<(), SnapshotError> {
        link.set_read_timeout(Some(TIMEOUT))?;
        let folder = self.folder(note.session);
        // Waits for the first bytes before anything is created.
        let mut chunks = ChunkReader::new(link);
        let mut buffer = vec![0; 1 << 20];
        let mut bytes = chunks.read(&mut buffer)?;
        let start = Instant::now();
        create_folder(&folder)?;
        let part = folder.join("part");
        let mut file = create(&part)?;
        let mut size = 0;
        while bytes > 0 {
            file.write_all(&buffer[..bytes])?;
            size += bytes as u64;
            bytes = chunks.read(&mut buffer)?;
        }
        file.sync_all()?;
        let number = record(&read_manifest(&part)?)?.number;
        let mut chain = self.chains.lock().get(&note.session).copied().unwrap_or_default();
        if number == 1 {
            chain = Chain { number: chain.number + 1, complete: size, changes: 0, busy: true };
            let text = serde_json::to_vec(note).map_err(io::Error::from)?;
            let mut file = create(&folder.join("note.part"))?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(folder.join("note.part"), folder.join("note.json"))?;
        } else {
            chain.changes += size;
        }
        fs::rename(&part, folder.join(file_name(chain.number, number)))?;
        File::open(&folder)?.sync_all()?;
        self.chains.lock().insert(note.session, chain);
        if number == 1 {
            for (old, _, path) in list(&folder)? {
                if old < chain.number {
                    fs::remove_file(path)?;
                }
            }
        }
        tracing::debug!(
            "checkpoint {number} of session {}: {size} bytes in {:.2} s",
            SessionId(note.session),
            start.elapsed().as_secs_f64()
        );
        greet::send(link, &wire::Done { session: note.session }).map_err(io::Error::other)?;
        Ok(())
    }

    /// The sessions that can continue, from a worker that was killed. Remains without a complete checkpoint are removed.
    pub(crate) fn list(&self) -> Vec<Note> {
        let entries = fs::read_dir(&self.config.folder).into_iter().flatten().flatten();
        let mut notes = Vec::new();
        for path in entries.map(|entry| entry.path()).filter(|path| path.is_dir()) {
            let note = fs::read(path.join("note.json")).ok();
            let note = note.and_then(|text| serde_json::from_slice::<Note>(&text).ok());
            match note.filter(|note| self.folder(note.session) == path && !chain_of(&path).is_empty()) {
                Some(note) => notes.push(note),
                None => drop(fs::remove_dir_all(&path)),
            }
        }
        notes.sort_by_key(|note| note.session);
        notes
    }

    /// Whether a session has a complete checkpoint.
    pub(crate) fn has(&self, session: u64) -> bool {
        !chain_of(&self.folder(session)).is_empty()
    }

    /// Removes the checkpoints of a session that has ended.
    pub(crate) fn discard(&self, session: u64) {
        self.chains.lock().remove(&session);
        match fs::remove_dir_all(self.folder(session)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!("cannot remove the checkpoints of session {}: {error}", SessionId(session));
            }
            _ => {}
        }
    }

    /// Starts a process that continues a session from its last checkpoint.
    pub(crate) fn restore(
        &self,
        sessions: &Arc<Sessions>,
        tenants: &Tenants,
        note: &Note,
    ) -> Result<(), RestoreError> {
        // The new process knows nothing of this chain: its first checkpoint is complete, and belongs to the next one.
        let files = chain_of(&self.folder(note.session));
        let number = list(&self.folder(note.session))?.iter().map(|(chain, _, _)| *chain).max().unwrap_or(0);
        self.chains.lock().insert(note.session, Chain { number, ..Chain::default() });
        let mut result = Err(RestoreError::None);
        for _ in 0..ATTEMPTS {
            result = restore(sessions, tenants, note, &files);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    fn folder(&self, session: u64) -> PathBuf {
        self.config.folder.join(SessionId(session).to_string())
    }
}

/// Continues sessions whose process died.
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
}

impl Afterlife for Arc<Revival> {
    fn died(&self, note: &Note) -> bool {
        if !self.store.has(note.session) {
            self.store.discard(note.session);
            return false;
        }
        let (revival, note) = (Arc::clone(self), note.clone());
        let revive = move || revival.revive(&note);
        std::thread::Builder::new().name("revival".to_owned()).spawn(revive).is_ok()
    }

    fn ended(&self, session: u64) {
        self.store.discard(session);
    }
}

fn restore(
    sessions: &Arc<Sessions>,
    tenants: &Tenants,
    note: &Note,
    files: &[PathBuf],
) -> Result<(), RestoreError> {
    let refused = |text: String| RestoreError::Refused(text);
    let merged = Merged::open(files)?;
    let tenant = tenants.tenant_for(Some(&note.tenant)).map_err(refused)?;
    let (ours, theirs) = Link::pair()?;
    let theirs = theirs.try_clone_fd()?;
    sessions.resume(&tenant, &theirs).map_err(|error| refused(one_line(&error)))?;
    drop(theirs);
    let given = give_written("this worker", &ours, |to| merged.write(to).map_err(io::Error::other));
    given.map(drop).map_err(|error| refused(one_line(&error)))
}

/// A chain of checkpoints as one snapshot.
struct Merged<'a> {
    files: &'a [PathBuf],
    manifest: Manifest,
    /// Code objects, in the order of the manifest.
    images: Vec<Vec<u8>>,
    /// The first file whose bytes count, by holding: earlier ones are of another holding at the same address.
    since: HashMap<Holding, (usize, u64)>,
}

impl Merged<'_> {
    fn open(files: &[PathBuf]) -> Result<Merged<'_>, RestoreError> {
        let mut since: HashMap<Holding, (usize, u64)> = HashMap::new();
        let mut last = None;
        for (index, file) in files.iter().enumerate() {
            let manifest = read_manifest(file)?;
            let holdings = manifest.inventory.holdings();
            since = holdings
                .map(|(holding, bytes)| match since.get(&holding) {
                    Some((first, size)) if *size == bytes => (holding, (*first, bytes)),
                    _ => (holding, (index, bytes)),
                })
                .collect();
            last = Some(manifest);
        }
        let manifest = last.ok_or(RestoreError::None)?;
        let wanted = record(&manifest)?.images.clone();
        let needed: HashSet<[u8; 32]> = wanted.iter().copied().collect();
        let mut found: HashMap<[u8; 32], Vec<u8>> = HashMap::new();
        each_section(files, |_, kind, payload| {
            if kind == Kind::Image {
                let hash = *blake3::hash(&payload).as_bytes();
                if needed.contains(&hash) {
                    found.insert(hash, payload);
                }
            }
            Ok(())
        })?;
        let missing = || SnapshotError::damaged("a code object is missing");
        let images = wanted
            .iter()
            .map(|hash| found.get(hash).cloned().ok_or_else(missing))
            .collect::<Result<_, _>>()?;
        Ok(Merged { files, manifest, images, since })
    }

    /// Writes the snapshot.
    fn write(&self, to: &mut dyn Write) -> Result<(), SnapshotError> {
        let mut out = Writer::new(to)?;
        out.section(Kind::Manifest, &self.manifest.to_json()?)?;
        for image in &self.images {
            out.section(Kind::Image, image)?;
        }
        let last = self.files.len() - 1;
        for wanted in [Kind::Graph, Kind::Frame] {
            each_section(&self.files[last..], |_, kind, payload| match kind == wanted {
                true => out.section(kind, &payload),
                false => Ok(()),
            })?;
        }
        each_section(self.files, |index, kind, payload| {
            if kind != Kind::Memory {
                return Ok(());
            }
            let (holding, _, _) = memory_parts(&payload)?;
            match self.since.get(&holding) {
                Some((first, _)) if index >= *first => out.section(Kind::Memory, &payload),
                _ => Ok(()),
            }
        })?;
        out.finish().map(drop)
    }
}

/// Passes all sections of some files to `see`, with the index of the file.
fn each_section(
    files: &[PathBuf],
    mut see: impl FnMut(usize, Kind, Vec<u8>) -> Result<(), SnapshotError>,
) -> Result<(), SnapshotError> {
    for (index, file) in files.iter().enumerate() {
        let mut reader = Reader::new(BufReader::with_capacity(1 << 20, File::open(file)?))?;
        loop {
            match reader.next()? {
                (Kind::End, _) => break,
                (kind, payload) => see(index, kind, payload)?,
            }
        }
    }
    Ok(())
}

fn read_manifest(file: &Path) -> Result<Manifest, SnapshotError> {
    Ok(Import::begin(BufReader::new(File::open(file)?))?.manifest)
}

fn record(manifest: &Manifest) -> Result<&crate::session::manifest::CheckpointRecord, SnapshotError> {
    manifest.checkpoint.as_ref().ok_or_else(|| SnapshotError::damaged("it is not a checkpoint"))
}

fn file_name(chain: u64, number: u64) -> String {
    format!("{chain:06}-{number:06}.checkpoint")
}

/// The checkpoints in a folder: chain, number and path, in order.
fn list(folder: &Path) -> io::Result<Vec<(u64, u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name =
            path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".checkpoint"));
        let numbers = name.and_then(|name| name.split_once('-'));
        let numbers = numbers.and_then(|(chain, number)| Some((chain.parse().ok()?, number.parse().ok()?)));
        if let Some((chain, number)) = numbers {
            found.push((chain, number, path));
        }
    }
    found.sort();
    Ok(found)
}

/// The files of the newest chain, without gaps from its complete checkpoint on.
fn chain_of(folder: &Path) -> Vec<PathBuf> {
    let files = list(folder).unwrap_or_default();
    let Some(newest) = files.iter().map(|(chain, _, _)| *chain).max() else { return Vec::new() };
    let chain = files.into_iter().filter(|(chain, _, _)| *chain == newest);
    chain.zip(1..).take_while(|((_, number, _), due)| number == due).map(|((_, _, path), _)| path).collect()
}

fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Creates an empty file that only its owner can read.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}
