//! The agent's persistent state: one file in its data folder, replaced atomically.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::allocation::Allocation;
use crate::error::AgentError;

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    allocations: Vec<Allocation>,
}

/// The data folder of an agent, locked against use by another agent.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    pub(crate) fn take(path: &Path) -> Result<Folder, AgentError> {
        let failed = |source| AgentError::Io { path: path.to_owned(), source };
        std::fs::create_dir_all(path.join("workers")).map_err(failed)?;
        let lock = private(&path.join("agent.lock"), false).map_err(failed)?;
        // SAFETY: a system call on a descriptor that `lock` owns.
        match unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
            0 => Ok(Folder { path: path.to_owned(), _lock: lock }),
            _ => Err(AgentError::InUse(path.to_owned())),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a worker's file of one kind.
    pub(crate) fn of_worker(&self, id: &str, kind: &str) -> PathBuf {
        self.path.join("workers").join(format!("{id}.{kind}"))
    }

    pub(crate) fn read(&self) -> Result<BTreeMap<String, Allocation>, AgentError> {
        let path = self.path.join("state.json");
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(source) => return Err(AgentError::Io { path, source }),
        };
        let stored: Stored = serde_json::from_slice(&text)
            .map_err(|error| AgentError::State { path: path.clone(), why: error.to_string() })?;
        if stored.version != VERSION {
            let why = format!("it has version {}, this program supports {VERSION}", stored.version);
            return Err(AgentError::State { path, why });
        }
        Ok(stored.allocations.into_iter().map(|it| (it.id.clone(), it)).collect())
    }

    pub(crate) fn write(&self, allocations: &BTreeMap<String, Allocation>) -> Result<(), AgentError> {
        let stored = Stored { version: VERSION, allocations: allocations.values().cloned().collect() };
        let text = serde_json::to_vec_pretty(&stored)
            .map_err(|error| AgentError::State { path: self.path.clone(), why: error.to_string() })?;
        self.replace("state.json", &text)
    }

    /// Replaces a file atomically, by writing a temporary file and renaming it: readers see the old or the new content, never a part.
    pub(crate) fn replace(&self, name: &str, text: &[u8]) -> Result<(), AgentError> {
        let path = self.path.join(name);
        let beside = self.path.join(format!("{name}.new"));
        let written = private(&beside, true).and_then(|mut file| {
            file.write_all(text)?;
            file.sync_all()?;
            std::fs::rename(&beside, &path)?;
            File::open(&self.path)?.sync_all()
        });
        written.map_err(|source| AgentError::Io { path, source })
    }
}

/// Opens a file that only its owner may access (mode 0600).
pub(crate) fn private(path: &Path, truncate: bool) -> std::io::Result<File> {
    OpenOptions::new().create(true).write(true).truncate(truncate).mode(0o600).open(path)
}

/// Returns 128 random bits as hexadecimal digits.
pub(crate) fn new_token() -> Result<String, AgentError> {
    let mut random = [0u8; 16];
    getrandom::fill(&mut random).map_err(|error| AgentError::Io {
        path: "/dev/urandom".into(),
        source: std::io::Error::other(error.to_string()),
    })?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_survives_and_a_second_agent_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let first = Folder::take(folder.path()).unwrap();
        assert!(matches!(Folder::take(folder.path()), Err(AgentError::InUse(_))));
        assert!(first.read().unwrap().is_empty());
        let allocation = Allocation {
            id: "a1".to_owned(),
            request: crate::allocation::AllocationRequest::default(),
            devices: vec!["gpu".to_owned()],
            share: crate::reservation::Share::default(),
            qos: limits::Qos::High,
            token: "secret".to_owned(),
            admin_token: String::new(),
            created_ms: 7,
            lease: Default::default(),
            worker: Default::default(),
        };
        let all = BTreeMap::from([("a1".to_owned(), allocation)]);
        first.write(&all).unwrap();
        drop(first);
        let second = Folder::take(folder.path()).unwrap();
        assert_eq!(second.read().unwrap(), all);
        std::fs::write(folder.path().join("state.json"), "{").unwrap();
        assert!(matches!(second.read(), Err(AgentError::State { .. })));
    }
}
