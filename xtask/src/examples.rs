//! Compiles the example programs and runs them against a worker.

use crate::build::Built;
use crate::local_worker::LocalWorker;
use crate::repo::Repo;
use crate::stamp::{Inputs, Stamp};
use crate::step;
use crate::toolchain::Toolchain;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The architectures that every example is compiled for, and the device that `remora worker` emulates for each.
pub const ARCHITECTURES: &[(&str, &str)] = &[("gfx90a", "mi210"), ("gfx942", "mi300x")];

/// Timeout of an example; none needs nearly this long.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// A compiled example.
#[derive(Debug, Clone)]
pub struct Example {
    pub name: String,
    pub program: PathBuf,
}

/// The result of one run of an example.
#[derive(Debug)]
pub struct Outcome {
    pub right: bool,
    /// The line the program ended with, or why there is none.
    pub line: String,
    pub time: Duration,
}

/// Compiles the examples that are out of date, on every core.
pub fn compile_all(repo: &Repo, toolchain: &Toolchain, built: &Built) -> Result<Vec<Example>> {
    let set = Set {
        title: "examples",
        sources: sources(repo)?,
        folder: repo.target.join("examples/hip"),
        header: header(repo),
        options: Vec::new(),
    };
    compile_set(toolchain, built, &set)
}

/// Programs that are compiled with the same options.
#[derive(Debug)]
pub struct Set {
    pub title: &'static str,
    pub sources: Vec<PathBuf>,
    /// The folder of the compiled programs.
    pub folder: PathBuf,
    /// The header that they share; system headers are determined by the toolchain's paths.
    pub header: PathBuf,
    /// More options of the compiler.
    pub options: Vec<String>,
}

/// The header of self-checking programs.
pub fn header(repo: &Repo) -> PathBuf {
    repo.root.join("examples/hip/check.h")
}

/// Compiles the programs of a set that are out of date, on every core.
pub fn compile_set(toolchain: &Toolchain, built: &Built, set: &Set) -> Result<Vec<Example>> {
    let Set { title, sources, folder, .. } = set;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let examples: Vec<Example> = sources
        .iter()
        .map(|source| {
            let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            Example { program: folder.join(&name), name }
        })
        .collect();
    let work: Vec<(&PathBuf, &Example, Stamp)> = sources
        .iter()
        .zip(&examples)
        .map(|(source, example)| Ok((source, example, stamp(toolchain, set, source, example)?)))
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .filter(|(_, example, stamp)| !stamp.is_fresh() || !example.program.exists())
        .collect();
    step::heading(&format!("{title}: {} programs, {} to compile", examples.len(), work.len()));
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failures = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(2, usize::from).min(work.len());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((source, example, stamp)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let started = Instant::now();
                    let result =
                        compile(toolchain, built, set, source, &example.program).and_then(|()| stamp.write());
                    let count = done.fetch_add(1, Ordering::Relaxed) + 1;
                    let time = step::seconds(started.elapsed());
                    step::progress(&format!("[{count}/{}] {} compiled in {time}", work.len(), example.name));
                    if let Err(error) = result {
                        failures
                            .lock()
                            .unwrap_or_else(|poisoned| poisoned.into_inner())
                            .push(format!("{error:#}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !failures.is_empty() {
        bail!("{title}: {} of {} do not compile\n{}", failures.len(), work.len(), failures.join("\n"));
    }
    Ok(examples)
}

/// Runs one example against a worker, with its output in `log`.
pub fn run_one(example: &Example, worker: &LocalWorker, lib: &Path, log: &Path) -> Result<Outcome> {
    let mut command = Command::new(&example.program);
    command.env("LD_LIBRARY_PATH", lib);
    command.env("TF_WORKER_HOST", worker.host()).env("TF_WORKER_PORT", worker.port().to_string());
    run_command(&example.name, &mut command, log)
}

/// Runs an example by `command`, with its output in `log`.
pub fn run_command(name: &str, command: &mut Command, log: &Path) -> Result<Outcome> {
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()
        .with_context(|| format!("cannot start {}", step::command_line(command)))?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if started.elapsed() > TIME_LIMIT {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let time = started.elapsed();
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let (right, line) = match status {
        None => (false, format!("timeout after {}", step::seconds(TIME_LIMIT))),
        Some(status) => verdict(name, status.success(), &status.to_string(), &text),
    };
    Ok(Outcome { right, line, time })
}

fn verdict(name: &str, success: bool, status: &str, text: &str) -> (bool, String) {
    let passed = format!("PASS {name}");
    if success && text.lines().any(|line| line == passed) {
        return (true, passed);
    }
    let failed = text.lines().find(|line| line.starts_with("FAIL "));
    let last = text.lines().rfind(|line| !line.trim().is_empty());
    let said = failed.or(last).unwrap_or("it printed nothing");
    (false, if success { format!("no line `{passed}`: {said}") } else { format!("{status}: {said}") })
}

/// The path of an example's source.
pub fn source(repo: &Repo, name: &str) -> PathBuf {
    repo.root.join(format!("examples/hip/{name}.hip"))
}

fn sources(repo: &Repo) -> Result<Vec<PathBuf>> {
    let folder = repo.root.join("examples/hip");
    let mut sources = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "hip") {
            sources.push(path);
        }
    }
    sources.sort();
    Ok(sources)
}

fn stamp(toolchain: &Toolchain, set: &Set, source: &Path, example: &Example) -> Result<Stamp> {
    let command = step::command_line(&compile_command(toolchain, set));
    let inputs = Inputs::new().file(source)?.text(&command).file(&set.header)?;
    Ok(Stamp::new(example.program.with_extension("stamp"), inputs))
}

fn compile_command(toolchain: &Toolchain, set: &Set) -> Command {
    let names: Vec<&str> = ARCHITECTURES.iter().map(|(architecture, _)| *architecture).collect();
    let mut command = toolchain.compile_hip(&names);
    command.args(&set.options);
    command
}

fn compile(toolchain: &Toolchain, built: &Built, set: &Set, source: &Path, program: &Path) -> Result<()> {
    let object = program.with_extension("o");
    checked(compile_command(toolchain, set).arg("-c").arg(source).arg("-o").arg(&object))?;
    let mut link = Command::new(&toolchain.clang);
    link.arg(&object)
        .arg("-o")
        .arg(program)
        .arg("-L")
        .arg(&built.lib)
        .args(["-l:libamdhip64.so.6", "-pthread"]);
    checked(&mut link)
}

/// Runs a compiler; its messages are the error.
pub fn checked(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot start {}", step::command_line(command)))?;
    if !output.status.success() {
        bail!("{}\n{}", step::command_line(command), String::from_utf8_lossy(&output.stderr).trim_end());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_needs_both_the_line_and_the_exit_status() {
        assert!(verdict("saxpy", true, "exit status: 0", "noise\nPASS saxpy\n").0);
        assert!(!verdict("saxpy", false, "exit status: 1", "PASS saxpy\n").0);
        assert!(!verdict("saxpy", true, "exit status: 0", "PASS other\n").0);
    }

    #[test]
    fn a_failure_shows_the_programs_own_reason() {
        let (right, line) = verdict("saxpy", false, "exit status: 1", "FAIL saxpy: y[3] is 4\nlater\n");
        assert!(!right);
        assert_eq!(line, "exit status: 1: FAIL saxpy: y[3] is 4");
    }
}
