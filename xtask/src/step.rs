//! Runs other programs with progress messages.
//!
//! The output of a program goes to a log, with a progress line from time to time, or is forwarded. In either case a failure shows
//! the command and the end of its output.

use crate::echo::{Echo, Skipped};
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const HEARTBEAT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// Prints one line about the current step.
pub fn heading(text: &str) {
    say(&format!("==> {text}\n"));
}

/// Prints one line about the progress of the current step.
pub fn progress(text: &str) {
    say(&format!("    {text}\n"));
}

/// Writes to standard error. Nothing fails if nobody reads it any more, as in `2>&1 | head`; `eprintln!` would panic.
fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Formats a duration.
pub fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// Runs a program whose output goes to `log`.
pub fn run_logged(title: &str, command: &mut Command, log: &Path) -> Result<()> {
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    progress(&format!("{title} ..."));
    let started = Instant::now();
    let mut child = command.spawn().with_context(|| format!("cannot start {}", command_line(command)))?;
    let mut last_progress = started;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if last_progress.elapsed() >= HEARTBEAT {
            last_progress = Instant::now();
            let last = last_lines(log, 1);
            progress(&format!("  {} so far: {}", seconds(started.elapsed()), clip(last.trim(), 90)));
        }
        std::thread::sleep(POLL);
    };
    if !status.success() {
        bail!(
            "{title} failed ({status})\n  command: {}\n  log: {}\n{}",
            command_line(command),
            log.display(),
            last_lines(log, 30)
        );
    }
    progress(&format!("{title}: done in {}", seconds(started.elapsed())));
    Ok(())
}

/// Runs a program and forwards its output. Its panics and last lines are in the error too, so that the end of a long output shows
/// the reason.
pub fn run_forwarded(title: &str, command: &mut Command) -> Result<()> {
    run_tests(title, command).map(drop)
}

/// Like [`run_forwarded`], for a program that runs tests: returns those that it reported as skipped.
pub fn run_tests(title: &str, command: &mut Command) -> Result<Vec<Skipped>> {
    let started = Instant::now();
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {}", command_line(command)))?;
    let echo = Echo::default();
    let status = std::thread::scope(|scope| {
        let (out, err) = (child.stdout.take(), child.stderr.take());
        scope.spawn(|| out.map(|out| echo.pass(out, std::io::stdout())));
        scope.spawn(|| err.map(|err| echo.pass(err, std::io::stderr())));
        child.wait()
    })?;
    if !status.success() {
        bail!(
            "{title} failed ({status}) after {}\n  command: {}\n{}",
            seconds(started.elapsed()),
            command_line(command),
            echo.kept()
        );
    }
    progress(&format!("{title}: done in {}", seconds(started.elapsed())));
    Ok(echo.skipped())
}

/// Runs a program and returns its standard output as text.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {}", command_line(command)))?;
    if !output.status.success() {
        bail!(
            "{} failed ({})\n{}",
            command_line(command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("{} printed something that is not text", command_line(command)))
}

/// Formats a command as it could be typed.
pub fn command_line(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|argument| argument.to_string_lossy().into_owned()));
    words.join(" ")
}

fn last_lines(path: &Path, count: usize) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

fn clip(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clipping_respects_character_boundaries() {
        assert_eq!(clip("äöü", 2), "äö...");
        assert_eq!(clip("äöü", 3), "äöü");
    }

    #[test]
    fn a_failing_command_is_named_in_the_error() {
        let error = output(Command::new("false").arg("now")).unwrap_err();
        assert!(error.to_string().starts_with("false now failed"), "{error}");
    }
}
