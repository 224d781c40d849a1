//! `cargo xtask bench`: measures the overhead of remoting and the speed of the software GPU, compared with the limits of this
//! machine.
//!
//! Everything is measured in one run. Measurements with a reference (a raw TCP connection on the loopback interface) alternate
//! with it, so that other load on the machine affects both.

mod affinity;
mod board;
mod calls;
mod cpu_time;
mod failover;
mod far_training;
pub mod gpu;
mod kernels;
mod loops;
mod machine;
mod memory_peer;
mod peer;
mod plot;
mod program;
mod provider;
mod relay;
mod remote;
mod report;
mod resources;
mod same_host;
mod sample;
mod scale;
mod share;
pub mod smoke;
pub mod svg;
mod tensor;
mod without_avx512;

use crate::build::{self, Built};
use crate::pyflame;
use crate::repo::Repo;
use crate::setup;
use crate::step;
use anyhow::{Context, Result, bail};
use machine::Machine;
use program::Programs;
use report::Report;
use std::fs;
use std::path::PathBuf;

/// The measured device, and its architecture.
const DEVICE: &str = "mi300x";
const ARCHITECTURE: &str = "gfx942";

/// What to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Subject {
    /// Calls and copies over the loopback interface, and the software GPU
    Local,
    /// The same program with increasing network latency
    Remote,
    /// Many threads, kernels, allocations, streams, launches and sessions
    Scale,
    /// The provider library on a machine with 64 devices
    Provider,
    /// Shares of a GPU from an agent: accuracy of limits, latency of allocations
    Agent,
    /// The time from a submission to its verdict on the board
    Board,
    /// HIP programs on an NVIDIA GPU: `cargo xtask gpu bench`. A smoke run uses a software GPU
    Gpu,
    /// pyflame compared with NumPy and PyTorch on the CPU, and a training step on a software GPU compared with tinygrad's
    /// emulator
    Tensor,
}

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// What to measure: local by default, all subjects in a smoke run
    #[arg(value_enum)]
    subject: Option<Subject>,
    /// Also write the numbers to a JSON file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Regenerate the plots of docs/performance.md
    #[arg(long)]
    plot: bool,
    /// Quick run: fewer and shorter measurements
    #[arg(long)]
    quick: bool,
    /// Smoke run: only check that the bench works, with the smallest sizes and one repetition; takes seconds, ignores aims
    #[arg(long, conflicts_with_all = ["plot", "json", "quick", "kernels", "tinygrad"])]
    smoke: bool,
    /// Measure kernels only
    #[arg(long, conflicts_with = "plot")]
    kernels: bool,
    /// Measure one part of the subject `remote` only
    #[arg(long, value_enum, conflicts_with = "plot")]
    part: Option<remote::Part>,
    /// A clone of tinygrad's repository; measures its AMD GPU emulator instead of the package's interpreter
    #[arg(long, value_name = "FOLDER")]
    tinygrad: Option<PathBuf>,
    /// Measure an existing build, on a machine without compilers
    #[arg(long)]
    prebuilt: bool,
    /// Internal: run as the other end of the raw TCP measurements
    #[arg(long, hide = true)]
    peer: bool,
    /// Internal: run as the other end of the shared-memory measurements
    #[arg(long, hide = true, value_name = "FILE")]
    memory_peer: Option<PathBuf>,
}

/// The extent of a run.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Repetitions of each measurement.
    pub rounds: usize,
    /// Waiting calls in one measurement.
    pub calls: u64,
    /// Size of the largest copy, in bytes.
    pub largest_copy: u64,
    /// Divisor for the work of kernels.
    pub work_divisor: u64,
    /// Divisor for counts: launches, allocations, sessions.
    pub count_divisor: u64,
}

impl Extent {
    const FULL: Extent =
        Extent { rounds: 11, calls: 500, largest_copy: 256 << 20, work_divisor: 1, count_divisor: 1 };
    const QUICK: Extent =
        Extent { rounds: 3, calls: 300, largest_copy: 64 << 20, work_divisor: 8, count_divisor: 1 };
    const SMOKE: Extent =
        Extent { rounds: 1, calls: 20, largest_copy: 1 << 20, work_divisor: 64, count_divisor: 100 };

