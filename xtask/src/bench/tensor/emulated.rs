//! The same training step by tinygrad without a GPU: in its interpreter, or in its emulator of an AMD GPU.
//!
//! The PyPI package only has the interpreter (device PYTHON). The emulator is in the repository, of which a clone can be given.

use super::TRAINING;
use crate::bench::Extent;
use crate::bench::report::{Aim, Row};
use crate::bench::sample::Sample;
use crate::repo::Repo;
use crate::venv;
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// How many times as fast the software GPU should be.
const AIM: f64 = 50.0;

/// `ours` in seconds.
pub fn row(repo: &Repo, extent: Extent, copy: Option<&Path>, ours: f64) -> Result<Row> {
    let python = venv::with(repo, "venv-tinygrad", "bench/requirements.txt")?;
    let mut script = Command::new(python);
    script.arg(repo.root.join("bench/emulated_step.py"));
    script.args(["--rounds", if extent.rounds > 3 { "2" } else { "1" }]);
    script.env("CACHELEVEL", "0").env("PYTHONDONTWRITEBYTECODE", "1");
    let name = match copy {
        None => {
            script.env("DEV", "PYTHON");
            "tinygrad's interpreter"
        }
        Some(copy) => {
            script.env("DEV", "MOCK+AMD:LLVM").env("PYTHONPATH", copy).env("PATH", compilers(repo)?);
            "tinygrad's AMD emulator"
        }
    };
    let said = super::lines(&mut script)?;
    let theirs = seconds(&said).with_context(|| format!("cannot parse tinygrad's output `{said}`"))?;
    Ok(Row {
        best: ours * super::MILLI,
        median: ours * super::MILLI,
        reference: Some(theirs * super::MILLI),
        ratio: Some(theirs / ours),
        best_ratio: Some(theirs / ours),
        aim: Some(Aim::AtLeast(AIM)),
        ..Row::plain(
            TRAINING,
            "tensor_emulated_step",
            format!("training step on a software MI300X, compared with {name}"),
            "ms",
        )
    })
}

/// The shortest step.
fn seconds(said: &str) -> Option<f64> {
    let mut sample = Sample::default();
    for one in said.lines().last()?.split(',') {
        sample.push(one.parse().ok()?);
    }
    Some(sample.best())
}

/// A PATH with the compiler under the name that tinygrad expects.
fn compilers(repo: &Repo) -> Result<std::ffi::OsString> {
    let folder = repo.target.join("bench/compilers");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for (name, program) in [("clang", "/usr/bin/clang-19"), ("ld.lld", "/usr/bin/ld.lld-19")] {
        let link = folder.join(name);
        if !link.exists() {
            symlink(program, &link).with_context(|| format!("cannot link {}", link.display()))?;
        }
    }
    Ok(std::env::join_paths([folder.as_path(), Path::new("/usr/bin"), Path::new("/bin")])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_step_of_the_last_line_counts() {
        assert_eq!(seconds("loss\t2.3\n1.5,0.5,0.75\n"), Some(0.5));
        assert_eq!(seconds("loss\t2.3\n"), None);
    }
}
