//! A folder of checkpoints: for each session a note of its owner, and a chain of a complete checkpoint and the changes since.
//!
//! A file is renamed when it is complete, so a worker that is killed leaves an older checkpoint, never a damaged one.

use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use wire::SessionId;

use super::super::folder::{create_file, create_folder};
use super::super::saved::Note;
use crate::session::manifest::{CheckpointRecord, Manifest};
use crate::session::migrate_in::Import;
use crate::session::snapshot::SnapshotError;

const BUFFER_BYTES: usize = 1 << 20;
/// File name of a checkpoint that is not complete yet.
const PART: &str = "part";

/// The folder.
#[derive(Debug)]
pub(super) struct Chains {
    root: PathBuf,
}

impl Chains {
    /// A folder that is created with its first checkpoint.
    pub(super) fn new(root: PathBuf) -> Chains {
        Chains { root }
    }

    /// Stores a checkpoint. Returns its size. A complete one replaces the chain; a change must follow the last one that is stored.
    pub(super) fn store(&self, from: &mut dyn Read, note: &Note) -> Result<u64, SnapshotError> {
        let folder = self.folder(note.session);
        // Waits for the first bytes before anything is created.
        let mut buffer = vec![0; BUFFER_BYTES];
        let bytes = from.read(&mut buffer)?;
        create_folder(&folder)?;
        let stored = self.store_in(&folder, from, (buffer, bytes), note);
        if stored.is_err() {
            // The disk may be full. The folder stays if it holds earlier checkpoints.
            let _ = fs::remove_file(folder.join(PART));
            let _ = fs::remove_dir(&folder);
        }
        stored
    }

    fn store_in(
        &self,
        folder: &Path,
        from: &mut dyn Read,
        (mut buffer, mut bytes): (Vec<u8>, usize),
        note: &Note,
    ) -> Result<u64, SnapshotError> {
        let part = folder.join(PART);
        let mut file = create_file(&part)?;
        let mut size = 0;
        while bytes > 0 {
            file.write_all(&buffer[..bytes])?;
            size += bytes as u64;
            bytes = from.read(&mut buffer)?;
        }
        file.sync_all()?;
        let manifest = read_manifest(&part)?;
        if manifest.session_id != note.session || manifest.secret != note.secret {
            return Err(SnapshotError::damaged("it is of another session"));
        }
        let number = record(&manifest)?.number;
        let newest = list(folder)?.iter().map(|(chain, _, _)| *chain).max().unwrap_or(0);
        let chain = match number {
            1 => {
                let text = serde_json::to_vec(note).map_err(io::Error::from)?;
                let mut file = create_file(&folder.join("note.part"))?;
                file.write_all(&text)?;
                file.sync_all()?;
                fs::rename(folder.join("note.part"), folder.join("note.json"))?;
                newest + 1
            }
            _ if number.checked_sub(1) == Some(self.chain(note.session).len() as u64) => newest,
            _ => return Err(SnapshotError::damaged("the checkpoint before it is missing")),
        };
        fs::rename(&part, folder.join(file_name(chain, number)))?;
        File::open(folder)?.sync_all()?;
        if number == 1 {
            for (old, _, path) in list(folder)? {
                if old < chain {
                    fs::remove_file(path)?;
                }
            }
        }
        Ok(size)
    }

    /// The sessions that can continue. Remains without a complete checkpoint are removed.
    pub(super) fn notes(&self) -> Vec<Note> {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let mut notes = Vec::new();
        for path in entries.map(|entry| entry.path()).filter(|path| path.is_dir()) {
            let note = fs::read(path.join("note.json")).ok();
            let note = note.and_then(|text| serde_json::from_slice::<Note>(&text).ok());
            match note.filter(|note| self.folder(note.session) == path && self.has(note.session)) {
                Some(note) => notes.push(note),
                None => drop(fs::remove_dir_all(&path)),
            }
        }
        notes.sort_by_key(|note| note.session);
        notes
    }

    /// Whether a session has a complete checkpoint.
    pub(super) fn has(&self, session: u64) -> bool {
        !self.chain(session).is_empty()
    }

    /// The files of the newest chain of a session, without gaps from its complete checkpoint on.
    pub(super) fn chain(&self, session: u64) -> Vec<PathBuf> {
        let files = list(&self.folder(session)).unwrap_or_default();
        let Some(newest) = files.iter().map(|(chain, _, _)| *chain).max() else { return Vec::new() };
        let chain = files.into_iter().filter(|(chain, _, _)| *chain == newest);
        chain
            .zip(1..)
            .take_while(|((_, number, _), due)| number == due)
            .map(|((_, _, path), _)| path)
            .collect()
    }

    /// Time since the last checkpoint of a session.
    pub(super) fn age(&self, session: u64) -> Duration {
        let written = |path: &PathBuf| fs::metadata(path).and_then(|it| it.modified()).ok();
        let last = self.chain(session).last().and_then(written);
        last.and_then(|time| time.elapsed().ok()).unwrap_or_default()
    }

    /// Makes the last checkpoint of a session count as new.
    pub(super) fn renew(&self, session: u64) {
        let file = self.chain(session).pop().and_then(|path| File::options().append(true).open(path).ok());
        if let Some(Err(error)) = file.map(|file| file.set_modified(SystemTime::now())) {
            tracing::warn!("cannot renew the checkpoints of session {}: {error}", SessionId(session));
        }
    }

    /// Takes over the checkpoints of a session from another folder of the same file system.
    pub(super) fn take(&self, from: &Chains, session: u64) -> io::Result<()> {
        create_folder(&self.root)?;
        self.discard(session);
        fs::rename(from.folder(session), self.folder(session))
    }

    /// Removes the checkpoints of a session.
    pub(super) fn discard(&self, session: u64) {
        match fs::remove_dir_all(self.folder(session)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!("cannot remove the checkpoints of session {}: {error}", SessionId(session));
            }
            _ => {}
        }
    }

    fn folder(&self, session: u64) -> PathBuf {
        self.root.join(SessionId(session).to_string())
    }
}

/// The first section of a checkpoint.
pub(super) fn read_manifest(file: &Path) -> Result<Manifest, SnapshotError> {
    Ok(Import::begin(BufReader::new(File::open(file)?))?.manifest)
}

/// What a checkpoint says of itself.
pub(super) fn record(manifest: &Manifest) -> Result<&CheckpointRecord, SnapshotError> {
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
