//! Python virtual environments below `target/`, one for each requirements file.

use crate::lock::Lock;
use crate::repo::Repo;
use crate::stamp::{Inputs, Stamp};
use crate::step;
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Returns a Python with the packages of a requirements file, isolated from the system's.
pub fn with(repo: &Repo, name: &str, requirements: &str) -> Result<PathBuf> {
    let folder = repo.downloads.join(name);
    let _lock = Lock::take(&repo.downloads.join(format!("{name}.lock")))?;
    let requirements = repo.root.join(requirements);
    let python = folder.join("bin/python");
    let stamp = Stamp::new(folder.join("stamp"), Inputs::new().file(&requirements)?);
    if stamp.is_fresh() && python.exists() {
        return Ok(python);
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    let mut venv = Command::new("/usr/bin/python3");
    step::run_logged(
        "python environment",
        venv.args(["-m", "venv"]).arg(&folder),
        &repo.logs().join(format!("{name}.log")),
    )?;
    let mut pip = Command::new(&python);
    pip.args([
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--progress-bar",
        "off",
        "--no-cache-dir",
    ]);
    pip.arg("--requirement").arg(&requirements);
    step::run_logged("pip install", &mut pip, &repo.logs().join("pip.log"))?;
    stamp.write()?;
    Ok(python)
}
