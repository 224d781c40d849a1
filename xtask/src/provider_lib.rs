//! Builds the provider library and puts it next to the client libraries, where packages take them from.

use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// The file name that agents look for.
pub const NAME: &str = "libaccelerator_amd.so";

/// Builds only this library.
pub fn build(repo: &Repo) -> Result<PathBuf> {
    step::run_forwarded("cargo build", repo.cargo().args(["build", "--release", "--package", "provider"]))?;
    install(repo, &repo.target.join("release"), false)
}

/// Copies the built library into the library folder.
pub fn install(repo: &Repo, output: &Path, keep_debug_information: bool) -> Result<PathBuf> {
    let built = newest(output).with_context(|| format!("cargo left no {NAME} below {}", output.display()))?;
    let folder = repo.lib();
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    // Written to a temporary file and renamed, so that an agent that has the old file mapped keeps it intact.
    let fresh = folder.join(format!(".{NAME}.new"));
    if keep_debug_information {
        fs::copy(&built, &fresh).with_context(|| format!("cannot write {}", fresh.display()))?;
    } else {
        step::output(Command::new("strip").arg("--strip-debug").arg("-o").arg(&fresh).arg(&built))?;
    }
    let library = folder.join(NAME);
    fs::rename(&fresh, &library).with_context(|| format!("cannot replace {}", library.display()))?;
    Ok(library)
}

/// A build leaves the library in one folder, a build of tests in another; returns the newest.
fn newest(output: &Path) -> Option<PathBuf> {
    let modified = |path: &PathBuf| -> Option<SystemTime> { fs::metadata(path).ok()?.modified().ok() };
    let places = [output.join(NAME), output.join("deps").join(NAME)];
    places.into_iter().filter(|path| path.exists()).max_by_key(modified)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_found_where_nothing_was_built() {
        assert_eq!(newest(Path::new("/nonexistent")), None);
    }
}
