//! Triton's cases on an NVIDIA GPU: code objects compiled when the bundle was made, and those of the machine's own Triton.

use crate::conformance;
use crate::demo::{self, Programs, Target};
use crate::examples::ARCHITECTURES;
use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The scripts' folder, in the repository and in a bundle.
const SCRIPTS: &str = "conformance/triton";
/// The part's folder of a bundle.
const COMPILED: &str = "triton";

/// Compiles all cases, into a folder.
pub fn collect(repo: &Repo, folder: &Path) -> Result<()> {
    let python = conformance::triton_python(repo)?;
    for (architecture, _) in ARCHITECTURES {
        let mut command = script(&python, &repo.root.join(SCRIPTS), architecture);
        command.arg("--save").arg(folder).env("TRITON_CACHE_DIR", repo.downloads.join("triton"));
        step::run_forwarded(&format!("triton for {architecture}"), &mut command)?;
    }
    Ok(())
}

/// The scripts that a bundle needs.
pub fn bundled(repo: &Repo) -> Result<Vec<PathBuf>> {
    let folder = repo.root.join(SCRIPTS);
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    Ok(paths.into_iter().filter(|path| path.extension().is_some_and(|it| it == "py")).collect())
}

/// Runs the cases on every imitated model. Returns how many runs had a wrong case.
pub fn run(bundle: &Path, programs: &Programs<'_>, targets: &[Target]) -> Result<usize> {
    let python = Path::new("python3");
    let has = |module: &str| {
        let mut import = Command::new(python);
        import.args(["-c", &format!("import {module}; print({module}.__version__)")]);
        step::output(&mut import).ok().map(|text| text.trim().to_owned())
    };
    if has("numpy").is_none() {
        step::progress("left out: Triton's cases: this machine has no Python with NumPy");
        return Ok(0);
    }
    let compiled = bundle.join(COMPILED);
    let compiled = compiled.is_dir().then_some(compiled);
    let version = has("triton");
    if compiled.is_none() && version.is_none() {
        step::progress(
            "left out: Triton's cases: neither the machine nor the bundle (--with triton) has any",
        );
    }
    let mut wrong = 0;
    for target in targets {
        let (architecture, description, _) = *target;
        let worker = demo::worker(programs, target, &format!("triton-worker-{architecture}.log"))?;
        let command = || {
            let mut command = script(python, &bundle.join(SCRIPTS), architecture);
            command.arg("--large").arg("--library").arg(programs.lib.join("libamdhip64.so.6"));
            command.env("TF_WORKER_HOST", worker.host()).env("TF_WORKER_PORT", worker.port().to_string());
            command.env("LD_LIBRARY_PATH", programs.lib);
            command.env("TRITON_CACHE_DIR", programs.logs.join("triton-cache"));
            command
        };
        let mut attempt = |title: &str, command: &mut Command| {
            step::heading(&format!("Triton's cases on {description}, {title}"));
            if let Err(error) = step::run_forwarded(title, command) {
                step::progress(&format!("wrong: {error:#}"));
                wrong += 1;
            }
        };
        if let Some(folder) = &compiled {
            attempt("compiled before", command().arg("--compiled").arg(folder));
        }
        if let Some(version) = &version {
            attempt(&format!("compiled by Triton {version} of this machine"), &mut command());
        }
    }
    Ok(wrong)
}

fn script(python: &Path, scripts: &Path, architecture: &str) -> Command {
    let mut command = Command::new(python);
    command.arg(scripts.join("run.py")).arg("--architecture").arg(architecture);
    // Triton warns if this is not set.
    command.env("TRITON_DEFAULT_FP_FUSION", "1").env("PYTHONDONTWRITEBYTECODE", "1");
    command
}
