//! The programs of `e2e/programs` by which a device can be judged: each prints its own verdict, or output that is the same on
//! every device. The software GPU's output is recorded when a bundle is made.

use crate::build::Built;
use crate::demo::{self, Backend, Programs, Target};
use crate::examples::{self, ARCHITECTURES, Set};
use crate::local_worker::LocalWorker;
use crate::repo::Repo;
use crate::step;
use crate::toolchain::Toolchain;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Timeout of a program. On a GPU its first launches include translations.
const LIMIT: Duration = Duration::from_secs(60);

/// Programs that run at the same time on a GPU.
const PARALLEL: usize = 4;

/// The exit status of every program, as text: also of those whose kernels fail.
const SUCCESS: &str = "exit status: 0";

/// Replaced by the path of a code object for the device.
const CODE_OBJECT: &str = "CODE_OBJECT";
/// The source of that code object.
const CODE_SOURCE: &str = "module_kernels";

/// A run of a program.
#[derive(Debug, Clone, Copy)]
struct Case {
    program: &'static str,
    arguments: &'static [&'static str],
    judged_by: JudgedBy,
    needs: Needs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JudgedBy {
    /// The line `PASS NAME`.
    Verdict,
    /// The whole output, apart from addresses.
    Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// No other program on the device, because it measures the device's memory.
    Device,
    /// A compiler on the worker's machine.
    Compiler,
}

