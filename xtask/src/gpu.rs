//! `cargo xtask gpu`: runs the examples, the behaviour suite, test programs and the bench on an NVIDIA GPU, also on a machine
//! without Rust.
//!
//! `bundle` collects stripped programs, client libraries, examples, test binaries and the sources of the bench in one folder. Its
//! copy of this program runs `gpu test --bundle DIR` and `gpu bench --bundle DIR` there.

mod compiler;
mod fat_binary;
mod judge;
mod libraries;
pub mod part;
mod programs;
mod suite;
mod triton;

use crate::bench;
use crate::build;
use crate::demo;
use crate::examples::{self, Example};
use crate::repo::Repo;
use crate::setup;
use crate::step;
use crate::toolchain::Toolchain;
use anyhow::{Context, Result, bail};
use part::Part;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The largest bundle that is still quick to copy.
const MAX_BUNDLE_BYTES: u64 = 80 << 20;

#[derive(Debug, clap::Subcommand)]
pub enum Task {
    /// Collect what a machine with a GPU and without Rust needs, in target/gpu/bundle
    Bundle {
        /// Also make a part that not every run needs, in target/gpu/parts. Repeatable
        #[arg(long, value_enum, value_name = "PART")]
        with: Vec<Part>,
    },
    /// Run the examples, the behaviour suite and other test programs on this machine's NVIDIA GPU
    Test(TestArguments),
    /// Measure HIP programs on this machine's NVIDIA GPU, compared with the same sources compiled by nvcc
    Bench(bench::gpu::Arguments),
}

#[derive(Debug, clap::Args)]
pub struct TestArguments {
    /// A folder made by `gpu bundle`; without it, one is made first
    #[arg(long)]
    bundle: Option<PathBuf>,
    /// Run only examples, tests and programs whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Run only this kind of test. Repeatable
    #[arg(long, value_enum)]
    kind: Vec<Kind>,
    /// Judge only a share of the solutions: every Nth, from the Kth on. --share 2/5 is the second of five shares
    #[arg(long, value_name = "K/N")]
    share: Option<String>,
    /// Run only this test program of the judge: exploits or solutions
    #[arg(long, value_name = "NAME")]
    judge_program: Option<String>,
    /// Judge only as this model, which the GPU imitates: mi300x or mi210
    #[arg(long, value_name = "MODEL")]
    judge_model: Option<String>,
    /// An argument for `remora worker`, such as --worker=--unconfined-compiler. Repeatable
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    worker: Vec<String>,
    /// Internal: check the tests themselves on software GPUs
    #[arg(long, value_enum, default_value = "cuda", hide = true)]
    backend: demo::Backend,
}

/// A kind of test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// The example programs
    Examples,
    /// The behaviour suite of the back end
    Suite,
    /// Programs of the end-to-end tests, compared with the software GPU's output
    Programs,
    /// Kernels compiled by Triton
    Triton,
    /// rocRAND's test programs, if the bundle has that part
    Rocrand,
    /// rocPRIM's test programs, if the bundle has that part
    Rocprim,
    /// The board's judge, if the bundle has that part and the compiler
    Judge,
}

impl Kind {
    const ALL: [Kind; 7] = [
        Kind::Examples,
        Kind::Suite,
        Kind::Programs,
        Kind::Triton,
        Kind::Rocrand,
        Kind::Rocprim,
        Kind::Judge,
    ];
}

pub fn run(repo: &Repo, task: &Task) -> Result<()> {
    match task {
        Task::Bundle { with } => bundle(repo, with).map(drop),
        Task::Test(arguments) => match &arguments.bundle {
            Some(folder) => test(folder, arguments),
            None => test(&bundle(repo, &[])?, arguments),
        },
        Task::Bench(arguments) => match &arguments.bundle {
            Some(folder) => bench::gpu::run(folder, arguments),
            None => bench::gpu::run(&bundle(repo, &[])?, arguments),
        },
    }
}

fn bundle(repo: &Repo, parts: &[Part]) -> Result<PathBuf> {
    let toolchain = setup::run(repo)?;
    let built = build::run(repo, &build::Arguments { tests: true, ..build::Arguments::default() })?;
    let examples = examples::compile_all(repo, &toolchain, &built)?;
    let measured = bench::gpu::compile(repo, &toolchain, &built)?;
    let suite = suite::binary(repo, "device/backend-cuda", "device_suite")?;
    let base = repo.target.join("gpu");
    let folder = base.join("bundle");
    renew(&folder)?;
    step::heading("bundle");
    let this = std::env::current_exe().context("cannot find this program")?;
    copy_stripped(&built.remora, &folder.join("remora"))?;
    copy_stripped(&this, &folder.join("xtask"))?;
    copy_stripped(&suite, &folder.join("suite"))?;
    for library in ["libamdhip64.so.6", "libhiprtc.so.6"] {
        copy_stripped(&built.lib.join(library), &folder.join("lib").join(library))?;
    }
    for example in &examples {
        copy_stripped(&example.program, &folder.join("examples").join(&example.name))?;
    }
    for name in bench::gpu::PROGRAMS {
        copy_stripped(&measured.join(name), &folder.join("bench/hip").join(name))?;
    }
    programs::bundle(repo, &toolchain, &built, &folder.join("programs"), copy_stripped)?;
    for source in bench::gpu::bundled(repo)?.into_iter().chain(triton::bundled(repo)?) {
        let place = source.strip_prefix(&repo.root).context("a source is outside the repository")?;
        copy(&source, &folder.join(place))?;
    }
    let bytes = size(&folder)?;
    if bytes > MAX_BUNDLE_BYTES {
        bail!("the bundle has {bytes} bytes, more than {MAX_BUNDLE_BYTES}");
    }
    step::progress(&format!("{}: {:.1} MiB", folder.display(), bytes as f64 / f64::from(1 << 20)));
    let mut failures = Vec::new();
    for &part in parts {
        if let Err(error) = make_part(repo, &toolchain, part, &base) {
            failures.push(format!("part {}: {error:#}", part.name()));
        }
    }
    if !failures.is_empty() {
        bail!("{}", failures.join("\n"));
    }
    step::progress(
        "copy it to a machine with a GPU and run: ./xtask gpu test --bundle .; ./xtask gpu bench --bundle .",
    );
    Ok(folder)
}

