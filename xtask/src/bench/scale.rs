//! Scalability: many threads, registered kernels, allocations, streams, launches, sessions.
//!
//! Resources that must not grow are counted, not timed. Times of a posting thread are its CPU time, so that other load on the
//! machine does not count.

use super::program::{BenchProcess, Programs};
use super::report::{Aim, Report, Row};
use super::resources::Process;
use super::{DEVICE, Extent};
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
/// Sessions of earlier measurements whose processes may not have exited yet.
const EXITING_SESSIONS: u64 = 8;

const POSTING: &str = "Threads that launch, each on its own stream: CPU time per launch";
const WAITING: &str = "Threads that wait";
const START: &str = "121,000 kernels in 500 images";
const ONE: &str = "One session";
const MANY: &str = "200 sessions of one worker";

pub fn measure(built: &Built, programs: &Programs, extent: Extent) -> Result<Report> {
    let mut report = Report::new(Machine::detect());
    let mut remora = Command::new(&built.remora);
    remora.env_remove("REMORA_LOG");
    let sessions = (extent.scaled(SESSIONS) + EXITING_SESSIONS).to_string();
    let arguments = ["--no-upload-cache", "--max-sessions", &sessions];
    let worker = LocalWorker::start_with(remora, DEVICE, &arguments, &programs.log("worker-scale"))?;
    let bench = Bench { programs, worker: &worker, extent };
    step::heading(&format!("measuring scalability on a software {DEVICE}"));
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
    extent: Extent,
}

