//! `cargo xtask gpu`: runs the examples, the behaviour suite and the bench on an NVIDIA GPU, also on a machine without Rust.
//!
//! `bundle` collects stripped programs, client libraries, examples, test binaries and the sources of the bench in one folder. Its
//! copy of this program runs `gpu test --bundle DIR` and `gpu bench --bundle DIR` there.

use crate::bench;
use crate::build;
use crate::demo;
use crate::examples::{self, Example};
use crate::repo::Repo;
use crate::setup;
use crate::step;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The largest bundle that is still quick to copy.
const MAX_BUNDLE_BYTES: u64 = 60 << 20;

/// Timeout of one behaviour test.
const TEST_LIMIT: Duration = Duration::from_secs(30);

/// Behaviour tests that run at the same time.
const PARALLEL_TESTS: usize = 6;

#[derive(Debug, clap::Subcommand)]
pub enum Task {
    /// Collect what a machine with a GPU and without Rust needs, in target/gpu/bundle
    Bundle,
    /// Run the examples and the behaviour suite on this machine's NVIDIA GPU
    Test {
        /// A folder made by `gpu bundle`; without it, one is made first
        #[arg(long)]
        bundle: Option<PathBuf>,
        /// Run only examples and tests whose name contains this
        #[arg(long, default_value = "")]
        only: String,
    },
    /// Measure HIP programs on this machine's NVIDIA GPU, compared with the same sources compiled by nvcc
    Bench(bench::gpu::Arguments),
}

pub fn run(repo: &Repo, task: &Task) -> Result<()> {
    match task {
        Task::Bundle => bundle(repo).map(drop),
        Task::Test { bundle: Some(folder), only } => test(folder, only),
        Task::Test { bundle: None, only } => test(&bundle(repo)?, only),
        Task::Bench(arguments) => match &arguments.bundle {
            Some(folder) => bench::gpu::run(folder, arguments),
            None => bench::gpu::run(&bundle(repo)?, arguments),
        },
    }
}

fn bundle(repo: &Repo) -> Result<PathBuf> {
    let toolchain = setup::run(repo)?;
    let built = build::run(repo, &build::Arguments { tests: true, ..build::Arguments::default() })?;
    let examples = examples::compile_all(repo, &toolchain, &built)?;
    let measured = bench::gpu::compile(repo, &toolchain, &built)?;
    let suite = suite_binary(repo)?;
    let folder = repo.target.join("gpu/bundle");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
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
    for source in bench::gpu::bundled(repo)? {
        let place = source.strip_prefix(&repo.root).context("a source is outside the repository")?;
        copy(&source, &folder.join(place))?;
    }
    let bytes = size(&folder)?;
    if bytes > MAX_BUNDLE_BYTES {
        bail!("the bundle has {bytes} bytes, more than {MAX_BUNDLE_BYTES}");
    }
    step::progress(&format!("{}: {:.1} MiB", folder.display(), bytes as f64 / f64::from(1 << 20)));
    step::progress(
        "copy it to a machine with a GPU and run: ./xtask gpu test --bundle .; ./xtask gpu bench --bundle .",
    );
    Ok(folder)
}

/// Runs the bundle's examples on a worker of each imitated model, then its behaviour tests.
fn test(folder: &Path, only: &str) -> Result<()> {
    let folder = folder.canonicalize().with_context(|| format!("cannot find {}", folder.display()))?;
    let logs = folder.join("logs");
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
    let programs = demo::Programs { remora: &folder.join("remora"), lib: &folder.join("lib"), logs: &logs };
    let wrong = demo::report(&programs, demo::CUDA, &examples)?;
    let failed = suite(&folder.join("suite"), &logs, only)?;
    if wrong + failed > 0 {
        bail!(
            "{wrong} example runs and {failed} behaviour tests failed; their output is in {}",
            logs.display()
        );
    }
    Ok(())
}

/// Runs every behaviour test in a process of its own, because a fault of a kernel ends the process's use of the GPU. Returns how
/// many failed.
fn suite(binary: &Path, logs: &Path, only: &str) -> Result<usize> {
    step::heading("behaviour tests");
    let listed = Command::new(binary).arg("--list").output().context("cannot list the behaviour tests")?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .filter(|name| name.contains(only))
        .collect();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..PARALLEL_TESTS {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let error = match one_test(binary, name) {
                        Ok(None) => continue,
                        Ok(Some(text)) => text,
                        Err(error) => format!("{error:#}"),
                    };
                    let _ = fs::write(logs.join(format!("test-{name}.log")), &error);
                    failed.lock().unwrap_or_else(|it| it.into_inner()).push((*name, error));
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(|it| it.into_inner());
    for (name, text) in &failed {
        let shown: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(8).collect();
        step::progress(&format!("failed: {name}\n        {}", shown.join("\n        ")));
    }
    step::progress(&format!("{} of {} behaviour tests passed", names.len() - failed.len(), names.len()));
    Ok(failed.len())
}

/// Runs one test; the result is its output if it failed.
fn one_test(binary: &Path, name: &str) -> Result<Option<String>> {
    let seconds = TEST_LIMIT.as_secs().to_string();
    let started = Instant::now();
    let Output { status, stdout, stderr } = Command::new("timeout")
        .args(["--kill-after=2", &seconds])
        .arg(binary)
        .args(["--exact", name, "--nocapture"])
        .output()
        .context("cannot start a behaviour test")?;
    if status.success() {
        return Ok(None);
    }
    let late =
        if started.elapsed() >= TEST_LIMIT { format!("timeout after {seconds} s\n") } else { String::new() };
    Ok(Some(format!("{late}{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr))))
}

/// The newest binary of the back end's behaviour tests.
fn suite_binary(repo: &Repo) -> Result<PathBuf> {
    let mut cargo = repo.cargo();
    // The whole workspace, as in `build`, so that its dependencies keep their features and are not compiled again.
    let arguments =
        ["--release", "--workspace", "--no-run", "--message-format=json", "--test", "device_suite"];
    cargo.arg("test").args(arguments);
    let output = cargo.output().context("cannot start cargo")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_cuda = |message: &serde_json::Value| {
        message["manifest_path"].as_str().is_some_and(|path| path.contains("backend-cuda"))
    };
    text.lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(is_cuda)
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .next_back()
        .with_context(|| {
            format!("cargo built no behaviour tests:\n{}", String::from_utf8_lossy(&output.stderr))
        })
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
