//! Programs under disturbance.

use super::listening::stand_still;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The kinds of work of `endures.hip`.
pub const KINDS: &[&str] = &["solver", "training", "graphs", "managed", "streams"];

/// What all programs share.
#[derive(Debug)]
pub struct Setup {
    pub program: PathBuf,
    /// Folder of the client library.
    pub libraries: PathBuf,
    pub rounds: u32,
    pub logs: PathBuf,
}

/// Where a program runs.
#[derive(Debug)]
pub enum Target {
    /// On the first worker of a list.
    Workers { list: String, failover: bool },
    /// On an allocation of an agent.
    Allocation { url: String },
}

/// A program that has ended well.
#[derive(Debug)]
pub struct Ended {
    pub digest: String,
    /// Seconds of each failover.
    pub recoveries: Vec<f64>,
}

/// A running program, killed on drop.
#[derive(Debug)]
pub struct Running {
    pub kind: &'static str,
    /// Whether it survives the death of its session's process.
    pub can_fail_over: bool,
    /// Whether it runs on an allocation of an agent.
    pub is_on_agent: bool,
    child: Child,
    output: PathBuf,
    errors: PathBuf,
    /// Bytes of output so far, and since when.
    seen: (u64, Instant),
}

impl Running {
    pub fn start(setup: &Setup, kind: &'static str, on: &Target) -> Result<Running> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let Setup { program, libraries, rounds, logs } = setup;
        let (output, errors) =
            (logs.join(format!("{kind}-{number}.out")), logs.join(format!("{kind}-{number}.err")));
        let create =
            |path: &Path| File::create(path).with_context(|| format!("cannot create {}", path.display()));
        let mut command = Command::new(program);
        command.arg(kind).arg(rounds.to_string()).env("LD_LIBRARY_PATH", libraries);
        command.env("REMORA_SILENCE_TIMEOUT", "2").env("REMORA_CONNECT_TIMEOUT", "30");
        let can_fail_over = match on {
            Target::Workers { list, failover } => {
                command.env("REMORA_WORKER", list);
                *failover
            }
            Target::Allocation { url } => {
                command.env("REMORA_URL", url);
                false
            }
        };
        if can_fail_over {
            command.env("REMORA_FAILOVER", "1");
        }
        command.stdin(Stdio::null()).stdout(create(&output)?).stderr(create(&errors)?);
        let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let is_on_agent = matches!(on, Target::Allocation { .. });
        Ok(Running { kind, can_fail_over, is_on_agent, child, output, errors, seen: (0, Instant::now()) })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops the process for a while, on another thread.
    pub fn pause(&self, time: Duration) {
        stand_still(vec![self.pid()], time);
    }

    /// The time since its last progress; an error if that is too long.
    pub fn advance(&mut self, limit: Duration) -> Result<Duration> {
        let bytes = fs::metadata(&self.output).map_or(0, |it| it.len());
        let still = self.seen.1.elapsed();
        if bytes != self.seen.0 {
            self.seen = (bytes, Instant::now());
        } else if still > limit {
            bail!("{} (pid {}) does not advance:\n{}", self.kind, self.pid(), self.said());
        }
        Ok(still)
    }

    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait().context("cannot wait for a program")?.is_some())
    }

    /// Waits for its end.
    pub fn finish(mut self, limit: Duration) -> Result<Ended> {
        while !self.has_ended()? {
            self.advance(limit)?;
            std::thread::sleep(Duration::from_millis(20));
        }
        let text = fs::read_to_string(&self.output).unwrap_or_default();
        let digest = text.lines().find_map(|line| line.strip_prefix("digest "));
        match digest {
            Some(digest) if text.contains("PASS endures") => {
                let said = fs::read_to_string(&self.errors).unwrap_or_default();
                Ok(Ended { digest: digest.to_owned(), recoveries: recoveries(&said) })
            }
            _ => bail!("{} (pid {}) failed:\n{}", self.kind, self.pid(), self.said()),
        }
    }

    fn said(&self) -> String {
        let tail = |path: &Path| {
            let text = fs::read_to_string(path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(12)..].join("\n")
        };
        format!("{}\n{}", tail(&self.output), tail(&self.errors))
    }
}

/// Seconds of each failover, as the client reports them.
fn recoveries(said: &str) -> Vec<f64> {
    let lines = said.lines().filter(|line| line.contains("failover: the session continues on"));
    lines
        .filter_map(|line| line.rsplit_once(" after ")?.1.trim_end_matches(" s").trim().parse().ok())
        .collect()
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
