//! NVIDIA's assembler `ptxas`, from the package index: tests of the translator check their text with it.

use crate::env;
use crate::repo::Repo;
use crate::venv;
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;

/// Returns the program; fetches it the first time. `PTXAS` in the environment names another one.
pub fn locate(repo: &Repo) -> Result<PathBuf> {
    if let Some(path) = env::ptxas() {
        return Ok(path);
    }
    let python = venv::with(repo, "venv-ptxas", "amdgpu/ptx/tests/requirements.txt")?;
    let libraries =
        python.parent().and_then(|bin| bin.parent()).context("a Python without a folder")?.join("lib");
    let versions =
        fs::read_dir(&libraries).with_context(|| format!("cannot read {}", libraries.display()))?;
    versions
        .flatten()
        .map(|version| version.path().join("site-packages/nvidia/cuda_nvcc/bin/ptxas"))
        .find(|path| path.exists())
        .with_context(|| format!("no ptxas below {}", libraries.display()))
}
