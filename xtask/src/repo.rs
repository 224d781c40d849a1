//! Paths in this repository.

use crate::env;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Variables in which cargo describes a program's own crate to it.
const OF_THIS_CRATE: &[&str] = &[
    "CARGO_MANIFEST_DIR",
    "CARGO_MANIFEST_PATH",
    "CARGO_PKG_AUTHORS",
    "CARGO_PKG_DESCRIPTION",
    "CARGO_PKG_HOMEPAGE",
    "CARGO_PKG_LICENSE",
    "CARGO_PKG_LICENSE_FILE",
    "CARGO_PKG_NAME",
    "CARGO_PKG_README",
    "CARGO_PKG_REPOSITORY",
    "CARGO_PKG_RUST_VERSION",
    "CARGO_PKG_VERSION",
    "CARGO_PKG_VERSION_MAJOR",
    "CARGO_PKG_VERSION_MINOR",
    "CARGO_PKG_VERSION_PATCH",
    "CARGO_PKG_VERSION_PRE",
];

/// The folders that the tasks work on.
#[derive(Debug, Clone)]
pub struct Repo {
    /// The working tree.
    pub root: PathBuf,
    /// Downloads: independent of how cargo is called.
    pub downloads: PathBuf,
    /// Build outputs, next to cargo's.
    pub target: PathBuf,
}

impl Repo {
    pub fn find() -> Result<Repo> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .context("the xtask crate has no parent folder")?
            .to_path_buf();
        let downloads = root.join("target");
        let target = match env::cargo_target_dir() {
            Some(dir) => std::path::absolute(dir).context("CARGO_TARGET_DIR is not a usable path")?,
            None => downloads.clone(),
        };
        Ok(Repo { root, downloads, target })
    }

    /// The unpacked HIP toolchain.
    pub fn toolchain(&self) -> PathBuf {
        self.downloads.join("toolchain")
    }

    /// The client libraries.
    pub fn lib(&self) -> PathBuf {
        self.target.join("lib")
    }

    /// Logs of long steps, for diagnosis.
    pub fn logs(&self) -> PathBuf {
        self.target.join("logs")
    }

    /// A cargo command in the working tree.
    pub fn cargo(&self) -> Command {
        self.cargo_at(Path::new(&env::cargo()))
    }

    /// A command in the working tree, of a cargo other than the one that runs this program.
    pub fn cargo_at(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        // `cargo run` describes this crate to us. Build scripts that depend on these variables would run again, and their
        // dependents be recompiled, whenever cargo is called by hand in between.
        for name in OF_THIS_CRATE {
            command.env_remove(name);
        }
        command
    }
}
