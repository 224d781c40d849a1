//! The precompiled kernel of `remora try`: a build product in the repository, so that building `remora` needs no GPU compiler.

use crate::examples::{self, ARCHITECTURES};
use crate::repo::Repo;
use crate::step;
use crate::toolchain::Toolchain;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::PathBuf;

const SOURCE: &str = "cli/src/sample/saxpy.hip";
const BUNDLE: &str = "cli/src/sample/saxpy.hipfb";

/// Writes the bundle, if it is out of date.
pub fn write(repo: &Repo, toolchain: &Toolchain) -> Result<()> {
    let fresh = compile(repo, toolchain)?;
    let path = repo.root.join(BUNDLE);
    if fs::read(&path).is_ok_and(|found| found == fresh) {
        step::progress(&format!("{BUNDLE} is up to date"));
        return Ok(());
    }
    fs::write(&path, fresh).with_context(|| format!("cannot write {}", path.display()))?;
    step::progress(&format!("wrote {BUNDLE}"));
    Ok(())
}

/// Fails if the bundle is not what the source compiles to.
pub fn check(repo: &Repo, toolchain: &Toolchain) -> Result<()> {
    let path = repo.root.join(BUNDLE);
    let found = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let fresh = compile(repo, toolchain)?;
    ensure!(
        found == fresh,
        "{BUNDLE} ({} bytes) is not what {SOURCE} compiles to ({} bytes): run `cargo xtask codegen` and commit it",
        found.len(),
        fresh.len()
    );
    Ok(())
}

/// Compiles the kernel for every architecture into one bundle.
fn compile(repo: &Repo, toolchain: &Toolchain) -> Result<Vec<u8>> {
    let output: PathBuf = repo.target.join("sample/saxpy.hipfb");
    if let Some(folder) = output.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let names: Vec<&str> = ARCHITECTURES.iter().map(|(architecture, _)| *architecture).collect();
    let mut command = toolchain.compile_hip(&names);
    // Without paths of this machine, the compiler's version and the unused symbol table, so that other machines make the same bytes.
    command.args([
        "--offload-device-only",
        "--gpu-bundle-output",
        "-fno-ident",
        "-fuse-cuid=none",
        "-Xoffload-linker",
        "--strip-all",
    ]);
    // Relative, so that no path of this machine is in the file.
    command.current_dir(&repo.root).arg(SOURCE).arg("-o").arg(&output);
    examples::checked(&mut command)?;
    fs::read(&output).with_context(|| format!("cannot read {}", output.display()))
}
