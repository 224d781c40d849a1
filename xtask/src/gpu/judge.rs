//! The tests of the board's judge on a GPU: solutions are judged and measured, exploits turned down.

use super::part::Part;
use super::suite;
use crate::client_libs;
use crate::demo::Backend;
use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
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

/// Runs the tests; returns how many failed. What they print is in the logs.
pub fn run(bundle: &Path, logs: &Path, backend: Backend) -> Result<usize> {
    step::heading("the board's judge");
    let folder = Part::Judge.folder(bundle);
    let mut failed = 0;
    for model in MODELS {
        for test in TESTS {
            let log = logs.join(format!("judge-{test}-{model}.log"));
            let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
            let mut command = Command::new(folder.join(test));
            command.args(["--nocapture", "--test-threads=1"]);
            command.env("REMORA_BIN", bundle.join("remora")).env("REMORA_LIB_DIR", folder.join("lib"));
            command.env("REMORA_TOOLCHAIN", Part::Compiler.folder(bundle));
            command.env("REMORA_BOARD_SOURCES", folder.join("board"));
            if backend == Backend::Cuda {
                command.env("REMORA_JUDGE_AS", model);
            }
            let started = Instant::now();
            let status =
                command.stdout(file.try_clone()?).stderr(file).status().with_context(|| {
                    format!("cannot start the tests {test}; has the bundle the part judge?")
                })?;
            let word = if status.success() { "passed" } else { "FAILED" };
            let seconds = step::seconds(started.elapsed());
            step::progress(&format!("{word}  {test}, {model}  {seconds}  {}", log.display()));
            failed += usize::from(!status.success());
        }
    }
    Ok(failed)
}
