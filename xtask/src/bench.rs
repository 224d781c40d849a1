//! `cargo xtask bench`: what Remora costs and how fast its software GPU is, beside the limits of this machine.
//!
//! Everything is measured in one run. What has a reference (a raw TCP connection on the loopback interface) is
//! measured in turns with it, so that whatever else the machine does strikes both.

mod affinity;
mod calls;
mod cpu_time;
mod far_training;
mod kernels;
mod loops;
mod machine;
mod peer;
mod plot;
mod program;
mod provider;
mod relay;
mod remote;
mod report;
mod resources;
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
use anyhow::{Context, Result};
use machine::Machine;
use program::Programs;
use report::Report;
use std::fs;
use std::path::PathBuf;

/// The device that is measured, and its architecture.
const DEVICE: &str = "mi300x";
const ARCHITECTURE: &str = "gfx942";

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Subject {
    /// Calls and copies over the loopback interface, and the software GPU
    Local,
    /// The same program from farther and farther away
    Remote,
    /// Many threads, kernels, allocations, streams, launches and sessions
    Scale,
    /// The provider library on a machine with 64 devices
    Provider,
    /// Parts of a GPU from an agent: limits kept, parts asked for
    Agent,
    /// pyflame beside NumPy and PyTorch on the CPU, and a training step on a software GPU beside tinygrad's emulator
    Tensor,
}

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// What to measure: local by default, everything in a smoke run
    #[arg(value_enum)]
    subject: Option<Subject>,
    /// Write the numbers to a file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the plots of docs/performance.md anew
    #[arg(long)]
    plot: bool,
    /// A quick look: fewer and shorter measurements
    #[arg(long)]
    quick: bool,
    /// Only show that the bench works: the smallest sizes, one repetition, a few seconds; no aim is judged
    #[arg(long, conflicts_with_all = ["plot", "json", "quick", "kernels", "tinygrad"])]
    smoke: bool,
    /// Measure kernels only
    #[arg(long, conflicts_with = "plot")]
    kernels: bool,
    /// A copy of tinygrad's repository, whose emulator of an AMD GPU is measured instead of its package's interpreter
    #[arg(long, value_name = "FOLDER")]
    tinygrad: Option<PathBuf>,
    /// Measure what is already built, on a machine that need not have compilers
    #[arg(long)]
    prebuilt: bool,
    /// Be the other end of the raw TCP measurements; the bench starts itself like this
    #[arg(long, hide = true)]
    peer: bool,
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// How often each thing is measured.
    pub rounds: usize,
    /// Waiting calls in one measurement.
    pub calls: u64,
    /// The largest copy.
    pub largest_copy: u64,
    /// A divisor for the work of kernels.
    pub lightness: u64,
    /// A divisor for numbers of things: launches, allocations, sessions.
    pub fewer: u64,
}

impl Effort {
    const FULL: Effort = Effort { rounds: 11, calls: 500, largest_copy: 256 << 20, lightness: 1, fewer: 1 };
    const QUICK: Effort = Effort { rounds: 3, calls: 300, largest_copy: 64 << 20, lightness: 8, fewer: 1 };
    const SMOKE: Effort = Effort { rounds: 1, calls: 20, largest_copy: 1 << 20, lightness: 64, fewer: 100 };

    /// Whether only the bench itself is checked, and the figures mean nothing.
    pub fn is_smoke(self) -> bool {
        self.fewer > 1
    }

    /// How many of `count` things are used.
    pub fn of(self, count: u64) -> u64 {
        (count / self.fewer).max(1)
    }
}

pub fn run(repo: &Repo, arguments: &Arguments) -> Result<()> {
    if arguments.peer {
        return peer::serve();
    }
    if arguments.smoke {
        return smoke::build_and_run(repo, arguments.subject, arguments.prebuilt);
    }
    fs::create_dir_all(repo.logs()).context("cannot create the folder of logs")?;
    let effort = if arguments.quick { Effort::QUICK } else { Effort::FULL };
    let prepare = || prepare(repo, arguments.prebuilt);
    let subject = arguments.subject.unwrap_or(Subject::Local);
    let report = match subject {
        Subject::Local => {
            let (built, programs) = prepare()?;
            measure(&built, &programs, effort, arguments.kernels)?
        }
        Subject::Remote => {
            let (built, programs) = prepare()?;
            remote::measure(repo, &built, &programs, effort)?
        }
        Subject::Scale => {
            let (built, programs) = prepare()?;
            scale::measure(&built, &programs, effort)?
        }
        Subject::Agent => {
            let (built, programs) = prepare()?;
            share::measure(&built, &programs, effort)?
        }
        Subject::Provider => provider::measure(repo, false)?,
        Subject::Tensor => {
            setup::run(repo)?;
            let built = build::run(repo, &build::Arguments::default())?;
            let package = pyflame::built_package(repo)?;
            tensor::measure(repo, &built, &package, effort, arguments.tinygrad.as_deref())?
        }
    };
    finish(repo, arguments, subject, &report)
}

/// What an earlier build has left.
fn already_built(repo: &Repo) -> Built {
    Built { remora: repo.target.join("release/remora"), lib: repo.lib() }
}

/// The program and the libraries that are measured, and the programs that measure them.
fn prepare(repo: &Repo, prebuilt: bool) -> Result<(Built, Programs)> {
    if prebuilt {
        let built = already_built(repo);
        let programs = Programs::load(repo, &built)?;
        return Ok((built, programs));
    }
    let toolchain = setup::run(repo)?;
    let built = build::run(repo, &build::Arguments::default())?;
    let programs = Programs::compile(repo, &toolchain, &built)?;
    Ok((built, programs))
}

/// Shows the numbers, and writes and draws them where that was asked for.
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
            Subject::Scale | Subject::Provider | Subject::Agent => Vec::new(),
        };
        for (name, text) in plots {
            let path = folder.join(name);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            step::detail(&format!("drew {}", path.display()));
        }
    }
    Ok(())
}

fn measure(built: &Built, programs: &Programs, effort: Effort, kernels_only: bool) -> Result<Report> {
    let mut report = Report::new(Machine::look());
    if !kernels_only {
        step::say(&format!("measuring calls against a software {DEVICE}"));
        calls::measure(built, programs, effort, &mut report)?;
    }
    step::say(&format!("measuring kernels on a software {DEVICE}"));
    kernels::measure(built, programs, effort, &mut report)?;
    without_avx512::measure(built, programs, effort, &mut report)?;
    report.close();
    Ok(report)
}
