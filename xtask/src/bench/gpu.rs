//! `cargo xtask gpu bench`: HIP programs on an NVIDIA GPU behind a worker, compared with the same sources compiled by nvcc.
//!
//! Both sides answer the same commands and are measured alternately, in one run. Without a GPU, the HIP side alone runs on a
//! software GPU with the smallest sizes, to check that the bench itself works.

mod copies;
mod kernels;
mod launches;
mod lupine;
mod markdown;
mod programs;
mod site;
mod start;
mod steps;
mod training;

pub use programs::{PROGRAMS, bundled, compile};
pub use training::collect as collect_pyflame;

use super::machine::Machine;
use super::report::Report;
use crate::build::Built;
use crate::demo::Backend;
use crate::gpu::part::{self, Part};
use crate::repo::Repo;
use crate::step;
use crate::toolchain::Toolchain;
use anyhow::{Context, Result, bail};
use site::Site;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// A part of the bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Subject {
    /// Thirteen kernels
    Kernels,
    /// Enqueueing a launch; a launch with a wait
    Launches,
    /// Copies of 256 MiB, over TCP and a Unix socket
    Copies,
    /// A training step, here and far away
    Steps,
    /// First and second start of a program with 50 kernels
    Start,
    /// Training steps of pyflame and of PyTorch, if the bundle has pyflame
    Training,
    /// The same calls through LUPINE, with --lupine
    Lupine,
}

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A folder made by `gpu bundle`; without it, one is made first
    #[arg(long)]
    pub bundle: Option<PathBuf>,
    /// Measure only this. Repeatable
    #[arg(long, value_enum)]
    only: Vec<Subject>,
    /// Also write the results as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// CUDA compiler of the native programs [default: nvcc, else /usr/local/cuda/bin/nvcc]
    #[arg(long, value_name = "FILE")]
    nvcc: Option<PathBuf>,
    /// Model that the GPU imitates
    #[arg(long = "as", value_name = "MODEL", default_value = "mi210")]
    imitate: String,
    /// Folder with LUPINE's `lupine_driver_server`, `client/libcuda.so.1` and `lib`, to be measured too
    #[arg(long, value_name = "DIR")]
    lupine: Option<PathBuf>,
    /// An argument for `remora worker`, such as --worker=--unconfined-executors. Repeatable
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    worker: Vec<String>,
    /// Internal: check the bench on a software GPU, with the smallest sizes and without CUDA
    #[arg(long, value_enum, default_value = "cuda", hide = true)]
    backend: Backend,
}

/// Runs a bundle's bench, prints the table and writes the Markdown.
pub fn run(bundle: &Path, arguments: &Arguments) -> Result<()> {
    let bundle = bundle.canonicalize().with_context(|| format!("cannot find {}", bundle.display()))?;
    let programs = bundle.join("bench/hip");
    if !programs.is_dir() {
        bail!("{} has no bench/hip: make a new bundle with `cargo xtask gpu bundle`", bundle.display());
    }
    part::unpack_all(&bundle)?;
    let logs = bundle.join("logs");
    fs::create_dir_all(&logs).with_context(|| format!("cannot create {}", logs.display()))?;
    let emulated = arguments.backend == Backend::Emulator;
    let native = match emulated {
        true => None,
        false => {
            let folder = bundle.join("bench/cuda");
            programs::compile_native(&bundle.join("bench/gpu"), &folder, arguments.nvcc.as_deref())?;
            Some(folder)
        }
    };
    let mut selection: Vec<String> = match emulated {
        true => ["--device", &arguments.imitate].map(str::to_owned).into(),
        false => ["--backend", "cuda", "--as", &arguments.imitate].map(str::to_owned).into(),
    };
    selection.extend(arguments.worker.iter().cloned());
    let pyflame = Some(Part::Pyflame.folder(&bundle)).filter(|folder| folder.is_dir());
    let lupine = match &arguments.lupine {
        Some(folder) => {
            Some(folder.canonicalize().with_context(|| format!("cannot find {}", folder.display()))?)
        }
        None => None,
    };
    let site = Site::new(bundle.join("remora"), bundle.join("lib"), programs, native, logs, selection)
        .with(lupine, pyflame);
    let (report, failures) = measure_parts(&site, &arguments.only)?;
    println!("{}", report.table());
    if let Some(path) = &arguments.markdown {
        let text = markdown::render(&report, &gpu_name(emulated), &failures);
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        step::progress(&format!("wrote {}", path.display()));
    }
    if !failures.is_empty() {
        bail!("{} measurements failed\n  {}", failures.len(), failures.join("\n  "));
    }
    Ok(())
}

/// Runs everything on a software GPU with the smallest sizes.
pub fn smoke(repo: &Repo, toolchain: &Toolchain, built: &Built) -> Result<Report> {
    let programs = compile(repo, toolchain, built)?;
    let selection = ["--device", "mi210"].map(str::to_owned).into();
    let site = Site::new(built.remora.clone(), built.lib.clone(), programs, None, repo.logs(), selection);
    let (report, failures) = measure_parts(&site, &[])?;
    if !failures.is_empty() {
        bail!("{}", failures.join("\n  "));
    }
    Ok(report)
}

/// Measures some parts, or all. A part that fails does not keep the others from running; its error is in the list.
fn measure_parts(site: &Site, only: &[Subject]) -> Result<(Report, Vec<String>)> {
    let (mut report, mut failures) = (Report::new(Machine::detect()), Vec::new());
    type Measure = fn(&Site, &mut Report, &mut Vec<String>) -> Result<()>;
    let parts: [(Subject, &str, Measure); 7] = [
        (Subject::Kernels, "kernels", kernels::measure),
        (Subject::Launches, "launches", launches::measure),
        (Subject::Copies, "copies", copies::measure),
        (Subject::Steps, "training steps", steps::measure),
        (Subject::Start, "start of a program with 50 kernels", start::measure),
        (Subject::Training, "training with pyflame", training::measure),
        (Subject::Lupine, "LUPINE", lupine::measure),
    ];
    for (part, name, measure) in parts {
        if !only.is_empty() && !only.contains(&part) {
            continue;
        }
        step::heading(name);
        let started = Instant::now();
        if let Err(error) = measure(site, &mut report, &mut failures) {
            step::progress(&format!("failed: {error:#}"));
            failures.push(format!("{name}: {error:#}"));
        }
        step::progress(&format!("{name}: {}", step::seconds(started.elapsed())));
    }
    report.close();
    Ok((report, failures))
}

/// The GPU and its driver.
fn gpu_name(emulated: bool) -> String {
    if emulated {
        return "a software GPU, without meaning".to_owned();
    }
    let mut query = Command::new("nvidia-smi");
    query.args(["--query-gpu=name,driver_version", "--format=csv,noheader"]);
    let text = step::output(&mut query).unwrap_or_default();
    match text.lines().next().and_then(|line| line.split_once(',')) {
        Some((name, driver)) => format!("{}, driver {}", name.trim(), driver.trim()),
        None => "an NVIDIA GPU".to_owned(),
    }
}
