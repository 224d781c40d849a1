//! Archives whose bytes depend only on names, permissions and contents.

use super::release::Release;
use crate::step;
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

/// How an archive is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Xz,
}

/// Packs the contents of a folder: sorted, owned by root, with the time of the release.
pub fn tar(folder: &Path, release: &Release, compression: Compression, into: &Path) -> Result<()> {
    let mut tar = base(folder, release);
    tar.args(["--owner=0", "--group=0"]);
    match compression {
        Compression::None => {}
        // Without the time of compression.
        Compression::Gzip => drop(tar.args(["-I", "gzip -9 -n"])),
        // One thread: the division into blocks for several would depend on the machine.
        Compression::Xz => drop(tar.args(["-I", "xz -6 -T1"])),
    }
    step::output(tar.arg("-cf").arg(into).args(names(folder)?)).map(drop)
}

/// Packs the contents of a folder with the owners that they have.
pub fn tar_with_owners(folder: &Path, release: &Release, into: &Path) -> Result<()> {
    step::output(base(folder, release).arg("-cf").arg(into).args(names(folder)?)).map(drop)
}

/// A tar command whose output does not depend on the order of folders, on times or on user names.
fn base(folder: &Path, release: &Release) -> Command {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--format=gnu", "--numeric-owner"]).arg("-C").arg(folder);
    tar.arg(format!("--mtime=@{}", release.time)).env("LC_ALL", "C");
    tar
}

fn names(folder: &Path) -> Result<Vec<OsString>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut names = entries.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::stage::{FILE, Stage};

    #[test]
    fn equal_trees_make_equal_archives() {
        let base = std::env::temp_dir().join(format!("xtask-archive-{}", std::process::id()));
        let release = Release { version: "1.0.0", time: 1_000_000 };
        let make = |name: &str, first: &str, second: &str| {
            let stage = Stage::new(base.join(name)).unwrap();
            stage.bytes(first, first.as_bytes(), FILE).unwrap();
            stage.bytes(second, second.as_bytes(), FILE).unwrap();
            let path = base.join(format!("{name}.tar.gz"));
            tar(&stage.root, &release, Compression::Gzip, &path).unwrap();
            fs::read(path).unwrap()
        };
        assert_eq!(make("one", "a/x", "b"), make("two", "b", "a/x"));
        fs::remove_dir_all(base).unwrap();
    }
}