const fn verdict(program: &'static str, arguments: &'static [&'static str]) -> Case {
    Case { program, arguments, judged_by: JudgedBy::Verdict, needs: Needs::Nothing }
}

const fn output(program: &'static str, arguments: &'static [&'static str]) -> Case {
    Case { program, arguments, judged_by: JudgedBy::Output, needs: Needs::Nothing }
}

/// Not here: programs that test the network, limits, tenants, migration, traces, forks or exits, which no device decides; two
/// devices; textures, which compile for gfx90a only; endless kernels; and faults that only a software GPU finds (the first byte past
/// an allocation, memory just freed).
const CASES: &[Case] = &[
    verdict("boxes", &[]),
    output("bulk", &[]),
    verdict("busy", &["launches", "24"]),
    verdict("copies_complete", &[]),
    verdict("copies_in_order", &[]),
    verdict("creation", &[CODE_OBJECT]),
    output("faults", &["write"]),
    output("faults", &["null"]),
    output("faults", &["assert"]),
    output("faults", &["assert holds"]),
    output("faults", &["abort"]),
    output("faults", &["recursion"]),
    output("faults", &["local memory"]),
    output("faults", &["large block"]),
    output("faults", &["flat block"]),
    output("faults", &["empty block"]),
    output("faults", &["empty grid"]),
    output("faults", &["large grid"]),
    output("faults", &["launch bounds"]),
    output("faults", &["cooperative"]),
    verdict("flood", &[]),
    verdict("graph", &[]),
    verdict("graph_capture", &[]),
    verdict("graph_errors", &[]),
    verdict("graph_nodes", &[]),
    verdict("graph_random", &["40"]),
    verdict("graph_replay", &["100"]),
    verdict("hammer", &["16", "2"]),
    Case { needs: Needs::Device, ..verdict("heap_limit", &[]) },
    verdict("host_functions", &[]),
    verdict("ipc", &[]),
    output("junk_module", &[]),
    output("late_free", &[]),
    output("late_launch", &[]),
    output("late_launch", &["first"]),
    Case { needs: Needs::Compiler, ..verdict("link", &[]) },
    verdict("managed", &[]),
    Case { needs: Needs::Device, ..verdict("many", &[]) },
    verdict("mapped", &[]),
    verdict("mapped_copies", &[]),
    verdict("mapped_process", &[]),
    Case { needs: Needs::Compiler, ..verdict("module_managed", &[]) },
    verdict("polling", &["200"]),
    output("printf_order", &[]),
    verdict("race", &[]),
    verdict("registered", &[]),
    Case { needs: Needs::Compiler, ..verdict("rtc_headers", &[]) },
    verdict("staging", &[]),
    verdict("staging", &["shared"]),
    verdict("steady", &[]),
    verdict("stream_values", &[CODE_OBJECT]),
    verdict("threads", &[]),
    output("traced", &["work"]),
    verdict("virtual_memory", &[]),
    verdict("virtual_memory", &["write"]),
    verdict("virtual_memory", &["read"]),
    verdict("virtual_memory", &["unmapped"]),
    verdict("waiting", &["kernel", "0.5"]),
    verdict("waiting", &["upload", "40000000"]),
    verdict("weights", &[]),
];

impl Case {
    /// The program with its arguments.
    fn name(&self) -> String {
        [&[self.program], self.arguments].concat().join(" ")
    }

    /// The name of its files.
    fn file(&self) -> String {
        self.name().replace([' ', '.'], "-")
    }
}

/// What a program did.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    /// Its exit status, as text.
    status: String,
    /// Its standard output.
    output: String,
    /// Its standard error, which is not compared.
    errors: String,
}

impl Run {
    fn to_text(&self) -> String {
        format!("{}\n{}", self.status, self.output)
    }

    fn from_text(text: &str) -> Run {
        let (status, output) = text.split_once('\n').unwrap_or((text, ""));
        Run { status: status.to_owned(), output: output.to_owned(), errors: String::new() }
    }

    /// Why this run is wrong, compared with the software GPU's.
    fn complaint(&self, case: &Case, expected: &Run) -> Option<String> {
        let failed = self.output.lines().find(|line| line.starts_with("FAIL "));
        if let Some(line) = failed {
            return Some(line.to_owned());
        }
        let passed = format!("PASS {}", case.program);
        if case.judged_by == JudgedBy::Verdict && !self.output.lines().any(|line| line == passed) {
            return Some(format!("{}, and no line `{passed}`", self.status));
        }
        if case.judged_by == JudgedBy::Output {
            let mut number = 0;
            let (mut here, mut there) = (self.output.lines(), expected.output.lines());
            loop {
                number += 1;
                match (here.next(), there.next()) {
                    (None, None) => break,
                    (a, b) if a == b => {}
                    (a, b) => {
                        let show = |line: Option<&str>| line.unwrap_or("the end").to_owned();
                        return Some(format!("line {number} is `{}`, not `{}`", show(a), show(b)));
                    }
                }
            }
        }
        (self.status != expected.status).then(|| format!("{}, not {}", self.status, expected.status))
    }
}

/// Compiles the programs and records the software GPU's output of all of them, in a folder of a bundle. `strip` copies a program.
pub fn bundle(
    repo: &Repo,
    toolchain: &Toolchain,
    built: &Built,
    folder: &Path,
    strip: impl Fn(&Path, &Path) -> Result<()>,
) -> Result<()> {
    let names: BTreeSet<&str> = CASES.iter().map(|case| case.program).collect();
    let headers = repo.root.join("examples/hip");
    let set = Set {
        title: "programs of the end-to-end tests",
        sources: names.iter().map(|name| source(repo, name)).collect(),
        folder: repo.target.join("gpu/programs"),
        header: examples::header(repo),
        options: vec![format!("-I{}", headers.display())],
    };
    for program in examples::compile_set(toolchain, built, &set)? {
        strip(&program.program, &folder.join(&program.name))?;
    }
    for (architecture, _) in ARCHITECTURES {
        let mut compiler = toolchain.compile_hip(&[architecture]);
        compiler.args(["--offload-device-only", "--no-gpu-bundle-output"]).arg(source(repo, CODE_SOURCE));
        examples::checked(compiler.arg("-o").arg(code_object(folder, architecture)))?;
    }
    step::heading("recording the software GPU's output");
    let all: Vec<&Case> = CASES.iter().collect();
    let logs = repo.logs();
    let programs = Programs { remora: &built.remora, lib: &built.lib, logs: &logs, worker: &[] };
    let target = |target: &Target| -> Result<()> {
        let (architecture, description, _) = *target;
        let worker = demo::worker(&programs, target, &format!("gpu-programs-{architecture}.log"))?;
        let place = Place { folder, lib: &built.lib, worker: &worker, architecture };
        let record = |case: &Case, run: &Run, _: Duration| -> Result<()> {
            let good = Run { status: SUCCESS.to_owned(), ..run.clone() };
            if let Some(complaint) = run.complaint(case, &good) {
                bail!("{} on {description}: {complaint}\n{}", case.name(), run.errors);
            }
            let path = expected(folder, architecture, case);
            fs::create_dir_all(path.parent().unwrap_or(folder))?;
            fs::write(&path, run.to_text()).with_context(|| format!("cannot write {}", path.display()))
        };
        place.run_all(&all, 1, record).map(drop)
    };
    std::thread::scope(|scope| {
        let running: Vec<_> =
            Backend::Emulator.targets().iter().map(|one| scope.spawn(move || target(one))).collect();
        running.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(_) => bail!("a thread that recorded programs panicked"),
        })
    })
}

