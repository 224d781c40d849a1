//! A small file system for checkpoints, which can be filled.

use crate::step;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const BYTES: &str = "64m";

/// A folder, which is a file system of its own where this user may mount one. Unmounted on drop.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
    mounted: bool,
}

impl Disk {
    pub fn create(folder: PathBuf) -> Result<Disk> {
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={BYTES}"), "chaos"]).arg(&folder);
        let mounted = mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        if !mounted {
            step::progress(&format!("{}: no file system of its own (needs root)", folder.display()));
        }
        Ok(Disk { folder, mounted })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Fills the disk for a while. Returns false if it is not a file system of its own.
    pub fn fill(&self, time: Duration) -> bool {
        if !self.mounted {
            return false;
        }
        let file = self.folder.join("filling");
        if let Ok(mut filling) = File::create(&file) {
            // Until it is full.
            while filling.write_all(&[1; 1 << 16]).is_ok() {}
        }
        std::thread::spawn(move || {
            std::thread::sleep(time);
            let _ = fs::remove_file(file);
        });
        true
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
        }
    }
}
