//! `cargo xtask fuzz`: builds the targets in `fuzz/` with coverage counters and AddressSanitizer, and runs them.
//!
//! The compiler flags are those of cargo-fuzz. They need a nightly compiler or `RUSTC_BOOTSTRAP=1`; this task sets the variable,
//! so that the toolchain of the repository is enough and cargo-fuzz is not required. The layout of `fuzz/` is cargo-fuzz's.

use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;

/// With an explicit target, build scripts and procedural macros are not instrumented.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-sanitizer-coverage-stack-depth",
    "-Zsanitizer=address",
    "--cfg=fuzzing",
    "-Cdebug-assertions",
    "-Ccodegen-units=1",
];

/// Targets that start threads. LeakSanitizer once reported 32-byte records that did not recur, presumably of threads that were
/// just exiting, so these run without it.
const THREADED: &[&str] = &["arrival", "requests"];

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Targets to run, by file name in fuzz/fuzz_targets; all of them by default
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Run time of each target, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Targets that run in parallel; the number of CPUs by default
    #[arg(long)]
    jobs: Option<usize>,
    /// Memory limit of a target, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    memory: u64,
    /// Only build the targets and write the seed inputs
    #[arg(long)]
    build: bool,
}

pub fn run(repo: &Repo, arguments: &Arguments) -> Result<()> {
    let folder = repo.root.join("fuzz");
    let targets = chosen(&known(&folder)?, &arguments.targets)?;
    let programs = build(repo, &folder, &targets)?;
    seed(&folder, &programs)?;
    if arguments.build {
        step::progress(&format!("targets: {}", programs.display()));
        return Ok(());
    }
    let jobs = arguments.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    step::heading(&format!(
        "fuzzing {} targets for {} s each, {jobs} at a time",
        targets.len(),
        arguments.seconds
    ));
    let waiting = Mutex::new(targets.iter());
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().map_or(None, |mut waiting| waiting.next());
                    let Some(target) = next else { break };
                    let result = fuzz(repo, &folder, &programs, target, arguments);
                    if let Ok(mut results) = results.lock() {
                        results.push((target.clone(), result));
                    }
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_default();
    results.sort_by(|(a, _), (b, _)| a.cmp(b));
    report(results)
}

/// Returns the names of all targets.
fn known(folder: &Path) -> Result<Vec<String>> {
    let sources = folder.join("fuzz_targets");
    let entries = fs::read_dir(&sources).with_context(|| format!("cannot read {}", sources.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".rs")?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

fn chosen(known: &[String], wanted: &[String]) -> Result<Vec<String>> {
    if let Some(unknown) = wanted.iter().find(|name| !known.contains(name)) {
        bail!("no fuzz target named {unknown}; the targets are {}", known.join(", "));
    }
    Ok(if wanted.is_empty() { known.to_vec() } else { wanted.to_vec() })
}

/// Compiles the targets and the seed generator; returns their folder.
fn build(repo: &Repo, folder: &Path, targets: &[String]) -> Result<PathBuf> {
    step::heading("building the fuzz targets (minutes, the first time)");
    let mut cargo = repo.cargo();
    cargo.current_dir(folder);
    cargo.args(["build", "--release", "--locked", "--target", TRIPLE, "--example", "seeds"]);
    for target in targets {
        cargo.args(["--bin", target]);
    }
    cargo.arg("--target-dir").arg(folder.join("target"));
    cargo.env("RUSTC_BOOTSTRAP", "1").env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}"));
    step::run_forwarded("cargo build of the fuzz targets", &mut cargo)?;
    Ok(folder.join("target").join(TRIPLE).join("release"))
}

/// Writes a first input of each kind, so that a run does not start with the search for a valid header.
fn seed(folder: &Path, programs: &Path) -> Result<()> {
    step::output(Command::new(programs.join("examples/seeds")).arg(folder.join("corpus"))).map(drop)
}

/// The result of a run of one target.
struct Outcome {
    count: Count,
    status: ExitStatus,
    log: PathBuf,
}

/// The statistics of a run of one target.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    executions: u64,
    new_inputs: u64,
}

