//! The tests of the board's judge on a GPU: solutions are judged and measured, exploits turned down.

use super::part::Part;
use super::suite;
use crate::client_libs;
use crate::demo::Backend;
use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Test programs. The judge's other tests are about its messages and about reports of software GPUs, and need no GPU.
const TESTS: &[&str] = &["exploits", "solutions"];

/// Folders of the board's sources that the tests read.
const SOURCES: &[&str] = &["judge/tests/exploits", "problems/solutions", "problems/wrong"];

/// Models that the GPU imitates in turn.
const MODELS: &[&str] = &["mi300x", "mi210"];

/// Collects the part: test programs, client libraries and sources.
pub fn collect(repo: &Repo, folder: &Path, copy_stripped: impl Fn(&Path, &Path) -> Result<()>) -> Result<()> {
    for test in TESTS {
        copy_stripped(&suite::binary(repo, "board/judge", test)?, &folder.join(test))?;
    }
    for library in client_libs::SONAMES {
        copy_stripped(&repo.lib().join(library), &folder.join("lib").join(library))?;
    }
    for source in SOURCES {
        let to = folder.join("board").join(source);
        fs::create_dir_all(&to).with_context(|| format!("cannot create {}", to.display()))?;
        let from = repo.root.join("board").join(source).join(".");
        step::output(Command::new("cp").arg("--recursive").arg(&from).arg(&to))?;
    }
    Ok(())
}

/// What is run of the judge's tests. Everything if nothing is chosen.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    /// One of the test programs.
    pub program: Option<&'a str>,
    /// One of the imitated models.
    pub model: Option<&'a str>,
    /// Solutions whose name contains this text.
    pub only: &'a str,
    /// A share of the solutions, such as 2/5.
    pub share: Option<&'a str>,
}

/// Runs the tests; returns how many failed. What they print is in the logs, and progress is shown at once.
pub fn run(bundle: &Path, logs: &Path, backend: Backend, choice: Choice<'_>) -> Result<usize> {
    step::heading("the board's judge");
    let folder = Part::Judge.folder(bundle);
    let tests = chosen("test program of the judge", TESTS, choice.program)?;
    let models = chosen("model", MODELS, choice.model)?;
    let mut failed = 0;
    for model in models {
        for test in &tests {
            let log = logs.join(format!("judge-{test}-{model}.log"));
            let mut file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
            let mut command = Command::new(folder.join(test));
            command.args(["--nocapture", "--test-threads=1"]);
            command.env("REMORA_BIN", bundle.join("remora")).env("REMORA_LIB_DIR", folder.join("lib"));
            command.env("REMORA_TOOLCHAIN", Part::Compiler.folder(bundle));
            command.env("REMORA_BOARD_SOURCES", folder.join("board"));
            if backend == Backend::Cuda {
                command.env("REMORA_JUDGE_AS", model);
            }
            if !choice.only.is_empty() {
                command.env("REMORA_BOARD_ONLY", choice.only);
            }
            if let Some(share) = choice.share {
                command.env("REMORA_BOARD_SHARE", share);
            }
            let started = Instant::now();
            let mut running =
                command.stdout(file.try_clone()?).stderr(Stdio::piped()).spawn().with_context(|| {
                    format!("cannot start the tests {test}; has the bundle the part judge?")
                })?;
            let progress = running.stderr.take().context("the tests have no standard error")?;
            follow(BufReader::new(progress), &mut file, io::stdout())
                .with_context(|| format!("cannot write what the tests print to {}", log.display()))?;
            let status = running.wait().context("cannot wait for the tests")?;
            let word = if status.success() { "passed" } else { "FAILED" };
            let seconds = step::seconds(started.elapsed());
            step::progress(&format!("{word}  {test}, {model}  {seconds}  {}", log.display()));
            failed += usize::from(!status.success());
        }
    }
    Ok(failed)
}

/// Copies what a running program prints to its log and to the terminal, line by line, so that a run that is cut short has shown all that it
/// did. If nobody reads the terminal any more, as in `cargo xtask gpu test | head`, the log still gets everything.
fn follow(mut output: impl BufRead, log: &mut impl Write, terminal: impl Write) -> io::Result<()> {
    let mut terminal = Some(terminal);
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line)? > 0 {
        log.write_all(&line)?;
        log.flush()?;
        let is_closed = |shown: &mut _| show(shown, &line).is_err();
        if terminal.as_mut().is_some_and(is_closed) {
            terminal = None;
        }
        line.clear();
    }
    Ok(())
}

fn show(terminal: &mut impl Write, line: &[u8]) -> io::Result<()> {
    terminal.write_all(line)?;
    terminal.flush()
}

/// All names, or the chosen one. `kind` says what they are.
fn chosen<'a>(kind: &str, names: &[&'a str], choice: Option<&str>) -> Result<Vec<&'a str>> {
    let Some(choice) = choice else { return Ok(names.to_vec()) };
    match names.iter().find(|name| **name == choice) {
        Some(name) => Ok(vec![*name]),
        None => bail!("unknown {kind} {choice:?}; choose one of {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_test_program_can_be_chosen_and_a_wrong_name_is_an_error() {
        assert_eq!(chosen("program", TESTS, None).unwrap(), TESTS);
        assert_eq!(chosen("program", TESTS, Some("solutions")).unwrap(), ["solutions"]);
        let error = chosen("model", MODELS, Some("mi100")).unwrap_err().to_string();
        assert_eq!(error, "unknown model \"mi100\"; choose one of mi300x, mi210");
    }

    /// A terminal that nobody reads after some writes.
    struct Closing(usize);

    impl Write for Closing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_log_has_everything_even_if_the_terminal_is_closed() {
        let printed = b"one\ntwo\n\xff three\nno end of line";
        for readable in 0..5 {
            let mut log = Vec::new();
            follow(&printed[..], &mut log, Closing(readable)).unwrap();
            assert_eq!(log, printed);
        }
        let (mut log, mut terminal) = (Vec::new(), Vec::new());
        follow(&printed[..], &mut log, &mut terminal).unwrap();
        assert_eq!(terminal, printed);
    }
}
