//! A folder tree that becomes the contents of a package.

use crate::foreign;
use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Permissions of programs, folders and scripts.
pub const PROGRAM: u32 = 0o755;
/// Permissions of everything else.
pub const FILE: u32 = 0o644;

/// A tree in the making; paths are relative to its root.
#[derive(Debug)]
pub struct Stage {
    pub root: PathBuf,
}

impl Stage {
    /// An empty tree.
    pub fn new(root: PathBuf) -> Result<Stage> {
        foreign::remove(&root)?;
        let stage = Stage { root };
        stage.folder("")?;
        Ok(stage)
    }

    /// Copies a file.
    pub fn file(&self, from: &Path, to: &str, mode: u32) -> Result<PathBuf> {
        let place = self.place(to)?;
        fs::copy(from, &place)
            .with_context(|| format!("cannot copy {} to {}", from.display(), place.display()))?;
        permit(&place, mode)?;
        Ok(place)
    }

    /// Writes a file.
    pub fn bytes(&self, to: &str, bytes: &[u8], mode: u32) -> Result<()> {
        let place = self.place(to)?;
        fs::write(&place, bytes).with_context(|| format!("cannot write {}", place.display()))?;
        permit(&place, mode)
    }

    /// Writes a file, compressed, without its name and time.
    pub fn compressed(&self, to: &str, bytes: &[u8]) -> Result<()> {
        let mut gzip = GzBuilder::new().write(Vec::new(), Compression::best());
        gzip.write_all(bytes)?;
        self.bytes(to, &gzip.finish()?, FILE)
    }

    /// Creates a folder and those around it, with the permissions of folders whatever this process's mask is.
    pub fn folder(&self, path: &str) -> Result<PathBuf> {
        let place = self.root.join(path);
        fs::create_dir_all(&place).with_context(|| format!("cannot create {}", place.display()))?;
        for folder in place.ancestors().take_while(|folder| folder.starts_with(&self.root)) {
            permit(folder, PROGRAM)?;
        }
        Ok(place)
    }

    fn place(&self, path: &str) -> Result<PathBuf> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok(self.folder(folder)?.join(name))
    }
}

fn permit(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .with_context(|| format!("cannot set the permissions of {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_and_compressed_bytes_do_not_depend_on_the_machine() {
        let stage =
            Stage::new(std::env::temp_dir().join(format!("xtask-stage-{}", std::process::id()))).unwrap();
        stage.bytes("usr/bin/run", b"#!/bin/sh\n", PROGRAM).unwrap();
        let mode = |path: &str| fs::metadata(stage.root.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("usr"), mode("usr/bin"), mode("usr/bin/run")), (0o755, 0o755, 0o755));
        stage.compressed("a.gz", b"text").unwrap();
        let bytes = fs::read(stage.root.join("a.gz")).unwrap();
        assert_eq!(bytes[3..8], [0; 5], "no name and no time");
        fs::remove_dir_all(&stage.root).unwrap();
    }
}
