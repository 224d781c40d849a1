//! `cargo xtask windows`: builds the client for Windows on Linux, with Debian's mingw-w64 and Rust's target for it.

pub mod dlls;
pub mod programs;
pub mod wine;

use crate::repo::Repo;
use crate::step;
use crate::system;
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// Rust's name of the target.
pub const TARGET: &str = "x86_64-pc-windows-gnu";
/// The cross compiler; the flavour with POSIX threads, because the examples use C++ threads.
pub const COMPILER: &str = "x86_64-w64-mingw32-g++-posix";
const PACKAGES: &[&str] = &["g++-mingw-w64-x86-64-posix"];

/// The folder of the DLLs and of their import libraries.
pub fn folder(repo: &Repo) -> PathBuf {
    repo.target.join("windows")
}

/// Installs the C compiler and builds the DLLs.
pub fn build(repo: &Repo) -> Result<PathBuf> {
    step::heading("building the client for Windows");
    system::ensure(repo, PACKAGES)?;
    check_target(repo)?;
    let mut cargo = repo.cargo();
    cargo.args(["build", "--release", "--package", "hip-client", "--lib", "--target", TARGET]);
    // C code of dependencies is compiled with the same flavour as ours; Debian's unversioned names may be another one.
    cargo.env("CC_x86_64_pc_windows_gnu", "x86_64-w64-mingw32-gcc-posix");
    cargo.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER", "x86_64-w64-mingw32-gcc-posix");
    step::run_forwarded("cargo build for Windows", &mut cargo)?;
    let archive = repo.target.join(TARGET).join("release/libhip_client.a");
    let folder = folder(repo);
    dlls::link(&archive, &folder)?;
    step::progress(&format!("DLLs: {}", folder.display()));
    Ok(folder)
}

/// Fails unless the compiler has Rust's standard library for the target.
fn check_target(repo: &Repo) -> Result<()> {
    let sysroot = step::output(Command::new("rustc").current_dir(&repo.root).args(["--print", "sysroot"]))?;
    let library = PathBuf::from(sysroot.trim()).join("lib/rustlib").join(TARGET);
    if !library.is_dir() {
        bail!(
            "the client for Windows needs Rust's standard library for {TARGET}; {} not found. It is a component of the Rust \
             toolchain: install it where you got the toolchain from",
            library.display()
        );
    }
    Ok(())
}
