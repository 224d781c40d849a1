//! Ledger of a GPU's memory: a file shared by all workers of a machine.
//!
//! Each worker has a row with its request, which stays reserved for it, and its grant, which it may use now. The sum over all rows of
//! the larger of the two never exceeds the GPU's memory. The agent creates the file and the rows; the supervisors of workers grow and
//! shrink their own rows. Session processes cannot access the file, so a hostile session cannot harm other workers.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

/// Why GPU memory cannot be reserved or granted.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum LedgerError {
    #[error(
        "{asked} bytes requested, but only {free} of {total} bytes are neither reserved nor used by other workers"
    )]
    Short { asked: u64, free: u64, total: u64 },
    #[error("the memory ledger has no row for worker {owner}")]
    Unknown { owner: String },
    #[error("cannot access the memory ledger {path}")]
    Io { path: PathBuf, source: io::Error },
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Book {
    total: u64,
    rows: BTreeMap<String, Row>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Row {
    request: u64,
    granted: u64,
}

impl Row {
    fn taken(&self) -> u64 {
        self.request.max(self.granted)
    }
}

impl Book {
    fn taken_but_by(&self, owner: &str) -> u64 {
        let others = self.rows.iter().filter(|(name, _)| *name != owner);
        others.fold(0, |sum, (_, row)| sum.saturating_add(row.taken()))
    }
}

/// Memory ledger of one GPU.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    file: Mutex<File>,
}

/// The ledger under its file lock; no other process or thread can change it.
struct Held<'a> {
    path: &'a Path,
    file: MutexGuard<'a, File>,
    book: Book,
}

impl Ledger {
    /// Opens or creates the ledger of a GPU with `total` bytes.
    pub fn create(path: &Path, total: u64) -> Result<Ledger, LedgerError> {
        let failed = |source| LedgerError::Io { path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let ledger = Ledger { path: path.to_owned(), file: Mutex::new(options.open(path).map_err(failed)?) };
        let mut held = ledger.hold()?;
        held.book.total = total;
        held.write()?;
        drop(held);
        Ok(ledger)
    }

    /// Opens a ledger that an agent has created.
    pub fn open(path: &Path) -> Result<Ledger, LedgerError> {
        let opened = OpenOptions::new().read(true).write(true).open(path);
        let file = opened.map_err(|source| LedgerError::Io { path: path.to_owned(), source })?;
        Ok(Ledger { path: path.to_owned(), file: Mutex::new(file) })
    }

    /// Reserves memory for a worker. Fails if it is not free: memory that others use beyond their requests is not taken from them.
    pub fn reserve(&self, owner: &str, request: u64) -> Result<(), LedgerError> {
        let mut held = self.hold()?;
        held.room_for(owner, request)?;
        held.book.rows.insert(owner.to_owned(), Row { request, granted: request });
        held.write()
    }

    /// Whether a worker has a row.
    pub fn has(&self, owner: &str) -> Result<bool, LedgerError> {
        Ok(self.hold()?.book.rows.contains_key(owner))
    }

    /// Removes the row of a worker.
    pub fn release(&self, owner: &str) -> Result<(), LedgerError> {
        self.retain(|name| name != owner)
    }

    /// Removes the rows of workers that no longer exist.
    pub fn retain(&self, exists: impl Fn(&str) -> bool) -> Result<(), LedgerError> {
        let mut held = self.hold()?;
        held.book.rows.retain(|name, _| exists(name));
        held.write()
    }

    /// Sets the grant of a worker to `bytes`, if they are free. Returns the maximum to which the grant could grow.
    pub fn grow(&self, owner: &str, bytes: u64) -> Result<u64, LedgerError> {
        let mut held = self.hold()?;
        let within_reach = held.room_for(owner, bytes)?;
        held.row(owner)?.granted = bytes;
        held.write()?;
        Ok(within_reach)
    }

    /// Reduces the grant of a worker to `bytes`, but not below its request. Returns the maximum to which the grant could grow.
    pub fn shrink(&self, owner: &str, bytes: u64) -> Result<u64, LedgerError> {
        let mut held = self.hold()?;
        let row = held.row(owner)?;
        row.granted = row.request.max(bytes);
        held.write()?;
        held.room_for(owner, 0)
    }

    /// The grant of a worker.
    pub fn granted(&self, owner: &str) -> Result<u64, LedgerError> {
        Ok(self.hold()?.row(owner)?.granted)
    }

    /// The maximum to which the grant of a worker could grow.
    pub fn within_reach(&self, owner: &str) -> Result<u64, LedgerError> {
        self.hold()?.room_for(owner, 0)
    }

    /// Sum over all workers of the larger of request and grant, in bytes.
    pub fn taken(&self) -> Result<u64, LedgerError> {
        Ok(self.hold()?.book.taken_but_by(""))
    }

    fn hold(&self) -> Result<Held<'_>, LedgerError> {
        let failed = |source| LedgerError::Io { path: self.path.clone(), source };
        let mut file = self.file.lock();
        // The kernel releases the lock when the process exits or this descriptor is closed.
        // SAFETY: no pointers are passed; the descriptor is open.
        while unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } != 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(failed(error));
            }
        }
        let mut text = String::new();
        let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
        // A writer that was killed may leave garbage after the JSON value. An unreadable ledger counts as empty; the agent rebuilds it.
        let book = serde_json::Deserializer::from_str(&text).into_iter().next().and_then(Result::ok);
        let held = Held { path: &self.path, file, book: book.unwrap_or_default() };
        read.map_err(failed).map(|_| held)
    }
}

