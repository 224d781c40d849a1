//! Runs programs built with Google Test, or with Thrust's own framework, and parses their results.
//!
//! The output goes to a log as it comes, so that a test that crashes the program is identified. After such a test, and after one
//! that exceeds its time limit, a Google Test program is restarted for the remaining tests; the other framework cannot exclude
//! tests.

use super::verdict::Verdict;
use crate::step;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

const HEARTBEAT: Duration = Duration::from_secs(30);

/// Timeouts.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Of one test
    pub test: Duration,
    /// Of all tests of a program
    pub program: Duration,
}

/// Which tests of a program to run, and how to select them.
#[derive(Debug, Clone, Copy)]
pub enum Tests<'a> {
    /// Those that a Google Test filter matches
    Filter(&'a str),
    /// These tests of a program of Thrust's framework, all if the list is empty, in these sizes
    Sizes(&'a str, &'a [String]),
}

/// Runs tests of a program, with its output in `log`.
pub fn run(
    title: &str,
    command: impl Fn() -> Command,
    tests: Tests,
    log: &Path,
    limits: Limits,
) -> Result<Verdict> {
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let mut file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut verdict = Verdict::default();
    let started = Instant::now();
    loop {
        let mut command = command();
        match tests {
            Tests::Sizes(sizes, names) => {
                command.arg("--verbose").arg(format!("--sizes={sizes}")).args(names);
            }
            Tests::Filter(filter) if verdict.started().is_empty() => {
                command.arg(format!("--gtest_filter={filter}"));
            }
            Tests::Filter(filter) => {
                // Thousands of names are too long for a command-line argument.
                let flags = log.with_extension("left");
                fs::write(&flags, format!("--gtest_filter={}\n", without(filter, verdict.started())))
                    .with_context(|| format!("cannot write {}", flags.display()))?;
                command.arg(format!("--gtest_flagfile={}", flags.display()));
            }
        }
        let known = verdict.started().len();
        let ended = once(title, &mut command, &mut file, &mut verdict, started, limits)?;
        let out_of_time = started.elapsed() >= limits.program;
        verdict.close(&ended);
        let ends = matches!(tests, Tests::Sizes(..)) || out_of_time || verdict.started().len() == known;
        if verdict.is_finished() || ends {
            return Ok(verdict);
        }
        step::progress(&format!(
            "  {title}: restarted after {}",
            verdict.started().last().map_or("", |name| name)
        ));
    }
}

/// Returns `filter` without the tests of these names or patterns.
pub fn without(filter: &str, names: &[String]) -> String {
    let dash = if filter.contains('-') { ":" } else { "-" };
    format!("{filter}{dash}{}", names.join(":"))
}

/// How a run of a program ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    Itself(ExitStatus),
    /// It was killed, because a test or all of them took this long.
    Limit(Duration),
}

