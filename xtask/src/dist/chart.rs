//! The Helm chart, in the layout of `helm package`.

use super::Parts;
use super::archive::{self, Compression};
use super::stage::{FILE, Stage};
use super::sums;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// Builds `remora-chart-VERSION.tgz`.
pub fn build(parts: &Parts<'_>, into: &Path) -> Result<PathBuf> {
    let stage = Stage::new(parts.work.join("chart"))?;
    let folder = parts.repo.root.join("deploy/helm/remora");
    for file in sums::files(&folder)? {
        let name = file.strip_prefix(&folder).unwrap_or(&file).display().to_string();
        stage.file(&file, &format!("remora/{name}"), FILE)?;
    }
    let path = into.join(format!("remora-chart-{}.tgz", parts.release.version));
    archive::tar(&stage.root, &parts.release, Compression::Gzip, &path)?;
    Ok(path)
}
