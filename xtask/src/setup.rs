//! `cargo xtask setup`: installs everything the examples and tests need, on a bare Debian 12 with a C compiler and Rust.
//!
//! Packages of this Debian release are installed; packages of newer releases are only unpacked below `target/`, so the system is
//! otherwise unchanged. Existing files are kept.

use crate::foreign;
use crate::lock::Lock;
use crate::repo::Repo;
use crate::step;
use crate::system;
use crate::toolchain::Toolchain;
use anyhow::{Result, bail};
use std::fs;

pub fn run(repo: &Repo) -> Result<Toolchain> {
    let _lock = Lock::take(&repo.downloads.join("setup.lock"))?;
    let missing = system::missing()?;
    let unpacked = foreign::is_fresh(repo);
    if missing.is_empty() && unpacked {
        return Toolchain::locate(repo);
    }
    step::heading("setting up the toolchain (once; a few minutes on a fresh machine)");
    refuse_other_systems()?;
    if !missing.is_empty() {
        system::install(repo, &missing)?;
    }
    if !unpacked {
        foreign::unpack(repo)?;
    }
    let toolchain = Toolchain::locate(repo)?;
    step::progress(&format!("toolchain ready in {}", repo.toolchain().display()));
    Ok(toolchain)
}

fn refuse_other_systems() -> Result<()> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    if release.lines().any(|line| line == format!("VERSION_CODENAME={}", system::CODENAME)) {
        return Ok(());
    }
    let name =
        release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("an unknown system");
    bail!(
        "setup supports only Debian 12 ({}), but this is {name}.\n  `cargo xtask build` needs no setup. For the examples and tests \
         use a Debian 12 container, for instance `debootstrap {}` or any image of it.",
        system::CODENAME,
        system::CODENAME
    )
}
