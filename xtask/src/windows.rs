//! `cargo xtask windows`: builds the client for Windows on Linux, with Debian's mingw-w64 and Rust.

pub mod dlls;
pub mod programs;
mod rust;
pub mod wine;

use crate::examples::checked;
use crate::repo::Repo;
use crate::step;
use crate::system;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

pub use rust::TARGET as RUST_TARGET;

/// The cross compiler; the flavour with POSIX threads, because the examples use C++ threads.
pub const COMPILER: &str = "x86_64-w64-mingw32-g++-posix";
const PACKAGES: &[&str] = &["g++-mingw-w64-x86-64-posix"];

/// The package of the command line, and the name of its program.
pub const PROGRAM: &str = "remora";

/// The folder of `remora.exe`, of the DLLs and of their import libraries.
pub fn folder(repo: &Repo) -> PathBuf {
    repo.target.join("windows")
}

/// Installs the compilers, and builds the DLLs and `remora.exe`.
pub fn build(repo: &Repo) -> Result<PathBuf> {
    step::heading("building the client for Windows");
    system::ensure(repo, PACKAGES)?;
    rust::ensure(repo)?;
    let mut cargo = rust::cargo_build(repo);
    cargo.args(["--package", "hip-client", "--package", PROGRAM, "--lib", "--bins"]);
    step::run_forwarded("cargo build for Windows", &mut cargo)?;
    let archive = rust::output_folder(repo).join("libhip_client.a");
    let folder = folder(repo);
    dlls::link(&archive, &folder)?;
    let program = format!("{PROGRAM}.exe");
    strip(&rust::output_folder(repo).join(&program), &folder.join(&program))?;
    step::progress(&format!("{program} and DLLs: {}", folder.display()));
    Ok(folder)
}

/// Copies a program without its symbols and without the time at which it was linked.
fn strip(from: &Path, to: &Path) -> Result<()> {
    let mut strip = Command::new("x86_64-w64-mingw32-strip");
    // Preserved dates include the one in the header, which the linker left empty.
    checked(strip.args(["--strip-all", "--preserve-dates", "-o"]).arg(to).arg(from))
        .with_context(|| format!("cannot strip {}", from.display()))
}
