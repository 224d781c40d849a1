//! `cargo xtask windows`: builds the client for Windows on Linux, with Debian's mingw-w64 and Rust.

pub mod dlls;
pub mod programs;
mod rust;
pub mod wine;

use crate::repo::Repo;
use crate::step;
use crate::system;
use anyhow::Result;
use std::path::PathBuf;

/// The cross compiler; the flavour with POSIX threads, because the examples use C++ threads.
pub const COMPILER: &str = "x86_64-w64-mingw32-g++-posix";
const PACKAGES: &[&str] = &["g++-mingw-w64-x86-64-posix"];

/// The folder of the DLLs and of their import libraries.
pub fn folder(repo: &Repo) -> PathBuf {
    repo.target.join("windows")
}

/// Installs the compilers and builds the DLLs.
pub fn build(repo: &Repo) -> Result<PathBuf> {
    step::heading("building the client for Windows");
    system::ensure(repo, PACKAGES)?;
    rust::ensure(repo)?;
    let mut cargo = rust::cargo_build(repo);
    cargo.args(["--package", "hip-client", "--lib"]);
    step::run_forwarded("cargo build for Windows", &mut cargo)?;
    let archive = rust::output_folder(repo).join("libhip_client.a");
    let folder = folder(repo);
    dlls::link(&archive, &folder)?;
    step::progress(&format!("DLLs: {}", folder.display()));
    Ok(folder)
}