    /// Whether this is a smoke run, whose figures are meaningless.
    pub fn is_smoke(self) -> bool {
        self.count_divisor > 1
    }

    /// Scales a count by the extent of the run.
    pub fn scaled(self, count: u64) -> u64 {
        (count / self.count_divisor).max(1)
    }
}

pub fn run(repo: &Repo, arguments: &Arguments) -> Result<()> {
    if arguments.peer {
        return peer::serve();
    }
    if let Some(file) = &arguments.memory_peer {
        return memory_peer::serve(file);
    }
    if arguments.smoke {
        return smoke::build_and_run(repo, arguments.subject, arguments.prebuilt);
    }
    fs::create_dir_all(repo.logs()).context("cannot create the log folder")?;
    let extent = if arguments.quick { Extent::QUICK } else { Extent::FULL };
    let prepare = || prepare(repo, arguments.prebuilt);
    let subject = arguments.subject.unwrap_or(Subject::Local);
    if arguments.part.is_some() && subject != Subject::Remote {
        bail!("--part selects a part of the subject `remote`; run `cargo xtask bench remote --part ...`");
    }
    let report = match subject {
        Subject::Local => {
            let (built, programs) = prepare()?;
            measure(&built, &programs, extent, arguments.kernels)?
        }
        Subject::Remote => {
            let (built, programs) = prepare()?;
            remote::measure(repo, &built, &programs, extent, arguments.part)?
        }
        Subject::Scale => {
            let (built, programs) = prepare()?;
            scale::measure(&built, &programs, extent)?
        }
        Subject::Agent => {
            let (built, programs) = prepare()?;
            share::measure(&built, &programs, extent)?
        }
        Subject::Provider => provider::measure(repo, false)?,
        Subject::Board => {
            setup::run(repo)?;
            let built = match arguments.prebuilt {
                true => build::earlier(repo),
                false => build::run(repo, &build::Arguments::default())?,
            };
            board::measure(repo, &built, extent)?
        }
        Subject::Gpu => bail!("`cargo xtask gpu bench` measures this, on a machine with an NVIDIA GPU"),
        Subject::Tensor => {
            setup::run(repo)?;
            let built = build::run(repo, &build::Arguments::default())?;
            let package = pyflame::package_of(repo, &built)?;
            tensor::measure(repo, &built, &package, extent, arguments.tinygrad.as_deref())?
        }
    };
    finish(repo, arguments, subject, &report)
}

/// Returns the measured build, and the compiled bench programs.
fn prepare(repo: &Repo, prebuilt: bool) -> Result<(Built, Programs)> {
    if prebuilt {
        let built = build::earlier(repo);
        let programs = Programs::load(repo, &built)?;
        return Ok((built, programs));
    }
    let toolchain = setup::run(repo)?;
    let built = build::run(repo, &build::Arguments::default())?;
    let programs = Programs::compile(repo, &toolchain, &built)?;
    Ok((built, programs))
}

/// Prints the numbers, and writes JSON and plots if requested.
fn finish(repo: &Repo, arguments: &Arguments, subject: Subject, report: &Report) -> Result<()> {
    println!("{}", report.table());
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&report.json())?;
        fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    }
    if arguments.plot {
        let folder = repo.root.join("docs/performance");
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let plots = match subject {
            Subject::Local => plot::all(report),
            Subject::Remote => vec![("remote.svg", remote::plot(report))],
            Subject::Tensor => vec![("tensor.svg", tensor::plot(report))],
            Subject::Scale | Subject::Provider | Subject::Agent | Subject::Board | Subject::Gpu => Vec::new(),
        };
        for (name, text) in plots {
            let path = folder.join(name);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            step::progress(&format!("drew {}", path.display()));
        }
    }
    Ok(())
}

fn measure(built: &Built, programs: &Programs, extent: Extent, kernels_only: bool) -> Result<Report> {
    let mut report = Report::new(Machine::detect());
    if !kernels_only {
        step::heading(&format!("measuring calls against a software {DEVICE}"));
        calls::measure(built, programs, extent, &mut report)?;
    }
    step::heading(&format!("measuring kernels on a software {DEVICE}"));
    kernels::measure(built, programs, extent, &mut report)?;
    without_avx512::measure(built, programs, extent, &mut report)?;
    report.close();
    Ok(report)
}
