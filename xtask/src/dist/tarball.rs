//! The tarball: unpack it anywhere and run `bin/remora`.

use super::Parts;
use super::archive;
use super::copyright;
use super::elf;
use super::pages;
use super::stage::{FILE, PROGRAM, Stage};
use crate::audit_lib;
use crate::build::Built;
use crate::client_libs;
use crate::provider_lib;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// Builds `remora-VERSION-x86_64-linux.tar.xz`.
pub fn build(parts: &Parts<'_>, into: &Path) -> Result<PathBuf> {
    let name = format!("remora-{}-x86_64-linux", parts.release.version);
    let stage = Stage::new(parts.work.join("tarball"))?;
    files(&parts.portable.built, &stage, &format!("{name}/bin"), &format!("{name}/lib/remora"))?;
    let provider = parts.portable.built.lib.join(provider_lib::NAME);
    let place = stage.file(&provider, &format!("{name}/lib/remora/{}", provider_lib::NAME), FILE)?;
    elf::strip(&provider, &place, None)?;
    pages::add(&parts.portable.built.remora, &stage, &name, &parts.work)?;
    for unit in ["remora-agent.service", "remora-board.service", "remora-worker@.service"] {
        let from = parts.repo.root.join("deploy/systemd").join(unit);
        stage.file(&from, &format!("{name}/share/remora/systemd/{unit}"), FILE)?;
    }
    for licence in ["LICENSE-MIT", "LICENSE-APACHE", "docs/install.md"] {
        let to = licence.rsplit('/').next().unwrap_or(licence);
        stage.file(&parts.repo.root.join(licence), &format!("{name}/{to}"), FILE)?;
    }
    let notices = copyright::third_party(&parts.shipped)?;
    stage.bytes(&format!("{name}/THIRD-PARTY"), notices.as_bytes(), FILE)?;
    let path = into.join(format!("{name}.tar.xz"));
    archive::tar(&stage.root, &parts.release, archive::Compression::Xz, &path)?;
    Ok(path)
}

/// Adds the program and the client libraries, without debug information.
pub fn files(built: &Built, stage: &Stage, programs: &str, libraries: &str) -> Result<()> {
    let remora = stage.file(&built.remora, &format!("{programs}/remora"), PROGRAM)?;
    elf::strip(&built.remora, &remora, None)?;
    for name in client_libs::SONAMES.iter().chain([&audit_lib::NAME]) {
        let from = built.lib.join(name);
        let to = stage.file(&from, &format!("{libraries}/{name}"), FILE)?;
        elf::strip(&from, &to, None)?;
    }
    Ok(())
}
