//! Scalability: many threads, registered kernels, allocations, streams, launches, sessions.
//!
//! Resources that must not grow are counted, not timed. Times of a posting thread are its CPU time, so that other load on the
//! machine does not count.

use super::program::{Asked, Programs};
use super::report::{Aim, Report, Row};
use super::resources::Process;
use super::{DEVICE, Effort};
use crate::bench::machine::Machine;
use crate::build::Built;
use crate::local_worker::LocalWorker;
use crate::step;
use anyhow::{Context, Result, bail};
use std::process::Command;

const MICRO: f64 = 1e-3;
const MILLI: f64 = 1e-6;
const MEBI: f64 = (1 << 20) as f64;

const THREADS: &[u64] = &[1, 2, 8, 64];
/// Kernels and code objects of a program as large as PyTorch.
const KERNELS: u64 = 121_000;
const BINARIES: u64 = 500;
const ALLOCATIONS: u64 = 100_000;
const STREAMS: u64 = 1_000;
/// Launches of one session: before the first memory reading, and in total.
const LAUNCHES: (u64, u64) = (200_000, 1_000_000);
/// Launches queued behind a kernel that does not finish.
const FLOOD: u64 = 200_000;
const SESSIONS: u64 = 200;

const POSTING: &str = "Threads that launch, each on a stream of its own: processor time of a launch";
const WAITING: &str = "Threads that wait";
const START: &str = "121,000 kernels in 500 images";
const ONE: &str = "One session";
const MANY: &str = "200 sessions of one worker";

pub fn measure(built: &Built, programs: &Programs, effort: Effort) -> Result<Report> {
    let mut report = Report::new(Machine::look());
    let mut remora = Command::new(&built.remora);
    remora.env_remove("REMORA_LOG");
    let sessions = effort.of(SESSIONS).to_string();
    let arguments = ["--no-upload-cache", "--max-sessions", &sessions];
    let worker = LocalWorker::start_with(remora, DEVICE, &arguments, &programs.log("worker-scale"))?;
    let bench = Bench { programs, worker: &worker, effort };
    step::say(&format!("measuring scalability on a software {DEVICE}"));
    bench.threads(&mut report)?;
    bench.registration(&mut report)?;
    bench.session(&mut report)?;
    bench.sessions(&mut report)?;
    report.close();
    Ok(report)
}

struct Bench<'a> {
    programs: &'a Programs,
    worker: &'a LocalWorker,
    effort: Effort,
}

