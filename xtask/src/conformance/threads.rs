//! Many threads in one session, with and without a race detector.
//!
//! For the detector the client is compiled again with ThreadSanitizer, including the standard library, and linked into the
//! program, so that it sees every access of both. That needs a nightly Rust with its sources; everything else is built as usual.

use crate::build::Built;
use crate::examples::checked;
use crate::local_worker::LocalWorker;
use crate::repo::Repo;
use crate::step;
use crate::toolchain::Toolchain;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-gnu";
const DEVICE: &str = "mi300x";
const ARCHITECTURE: &str = "gfx942";
/// Suppression of a benign race. A thread that submits work compares all device-visible memory with its last state, even memory
/// that another thread is writing. Whatever it reads is sent; the writer's own next call sends the final content.
const SUPPRESSIONS: &str = "race:mirror::twin\n";

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[arg(long, default_value_t = 64)]
    threads: u32,
    /// Rounds of each thread
    #[arg(long, default_value_t = 60)]
    rounds: u32,
    /// Rounds under the race detector, which is many times slower
    #[arg(long, default_value_t = 12)]
    watched_rounds: u32,
    /// Skip the race detector
    #[arg(long)]
    unwatched: bool,
}

pub fn run(repo: &Repo, toolchain: &Toolchain, built: &Built, arguments: &Arguments) -> Result<()> {
    let folder = repo.target.join("threads");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let worker = LocalWorker::start(&built.remora, DEVICE, &repo.logs().join("threads-worker.log"))?;
    let threads = arguments.threads.to_string();

    let object = folder.join("hammer.o");
    compile(repo, toolchain, &[], &object)?;
    let program = folder.join("hammer");
    let mut link = Command::new(&toolchain.clang);
    link.arg(&object).arg("-o").arg(&program).arg("-L").arg(&built.lib);
    checked(link.args(["-l:libamdhip64.so.6", "-pthread"]))?;
    let mut command = Command::new(&program);
    command.args([&threads, &arguments.rounds.to_string()]).env("LD_LIBRARY_PATH", &built.lib);
    step::run_forwarded("many threads", command.env("REMORA_WORKER", worker.address().to_string()))?;
    if arguments.unwatched {
        return Ok(());
    }

    let client = sanitized_client(repo)?;
    let object = folder.join("hammer-watched.o");
    compile(repo, toolchain, &["-Xarch_host", "-fsanitize=thread", "-g"], &object)?;
    let program = folder.join("hammer-watched");
    let mut link = Command::new(&toolchain.clang);
    link.arg("-fsanitize=thread").arg(&object).arg(&client).arg("-o").arg(&program);
    checked(link.args(["-pthread", "-ldl", "-lm"]))?;
    let log = repo.logs().join("threads-watched.log");
    let mut command = Command::new(&program);
    command.args([&threads, &arguments.watched_rounds.to_string()]);
    command.env("REMORA_WORKER", worker.address().to_string());
    let argued = folder.join("argued");
    fs::write(&argued, SUPPRESSIONS).with_context(|| format!("cannot write {}", argued.display()))?;
    // The exit code is 66 if any other race was found.
    let options = format!("halt_on_error=0:exitcode=66:suppressions={}", argued.display());
    command.env("TSAN_OPTIONS", options);
    step::run_logged("many threads under the race detector", &mut command, &log)?;
    let said = fs::read_to_string(&log).unwrap_or_default();
    if said.contains("ThreadSanitizer") || !said.contains("PASS hammer") {
        bail!("the race detector reported problems, or the program did not pass: {}", log.display());
    }
    step::progress("no races");
    Ok(())
}

fn compile(repo: &Repo, toolchain: &Toolchain, flags: &[&str], object: &Path) -> Result<()> {
    let mut clang = toolchain.compile_hip(&[ARCHITECTURE]);
    clang.args(flags).arg("-I").arg(repo.root.join("examples/hip"));
    clang.arg("-c").arg(repo.root.join("e2e/programs/hammer.hip")).arg("-o").arg(object);
    checked(&mut clang)
}

/// Builds the client as an archive in which every memory access is instrumented.
fn sanitized_client(repo: &Repo) -> Result<PathBuf> {
    let folder = repo.target.join("watched");
    let mut cargo = Command::new("cargo");
    cargo.current_dir(&repo.root).args([
        "+nightly",
        "rustc",
        "--package",
        "hip-client",
        "--lib",
        "--release",
    ]);
    cargo
        .args(["--crate-type", "staticlib", "-Zbuild-std", "--target", TARGET])
        .arg("--target-dir")
        .arg(&folder);
    cargo
        .env("RUSTFLAGS", "-Zsanitizer=thread -Cdebuginfo=1 --cfg watched")
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO");
    step::run_logged("the client for the race detector", &mut cargo, &repo.logs().join("threads-cargo.log"))
        .context("this needs `rustup toolchain install nightly --component rust-src`")?;
    Ok(folder.join(TARGET).join("release/libhip_client.a"))
}
