//! Failover: what the journal and checkpoints cost a training step, and how long a program waits when its session's process is
//! killed.

use super::program::{BenchProcess, Programs};
use super::report::{Aim, Report, Row};
use super::sample::{Pair, Sample};
use super::{DEVICE, Extent};
use crate::build::Built;
use crate::local_worker::LocalWorker;
use crate::repo::Repo;
use crate::step;
use crate::worker_sessions::sessions;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const STEPS: &str = "Failover: training step of 300 launches, 256 MiB of device memory";
const RECOVERY: &str = "Failover: the session's process is killed; time of the next step";
const ON: &[(&str, &str)] = &[("REMORA_FAILOVER", "1")];
/// Device memory of a training program, and of a large one.
const STATE: u64 = 256 << 20;
const LARGE: u64 = 1 << 30;
const STEP: &str = "step 1 300";
/// Checkpoint interval while steps are measured. A block of steps is longer, so that it has its share of checkpoints.
const INTERVAL: Duration = Duration::from_secs(10);
const BLOCK: Duration = Duration::from_secs(20);
/// How long the first checkpoint may take.
const FIRST: Duration = Duration::from_secs(60);

pub fn measure(
    repo: &Repo,
    built: &Built,
    programs: &Programs,
    extent: Extent,
    report: &mut Report,
) -> Result<()> {
    let bench = Bench { built, programs, extent, folder: repo.target.join("bench/checkpoints") };
    step::heading("failover: steps with a journal and checkpoints");
    bench.steps(report)?;
    step::heading("failover: recovery");
    bench.recoveries(report)
}

struct Bench<'a> {
    built: &'a Built,
    programs: &'a Programs,
    extent: Extent,
    folder: PathBuf,
}

impl Bench<'_> {
    /// Starts a worker; with an interval, one that takes checkpoints.
    fn worker(&self, interval: Option<Duration>) -> Result<LocalWorker> {
        let mut arguments = vec!["--no-upload-cache".to_owned()];
        if let Some(interval) = interval {
            crate::foreign::remove(&self.folder)?;
            arguments.extend(["--checkpoint".to_owned(), self.folder.display().to_string()]);
            arguments.extend(["--checkpoint-interval".to_owned(), interval.as_secs_f64().to_string()]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let log = self.programs.log("worker-failover");
        LocalWorker::start_with(Command::new(&self.built.remora), DEVICE, &arguments, &log)
    }

    fn program(&self, worker: &LocalWorker, variables: &[(&str, &str)], bytes: u64) -> Result<BenchProcess> {
        let address = worker.address().to_string();
        let mut program = self.programs.start_with(&self.programs.remote, &address, variables)?;
        program.query(&format!("fill {}", self.extent.scaled(bytes)))?;
        program.query(STEP)?;
        Ok(program)
    }

    fn steps(&self, report: &mut Report) -> Result<()> {
        let (interval, block) = match self.extent.is_smoke() {
            true => (INTERVAL / 100, BLOCK / 100),
            false => (INTERVAL, BLOCK),
        };
        let (plain, storing) = (self.worker(None)?, self.worker(Some(interval))?);
        let mut programs = [
            self.program(&plain, &[], STATE)?,
            self.program(&plain, ON, STATE)?,
            self.program(&storing, ON, STATE)?,
        ];
        let (mut journal, mut checkpoints) = (Pair::default(), Pair::default());
        for _ in 0..self.extent.rounds.min(5) {
            let mut means = [0.0; 3];
            for (program, mean) in programs.iter_mut().zip(&mut means) {
                let (begin, mut count) = (Instant::now(), 0u32);
                while begin.elapsed() < block {
                    program.query(STEP)?;
                    count += 1;
                }
                // The mean, because a checkpoint delays one step of many.
                *mean = begin.elapsed().as_secs_f64() / f64::from(count);
            }
            journal.push(means[1], means[0]);
            checkpoints.push(means[2], means[0]);
        }
        for mut program in programs {
            program.query("verify")?;
            program.finish()?;
        }
        for (pair, key, name, aim) in [
            (journal, "step_journal", "with a journal", None),
            (checkpoints, "step_checkpoints", "with checkpoints every 10 s", Some(Aim::AtMost(1.03))),
        ] {
            report.push(Row {
                best: pair.ours.best() * 1e3,
                median: pair.ours.median() * 1e3,
                reference: Some(pair.reference.best() * 1e3),
                ratio: Some(pair.ratio()),
                best_ratio: Some(pair.best_ratio()),
                aim,
                ..Row::plain(STEPS, key, name, "ms")
            });
        }
        Ok(())
    }

    fn recoveries(&self, report: &mut Report) -> Result<()> {
        for (interval, key, name) in [
            (Some(Duration::from_millis(500)), "recover_checkpoint", "1 GiB, from a checkpoint"),
            (None, "recover_journal", "1 GiB that a kernel has filled, from the start"),
        ] {
            let mut sample = Sample::default();
            for _ in 0..self.extent.rounds.min(3) {
                let worker = self.worker(interval)?;
                let mut program = self.program(&worker, ON, LARGE)?;
                if interval.is_some() {
                    self.wait_for_checkpoint(&mut program)?;
                }
                let all = sessions(&self.built.remora, &worker.address().to_string())?.unwrap_or_default();
                let session = all.iter().find(|it| it.program == program.pid());
                session.context("the program has no session")?.kill();
                sample.push(program.seconds(STEP)?);
                program.query("verify")?;
                program.finish()?;
            }
            report.push(Row {
                best: sample.best(),
                median: sample.median(),
                aim: Some(Aim::AtMost(5.0)),
                ..Row::plain(RECOVERY, key, name, "s")
            });
        }
        Ok(())
    }

    /// Steps until a checkpoint is stored. A session without requests takes none.
    fn wait_for_checkpoint(&self, program: &mut BenchProcess) -> Result<()> {
        let begin = Instant::now();
        while !has_checkpoint(&self.folder.join("sessions")) {
            if begin.elapsed() > FIRST {
                bail!("no checkpoint within {}", step::seconds(FIRST));
            }
            program.query(STEP)?;
        }
        Ok(())
    }
}

fn has_checkpoint(folder: &Path) -> bool {
    let sessions = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = sessions.flat_map(|session| fs::read_dir(session.path()).into_iter().flatten().flatten());
    files.map(|file| file.path()).any(|path| path.extension().is_some_and(|end| end == "checkpoint"))
}