impl Bench<'_> {
    fn start(&self) -> Result<Asked> {
        self.programs.start(&self.programs.scale, self.worker)
    }

    fn supervisor(&self) -> Process {
        Process(self.worker.pid())
    }

    /// The minimum of several measurements of one number of a command's reply.
    fn best(&self, program: &mut Asked, command: &str, at: usize) -> Result<f64> {
        let mut best = f64::INFINITY;
        for _ in 0..self.effort.rounds {
            best = best.min(*program.ask(command)?.get(at).context("the reply has too few numbers")? as f64);
        }
        Ok(best)
    }

    fn threads(&self, report: &mut Report) -> Result<()> {
        let total = self.effort.of(32_000);
        let mut program = self.start()?;
        for threads in THREADS {
            let nanoseconds = self.best(&mut program, &format!("launch {threads} {total}"), 1)?;
            let name = format!("{threads} threads");
            let value = nanoseconds / total as f64 * MICRO;
            report.push(row(POSTING, &format!("post_{threads}"), &name, "us", value, Some(Aim::AtMost(0.3))));
        }
        for how in ["synchronize", "copy"] {
            let calls = self.effort.calls;
            let (mut alone, mut beside) = (f64::INFINITY, f64::INFINITY);
            for _ in 0..self.effort.rounds {
                let [a, b] = program.ask(&format!("beside {calls} 1 {how}"))?[..] else {
                    bail!("`beside` did not reply with two numbers");
                };
                alone = alone.min(a as f64);
                beside = beside.min(b as f64);
            }
            let name = format!("a wait, while another thread waits ({how}) for a kernel that does not end");
            let mut row = row(WAITING, &format!("beside_{how}"), &name, "us", 0.0, None);
            (row.best, row.reference) = (beside / calls as f64 * MICRO, Some(alone / calls as f64 * MICRO));
            row.median = row.best;
            row.ratio = Some(beside / alone);
            report.push(row);
        }
        let flood = self.effort.of(FLOOD);
        let [taken, _] = program.ask(&format!("flood {flood}"))?[..] else {
            bail!("`flood` did not reply with two numbers");
        };
        let name =
            format!("two waits, while another thread has posted {flood} launches behind such a kernel");
        let aim = Some(Aim::AtMost(100.0));
        report.push(row(WAITING, "flood", &name, "ms", taken as f64 * MILLI, aim));
        program.finish().map(drop)
    }

    fn registration(&self, report: &mut Report) -> Result<()> {
        let mut program = self.start()?;
        let command = format!("register {} {}", self.effort.of(BINARIES), self.effort.of(KERNELS));
        let mut best = [f64::INFINITY; 3];
        for _ in 0..self.effort.rounds {
            for (best, found) in best.iter_mut().zip(program.ask(&command)?) {
                *best = best.min(found as f64);
            }
        }
        let names = [
            ("registering them", 200.0),
            ("the first and the last, launched", 50.0),
            ("forgetting them", 200.0),
        ];
        for (at, (name, limit)) in names.into_iter().enumerate() {
            let key = format!("register_{at}");
            report.push(row(START, &key, name, "ms", best[at] * MILLI, Some(Aim::AtMost(limit))));
        }
        program.finish().map(drop)
    }

    fn session(&self, report: &mut Report) -> Result<()> {
        let (streams, allocations) = (self.effort.of(STREAMS), self.effort.of(ALLOCATIONS));
        let (first, all) = (self.effort.of(LAUNCHES.0), self.effort.of(LAUNCHES.1));
        let mut program = self.start()?;
        program.ask(&format!("blocking {streams}"))?;
        let (client, executor) = (Process(program.pid()), self.executor()?);
        let sizes = || -> Result<[f64; 2]> {
            Ok([client.resident()? as f64 / MEBI, executor.resident()? as f64 / MEBI])
        };
        let mut each = Vec::new();
        let mut over = |program: &mut Asked, launches: u64| -> Result<()> {
            let step = self.effort.of(50_000);
            for _ in 0..launches / step {
                let taken = program.ask(&format!("over {step}"))?;
                each.extend(taken.first().map(|nanoseconds| *nanoseconds as f64 / step as f64 * MICRO));
            }
            Ok(())
        };
        over(&mut program, first)?;
        let before = sizes()?;
        over(&mut program, all - first)?;
        let after = sizes()?;
        for (at, side) in ["client", "worker"].into_iter().enumerate() {
            let name = format!("{side}'s memory, from launch {first} to launch {all} over {streams} streams");
            let grown = after[at] - before[at];
            report.push(row(ONE, &format!("launches_{side}"), &name, "MiB", grown, Some(Aim::AtMost(1.0))));
        }
        let best = each.iter().copied().fold(f64::INFINITY, f64::min);
        report.push(row(ONE, "launch_over_streams", "a launch over them, to its end", "us", best, None));
        let before = sizes()?;
        let taken = program.seconds(&format!("allocate {allocations}"))?;
        let held = sizes()?;
        let freed = program.seconds("release")?;
        let name = format!("one of {allocations} live allocations, to its end");
        report.push(row(ONE, "allocate", &name, "us", taken / allocations as f64 * 1e6, None));
        report.push(row(
            ONE,
            "release",
            "freeing it behind a kernel that runs",
            "us",
            freed / allocations as f64 * 1e6,
            None,
        ));
        for (at, side) in ["client", "worker"].into_iter().enumerate() {
            let bytes = (held[at] - before[at]) * MEBI / allocations as f64;
            let name = format!("what the {side} keeps of it");
            report.push(row(ONE, &format!("allocation_{side}"), &name, "B", bytes, Some(Aim::AtMost(512.0))));
        }
        // Once more: freed memory must be reused.
        let before = sizes()?;
        program.ask(&format!("allocate {allocations}"))?;
        program.ask("release")?;
        let after = sizes()?;
        for (at, side) in ["client", "worker"].into_iter().enumerate() {
            let name = format!("the {side}'s memory, after as many more came and went");
            let grown = after[at] - before[at];
            report.push(row(ONE, &format!("again_{side}"), &name, "MiB", grown, Some(Aim::AtMost(4.0))));
        }
        program.ask("drop")?;
        program.finish().map(drop)
    }

    fn sessions(&self, report: &mut Report) -> Result<()> {
        let supervisor = self.supervisor();
        let before = (supervisor.resident()?, supervisor.descriptors()?, supervisor.threads()?);
        let started = std::time::Instant::now();
        let mut programs = Vec::new();
        let count = self.effort.of(SESSIONS);
        for _ in 0..count {
            let mut program = self.start()?;
            program.ask("allocate 2")?;
            programs.push(program);
        }
        let taken = started.elapsed().as_secs_f64() * 1e3 / count as f64;
        let executors = supervisor.children()?;
        report.push(row(
            MANY,
            "sessions",
            "sessions that work at the same time",
            "",
            executors.len() as f64,
            Some(Aim::AtLeast(count as f64)),
        ));
        report.push(row(
            MANY,
            "session_start",
            "a program's start, two kernels and an answer each",
            "ms",
            taken,
            None,
        ));
        let each = |total: f64| total / count as f64;
        let private = executors.iter().map(|it| it.private()).sum::<Result<u64>>()?;
        report.push(row(
            MANY,
            "session_memory",
            "memory of a session's process, its own",
            "MiB",
            each(private as f64 / MEBI),
            Some(Aim::AtMost(16.0)),
        ));
        let descriptors = executors.iter().map(|it| it.descriptors()).sum::<Result<usize>>()?;
        report.push(row(
            MANY,
            "session_descriptors",
            "descriptors of it",
            "",
            each(descriptors as f64),
            Some(Aim::AtMost(16.0)),
        ));
        let threads = executors.iter().map(|it| it.threads()).sum::<Result<usize>>()?;
        report.push(row(
            MANY,
            "session_threads",
            "threads of it",
            "",
            each(threads as f64),
            Some(Aim::AtMost(16.0)),
        ));
        let now = (supervisor.resident()?, supervisor.descriptors()?, supervisor.threads()?);
        let kibi = each(now.0.saturating_sub(before.0) as f64) / 1024.0;
        report.push(row(
            MANY,
            "worker_memory",
            "what the worker keeps of it",
            "KiB",
            kibi,
            Some(Aim::AtMost(256.0)),
        ));
        report.push(row(
            MANY,
            "worker_descriptors",
            "the worker's descriptors for it",
            "",
            each((now.1 - before.1) as f64),
            Some(Aim::AtMost(2.0)),
        ));
        // All of them must still work.
        for program in &mut programs {
            program.ask("release")?;
        }
        for program in programs {
            program.finish()?;
        }
        Ok(())
    }

    /// The process of the only session.
    fn executor(&self) -> Result<Process> {
        match self.supervisor().children()?[..] {
            [only] => Ok(only),
            ref others => bail!("expected one session process, found {}", others.len()),
        }
    }
}

fn row(group: &'static str, key: &str, name: &str, unit: &'static str, value: f64, aim: Option<Aim>) -> Row {
    Row { best: value, median: value, aim, ..Row::plain(group, key, name, unit) }
}
