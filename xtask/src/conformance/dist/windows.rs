//! The trial of the zip archive for Windows.

use super::{Bench, PROGRAM};
use crate::dist;
use crate::examples;
use crate::foreign;
use crate::local_worker::LocalWorker;
use crate::step;
use crate::windows::wine::{Wine, windows_path};
use crate::windows::{self, programs};
use anyhow::{Context, Result, bail};
use std::fs;
use std::process::Command;

/// Unpacks it, and runs a program with it under Wine against a worker of this repository.
pub fn unpack_and_run(bench: &Bench<'_>) -> Result<String> {
    let repo = bench.repo;
    let folder = repo.target.join("windows-trial");
    foreign::remove(&folder)?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let archive = dist::only(&bench.packages, "-windows.zip")?;
    step::output(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&archive).arg(&folder))?;
    let name = archive.file_stem().unwrap_or_default();
    let unpacked = folder.join(name);
    // Wine's search path has only the folder of the stand-ins: the DLLs are found because remora.exe lies beside them.
    let wine = Wine::prepare(repo, &unpacked)?;
    let source = repo.root.join("examples/hip").join(format!("{PROGRAM}.hip"));
    let (header, into) = (examples::header(repo), repo.target.join("windows-programs"));
    let import_libraries = windows::folder(repo);
    let compiled = programs::compile(bench.toolchain, &[source], &header, &import_libraries, &into)?;
    let program = windows_path(&compiled.first().context("the program was not compiled")?.program);
    let remora = repo.target.join("release/remora");
    let worker = LocalWorker::start(&remora, "mi300x", &repo.logs().join("windows-trial-worker.log"))?;
    let address = worker.address().to_string();
    let remora = unpacked.join("remora.exe");
    let mut command = wine.bare_command(&remora, &["run", "--worker", &address, "--", &program]);
    let printed = step::output(&mut command)?;
    if !printed.contains(&format!("PASS {PROGRAM}")) {
        bail!("`remora.exe run {PROGRAM}.exe` printed:\n{printed}");
    }
    let files = fs::read_dir(&unpacked).with_context(|| format!("cannot read {}", unpacked.display()))?;
    Ok(format!("{} files; remora.exe runs a program under Wine", files.count()))
}
