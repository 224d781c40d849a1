//! The Python tools that make packages.

use crate::repo::Repo;
use crate::venv;
use anyhow::Result;
use std::path::PathBuf;

/// Returns a Python that has them.
pub fn python(repo: &Repo) -> Result<PathBuf> {
    venv::with(repo, "venv-packages", "deploy/packages/requirements.txt")
}
