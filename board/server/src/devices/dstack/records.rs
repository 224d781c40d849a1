//! Records of the board's runs on disk, for the next server. A record is written before a run is requested, and removed when the run is
//! known to have ended.

use std::fs;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::accounts;

/// Record of a run that was requested or is about to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub name: String,
    pub gpu: String,
    /// Token of its worker.
    pub token: String,
    pub public_key: String,
    /// Highest price per hour.
    pub max_price: Option<f64>,
}

/// The folder of all records.
#[derive(Clone, Debug)]
pub struct Records {
    folder: PathBuf,
    /// Distinguishes the runs of this board from others in the project.
    pub tag: String,
}

impl Records {
    pub fn open(folder: &Path) -> std::io::Result<Records> {
        private_folder(folder)?;
        let file = folder.join("board");
        let tag = match fs::read_to_string(&file) {
            Ok(tag) => tag.trim().to_owned(),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let tag = accounts::random_hex(4);
                private_file(&file, tag.as_bytes())?;
                tag
            }
            Err(error) => return Err(error),
        };
        if tag.len() != 8 || !tag.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Error::new(ErrorKind::InvalidData, format!("{} is damaged", file.display())));
        }
        Ok(Records { folder: folder.to_owned(), tag })
    }

    /// Returns the name prefix of this board's runs.
    pub fn prefix(&self) -> String {
        format!("remora-{}-", self.tag)
    }

    /// Creates the record of a run, with a name, a token and an SSH key.
    pub async fn create(&self, gpu: &str, max_price: Option<f64>) -> std::io::Result<Record> {
        let name = format!("{}{}-{}", self.prefix(), gpu.to_lowercase(), accounts::random_hex(3));
        let folder = self.folder_of(&name);
        private_folder(&folder)?;
        let key = self.key(&name);
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", &name, "-f"]).arg(&key);
        let made = keygen.stdin(std::process::Stdio::null()).output().await;
        let made = made.map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                Error::other("ssh-keygen not found; on Debian install the package openssh-client")
            }
            _ => error,
        })?;
        if !made.status.success() {
            let words = String::from_utf8_lossy(&made.stderr).trim().to_owned();
            return Err(Error::other(format!("ssh-keygen: {words}")));
        }
        let public_key = fs::read_to_string(key.with_extension("pub"))?.trim().to_owned();
        let token = accounts::random_hex(24);
        let record = Record { name, gpu: gpu.to_owned(), token, public_key, max_price };
        let text = serde_json::to_vec_pretty(&record).map_err(Error::other)?;
        private_file(&folder.join("run.json"), &text)?;
        Ok(record)
    }

    /// Returns all records, oldest first.
    pub fn all(&self) -> Vec<Record> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let file = entry.path().join("run.json");
            let Ok(text) = fs::read(&file) else { continue };
            let moment = entry.metadata().and_then(|about| about.modified()).ok();
            match serde_json::from_slice::<Record>(&text) {
                Ok(record) if entry.file_name() == record.name.as_str() => found.push((moment, record)),
                _ => tracing::warn!("{} is damaged; its run will be stopped", file.display()),
            }
        }
        found.sort_by_key(|(moment, _)| *moment);
        found.into_iter().map(|(_, record)| record).collect()
    }

    pub fn remove(&self, name: &str) {
        if let Err(error) = fs::remove_dir_all(self.folder_of(name))
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!("{}: {error}", self.folder_of(name).display());
        }
    }

    pub fn folder_of(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the path of a run's private SSH key.
    pub fn key(&self, name: &str) -> PathBuf {
        self.folder_of(name).join("key")
    }

    /// Returns the path of the file with the SSH host keys of a run's machines, as first seen.
    pub fn known_hosts(&self, name: &str) -> PathBuf {
        self.folder_of(name).join("known_hosts")
    }
}

fn private_folder(path: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file atomically, readable only by this user.
pub fn private_file(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    let new = path.with_extension("new");
    let mut file = fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn a_board_finds_its_runs_again_and_knows_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(folder.path()).unwrap();
        let first = records.create("MI300X", Some(2.0)).await.unwrap();
        let second = records.create("MI210", None).await.unwrap();
        assert!(first.name.starts_with(&records.prefix()) && first.name.len() <= 41, "{}", first.name);
        assert!(first.public_key.starts_with("ssh-ed25519 "));
        let mode = fs::metadata(records.key(&first.name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0);
        let again = Records::open(folder.path()).unwrap();
        assert_eq!(again.tag, records.tag);
        assert_eq!(again.all().len(), 2);
        assert!(again.all().contains(&first));
        again.remove(&second.name);
        assert_eq!(again.all(), [first]);
        assert_ne!(Records::open(tempfile::tempdir().unwrap().path()).unwrap().tag, records.tag);
    }

    #[tokio::test]
    async fn what_is_damaged_is_no_record() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(folder.path()).unwrap();
        let record = records.create("MI300X", None).await.unwrap();
        fs::write(records.folder_of(&record.name).join("run.json"), "{").unwrap();
        assert_eq!(records.all(), []);
    }
}