/// Runs a program until it exits or a limit is reached.
fn once(
    title: &str,
    command: &mut Command,
    file: &mut File,
    verdict: &mut Verdict,
    started: Instant,
    limits: Limits,
) -> Result<Ended> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file.try_clone()?);
    let mut child =
        command.spawn().with_context(|| format!("cannot start {}", step::command_line(command)))?;
    let stdout = child.stdout.take().context("the program has no standard output")?;
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut spoken = Instant::now();
    let mut test = (verdict.started().len(), Instant::now());
    let mut limit = None;
    loop {
        let mut wait = HEARTBEAT.saturating_sub(spoken.elapsed());
        if limit.is_none() {
            wait = wait.min(limits.program.saturating_sub(started.elapsed()));
            if verdict.running().is_some() {
                wait = wait.min(limits.test.saturating_sub(test.1.elapsed()));
            }
        }
        match lines.recv_timeout(wait) {
            Ok(line) => {
                file.write_all(&line)?;
                file.write_all(b"\n")?;
                verdict.note(&String::from_utf8_lossy(&line));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if verdict.started().len() != test.0 {
            test = (verdict.started().len(), Instant::now());
        }
        if spoken.elapsed() >= HEARTBEAT {
            spoken = Instant::now();
            let now = verdict.running().unwrap_or("between tests");
            let (passed, failed) = (verdict.passed, verdict.failed.len());
            let time = step::seconds(started.elapsed());
            step::progress(&format!("  {title}: {passed} passed, {failed} failed, {time} so far; {now}"));
        }
        let too_long = verdict.running().is_some() && test.1.elapsed() >= limits.test;
        if limit.is_none() && (too_long || started.elapsed() >= limits.program) {
            limit = Some(test.1.elapsed());
            end(&mut child);
        }
    }
    let status = child.wait()?;
    Ok(limit.map_or_else(|| Ended::Itself(status), Ended::Limit))
}

/// `remora run` forwards the signal and stops its worker.
fn end(child: &mut Child) {
    if let Ok(pid) = libc::pid_t::try_from(child.id()) {
        // SAFETY: kill accesses no memory of this process, and the child is not yet waited for, so the pid is still its own.
        unsafe { libc::kill(pid, libc::SIGTERM) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell script that stands in for a test program: it gets the filter like any other.
    fn script(text: &str) -> impl Fn() -> Command {
        let text = text.to_owned();
        move || {
            let mut command = Command::new("sh");
            command.arg("-c").arg(&text).arg("program");
            command
        }
    }

    fn log(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("xtask-gtest-{}-{name}.log", std::process::id()))
    }

    #[test]
    fn after_a_test_that_takes_the_program_down_the_others_are_run() {
        let program = script(
            "case $1 in\n\
             --gtest_filter=*) echo '[==========] Running 2 tests from 1 test suite.'; echo '[ RUN      ] a.one'; kill -ABRT $$;;\n\
             --gtest_flagfile=*) grep -q 'gtest_filter=[*]-a.one$' \"${1#*=}\" || exit 9\n\
               echo '[ RUN      ] a.two'; echo '[       OK ] a.two (1 ms)'; echo '[==========] 1 test from 1 test suite ran. (1 ms)';;\n\
             esac",
        );
        let limits = Limits { test: Duration::from_secs(600), program: Duration::from_secs(600) };
        let verdict = run("program", program, Tests::Filter("*"), &log("crash"), limits).unwrap();
        assert_eq!((verdict.passed, verdict.left()), (1, 0));
        assert_eq!(verdict.failed[0].test, "a.one");
        assert!(verdict.failed[0].reason.contains("SIGABRT"), "{:?}", verdict.failed);
    }

    #[test]
    fn a_test_that_takes_too_long_is_unfinished_and_not_failed() {
        let program = script(
            "case $1 in\n\
             --gtest_filter=*) echo '[==========] Running 3 tests from 1 test suite.'; echo '[ RUN      ] a.one'; exec sleep 600;;\n\
             *) echo '[==========] 0 tests from 0 test suites ran. (1 ms)';;\n\
             esac",
        );
        let limits = Limits { test: Duration::from_millis(50), program: Duration::from_secs(600) };
        let verdict = run("program", program, Tests::Filter("*"), &log("slow"), limits).unwrap();
        assert_eq!((verdict.passed, verdict.failed.len(), verdict.left()), (0, 0, 2));
        assert_eq!(verdict.unfinished[0].test, "a.one");
    }

    #[test]
    fn a_program_that_never_starts_a_test_is_started_once() {
        let limits = Limits { test: Duration::from_secs(600), program: Duration::from_secs(600) };
        let verdict = run("program", script("exit 127"), Tests::Filter("*"), &log("none"), limits).unwrap();
        assert_eq!(verdict.failed.len(), 1, "{verdict:?}");
    }

    #[test]
    fn names_are_added_to_what_a_filter_leaves_out() {
        let names = ["a.one".to_owned(), "a.two".to_owned()];
        assert_eq!(without("*", &names), "*-a.one:a.two");
        assert_eq!(without("a*-a.zero", &names), "a*-a.zero:a.one:a.two");
    }
}
