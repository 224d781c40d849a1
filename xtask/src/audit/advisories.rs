//! Published vulnerabilities: cargo-audit over the lock files, with a local copy of the RustSec advisory database.

use crate::conformance::userland::{Package, Userland};
use crate::env;
use crate::foreign;
use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

const ADDRESS: &str = "https://github.com/RustSec/advisory-db";
/// Timeout of a fetch, so that a machine without internet access does not hold up the tests.
const FETCH_LIMIT: Duration = Duration::from_secs(30);
/// Maximum age of a fetched copy before it is fetched again.
const FRESH: Duration = Duration::from_secs(24 * 3600);

/// cargo-audit of a newer Debian release, with the C library it needs. This release has no package of it.
const PACKAGES: &[Package] =
    &[Package::whole("cargo-audit"), Package::whole("libc6"), Package::whole("libgcc-s1")];

/// Returns the folder of a database, or the reason why there is none.
pub fn database(repo: &Repo, given: Option<&Path>, may_fetch: bool) -> Result<Result<PathBuf, String>> {
    if let Some(folder) = given {
        if !is_database(folder) {
            bail!(
                "{} is not an advisory database: it has no folder `crates`. Clone {ADDRESS} and pass that folder.",
                folder.display()
            );
        }
        return Ok(Ok(folder.to_path_buf()));
    }
    if let Some(folder) = env::cargo_home().map(|home| home.join("advisory-db")).filter(|it| is_database(it))
    {
        return Ok(Ok(folder));
    }
    let folder = repo.downloads.join("advisory-db");
    let age = fs::metadata(folder.join("crates")).and_then(|it| it.modified()).ok();
    let is_fresh =
        age.and_then(|time| SystemTime::now().duration_since(time).ok()).is_some_and(|age| age < FRESH);
    if may_fetch && !is_fresh {
        fetch(&folder)?;
    }
    Ok(match is_database(&folder) {
        true => Ok(folder),
        false => Err("no advisory database; `cargo xtask audit --fetch` fetches it".to_owned()),
    })
}

/// Runs cargo-audit on each lock file.
pub fn check(repo: &Repo, database: &Path, locks: &[PathBuf], ignored: &[&str]) -> Result<Vec<String>> {
    let userland = Userland::unpack(repo, "audit", PACKAGES)?;
    let mut complaints = Vec::new();
    for lock in locks {
        let mut audit = userland.alone(&userland.path("usr/bin/cargo-audit"));
        audit.args(["audit", "--no-fetch", "--stale", "--color", "never", "--db"]).arg(database);
        audit.arg("--file").arg(lock);
        for id in ignored {
            audit.args(["--ignore", id]);
        }
        let output =
            audit.output().with_context(|| format!("cannot start {}", step::command_line(&audit)))?;
        let said = String::from_utf8_lossy(&output.stderr);
        // cargo-audit prints this after reading the database. Without it, a failure is not about the crates.
        if !said.contains("Scanning") {
            bail!("cargo-audit could not check {} ({}):\n{said}", lock.display(), output.status);
        }
        if !output.status.success() {
            let found = String::from_utf8_lossy(&output.stdout);
            complaints.push(format!("advisories about crates of {}:\n{}", lock.display(), found.trim_end()));
        }
    }
    Ok(complaints)
}

fn is_database(folder: &Path) -> bool {
    folder.join("crates").is_dir()
}

/// Clones the database to a temporary folder first, so that the old copy stays until the new one is complete.
fn fetch(folder: &Path) -> Result<()> {
    let new = folder.with_extension("new");
    foreign::remove(&new)?;
    let mut git = Command::new("git");
    git.args(["clone", "--quiet", "--depth", "1", ADDRESS]).arg(&new).env("GIT_TERMINAL_PROMPT", "0");
    let mut child = git
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start git")?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() > FETCH_LIMIT {
            child.kill()?;
            child.wait()?;
            foreign::remove(&new)?;
            bail!("git clone of {ADDRESS} took longer than {} s", FETCH_LIMIT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    if !status.success() {
        foreign::remove(&new)?;
        bail!("git clone of {ADDRESS} failed");
    }
    foreign::remove(folder)?;
    fs::rename(&new, folder).with_context(|| format!("cannot move {} into place", new.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_no_database_is_refused_by_name() {
        let repo = Repo::find().unwrap();
        let error = database(&repo, Some(Path::new("/nonexistent/db")), false).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/db") && error.contains("crates"), "{error}");
    }
}