impl Held<'_> {
    /// Returns the free bytes for a worker if there are at least `asked`.
    fn room_for(&self, owner: &str, asked: u64) -> Result<u64, LedgerError> {
        let total = self.book.total;
        let free = total.saturating_sub(self.book.taken_but_by(owner));
        if asked <= free { Ok(free) } else { Err(LedgerError::Short { asked, free, total }) }
    }

    fn row(&mut self, owner: &str) -> Result<&mut Row, LedgerError> {
        self.book.rows.get_mut(owner).ok_or_else(|| LedgerError::Unknown { owner: owner.to_owned() })
    }

    fn write(&mut self) -> Result<(), LedgerError> {
        let text = serde_json::to_vec(&self.book).map_err(io::Error::from);
        let written = text.and_then(|text| {
            self.file.rewind()?;
            self.file.write_all(&text)?;
            self.file.set_len(text.len() as u64)
        });
        written.map_err(|source| LedgerError::Io { path: self.path.to_owned(), source })
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // SAFETY: no pointers are passed; the descriptor is open.
        unsafe { libc::flock(self.file.as_raw_fd(), libc::LOCK_UN) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("remora-ledger-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_requested_is_never_granted_to_others() {
        let folder = Folder::new("requests");
        let path = folder.0.join("gpu");
        let agent = Ledger::create(&path, 16).unwrap();
        for owner in ["a", "b", "c"] {
            agent.reserve(owner, 4).unwrap();
        }
        let [a, b, c] = ["a", "b", "c"].map(|_| Ledger::open(&path).unwrap());
        assert_eq!(a.within_reach("a").unwrap(), 8);
        a.grow("a", 7).unwrap();
        assert!(matches!(b.grow("b", 6), Err(LedgerError::Short { asked: 6, free: 5, total: 16 })));
        b.grow("b", 5).unwrap();
        // The third worker has used nothing yet and still gets all it requested.
        c.grow("c", 4).unwrap();
        assert!(c.grow("c", 5).is_err());
        assert_eq!(agent.taken().unwrap(), 16);
        assert!(agent.reserve("d", 1).is_err());
        assert_eq!(a.shrink("a", 2).unwrap(), 7);
        agent.reserve("d", 3).unwrap();
        assert!(b.grow("x", 0).is_err());
        agent.release("b").unwrap();
        assert_eq!(agent.taken().unwrap(), 11);
    }

    #[test]
    fn a_ledger_survives_its_agent_and_a_damaged_one_is_made_anew() {
        let folder = Folder::new("agents");
        let path = folder.0.join("gpu");
        Ledger::create(&path, 16).unwrap().reserve("a", 4).unwrap();
        let next = Ledger::create(&path, 16).unwrap();
        assert_eq!(next.taken().unwrap(), 4);
        next.retain(|_| false).unwrap();
        assert_eq!(next.taken().unwrap(), 0);
        std::fs::write(&path, "{\"total\":1").unwrap();
        assert_eq!(Ledger::create(&path, 16).unwrap().within_reach("a").unwrap(), 16);
    }
}
