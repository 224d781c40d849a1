//! `cargo xtask conformance`: runs other projects' compilers, packages and test programs through the client library.

mod cases;
pub mod chaos;
mod dist;
mod dstack;
pub mod gtest;
mod hip;
mod libraries;
pub mod library;
mod metrics;
mod model;
mod models;
mod onnx;
mod opinfo;
mod provider;
mod python;
mod rocblas;
mod rocrand;
pub mod tally;
mod threads;
pub mod userland;
mod verdict;
mod windows;

use crate::build::{self, Built};
use crate::compilers;
use crate::docs;
use crate::examples::ARCHITECTURES;
use crate::local_worker::LocalWorker;
use crate::provider_lib;
use crate::repo::Repo;
use crate::setup;
use crate::step;
use crate::venv;
use anyhow::{Context, Result};
use gtest::Limits;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    suite: Suite,
    /// Test the program and the libraries of an earlier build
    #[arg(long, global = true)]
    prebuilt: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Suite {
    /// Programs built by Debian's hipcc and with compressed code, under `remora run`
    Compilers,
    /// Decoding and disassembly of both instruction sets against llvm-mc, in both directions, with counts
    Isa,
    /// The translator's lifter against the software GPU: millions of random instructions and sequences
    Lift,
    /// Kernels compiled by Triton, launched from Python, compared with NumPy
    Triton,
    /// Every test program of Debian's rocRAND, on an emulated MI210
    Rocrand(Selection),
    /// The bench and test programs of Debian's rocBLAS, on an emulated MI210
    Rocblas(Selection),
    /// Debian's rocBLAS, hipBLASLt and MIOpen, in programs that compare every result with a plain reference
    Libraries(libraries::Arguments),
    /// hip-python, tinygrad and CuPy from the package index, compared with NumPy
    Python(python::Arguments),
    /// The test programs of Debian's hipRAND, rocPRIM, hipCUB, rocThrust and rocSPARSE, on an emulated MI210
    Hip(hip::Arguments),
    /// A board that rents its GPUs from a real dstack server (needs root)
    Dstack(dstack::Arguments),
    /// Many threads in one session, also under a race detector
    Threads(threads::Arguments),
    /// Programs on three workers under disturbance: cuts, silence, restarts, migrations, pauses. Results are compared bit for bit
    Chaos(chaos::Arguments),
    /// The provider library with Debian's builds of AMD's management library, and our struct layouts against its headers
    Provider,
    /// The board under load: 200 submissions of 20 users, a server that is killed, memory, latency
    Load,
    /// A thousand clients that connect and disconnect, checking both sides for leaks
    Leaks(Cycles),
    /// An agent's metrics in Debian's VictoriaMetrics, InfluxDB and Prometheus
    Metrics(metrics::Arguments),
    /// Estimates of the performance model against published measurements, as a table
    Model(model::Arguments),
    /// The correct and the wrong solutions of every problem of the board, judged on a software MI300X
    Board,
    /// The node models of ONNX's package, computed by pyflame on the CPU and on a software MI300X
    Onnx(onnx::Arguments),
    /// A ResNet-50, a ViT and a GPT-2 from their torch sources, with torch and with pyflame, on the CPU and on a software MI300X
    Models(models::Arguments),
    /// The samples and error inputs of torch's operators, computed by torch and by pyflame, on the CPU and on a software MI300X
    Opinfo(opinfo::Arguments),
    /// The commands of every tutorial, and the links of all pages
    Docs,
    /// The packages of `cargo xtask dist`, installed, used and removed in bare Debian trees (needs root)
    Dist(dist::Arguments),
    /// The examples and more programs, built for Windows, under Wine against a Linux worker
    Windows(windows::Arguments),
    /// Images, chart, samples and units of deploy/, checked by hadolint, helm, Kubernetes' schemas and systemd
    Deploy,
}

#[derive(Debug, clap::Args)]
struct Cycles {
    #[arg(long, default_value_t = 1000)]
    cycles: u32,
}

