//! The sources in `bench/gpu`, compiled by clang as HIP and by nvcc as CUDA.

use crate::build::Built;
use crate::examples::{ARCHITECTURES, checked};
use crate::repo::Repo;
use crate::stamp::{Inputs, Stamp};
use crate::step;
use crate::toolchain::Toolchain;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The programs: `NAME.hip` each.
pub const PROGRAMS: &[&str] = &["kernels", "calls", "start"];

/// Where nvcc is if it is not in the search path.
const USUAL_NVCC: &str = "/usr/local/cuda/bin/nvcc";

/// Compiles the HIP programs if they are out of date; returns their folder.
pub fn compile(repo: &Repo, toolchain: &Toolchain, built: &Built) -> Result<PathBuf> {
    let folder = repo.target.join("bench/gpu");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let names: Vec<&str> = ARCHITECTURES.iter().map(|(architecture, _)| *architecture).collect();
    let clang = || toolchain.compile_hip(&names);
    let mut inputs = Inputs::new().text(&step::command_line(&clang()));
    for file in bundled(repo)? {
        inputs = inputs.file(&file)?;
    }
    let stamp = Stamp::new(folder.join("stamp"), inputs);
    if stamp.is_fresh() {
        return Ok(folder);
    }
    step::heading("compiling the programs of the GPU bench");
    in_parallel(|name| {
        let program = folder.join(name);
        let object = program.with_extension("o");
        let source = repo.root.join(format!("bench/gpu/{name}.hip"));
        checked(clang().arg("-c").arg(source).arg("-o").arg(&object))?;
        let mut link = Command::new(&toolchain.clang);
        link.arg(&object).arg("-o").arg(&program).arg("-L").arg(&built.lib);
        checked(link.args(["-l:libamdhip64.so.6", "-pthread"]))
    })?;
    stamp.write()?;
    Ok(folder)
}

/// The sources that the native programs are compiled from.
pub fn bundled(repo: &Repo) -> Result<Vec<PathBuf>> {
    let folder = repo.root.join("bench/gpu");
    let mut files = vec![repo.root.join("bench/command.h")];
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        files.push(entry?.path());
    }
    files.sort();
    Ok(files)
}

/// Compiles the same sources by nvcc for this machine's GPU.
pub fn compile_native(sources: &Path, folder: &Path, nvcc: Option<&Path>) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let candidates = match nvcc {
        Some(path) => vec![path],
        None => vec![Path::new("nvcc"), Path::new(USUAL_NVCC)],
    };
    let works =
        |nvcc: &&Path| Command::new(nvcc).arg("--version").output().is_ok_and(|done| done.status.success());
    let Some(nvcc) = candidates.iter().copied().find(works) else {
        bail!("no CUDA compiler: none of {candidates:?} runs; give its path by --nvcc");
    };
    step::heading(&format!("compiling the native programs by {}", nvcc.display()));
    let started = Instant::now();
    in_parallel(|name| {
        let mut compiler = Command::new(nvcc);
        compiler.args(["-x", "cu", "-std=c++17", "-O2", "-arch=native"]);
        checked(compiler.arg(sources.join(format!("{name}.hip"))).arg("-o").arg(folder.join(name)))
    })?;
    step::progress(&format!("done in {}", step::seconds(started.elapsed())));
    Ok(())
}

fn in_parallel(compile: impl Fn(&str) -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let running: Vec<_> = PROGRAMS.iter().map(|name| scope.spawn(|| compile(name))).collect();
        running.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(_) => bail!("a thread that compiled a program panicked"),
        })
    })
}