fn fuzz(repo: &Repo, folder: &Path, programs: &Path, target: &str, arguments: &Arguments) -> Result<Outcome> {
    let (corpus, artifacts) = (folder.join("corpus").join(target), folder.join("artifacts").join(target));
    for needed in [&corpus, &artifacts] {
        fs::create_dir_all(needed).with_context(|| format!("cannot create {}", needed.display()))?;
    }
    let log = repo.logs().join(format!("fuzz-{target}.log"));
    fs::create_dir_all(repo.logs()).context("cannot create the log folder")?;
    let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut program = Command::new(programs.join(target));
    program.arg(format!("-max_total_time={}", arguments.seconds));
    program.arg(format!("-rss_limit_mb={}", arguments.memory));
    program.args(["-timeout=30", "-print_final_stats=1"]);
    if THREADED.contains(&target) {
        program.arg("-detect_leaks=0");
    }
    program.arg(format!("-artifact_prefix={}/", artifacts.display())).arg(&corpus);
    program.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    step::progress(&format!("{target} ..."));
    let status =
        program.status().with_context(|| format!("cannot start {}", step::command_line(&program)))?;
    let said = fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?;
    Ok(Outcome { count: count(&String::from_utf8_lossy(&said)), status, log })
}

/// Parses libFuzzer's final statistics, lines such as `stat::number_of_executed_units: 1024`.
fn count(said: &str) -> Count {
    let number = |name: &str| {
        let mut values = said.lines().filter_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        values.next_back().unwrap_or_default()
    };
    Count {
        executions: number("stat::number_of_executed_units:"),
        new_inputs: number("stat::new_units_added:"),
    }
}

fn report(results: Vec<(String, Result<Outcome>)>) -> Result<()> {
    let mut failures = Vec::new();
    println!("{:20}  {:>14}  {:>10}  result", "target", "executions", "new inputs");
    for (target, result) in results {
        match result {
            Ok(Outcome { count, status, log }) => {
                let word = if status.success() { "passed" } else { "FAILED" };
                println!("{target:20}  {:>14}  {:>10}  {word}", count.executions, count.new_inputs);
                if !status.success() {
                    failures.push(format!(
                        "{target} exited with {status}; input: fuzz/artifacts/{target}, log: {}",
                        log.display()
                    ));
                } else if count.executions == 0 {
                    failures.push(format!("{target} executed no input; log: {}", log.display()));
                }
            }
            Err(error) => failures.push(format!("{target}: {error:#}")),
        }
    }
    if !failures.is_empty() {
        bail!("{} fuzz targets failed\n  {}", failures.len(), failures.join("\n  "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_are_read_from_the_final_statistics() {
        let said = "INFO: Loaded 1 modules\nstat::number_of_executed_units: 1024\nstat::new_units_added:          7\n";
        assert_eq!(count(said), Count { executions: 1024, new_inputs: 7 });
        assert_eq!(count("==1== ERROR: libFuzzer: deadly signal\n"), Count::default());
    }

    #[test]
    fn an_unknown_target_is_refused_and_the_known_ones_are_listed() {
        let known = ["frame".to_owned(), "session".to_owned()];
        assert_eq!(chosen(&known, &[]).unwrap(), known);
        let error = chosen(&known, &["frames".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("frames") && error.contains("frame, session"), "{error}");
    }

    #[test]
    fn every_fuzz_target_file_is_a_program_of_the_fuzz_crate() {
        let repo = Repo::find().unwrap();
        let manifest = fs::read_to_string(repo.root.join("fuzz/Cargo.toml")).unwrap();
        let targets = known(&repo.root.join("fuzz")).unwrap();
        assert!(targets.len() >= 10, "{targets:?}");
        for target in targets {
            assert!(manifest.contains(&format!("path = \"fuzz_targets/{target}.rs\"")), "{target}");
        }
    }
}