/// The programs or cases of a suite to run.
#[derive(Debug, clap::Args)]
pub struct Selection {
    /// Only those whose name contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// A selection that takes a few minutes
    #[arg(long)]
    quick: bool,
    /// Also run what takes hours
    #[arg(long, conflicts_with = "quick")]
    slow: bool,
}

impl Selection {
    /// The short selection, of programs whose name contains a text.
    pub fn short(filter: &str) -> Selection {
        Selection { filter: Some(filter.to_owned()), quick: true, slow: false }
    }

    fn takes(&self, name: &str) -> bool {
        self.filter.as_deref().is_none_or(|text| name.contains(text))
    }
}

/// The software GPU of the suites that run whole libraries: Debian builds them for its architecture.
const MODEL: &str = "mi210";
/// Timeout of a program.
const TIME_LIMITS: Limits =
    Limits { test: Duration::from_secs(3 * 3600), program: Duration::from_secs(3 * 3600) };

/// The major versions of the client library that the suites load.
const LIBRARIES: &[&str] = &["libamdhip64.so.6", "libamdhip64.so.7"];

pub fn run(repo: &Repo, arguments: &Arguments) -> Result<()> {
    let toolchain = setup::run(repo)?;
    let build = || match arguments.prebuilt {
        true => Ok(build::earlier(repo)),
        false => build::run(repo, &build::Arguments::default()),
    };
    match &arguments.suite {
        Suite::Compilers => compilers::run(repo, &toolchain, &build()?),
        Suite::Isa => isa(repo),
        Suite::Lift => lift(repo),
        Suite::Triton => triton(repo, &build()?, Sizes::Large),
        Suite::Rocrand(selection) => rocrand::run(repo, &build()?, selection),
        Suite::Rocblas(selection) => rocblas::run(repo, &build()?, selection),
        Suite::Libraries(arguments) => libraries::run(repo, &toolchain, &build()?, arguments),
        Suite::Python(arguments) => python::run(repo, &build()?, arguments),
        Suite::Hip(arguments) => hip::run(repo, &build()?, arguments),
        Suite::Dstack(arguments) => dstack::run(repo, &build()?, arguments),
        Suite::Threads(arguments) => threads::run(repo, &toolchain, &build()?, arguments),
        Suite::Chaos(arguments) => chaos::run(repo, &toolchain, &build()?, arguments),
        Suite::Provider => provider::run(repo, &toolchain),
        Suite::Load => build().and_then(|built| load(repo, &built)),
        Suite::Leaks(Cycles { cycles }) => build().and_then(|_| leaks(repo, *cycles)),
        Suite::Metrics(arguments) => metrics::run(repo, &toolchain, &build()?, arguments),
        Suite::Model(arguments) => model::run(repo, &toolchain, arguments),
        Suite::Board => build().and_then(|_| board(repo)),
        Suite::Onnx(arguments) => onnx::run(repo, &build()?, arguments),
        Suite::Models(arguments) => models::run(repo, &build()?, arguments),
        Suite::Opinfo(arguments) => opinfo::run(repo, &build()?, arguments),
        Suite::Docs => {
            docs::run(repo, &docs::Arguments { check: true })?;
            docs::run_tutorials(repo, &build()?, false)
        }
        Suite::Dist(arguments) => dist::run(repo, &toolchain, arguments),
        Suite::Windows(arguments) => windows::run(repo, &toolchain, &build()?, arguments),
        Suite::Deploy => build().and_then(|built| deploy(repo, &built)),
    }
}

/// Runs all solutions; `cargo xtask test` runs some of them.
fn board(repo: &Repo) -> Result<()> {
    let mut cargo = repo.cargo();
    cargo.args(["test", "--release", "--package", "board-judge", "--test", "solutions", "--", "--nocapture"]);
    step::run_forwarded("every solution", cargo.env("REMORA_BOARD_ALL", "1"))
}

/// A Python with the tools that check deploy/, and the folder of their downloads.
fn deploy_tools(repo: &Repo) -> Result<(PathBuf, PathBuf)> {
    let python = venv::with(repo, "venv-deploy", "conformance/deploy/requirements.txt")?;
    let scratch = repo.downloads.join("deploy");
    fs::create_dir_all(&scratch).with_context(|| format!("cannot create {}", scratch.display()))?;
    Ok((python, scratch))
}

