//! Sessions in a folder, from the end of one worker to the start of the next: a snapshot each, and a note of its owner.
//!
//! The note is written last and removed first, so a snapshot with a note is complete. Sessions that have left are noted too, so that
//! their clients still wait, or are redirected, when the worker has been restarted.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wire::SessionId;

use super::folder::{create_file, lock_folder};

/// What a worker has to know of a saved session before it restores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) session: u64,
    pub(crate) tenant: String,
    pub(crate) client: String,
    /// Proof that a connection belongs to the session.
    pub(crate) secret: [u8; 32],
}

/// A session that has left the worker: suspended, or moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AwayNote {
    pub(crate) session: u64,
    pub(crate) tenant: String,
    pub(crate) secret: [u8; 32],
    /// Its new endpoint; `None` while it is suspended.
    pub(crate) endpoint: Option<String>,
}

/// The folder. Readable by its owner only: snapshots contain programs' memory.
#[derive(Debug)]
pub(crate) struct SavedSessions {
    folder: PathBuf,
    /// Locked as long as a worker uses the folder.
    _lock: File,
}

impl SavedSessions {
    /// Opens the folder, and creates it if it does not exist. Fails if another worker uses it.
    pub(crate) fn open(folder: &Path) -> io::Result<SavedSessions> {
        let lock = lock_folder(folder)?;
        Ok(SavedSessions { folder: folder.to_owned(), _lock: lock })
    }

    /// A new file for the snapshot of a session. It counts only after [`SavedSessions::keep`].
    pub(crate) fn create(&self, session: u64) -> io::Result<File> {
        create_file(&self.path(session, "session"))
    }

    /// Completes a saved session.
    pub(crate) fn keep(&self, snapshot: &File, note: &Note) -> io::Result<()> {
        snapshot.sync_all()?;
        self.write(note.session, "json", note)
    }

    /// Notes that a session has left.
    pub(crate) fn note_away(&self, note: &AwayNote) {
        if let Err(error) = self.write(note.session, "away", note) {
            let id = SessionId(note.session);
            tracing::warn!(
                "session {id} will be forgotten when this worker ends: cannot note where it is: {error}"
            );
        }
    }

    /// Removes the note of a session that has left.
    pub(crate) fn forget_away(&self, session: u64) {
        self.remove_file(session, "away");
    }

    /// The sessions that have left.
    pub(crate) fn away(&self) -> io::Result<Vec<AwayNote>> {
        let mut notes = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_none_or(|end| end != "away") {
                continue;
            }
            match fs::read(&path).map(|text| serde_json::from_slice::<AwayNote>(&text)) {
                Ok(Ok(note)) if path == self.path(note.session, "away") => notes.push(note),
                _ => tracing::warn!("{} is not the note of a session that has left", path.display()),
            }
        }
        Ok(notes)
    }

    /// Writes a note atomically.
    fn write(&self, session: u64, end: &str, note: &impl Serialize) -> io::Result<()> {
        let part = self.path(session, &format!("{end}-part"));
        serde_json::to_writer(create_file(&part)?, note)?;
        File::open(&part)?.sync_all()?;
        fs::rename(&part, self.path(session, end))?;
        File::open(&self.folder)?.sync_all()
    }

    /// The complete sessions. Snapshots without a note, from a worker that was killed while it wrote them, are removed.
    pub(crate) fn list(&self) -> io::Result<Vec<Note>> {
        let mut notes = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            match path.extension().and_then(|end| end.to_str()) {
                Some("json") => match fs::read(&path).map(|text| serde_json::from_slice::<Note>(&text)) {
                    Ok(Ok(note)) if path == self.path(note.session, "json") => notes.push(note),
                    _ => tracing::warn!("{} is not the note of a saved session", path.display()),
                },
                Some("session") if !path.with_extension("json").exists() => fs::remove_file(&path)?,
                Some("json-part" | "away-part") => fs::remove_file(&path)?,
                _ => {}
            }
        }
        notes.sort_by_key(|note| note.session);
        Ok(notes)
    }

    /// The snapshot of a session.
    pub(crate) fn snapshot(&self, session: u64) -> io::Result<File> {
        File::open(self.path(session, "session"))
    }

    /// Removes a session that has been restored.
    pub(crate) fn remove(&self, session: u64) {
        self.remove_file(session, "json");
        self.remove_file(session, "session");
    }

    fn remove_file(&self, session: u64, end: &str) {
        match fs::remove_file(self.path(session, end)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!("cannot remove {}: {error}", self.path(session, end).display());
            }
            _ => {}
        }
    }

    /// Sets a session aside that cannot be restored, for `remora resume`. Returns its file.
    pub(crate) fn set_aside(&self, session: u64) -> PathBuf {
        let aside = self.path(session, "refused");
        // On failure the next start tries again, which is acceptable.
        let _ = fs::rename(self.path(session, "session"), &aside);
        self.remove(session);
        aside
    }

    fn path(&self, session: u64, end: &str) -> PathBuf {
        self.folder.join(format!("{}.{end}", SessionId(session)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    fn note(session: u64) -> Note {
        Note { session, tenant: "one".to_owned(), client: "program".to_owned(), secret: [7; 32] }
    }

    #[test]
    fn a_session_is_listed_only_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let saved = SavedSessions::open(&folder.path().join("sessions")).unwrap();
        let mut half = saved.create(1).unwrap();
        half.write_all(b"half").unwrap();
        let mut whole = saved.create(2).unwrap();
        whole.write_all(b"whole").unwrap();
        saved.keep(&whole, &note(2)).unwrap();
        assert_eq!(saved.list().unwrap(), [note(2)]);
        assert!(saved.snapshot(1).is_err(), "the rest of a worker that was killed is removed");
        let mut text = String::new();
        saved.snapshot(2).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "whole");
        saved.remove(2);
        assert!(saved.list().unwrap().is_empty());
    }

    #[test]
    fn a_refused_session_is_set_aside_and_not_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let saved = SavedSessions::open(folder.path()).unwrap();
        saved.keep(&saved.create(3).unwrap(), &note(3)).unwrap();
        assert!(saved.set_aside(3).is_file());
        assert!(saved.list().unwrap().is_empty());
    }

    #[test]
    fn two_workers_do_not_share_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let first = SavedSessions::open(folder.path()).unwrap();
        let error = SavedSessions::open(folder.path()).unwrap_err();
        assert!(error.to_string().contains("another worker uses"), "{error}");
        drop(first);
        SavedSessions::open(folder.path()).unwrap();
    }
}
