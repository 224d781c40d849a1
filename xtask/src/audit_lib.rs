//! The audit library of `remora run`, beside the client libraries.
//!
//! It is a shared object without libc and needs `panic = "abort"`, which the workspace does not have. So cargo builds it alone, with
//! a profile of its own.

use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result};
use std::fs;

/// The file that `remora run` looks for.
pub const NAME: &str = "libremora_audit.so";

/// No startup files and no libraries; every symbol bound at once, and none left undefined.
const LINK: &[&str] =
    &["-nostdlib", "-nostartfiles", "-Wl,-z,now", "-Wl,--no-undefined", "-Wl,-soname,libremora_audit.so"];

pub fn build(repo: &Repo) -> Result<()> {
    let mut cargo = repo.cargo();
    cargo.args(["rustc", "--quiet", "--package", "loader-audit", "--lib", "--profile", "audit"]);
    cargo.args(["--crate-type", "cdylib", "--features", "standalone", "--"]);
    cargo.args(LINK.iter().map(|argument| format!("-Clink-arg={argument}")));
    step::loud("cargo rustc (audit library)", &mut cargo)?;
    let built = repo.target.join("audit").join("libloader_audit.so");
    let folder = repo.lib();
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    // Copied beside and renamed, so that a program that has the old one mapped keeps it whole.
    let fresh = folder.join(format!(".{NAME}.new"));
    fs::copy(&built, &fresh).with_context(|| format!("cannot copy {}", built.display()))?;
    fs::rename(&fresh, folder.join(NAME)).with_context(|| format!("cannot replace {NAME}"))
}