/// Makes the file of a part.
fn make_part(repo: &Repo, toolchain: &Toolchain, part: Part, base: &Path) -> Result<()> {
    let staged = base.join("staged").join(part.name());
    renew(&staged)?;
    match part {
        Part::Compiler => compiler::collect(repo, toolchain, &staged)?,
        Part::Triton => triton::collect(repo, &staged)?,
        Part::Rocrand | Part::Rocprim => libraries::collect(repo, part, &staged)?,
        Part::Pyflame => bench::gpu::collect_pyflame(repo, &staged)?,
        Part::Judge => judge::collect(repo, &staged, copy_stripped)?,
    }
    part::pack(part, &staged, base).map(drop)
}

/// `demo --bundle`: runs the examples of a bundle.
pub fn demo(folder: &Path, backend: demo::Backend) -> Result<()> {
    let (folder, logs) = open(folder)?;
    let (remora, lib) = (folder.join("remora"), folder.join("lib"));
    let programs = demo::Programs { remora: &remora, lib: &lib, logs: &logs, worker: &[] };
    demo::all_right(&programs, backend.targets(), &bundled_examples(&folder, "")?)
}

/// Unpacks the parts of a bundle and returns the paths of the bundle and of its logs.
fn open(folder: &Path) -> Result<(PathBuf, PathBuf)> {
    let folder = folder.canonicalize().with_context(|| format!("cannot find {}", folder.display()))?;
    let logs = folder.join("logs");
    fs::create_dir_all(&logs).with_context(|| format!("cannot create {}", logs.display()))?;
    part::unpack_all(&folder)?;
    Ok((folder, logs))
}

/// Runs the tests of a bundle, those of some kinds or all.
fn test(folder: &Path, arguments: &TestArguments) -> Result<()> {
    let (folder, logs) = open(folder)?;
    let (remora, lib) = (folder.join("remora"), folder.join("lib"));
    let programs = demo::Programs { remora: &remora, lib: &lib, logs: &logs, worker: &arguments.worker };
    let (targets, only) = (arguments.backend.targets(), arguments.only.as_str());
    let mut problems = Vec::new();
    for kind in Kind::ALL {
        if !arguments.kind.is_empty() && !arguments.kind.contains(&kind) {
            continue;
        }
        let started = Instant::now();
        let problem = match kind {
            Kind::Examples => {
                let wrong = demo::report(&programs, targets, &bundled_examples(&folder, only)?)?;
                (wrong > 0).then(|| format!("{wrong} example runs"))
            }
            Kind::Suite => {
                let failed = suite::run(&folder.join("suite"), &logs, only)?;
                (failed > 0).then(|| format!("{failed} behaviour tests"))
            }
            Kind::Programs => {
                let wrong = programs::run(&folder, &programs, targets, only)?;
                (wrong > 0).then(|| format!("{wrong} runs of test programs"))
            }
            Kind::Triton => {
                let wrong = triton::run(&folder, &programs, targets)?;
                (wrong > 0).then(|| format!("{wrong} runs of Triton's cases"))
            }
            Kind::Rocrand => {
                let right = libraries::run(&folder, &programs, targets, Part::Rocrand, only)?;
                (!right).then(|| "tests of rocRAND".to_owned())
            }
            Kind::Rocprim => {
                let right = libraries::run(&folder, &programs, targets, Part::Rocprim, only)?;
                (!right).then(|| "tests of rocPRIM".to_owned())
            }
            Kind::Judge => {
                let choice = judge::Choice {
                    program: arguments.judge_program.as_deref(),
                    model: arguments.judge_model.as_deref(),
                    only,
                    share: arguments.share.as_deref(),
                };
                let failed = judge::run(&folder, &logs, arguments.backend, choice)?;
                (failed > 0).then(|| format!("{failed} tests of the judge"))
            }
        };
        step::progress(&format!("{kind:?}: {}", step::seconds(started.elapsed())));
        problems.extend(problem);
    }
    if !problems.is_empty() {
        bail!("failed: {}; their output is in {}", problems.join(", "), logs.display());
    }
    Ok(())
}

/// The examples of a bundle whose name contains a text.
fn bundled_examples(folder: &Path, only: &str) -> Result<Vec<Example>> {
    let mut examples: Vec<Example> = fs::read_dir(folder.join("examples"))
        .with_context(|| format!("{} is not a bundle", folder.display()))?
        .map(|entry| {
            let program = entry?.path();
            let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Ok(Example { name, program })
        })
        .collect::<Result<_>>()?;
    examples.retain(|example| example.name.contains(only));
    examples.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(examples)
}

/// Makes an empty folder.
fn renew(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    make_parent(to)?;
    fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

fn make_parent(path: &Path) -> Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

/// Copies a program or library without its debug information.
fn copy_stripped(from: &Path, to: &Path) -> Result<()> {
    make_parent(to)?;
    examples::checked(Command::new("strip").arg("--strip-unneeded").arg("-o").arg(to).arg(from))
}

fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { size(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}
