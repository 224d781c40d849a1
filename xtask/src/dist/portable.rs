//! The programs and libraries of the packages: built small, and linked for an old glibc by zig, which has the symbols of every version.

use super::elf::Needs;
use super::tools;
use crate::audit_lib;
use crate::build::Built;
use crate::client_libs::{self, Linker};
use crate::env;
use crate::provider_lib;
use crate::pyflame;
use crate::repo::Repo;
use crate::step;
use crate::toolchain::Toolchain;
use crate::ui;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest glibc that the packages need, as in the platform tag manylinux_2_28.
pub const GLIBC: (u32, u32) = (2, 28);
/// The profile in the root Cargo.toml.
const PROFILE: &str = "dist";
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// What the packages are made from.
#[derive(Debug)]
pub struct Portable {
    /// Program and libraries, with debug information.
    pub built: Built,
    /// The wheel of pyflame.
    pub pyflame: PathBuf,
}

/// Builds everything, in a target folder of its own. `time` is the time of the files in the wheel.
pub fn build(repo: &Repo, time: u64) -> Result<Portable> {
    step::heading("building for the packages");
    // Without it, pyflame would be built without kernels, and compile them where it is installed.
    Toolchain::locate(repo).context("the compiler of pyflame's kernels is missing")?;
    ui::build(repo)?;
    audit_lib::build(repo)?;
    let mut cargo = repo.cargo();
    cargo.args(["zigbuild", "--locked", "--profile", PROFILE]);
    cargo.args(["--package", "remora", "--package", "hip-client", "--package", "provider"]);
    cargo.arg("--target").arg(format!("{TARGET}.{}.{}", GLIBC.0, GLIBC.1));
    step::run_forwarded("cargo zigbuild", prepare(repo, &mut cargo, &folder(repo))?)?;
    let python = tools::python(repo)?;
    let mut maturin = pyflame::maturin(repo, &python, &wheels(repo));
    maturin.args(["--profile", PROFILE, "--zig", "--strip", "--target", TARGET]);
    maturin.arg("--compatibility").arg(format!("manylinux_{}_{}", GLIBC.0, GLIBC.1));
    maturin.env("SOURCE_DATE_EPOCH", time.to_string());
    prepare(repo, &mut maturin, &folder(repo).join("pyflame"))?;
    pyflame::build_wheel(repo, &mut maturin, &wheels(repo))?;
    collect(repo)
}

/// The part after cargo and maturin: links the client libraries, collects the others, and checks what all of them need.
pub fn collect(repo: &Repo) -> Result<Portable> {
    let output = folder(repo).join(TARGET).join(PROFILE);
    let remora = output.join("remora");
    if !remora.exists() {
        bail!(
            "the programs of the packages are not built: {} is missing; run `cargo xtask dist` without --built",
            remora.display()
        );
    }
    let lib = folder(repo).join("lib");
    client_libs::link_with(&zig(repo)?, &lib, &output.join("libhip_client.a"), true)?;
    for from in [repo.lib().join(audit_lib::NAME), output.join(provider_lib::NAME)] {
        let name = from.file_name().context("a library without a name")?;
        fs::copy(&from, lib.join(name)).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    let portable = Portable {
        built: Built { remora, lib, is_earlier: true },
        pyflame: pyflame::only_wheel(&wheels(repo))?,
    };
    check(&portable.built)?;
    step::progress(&format!("programs and libraries: {}", folder(repo).display()));
    Ok(portable)
}

fn folder(repo: &Repo) -> PathBuf {
    repo.target.join("portable")
}

fn wheels(repo: &Repo) -> PathBuf {
    folder(repo).join("wheels")
}

/// The environment of a build: tools, target folder, flags.
fn prepare<'a>(repo: &Repo, command: &'a mut Command, target: &Path) -> Result<&'a mut Command> {
    let tools = tools::python(repo)?;
    let folders = tools.parent().map(Path::to_path_buf).into_iter().chain(env::path());
    let path = std::env::join_paths(folders).context("a folder in PATH has a colon in its name")?;
    // Debug information is found by build ID, which zig makes on request only. Paths of this machine are replaced, so that the
    // programs do not depend on them.
    let mut flags = vec![OsString::from("-Clink-arg=-Wl,--build-id=sha1")];
    let sources = env::cargo_home().map(|home| (home.join("registry/src"), "/usr/src/cargo"));
    for (from, to) in sources.into_iter().chain([(repo.root.clone(), "/usr/src/remora")]) {
        let mut flag = OsString::from("--remap-path-prefix=");
        flag.push(from);
        flag.push("=");
        flag.push(to);
        flags.push(flag);
    }
    let flags = flags.join(std::ffi::OsStr::new("\u{1f}"));
    Ok(command.env("PATH", path).env("CARGO_TARGET_DIR", target).env("CARGO_ENCODED_RUSTFLAGS", flags))
}

/// The linker of the client libraries.
fn zig(repo: &Repo) -> Result<Linker> {
    let target = format!("x86_64-linux-gnu.{}.{}", GLIBC.0, GLIBC.1);
    let words = ["-m", "ziglang", "cc", "-target", &target];
    Ok(Linker {
        program: tools::python(repo)?,
        arguments: words.map(str::to_owned).to_vec(),
        // It links LLVM's unwinder statically. It has no option that binds functions alone; the libraries export no data.
        options: &["-Wl,-Bsymbolic", "-Wl,--build-id=sha1", "-lunwind"],
    })
}

/// Nothing may need a newer glibc, or a library that a bare system lacks.
fn check(built: &Built) -> Result<()> {
    let mut files = vec![built.remora.clone(), built.lib.join(provider_lib::NAME)];
    files.extend(client_libs::SONAMES.iter().map(|soname| built.lib.join(soname)));
    for file in files {
        let needs = Needs::of(std::slice::from_ref(&file))?;
        if needs.glibc > GLIBC {
            let (major, minor) = needs.glibc;
            bail!(
                "{} needs glibc {major}.{minor}, but packages are for glibc {}.{}; `objdump -T` shows the symbols",
                file.display(),
                GLIBC.0,
                GLIBC.1
            );
        }
        let unknown = Needs::unknown_symbols(&file)?;
        if !unknown.is_empty() {
            bail!(
                "{} needs functions that glibc {}.{} lacks: {}",
                file.display(),
                GLIBC.0,
                GLIBC.1,
                unknown.join(", ")
            );
        }
        needs.debian().with_context(|| format!("{} needs more than glibc", file.display()))?;
    }
    Ok(())
}
