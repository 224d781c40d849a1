//! Program and libraries for older systems: linked for glibc 2.28 by zig, which has the symbols of every version of glibc.

use super::elf::Needs;
use crate::audit_lib;
use crate::build::Built;
use crate::client_libs;
use crate::env;
use crate::provider_lib;
use crate::repo::Repo;
use crate::step;
use crate::venv;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// The oldest glibc, as of the platform tag manylinux_2_28.
pub const GLIBC: (u32, u32) = (2, 28);
const TARGET: &str = "x86_64-unknown-linux-gnu";
const REQUIREMENTS: &str = "deploy/packages/requirements.txt";

/// A Python with the tools that make packages: cargo-zigbuild, zig, wheel.
pub fn tools(repo: &Repo) -> Result<PathBuf> {
    venv::with(repo, "venv-packages", REQUIREMENTS)
}

/// The PATH with which cargo and maturin find these tools.
pub fn path(repo: &Repo) -> Result<OsString> {
    let tools = tools(repo)?;
    let folders = tools.parent().map(Path::to_path_buf).into_iter().chain(env::path());
    std::env::join_paths(folders).context("a folder in PATH has a colon in its name")
}

/// Builds them in a target folder of their own.
pub fn build(repo: &Repo) -> Result<Built> {
    let (zig, path) = (tools(repo)?.with_file_name("cargo-zigbuild"), path(repo)?);
    let target = repo.target.join("portable");
    let mut cargo = repo.cargo();
    cargo.args(["zigbuild", "--release", "--locked"]);
    cargo.args(["--package", "remora", "--package", "hip-client", "--package", "provider"]);
    cargo.arg("--target").arg(format!("{TARGET}.{}.{}", GLIBC.0, GLIBC.1));
    cargo.env("CARGO_TARGET_DIR", &target).env("PATH", &path);
    step::run_forwarded("cargo zigbuild", &mut cargo)?;
    let output = target.join(TARGET).join("release");
    let lib = target.join("lib");
    let linker = client_libs::Linker {
        program: zig,
        arguments: ["zig", "cc", "--", "-target", "x86_64-linux-gnu.2.28"].map(str::to_owned).to_vec(),
        path: Some(path),
    };
    client_libs::link_with(&linker, &lib, &output.join("libhip_client.a"), true)?;
    for (from, name) in [
        (repo.lib().join(audit_lib::NAME), audit_lib::NAME),
        (output.join(provider_lib::NAME), provider_lib::NAME),
    ] {
        fs::copy(&from, lib.join(name)).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    let built = Built { remora: output.join("remora"), lib };
    check(&built)?;
    Ok(built)
}

/// Nothing may need a newer glibc.
fn check(built: &Built) -> Result<()> {
    let mut files = vec![built.remora.clone(), built.lib.join(provider_lib::NAME)];
    files.extend(client_libs::SONAMES.iter().map(|soname| built.lib.join(soname)));
    for file in files {
        let (major, minor) = Needs::of(&[file.clone()])?.glibc;
        if (major, minor) > GLIBC {
            bail!("{} needs glibc {major}.{minor}; portable packages may need {GLIBC:?}", file.display());
        }
    }
    Ok(())
}
