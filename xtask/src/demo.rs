//! `cargo xtask demo`: every example program on software GPUs, or on an NVIDIA GPU, in one table.

use crate::build;
use crate::build::Built;
use crate::examples::{self, Example, Outcome};
use crate::local_worker::LocalWorker;
use crate::repo::Repo;
use crate::setup;
use crate::step;
use crate::toolchain::Toolchain;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The back ends that the examples can run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Backend {
    /// Software GPUs.
    #[default]
    Emulator,
    /// This machine's NVIDIA GPU.
    Cuda,
}

impl Backend {
    /// A worker for each architecture.
    pub fn targets(self) -> &'static [Target] {
        match self {
            Backend::Emulator => EMULATOR,
            Backend::Cuda => CUDA,
        }
    }
}

#[derive(Debug, Default, clap::Args)]
pub struct Arguments {
    /// Run on software GPUs, or on this machine's NVIDIA GPU
    #[arg(long, value_enum, default_value_t)]
    pub backend: Backend,
    /// Run the programs of this folder, made by `gpu bundle`, instead of building them; needs no Rust
    #[arg(long, value_name = "FOLDER")]
    pub bundle: Option<PathBuf>,
}

/// A worker that the examples run on: architecture, description, arguments of `remora worker`.
pub type Target = (&'static str, &'static str, &'static [&'static str]);

const EMULATOR: &[Target] = &[
    ("gfx90a", "a software mi210", &["--device", "mi210"]),
    ("gfx942", "a software mi300x", &["--device", "mi300x"]),
];

const CUDA: &[Target] = &[
    ("gfx90a", "an NVIDIA GPU as mi210", &["--backend", "cuda", "--as", "mi210"]),
    ("gfx942", "an NVIDIA GPU as mi300x", &["--backend", "cuda", "--as", "mi300x"]),
];

/// The programs that a run needs, and the folder of its logs.
#[derive(Clone, Copy, Debug)]
pub struct Programs<'a> {
    pub remora: &'a Path,
    pub lib: &'a Path,
    pub logs: &'a Path,
    /// More arguments of `remora worker`.
    pub worker: &'a [String],
}

pub fn run(repo: &Repo, arguments: &Arguments) -> Result<()> {
    let toolchain = setup::run(repo)?;
    let built = build::run(repo, &build::Arguments::default())?;
    show(repo, &toolchain, &built, arguments.backend)
}

/// The part after setup and build.
pub fn show(repo: &Repo, toolchain: &Toolchain, built: &Built, backend: Backend) -> Result<()> {
    let examples = examples::compile_all(repo, toolchain, built)?;
    let targets = backend.targets();
    let logs = repo.logs();
    all_right(
        &Programs { remora: &built.remora, lib: &built.lib, logs: &logs, worker: &[] },
        targets,
        &examples,
    )
}

/// Runs every example on every target, prints the table and fails if any run failed.
pub fn all_right(programs: &Programs<'_>, targets: &[Target], examples: &[Example]) -> Result<()> {
    let wrong = report(programs, targets, examples)?;
    let runs = targets.len() * examples.len();
    if wrong > 0 {
        bail!("{wrong} of {runs} runs failed; their output is in {}", programs.logs.display());
    }
    println!("{runs} runs of {} programs, all right", examples.len());
    Ok(())
}

/// Runs every example on every target and prints the table. Returns how many runs failed.
pub fn report(programs: &Programs<'_>, targets: &[Target], examples: &[Example]) -> Result<usize> {
    let rows = run_everywhere(programs, targets, examples)?;
    println!("{}", table(&rows));
    Ok(rows.iter().filter(|row| !row.outcome.right).count())
}

/// Starts a worker of a target, with its log in the folder of logs.
pub fn worker(programs: &Programs<'_>, target: &Target, log: &str) -> Result<LocalWorker> {
    let (_, description, selection) = *target;
    let mut arguments = [selection, &["--no-upload-cache"]].concat();
    arguments.extend(programs.worker.iter().map(String::as_str));
    LocalWorker::start_on(Command::new(programs.remora), description, &arguments, &programs.logs.join(log))
}

struct Row<'a> {
    example: &'a Example,
    architecture: &'static str,
    outcome: Outcome,
}

fn run_everywhere<'a>(
    programs: &Programs<'_>,
    targets: &[Target],
    examples: &'a [Example],
) -> Result<Vec<Row<'a>>> {
    let mut rows = Vec::new();
    for target in targets {
        let &(architecture, description, selection) = target;
        let started = Instant::now();
        let log = format!("worker-{}.log", selection.join("-").replace("--", ""));
        let worker = worker(programs, target, &log)?;
        step::heading(&format!("running on {description} ({architecture}), port {}", worker.port()));
        for (index, example) in examples.iter().enumerate() {
            let log = programs.logs.join(format!("example-{}-{architecture}.log", example.name));
            let outcome = examples::run_one(example, &worker, programs.lib, &log)?;
            let count = format!("[{}/{}]", index + 1, examples.len());
            step::progress(&format!("{count} {} ({})", outcome.line, step::seconds(outcome.time)));
            rows.push(Row { example, architecture, outcome });
        }
        step::progress(&format!("{architecture}: done in {}", step::seconds(started.elapsed())));
    }
    rows.sort_by(|a, b| a.example.name.cmp(&b.example.name).then(a.architecture.cmp(b.architecture)));
    Ok(rows)
}

fn table(rows: &[Row<'_>]) -> String {
    let width = rows.iter().map(|row| row.example.name.len()).max().unwrap_or(0).max("program".len());
    let mut text = format!("\n{:width$}  {:12}  {:6}  {:>8}\n", "program", "architecture", "result", "time");
    text.push_str(&format!("{:-<width$}  {:-<12}  {:-<6}  {:-<8}\n", "", "", "", ""));
    for row in rows {
        let result = if row.outcome.right { "right" } else { "wrong" };
        let time = step::seconds(row.outcome.time);
        text.push_str(&format!(
            "{:width$}  {:12}  {result:6}  {time:>8}\n",
            row.example.name, row.architecture
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_table_has_a_line_for_every_run() {
        let example = Example { name: "saxpy".into(), program: PathBuf::new() };
        let outcome = |right| Outcome { right, line: String::new(), time: Duration::from_millis(1250) };
        let rows = [
            Row { example: &example, architecture: "gfx90a", outcome: outcome(true) },
            Row { example: &example, architecture: "gfx942", outcome: outcome(false) },
        ];
        let text = table(&rows);
        assert!(text.contains("saxpy    gfx90a        right      1.2 s"), "{text}");
        assert!(text.contains("saxpy    gfx942        wrong      1.2 s"), "{text}");
    }
}
