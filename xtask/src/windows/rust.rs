//! Rust for Windows: Debian's compiler, and the standard library that it builds from Debian's sources.
//!
//! The usual toolchain has no standard library for the target, and installing one would change it. Debian's `-web` packages follow
//! current Rust, and have the sources of the standard library; its dependencies come from the crate registry.

use crate::env;
use crate::repo::Repo;
use crate::step;
use crate::system;
use anyhow::{Context, Result, bail};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Rust's name of the target.
pub const TARGET: &str = "x86_64-pc-windows-gnu";
const PACKAGES: &[&str] = &["rustc-web", "cargo-web", "rust-web-src"];
const RUSTC: &str = "/usr/bin/rustc";
const CARGO: &str = "/usr/bin/cargo";
/// The C compiler of dependencies, and the linker; the flavour with POSIX threads, as for the DLLs.
const C_COMPILER: &str = "x86_64-w64-mingw32-gcc-posix";
/// The first version that compiles this repository: `rust-version` in Cargo.toml.
const OLDEST: (u32, u32) = (1, 89);

/// Installs Debian's Rust.
pub fn ensure(repo: &Repo) -> Result<()> {
    system::ensure(repo, PACKAGES).with_context(|| {
        format!(
            "the client for Windows needs Debian's packages {}: is Debian 12's security archive among the sources of apt?",
            PACKAGES.join(", ")
        )
    })?;
    let printed = step::output(Command::new(RUSTC).arg("--version"))?;
    match version(&printed) {
        Some(found) if found >= OLDEST => Ok(()),
        _ => bail!(
            "the client for Windows needs Rust {}.{} or later from Debian, found `{}`: add Debian 12's security archive to the \
             sources of apt, and upgrade {}",
            OLDEST.0,
            OLDEST.1,
            printed.trim(),
            PACKAGES.join(", ")
        ),
    }
}

/// A `cargo build` for Windows, of the release profile.
pub fn cargo_build(repo: &Repo) -> Command {
    let mut cargo = repo.cargo_at(Path::new(CARGO));
    cargo.args(["build", "--release", "--locked", "-Zbuild-std=std,panic_unwind", "--target", TARGET]);
    cargo.arg("--target-dir").arg(target_folder(repo));
    // The bootstrap variable permits -Zbuild-std in a stable release.
    cargo.env("RUSTC", RUSTC).env("RUSTC_BOOTSTRAP", "1");
    // `cargo run` has set it to the libraries of another compiler.
    cargo.env_remove("LD_LIBRARY_PATH");
    // C code of dependencies is compiled with the same flavour as ours; Debian's unversioned names may be another one.
    cargo.env("CC_x86_64_pc_windows_gnu", C_COMPILER);
    cargo.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER", C_COMPILER);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags(repo).join(OsStr::new("\u{1f}")));
    cargo
}

/// Flags that make equal programs from equal sources: without the time of linking, and without paths of this machine.
fn flags(repo: &Repo) -> Vec<OsString> {
    let sources = env::cargo_home().map(|home| (home.join("registry/src"), "/usr/src/cargo"));
    let replaced = sources.into_iter().chain([(repo.root.clone(), "/usr/src/remora")]).map(|(from, to)| {
        let mut flag = OsString::from("--remap-path-prefix=");
        flag.push(from);
        flag.push("=");
        flag.push(to);
        flag
    });
    [OsString::from("-Clink-arg=-Wl,--no-insert-timestamp")].into_iter().chain(replaced).collect()
}

/// The folder of what such a build makes.
pub fn output_folder(repo: &Repo) -> PathBuf {
    target_folder(repo).join(TARGET).join("release")
}

/// Apart from the usual folder: another compiler would make cargo recompile its build scripts and macros there.
fn target_folder(repo: &Repo) -> PathBuf {
    repo.target.join("windows-build")
}

/// The version in what `rustc --version` printed.
fn version(printed: &str) -> Option<(u32, u32)> {
    let mut numbers = printed.split_whitespace().nth(1)?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_what_the_compiler_prints() {
        assert_eq!(
            version("rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)\n"),
            Some((1, 96))
        );
        assert_eq!(version("rustc"), None);
    }
}