/// Runs a bundle's programs on workers of every imitated model and prints a table. Returns how many runs were wrong.
pub fn run(bundle: &Path, programs: &Programs<'_>, targets: &[Target], only: &str) -> Result<usize> {
    let folder = bundle.join("programs");
    if !folder.is_dir() {
        bail!("{} has no programs: make a new bundle with `cargo xtask gpu bundle`", bundle.display());
    }
    let has_compiler = bundle.join("toolchain").is_dir();
    let mut rows = Vec::new();
    for target in targets {
        let (architecture, description, _) = *target;
        step::heading(&format!("programs of the end-to-end tests on {description}"));
        let worker = demo::worker(programs, target, &format!("programs-worker-{architecture}.log"))?;
        let place = Place { folder: &folder, lib: programs.lib, worker: &worker, architecture };
        let chosen = || CASES.iter().filter(|case| case.name().contains(only));
        let left_out = |case: &&Case| case.needs == Needs::Compiler && !has_compiler;
        for case in chosen().filter(left_out) {
            step::progress(&format!("left out: {}: the bundle has no compiler", case.name()));
        }
        let kept = |alone: bool| -> Vec<&Case> {
            chosen().filter(|case| !left_out(case) && (case.needs == Needs::Device) == alone).collect()
        };
        let judge = |case: &Case, run: &Run, time: Duration| -> Result<Row> {
            let record = expected(&folder, architecture, case);
            let wanted =
                fs::read_to_string(&record).with_context(|| format!("cannot read {}", record.display()))?;
            let mut complaint = run.complaint(case, &Run::from_text(&wanted));
            if let Some(complaint) = &mut complaint {
                let log = programs.logs.join(format!("program-{}-{architecture}.log", case.file()));
                fs::write(&log, run.to_text() + &run.errors)
                    .with_context(|| format!("cannot write {}", log.display()))?;
                if let Some(line) = run.errors.lines().last() {
                    complaint.push_str(&format!("; it wrote `{line}`"));
                }
            }
            let row = Row { name: case.name(), architecture, complaint, time };
            step::progress(&row.to_line());
            Ok(row)
        };
        rows.extend(place.run_all(&kept(false), PARALLEL, judge)?);
        rows.extend(place.run_all(&kept(true), 1, judge)?);
    }
    println!("{}", table(&rows));
    Ok(rows.iter().filter(|row| row.complaint.is_some()).count())
}

struct Row {
    name: String,
    architecture: &'static str,
    complaint: Option<String>,
    time: Duration,
}

impl Row {
    fn cell(&self) -> String {
        let result = if self.complaint.is_none() { "right" } else { "WRONG" };
        format!("{result} {}", step::seconds(self.time))
    }

    /// The result in one line, for progress.
    fn to_line(&self) -> String {
        let complaint = self.complaint.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
        format!("{} on {}: {}{complaint}", self.name, self.architecture, self.cell())
    }
}

/// One line a program, then the failures.
fn table(rows: &[Row]) -> String {
    let names: BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0).max("program".len());
    let mut text = format!("\n{:width$}", "program");
    for (architecture, _) in ARCHITECTURES {
        text.push_str(&format!("  {architecture:>14}"));
    }
    text.push('\n');
    for name in names {
        text.push_str(&format!("{name:width$}"));
        for (architecture, _) in ARCHITECTURES {
            let row = rows.iter().find(|row| row.name == name && row.architecture == *architecture);
            let cell = row.map_or_else(String::new, Row::cell);
            text.push_str(&format!("  {cell:>14}"));
        }
        text.push('\n');
    }
    for row in rows {
        if let Some(complaint) = &row.complaint {
            text.push_str(&format!("WRONG {} on {}: {complaint}\n", row.name, row.architecture));
        }
    }
    let right = rows.iter().filter(|row| row.complaint.is_none()).count();
    text + &format!("{right} of {} runs are right\n", rows.len())
}

/// A worker, and the programs for it.
struct Place<'a> {
    folder: &'a Path,
    lib: &'a Path,
    worker: &'a LocalWorker,
    architecture: &'static str,
}