impl Bench<'_> {
    fn start(&self) -> Result<BenchProcess> {
        self.programs.start(&self.programs.scale, self.worker)
    }

    fn supervisor(&self) -> Process {
        Process(self.worker.pid())
    }

    /// The minimum of several measurements of one number of a command's reply.
    fn best(&self, program: &mut BenchProcess, command: &str, at: usize) -> Result<f64> {
        let mut best = f64::INFINITY;
        for _ in 0..self.extent.rounds {
            best =
                best.min(*program.query(command)?.get(at).context("the reply has too few numbers")? as f64);
        }
        Ok(best)
    }

    fn threads(&self, report: &mut Report) -> Result<()> {
        let total = self.extent.scaled(32_000);
        let mut program = self.start()?;
        for threads in THREADS {
            let nanoseconds = self.best(&mut program, &format!("launch {threads} {total}"), 1)?;
            let name = format!("{threads} threads");
            let value = nanoseconds / total as f64 * MICRO;
            report.push(row(POSTING, &format!("post_{threads}"), &name, "us", value, Some(Aim::AtMost(0.3))));
        }
        for how in ["synchronize", "copy"] {
            let calls = self.extent.calls;
            let (mut alone, mut beside) = (f64::INFINITY, f64::INFINITY);
            for _ in 0..self.extent.rounds {
                let [a, b] = program.query(&format!("beside {calls} 1 {how}"))?[..] else {
                    bail!("`beside` did not reply with two numbers");
                };
                alone = alone.min(a as f64);
                beside = beside.min(b as f64);
            }
            let name = format!("wait, while another thread waits ({how}) for an endless kernel");
            let mut row = row(WAITING, &format!("beside_{how}"), &name, "us", 0.0, None);
            (row.best, row.reference) = (beside / calls as f64 * MICRO, Some(alone / calls as f64 * MICRO));
            row.median = row.best;
            row.ratio = Some(beside / alone);
            report.push(row);
        }
        let flood = self.extent.scaled(FLOOD);
        let [taken, _] = program.query(&format!("flood {flood}"))?[..] else {
            bail!("`flood` did not reply with two numbers");
        };
        let name =
            format!("two waits, while another thread has posted {flood} launches behind an endless kernel");
        let aim = Some(Aim::AtMost(100.0));
        report.push(row(WAITING, "flood", &name, "ms", taken as f64 * MILLI, aim));
        program.finish().map(drop)
    }

    fn registration(&self, report: &mut Report) -> Result<()> {
        let mut program = self.start()?;
        let command = format!("register {} {}", self.extent.scaled(BINARIES), self.extent.scaled(KERNELS));
        let mut best = [f64::INFINITY; 3];
        for _ in 0..self.extent.rounds {
            for (best, found) in best.iter_mut().zip(program.query(&command)?) {
                *best = best.min(found as f64);
            }
        }
        let names = [
            ("registration", 200.0),
            ("launch of the first and the last kernel", 50.0),
            ("unregistration", 200.0),
        ];
        for (at, (name, limit)) in names.into_iter().enumerate() {
            let key = format!("register_{at}");
            report.push(row(START, &key, name, "ms", best[at] * MILLI, Some(Aim::AtMost(limit))));
        }
        program.finish().map(drop)
    }

    fn session(&self, report: &mut Report) -> Result<()> {
        let (streams, allocations) = (self.extent.scaled(STREAMS), self.extent.scaled(ALLOCATIONS));
        let (first, all) = (self.extent.scaled(LAUNCHES.0), self.extent.scaled(LAUNCHES.1));
        let mut program = self.start()?;
        program.query(&format!("blocking {streams}"))?;
        let (client, executor) = (Process(program.pid()), self.executor()?);
        let sizes = || -> Result<[f64; 2]> {
            Ok([client.resident()? as f64 / MEBI, executor.resident()? as f64 / MEBI])
        };
        let mut each = Vec::new();
        let mut over = |program: &mut BenchProcess, launches: u64| -> Result<()> {
            let step = self.extent.scaled(50_000);
            for _ in 0..launches / step {
                let taken = program.query(&format!("over {step}"))?;
                each.extend(taken.first().map(|nanoseconds| *nanoseconds as f64 / step as f64 * MICRO));
            }
            Ok(())
        };
        over(&mut program, first)?;
        let before = sizes()?;
        over(&mut program, all - first)?;
        let after = sizes()?;
        for (at, side) in ["client", "worker"].into_iter().enumerate() {
            let name =
                format!("growth of the {side}'s memory from launch {first} to {all} over {streams} streams");
            let grown = after[at] - before[at];
            report.push(row(ONE, &format!("launches_{side}"), &name, "MiB", grown, Some(Aim::AtMost(1.0))));
        }
        let best = each.iter().copied().fold(f64::INFINITY, f64::min);
        report.push(row(
            ONE,
            "launch_over_streams",
            "launch on one of these streams, until it has run",
            "us",
            best,
            None,
        ));
        let before = sizes()?;
        let taken = program.seconds(&format!("allocate {allocations}"))?;
        let held = sizes()?;
        let freed = program.seconds("release")?;
        let name = format!("allocation, one of {allocations}, until the worker has made it");
        report.push(row(ONE, "allocate", &name, "us", taken / allocations as f64 * 1e6, None));
        report.push(row(
            ONE,
            "release",
            "free, queued behind a running kernel",
            "us",
            freed / allocations as f64 * 1e6,
            None,
        ));
        for (at, side) in ["client", "worker"].into_iter().enumerate() {
            let bytes = (held[at] - before[at]) * MEBI / allocations as f64;
            let name = format!("memory of the {side} per allocation");
            report.push(row(ONE, &format!("allocation_{side}"), &name, "B", bytes, Some(Aim::AtMost(512.0))));
        }
        // Once more: freed memory must be reused.
        let before = sizes()?;
        program.query(&format!("allocate {allocations}"))?;
        program.query("release")?;
        let after = sizes()?;
        for (at, side) in ["client", "worker"].into_iter().enumerate() {
            let name = format!("growth of the {side}'s memory after allocating and freeing as many again");
            let grown = after[at] - before[at];
            report.push(row(ONE, &format!("again_{side}"), &name, "MiB", grown, Some(Aim::AtMost(4.0))));
        }
        program.query("drop")?;
        program.finish().map(drop)
    }

    fn sessions(&self, report: &mut Report) -> Result<()> {
        let supervisor = self.supervisor();
        let before = (supervisor.resident()?, supervisor.descriptors()?, supervisor.threads()?);
        let started = std::time::Instant::now();
        let mut programs = Vec::new();
        let count = self.extent.scaled(SESSIONS);
        for _ in 0..count {
            let mut program = self.start()?;
            program.query("allocate 2")?;
            programs.push(program);
        }
        let taken = started.elapsed().as_secs_f64() * 1e3 / count as f64;
        let executors = supervisor.children()?;
        report.push(row(
            MANY,
            "sessions",
            "simultaneous sessions",
            "",
            executors.len() as f64,
            Some(Aim::AtLeast(count as f64)),
        ));
        report.push(row(
            MANY,
            "session_start",
            "start of a program, two kernels and one reply",
            "ms",
            taken,
            None,
        ));
        let each = |total: f64| total / count as f64;
        let private = executors.iter().map(|it| it.private()).sum::<Result<u64>>()?;
        report.push(row(
            MANY,
            "session_memory",
            "private memory of a session's process",
            "MiB",
            each(private as f64 / MEBI),
            Some(Aim::AtMost(16.0)),
        ));
        let descriptors = executors.iter().map(|it| it.descriptors()).sum::<Result<usize>>()?;
        report.push(row(
            MANY,
            "session_descriptors",
            "file descriptors of a session's process",
            "",
            each(descriptors as f64),
            Some(Aim::AtMost(16.0)),
        ));
        let threads = executors.iter().map(|it| it.threads()).sum::<Result<usize>>()?;
        report.push(row(
            MANY,
            "session_threads",
            "threads of a session's process",
            "",
            each(threads as f64),
            Some(Aim::AtMost(16.0)),
        ));
        let now = (supervisor.resident()?, supervisor.descriptors()?, supervisor.threads()?);
        let kibi = each(now.0.saturating_sub(before.0) as f64) / 1024.0;
        report.push(row(
            MANY,
            "worker_memory",
            "memory of the supervisor per session",
            "KiB",
            kibi,
            Some(Aim::AtMost(256.0)),
        ));
        report.push(row(
            MANY,
            "worker_descriptors",
            "file descriptors of the supervisor per session",
            "",
            each((now.1 - before.1) as f64),
            Some(Aim::AtMost(2.0)),
        ));
        // All of them must still work.
        for program in &mut programs {
            program.query("release")?;
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
