//! Builds the audit library of `remora run`, which is installed next to the client libraries.
//!
//! It is a shared object without libc and needs `panic = "abort"`, which the workspace does not use. So cargo builds it
//! separately, with a dedicated profile.

use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result};
use std::fs;

/// The file name that `remora run` looks for.
pub const NAME: &str = "libremora_audit.so";

/// No startup files and no libraries; every symbol bound at load time, none undefined.
const LINK: &[&str] =
    &["-nostdlib", "-nostartfiles", "-Wl,-z,now", "-Wl,--no-undefined", "-Wl,-soname,libremora_audit.so"];

pub fn build(repo: &Repo) -> Result<()> {
    let mut cargo = repo.cargo();
    cargo.args(["rustc", "--quiet", "--package", "loader-audit", "--lib", "--profile", "audit"]);
    cargo.args(["--crate-type", "cdylib", "--features", "standalone", "--"]);
    cargo.args(LINK.iter().map(|argument| format!("-Clink-arg={argument}")));
    step::run_forwarded("cargo rustc (audit library)", &mut cargo)?;
    let built = repo.target.join("audit").join("libloader_audit.so");
    let folder = repo.lib();
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    // Copied to a temporary file and renamed, so that a process that has the old file mapped keeps it intact.
    let fresh = folder.join(format!(".{NAME}.new"));
    fs::copy(&built, &fresh).with_context(|| format!("cannot copy {}", built.display()))?;
    fs::rename(&fresh, folder.join(NAME)).with_context(|| format!("cannot replace {NAME}"))
}
