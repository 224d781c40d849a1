//! Running a program that is built with Google Test and reading what it says of its tests.
//!
//! What it prints goes to a log as it comes, so that a test that takes the program down is known and named.

use crate::step;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

const HEARTBEAT: Duration = Duration::from_secs(30);

/// What the tests of a program came to.
#[derive(Debug, Default)]
pub struct Verdict {
    pub passed: u64,
    pub skipped: u64,
    /// The names of those that failed, in order.
    pub failed: Vec<String>,
    running: Option<String>,
    finished: bool,
}

impl Verdict {
    /// Take note of one line of the program's output.
    pub fn note(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("[ RUN      ] ") {
            self.running = Some(name.trim().to_owned());
        } else if let Some(name) = line.strip_prefix("[  FAILED  ] ") {
            // The list at the end repeats the names, when none of the tests is running.
            let name = first_word(name);
            if self.running.as_ref() == Some(&name) {
                self.failed.push(name);
                self.running = None;
            }
        } else if line.starts_with("[       OK ] ") {
            self.passed += 1;
            self.running = None;
        } else if line.starts_with("[  SKIPPED ] ") && self.running.take().is_some() {
            self.skipped += 1;
        } else if line.starts_with("[==========] ") && line.contains(" ran.") {
            self.finished = true;
        }
    }

    /// The program has ended: a test it did not come back from has failed, and so has a program that ended early.
    pub fn close(&mut self, ended: &str) {
        if let Some(name) = self.running.take() {
            self.failed.push(format!("{name} ({ended})"));
        } else if !self.finished {
            self.failed.push(format!("the program itself ({ended})"));
        }
    }
}

fn first_word(text: &str) -> String {
    text.split([',', ' ']).next().unwrap_or_default().to_owned()
}

/// Run a program to its end, or until `limit` has passed.
pub fn run(title: &str, command: &mut Command, log: &Path, limit: Duration) -> Result<Verdict> {
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let mut file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file.try_clone()?);
    let started = Instant::now();
    let mut child = command.spawn().with_context(|| format!("cannot start {}", step::shown(command)))?;
    let stdout = child.stdout.take().context("the program has no standard output")?;
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut verdict = Verdict::default();
    let mut spoken = started;
    let mut in_time = true;
    loop {
        match lines.recv_timeout(HEARTBEAT.saturating_sub(spoken.elapsed())) {
            Ok(line) => {
                file.write_all(&line)?;
                file.write_all(b"\n")?;
                verdict.note(&String::from_utf8_lossy(&line));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if spoken.elapsed() >= HEARTBEAT {
            spoken = Instant::now();
            let now = verdict.running.as_deref().unwrap_or("between tests");
            let (passed, failed) = (verdict.passed, verdict.failed.len());
            let time = step::seconds(started.elapsed());
            step::detail(&format!("  {title}: {passed} passed, {failed} failed, {time} so far; {now}"));
        }
        if in_time && started.elapsed() >= limit {
            in_time = false;
            end(&mut child);
        }
    }
    let status = child.wait()?;
    verdict.close(&if in_time { status.to_string() } else { format!("ended after {} s", limit.as_secs()) });
    Ok(verdict)
}

/// `remora run` passes the signal on and ends its worker.
fn end(child: &mut Child) {
    if let Ok(pid) = libc::pid_t::try_from(child.id()) {
        // SAFETY: kill reads no memory of ours, and the child is not yet waited for, so the number is still its own.
        unsafe { libc::kill(pid, libc::SIGTERM) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict_on(lines: &[&str], ended: &str) -> Verdict {
        let mut verdict = Verdict::default();
        lines.iter().for_each(|line| verdict.note(line));
        verdict.close(ended);
        verdict
    }

    #[test]
    fn every_test_is_counted_once_although_failures_are_listed_again() {
        let verdict = verdict_on(
            &[
                "[ RUN      ] a.one",
                "[       OK ] a.one (3 ms)",
                "[ RUN      ] a.two/0",
                "some text",
                "[  FAILED  ] a.two/0, where GetParam() = 404 (197 ms)",
                "[ RUN      ] a.four",
                "[  FAILED  ] a.four, where GetParam() = { some: text }",
                "[ RUN      ] a.three",
                "[  SKIPPED ] a.three (0 ms)",
                "[==========] 3 tests from 1 test suite ran. (200 ms total)",
                "[  PASSED  ] 1 test.",
                "[  SKIPPED ] 1 test, listed below:",
                "[  SKIPPED ] a.three",
                "[  FAILED  ] 1 test, listed below:",
                "[  FAILED  ] a.two/0, where GetParam() = 404",
            ],
            "exit status: 1",
        );
        assert_eq!((verdict.passed, verdict.skipped), (1, 1));
        assert_eq!(verdict.failed, ["a.two/0", "a.four"]);
    }

    #[test]
    fn a_test_that_takes_the_program_down_has_failed() {
        let verdict = verdict_on(&["[ RUN      ] a.one"], "signal: 6 (SIGABRT)");
        assert_eq!(verdict.failed, ["a.one (signal: 6 (SIGABRT))"]);
    }

    #[test]
    fn a_program_that_ends_before_its_tests_do_has_failed() {
        let verdict = verdict_on(&["cannot open shared object file"], "exit status: 127");
        assert_eq!(verdict.failed, ["the program itself (exit status: 127)"]);
    }
}
