//! Memory and compute limits of workers, passed to the Remora agent through files.
//!
//! Drivers cannot enforce such limits; Remora's workers can. A limit set here is written to a folder that the agent reads when it starts a
//! worker. Without that folder the limit would not be enforced, so setting it is refused.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::tree::Tree;

/// Folder name of the limits that apply to all workers.
const EVERYBODY: &str = "@all";
/// Longest accepted worker name, so that it is a valid file name.
const NAME_LIMIT: usize = 200;

#[derive(Debug, thiserror::Error)]
pub enum LimitsError {
    #[error("limits would not be enforced: REMORA_LIMITS_DIR is not set to the limits folder of an agent")]
    Nowhere,
    #[error("`{0}` is not a valid worker name")]
    Name(String),
    #[error("cannot write {path}")]
    Io { path: PathBuf, source: io::Error },
}

/// Limits of a worker on a device; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// The most memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// The most compute, in percent.
    pub compute_percent: Option<u32>,
}

/// Stores limits for enforcement. `None` as the worker means all workers.
pub trait Limiter: Send + Sync + std::fmt::Debug {
    /// Returns whether limits are enforced.
    fn works(&self) -> bool;
    fn limit(&self, worker: Option<&str>, device: &str) -> Result<Limit, LimitsError>;
    fn set(&self, worker: Option<&str>, device: &str, limit: Limit) -> Result<(), LimitsError>;
}

/// Stores limits as files: `<folder>/<worker>/<device>` contains lines `memory_bytes N` and `compute_percent N`.
#[derive(Clone, Debug)]
pub struct Ledger {
    folder: Option<PathBuf>,
}

impl Ledger {
    /// Keeps limits in this folder, or not at all.
    pub fn new(folder: Option<PathBuf>) -> Ledger {
        Ledger { folder }
    }

    /// Returns all limits by worker (`None` for all workers) and device, as the agent reads them.
    pub fn read(&self) -> BTreeMap<(Option<String>, String), Limit> {
        let Some(folder) = &self.folder else { return BTreeMap::new() };
        let tree = Tree::new(folder);
        let mut found = BTreeMap::new();
        for worker in tree.names("") {
            for device in tree.names(&worker).into_iter().filter(|name| !name.starts_with('.')) {
                let limit = read(&tree, &format!("{worker}/{device}"));
                found.insert(((worker != EVERYBODY).then(|| worker.clone()), device), limit);
            }
        }
        found
    }

    fn place(&self, worker: Option<&str>, device: &str) -> Result<(PathBuf, String), LimitsError> {
        let folder = self.folder.as_ref().filter(|folder| folder.is_dir()).ok_or(LimitsError::Nowhere)?;
        let worker = worker.unwrap_or(EVERYBODY);
        for name in [worker, device] {
            let hidden = name.starts_with('.') || (name.starts_with('@') && name != EVERYBODY);
            if name.is_empty() || name.len() > NAME_LIMIT || hidden || name.contains(['/', '\0']) {
                return Err(LimitsError::Name(name.to_owned()));
            }
        }
        Ok((folder.clone(), format!("{worker}/{device}")))
    }
}

impl Limiter for Ledger {
    fn works(&self) -> bool {
        self.folder.as_ref().is_some_and(|folder| folder.is_dir())
    }

    fn limit(&self, worker: Option<&str>, device: &str) -> Result<Limit, LimitsError> {
        let (folder, file) = self.place(worker, device)?;
        Ok(read(&Tree::new(folder), &file))
    }

    fn set(&self, worker: Option<&str>, device: &str, limit: Limit) -> Result<(), LimitsError> {
        let (folder, file) = self.place(worker, device)?;
        let path = folder.join(&file);
        let mut text = String::new();
        if let Some(bytes) = limit.memory_bytes {
            text += &format!("memory_bytes {bytes}\n");
        }
        if let Some(percent) = limit.compute_percent {
            text += &format!("compute_percent {percent}\n");
        }
        write(&path, &text).map_err(|source| LimitsError::Io { path, source })
    }
}

fn read(tree: &Tree, file: &str) -> Limit {
    let text = tree.text(file).unwrap_or_default();
    let value = |name: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
    };
    Limit {
        memory_bytes: value("memory_bytes"),
        compute_percent: value("compute_percent").and_then(|percent| u32::try_from(percent).ok()),
    }
}

/// Writes a file atomically, because the agent may read it at any time.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(folder)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // SAFETY: gettid has no arguments and cannot fail. glibc 2.28 has no function for it.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    let fresh = folder.join(format!(".{name}.{thread}"));
    fs::write(&fresh, text)?;
    fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_folder_limits_are_refused() {
        for ledger in [Ledger::new(None), Ledger::new(Some("/nonexistent/limits".into()))] {
            assert!(!ledger.works());
            assert!(matches!(ledger.set(None, "amd-1", Limit::default()), Err(LimitsError::Nowhere)));
        }
    }

    #[test]
    fn what_is_set_is_read_by_worker_and_device() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::new(Some(folder.path().to_owned()));
        let limit = Limit { memory_bytes: Some(4 << 30), compute_percent: Some(25) };
        ledger.set(Some("worker-1"), "amd-1", limit).unwrap();
        ledger.set(None, "amd-2", Limit { memory_bytes: None, ..limit }).unwrap();
        assert_eq!(ledger.limit(Some("worker-1"), "amd-1").unwrap(), limit);
        assert_eq!(ledger.limit(Some("worker-2"), "amd-1").unwrap(), Limit::default());
        let all = ledger.read();
        assert_eq!(all.len(), 2);
        assert_eq!(all[&(Some("worker-1".to_owned()), "amd-1".to_owned())], limit);
        assert_eq!(all[&(None, "amd-2".to_owned())].compute_percent, Some(25));
    }

    #[test]
    fn names_cannot_lead_out_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::new(Some(folder.path().to_owned()));
        let long = "x".repeat(NAME_LIMIT + 1);
        for name in ["", ".", "..", "../../etc", "a/b", ".hidden", "@others", long.as_str()] {
            assert!(
                matches!(ledger.set(Some(name), "amd-1", Limit::default()), Err(LimitsError::Name(_))),
                "{name}"
            );
        }
    }
}