/// The program helm.
fn helm(repo: &Repo) -> Result<PathBuf> {
    let (python, scratch) = deploy_tools(repo)?;
    let script = repo.root.join("conformance/deploy/helm.py");
    Ok(PathBuf::from(step::output(Command::new(python).arg(script).arg(scratch))?.trim()))
}

fn deploy(repo: &Repo, built: &Built) -> Result<()> {
    let (python, scratch) = deploy_tools(repo)?;
    let mut check = Command::new(python);
    check.arg(repo.root.join("conformance/deploy/check.py"));
    check.env("REMORA", &built.remora).env("PROVIDER", built.lib.join(provider_lib::NAME));
    check.env("DEPLOY", repo.root.join("deploy")).env("SCRATCH", scratch);
    step::run_forwarded("checks of deploy/", &mut check)
}

fn load(repo: &Repo, built: &Built) -> Result<()> {
    let mut python = Command::new("/usr/bin/python3");
    python.arg(repo.root.join("conformance/board/load.py")).arg("--remora").arg(&built.remora);
    step::run_forwarded("the board under load", &mut python)
}

/// Runs many times the cycles of `cargo xtask test`.
fn leaks(repo: &Repo, cycles: u32) -> Result<()> {
    let mut cargo = repo.cargo();
    cargo.args(["test", "--release", "--package", "e2e", "--test", "e2e_client_cycles"]);
    cargo.args(["--test", "e2e_worker_cycles", "--", "--nocapture"]);
    step::run_forwarded(&format!("{cycles} clients"), cargo.env("E2E_CYCLES", cycles.to_string()))
}

/// Runs ten times the instruction words of `cargo xtask test`.
fn isa(repo: &Repo) -> Result<()> {
    let arguments = ["test", "--release", "--package", "isa", "--test", "llvm_mc", "--", "--nocapture"];
    step::run_forwarded("llvm-mc comparison", repo.cargo().args(arguments).env("ISA_EFFORT", "10"))
}

/// 110 times the instructions of the crate's own tests: about 50 million lane operations.
fn lift(repo: &Repo) -> Result<()> {
    let arguments = ["test", "--release", "--package", "lift", "--test", "fuzz", "--", "--nocapture"];
    step::run_forwarded(
        "lifter against the software GPU",
        repo.cargo().args(arguments).env("LIFT_ROUNDS", "110"),
    )
}

/// The problem sizes of a suite's kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// Seconds in total
    Small,
    Large,
}

/// A library whose test programs are suites of their own, by its name.
pub fn library(name: &str) -> Option<&'static library::Library> {
    [&rocrand::LIBRARY].into_iter().chain(hip::LIBRARIES).find(|library| library.name == name)
}

/// A Python with Triton.
pub fn triton_python(repo: &Repo) -> Result<PathBuf> {
    venv::with(repo, "venv", "conformance/triton/requirements.txt")
}

/// The part after setup and build.
pub fn triton(repo: &Repo, built: &Built, sizes: Sizes) -> Result<()> {
    let python = triton_python(repo)?;
    for &(architecture, device) in ARCHITECTURES {
        let log = repo.logs().join(format!("triton-worker-{device}.log"));
        let worker = LocalWorker::start(&built.remora, device, &log)?;
        for library in LIBRARIES {
            let mut command = Command::new(&python);
            command.arg(repo.root.join("conformance/triton/run.py"));
            command.arg("--architecture").arg(architecture).arg("--library").arg(built.lib.join(library));
            if sizes == Sizes::Large {
                command.arg("--large");
            }
            command.env("TF_WORKER_HOST", worker.host()).env("TF_WORKER_PORT", worker.port().to_string());
            command.env("LD_LIBRARY_PATH", &built.lib);
            command.env("TRITON_CACHE_DIR", repo.downloads.join("triton"));
            // Triton warns if this is not set.
            command.env("TRITON_DEFAULT_FP_FUSION", "1");
            command.env("PYTHONDONTWRITEBYTECODE", "1");
            step::run_forwarded(&format!("triton for {architecture} through {library}"), &mut command)?;
        }
    }
    Ok(())
}