impl Place<'_> {
    /// Runs some programs, a few at a time, and calls `finish` as soon as one has ended. The results are in the programs' order.
    fn run_all<T: Send>(
        &self,
        cases: &[&Case],
        parallel: usize,
        finish: impl Fn(&Case, &Run, Duration) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..parallel.min(cases.len()) {
                scope.spawn(|| {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(case) = cases.get(index) else { return };
                        let started = Instant::now();
                        let result = self.run_one(case).and_then(|run| finish(case, &run, started.elapsed()));
                        done.lock().unwrap_or_else(|it| it.into_inner()).push((index, result));
                    }
                });
            }
        });
        let mut done = done.into_inner().unwrap_or_else(|it| it.into_inner());
        done.sort_by_key(|(index, _)| *index);
        done.into_iter().map(|(_, result)| result).collect()
    }

    fn run_one(&self, case: &Case) -> Result<Run> {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=2", &LIMIT.as_secs().to_string()]).arg(self.folder.join(case.program));
        for argument in case.arguments {
            match *argument {
                CODE_OBJECT => command.arg(code_object(self.folder, self.architecture)),
                other => command.arg(other),
            };
        }
        command.env("LD_LIBRARY_PATH", self.lib);
        command
            .env("TF_WORKER_HOST", self.worker.host())
            .env("TF_WORKER_PORT", self.worker.port().to_string());
        let done = command
            .stdin(std::process::Stdio::null())
            .output()
            .with_context(|| format!("cannot start {}", step::command_line(&command)))?;
        let status = match done.status.code() {
            Some(124 | 137) => format!("timeout after {}", step::seconds(LIMIT)),
            _ => done.status.to_string(),
        };
        let output = String::from_utf8_lossy(&done.stdout);
        // Addresses differ from device to device.
        let lines = output.lines().filter(|line| !line.starts_with("address="));
        let output: String = lines.map(|line| format!("{line}\n")).collect();
        let errors = String::from_utf8_lossy(&done.stderr).into_owned();
        Ok(Run { status, output, errors })
    }
}

fn source(repo: &Repo, name: &str) -> PathBuf {
    repo.root.join(format!("e2e/programs/{name}.hip"))
}

fn code_object(folder: &Path, architecture: &str) -> PathBuf {
    folder.join(format!("{CODE_SOURCE}-{architecture}.co"))
}

/// The software GPU's run of a case.
fn expected(folder: &Path, architecture: &str, case: &Case) -> PathBuf {
    folder.join("expected").join(architecture).join(format!("{}.txt", case.file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(status: &str, output: &str) -> Run {
        Run { status: status.to_owned(), output: output.to_owned(), errors: String::new() }
    }

    #[test]
    fn every_row_is_a_program_and_has_files_of_its_own() {
        let repo = Repo::find().unwrap();
        let files: BTreeSet<String> = CASES.iter().map(Case::file).collect();
        assert_eq!(files.len(), CASES.len());
        for case in CASES {
            let source = source(&repo, case.program);
            let text =
                fs::read_to_string(&source).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
            let has_verdict = text.contains("pass()");
            assert!(has_verdict || case.judged_by == JudgedBy::Output, "{} prints no verdict", case.program);
        }
    }

    #[test]
    fn a_verdict_needs_its_line_and_the_exit_status() {
        let case = verdict("graph", &[]);
        let good = run("exit status: 0", "1 launch\nPASS graph\n");
        assert_eq!(good.complaint(&case, &good), None);
        assert_eq!(run("exit status: 0", "2 launches\nPASS graph\n").complaint(&case, &good), None);
        for (status, output) in [
            ("exit status: 0", ""),
            ("exit status: 0", "PASS graph_nodes\n"),
            ("exit status: 1", "PASS graph\n"),
            ("exit status: 0", "FAIL graph: x\nPASS graph\n"),
        ] {
            assert!(run(status, output).complaint(&case, &good).is_some(), "{status} {output}");
        }
    }

    #[test]
    fn an_output_is_compared_line_by_line() {
        let case = output("faults", &["write"]);
        let recorded = run("exit status: 0", "launch=hipSuccess\nsynchronize=hipErrorIllegalAddress\n");
        assert_eq!(recorded.complaint(&case, &Run::from_text(&recorded.to_text())), None);
        let other = run("exit status: 0", "launch=hipSuccess\nsynchronize=hipSuccess\n");
        let complaint = other.complaint(&case, &recorded).unwrap();
        assert_eq!(complaint, "line 2 is `synchronize=hipSuccess`, not `synchronize=hipErrorIllegalAddress`");
        assert!(run("exit status: 0", "launch=hipSuccess\n").complaint(&case, &recorded).is_some());
    }

    #[test]
    fn the_table_names_every_wrong_run() {
        let time = Duration::from_millis(1250);
        let rows = [
            Row { name: "graph".to_owned(), architecture: "gfx90a", complaint: None, time },
            Row { name: "graph".to_owned(), architecture: "gfx942", complaint: Some("so".to_owned()), time },
        ];
        let text = table(&rows);
        assert!(text.contains("graph       right 1.2 s     WRONG 1.2 s"), "{text}");
        assert!(text.contains("WRONG graph on gfx942: so"), "{text}");
        assert!(text.ends_with("1 of 2 runs are right\n"), "{text}");
    }
}
