//! The tests of the board's judge on a GPU: solutions are judged and measured, exploits turned down.

use super::part::Part;
use super::suite;
use crate::client_libs;
use crate::demo::Backend;
use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Test programs, and why the others are not here: they test the judge's messages and the software GPU's reports.
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
    let tests = chosen(TESTS, choice.program)?;
    let mut failed = 0;
    for model in chosen(MODELS, choice.model)? {
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
            // The judge's table and finished solutions.
            let progress = running.stderr.take().context("the tests have no standard error")?;
            for line in BufReader::new(progress).split(b'\n') {
                let line =
                    String::from_utf8_lossy(&line.context("cannot read what the tests print")?).into_owned();
                writeln!(file, "{line}").with_context(|| format!("cannot write {}", log.display()))?;
                println!("{line}");
            }
            let status = running.wait().context("cannot wait for the tests")?;
            let word = if status.success() { "passed" } else { "FAILED" };
            let seconds = step::seconds(started.elapsed());
            step::progress(&format!("{word}  {test}, {model}  {seconds}  {}", log.display()));
            failed += usize::from(!status.success());
        }
    }
    Ok(failed)
}

/// All names, or the chosen one.
fn chosen<'a>(names: &[&'a str], choice: Option<&str>) -> Result<Vec<&'a str>> {
    let found: Vec<&str> = names.iter().copied().filter(|name| choice.is_none_or(|it| it == *name)).collect();
    if found.is_empty() {
        bail!("the judge has no test {}, only {}", choice.unwrap_or_default(), names.join(", "));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_test_program_can_be_chosen_and_a_wrong_name_is_an_error() {
        assert_eq!(chosen(TESTS, None).unwrap(), TESTS);
        assert_eq!(chosen(TESTS, Some("solutions")).unwrap(), ["solutions"]);
        let error = chosen(MODELS, Some("mi100")).unwrap_err().to_string();
        assert!(error.contains("mi100") && error.contains("mi300x, mi210"), "{error}");
    }
}
