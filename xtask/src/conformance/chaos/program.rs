//! Programs under disturbance.

use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The kinds of work of `endures.hip`.
pub const KINDS: &[&str] = &["solver", "training", "graphs", "managed", "streams"];

/// A running program, killed on drop.
#[derive(Debug)]
pub struct Running {
    pub kind: &'static str,
    child: Child,
    output: PathBuf,
    errors: PathBuf,
    /// Bytes of output so far, and since when.
    seen: (u64, Instant),
}

impl Running {
    pub fn start(
        program: &Path,
        libraries: &Path,
        kind: &'static str,
        rounds: u32,
        workers: &str,
        logs: &Path,
    ) -> Result<Running> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let (output, errors) =
            (logs.join(format!("{kind}-{number}.out")), logs.join(format!("{kind}-{number}.err")));
        let create =
            |path: &Path| File::create(path).with_context(|| format!("cannot create {}", path.display()));
        let mut command = Command::new(program);
        command.arg(kind).arg(rounds.to_string()).env("LD_LIBRARY_PATH", libraries);
        command
            .env("REMORA_WORKER", workers)
            .env("REMORA_SILENCE_TIMEOUT", "2")
            .env("REMORA_CONNECT_TIMEOUT", "30");
        command.stdin(Stdio::null()).stdout(create(&output)?).stderr(create(&errors)?);
        let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Running { kind, child, output, errors, seen: (0, Instant::now()) })
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

    /// Waits for its end; returns the digest.
    pub fn finish(mut self, limit: Duration) -> Result<String> {
        while !self.has_ended()? {
            self.advance(limit)?;
            std::thread::sleep(Duration::from_millis(20));
        }
        let text = fs::read_to_string(&self.output).unwrap_or_default();
        let digest = text.lines().find_map(|line| line.strip_prefix("digest "));
        match digest {
            Some(digest) if text.contains("PASS endures") => Ok(digest.to_owned()),
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

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Stops processes for a while, on another thread.
pub fn stand_still(pids: Vec<u32>, time: Duration) {
    let signal = |signal: libc::c_int, pids: &[u32]| {
        for pid in pids {
            // SAFETY: takes no pointers; the processes were started by this program.
            unsafe { libc::kill(*pid as libc::pid_t, signal) };
        }
    };
    signal(libc::SIGSTOP, &pids);
    std::thread::spawn(move || {
        std::thread::sleep(time);
        signal(libc::SIGCONT, &pids);
    });
}
