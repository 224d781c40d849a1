//! Windows programs under Wine against a Linux worker: every example that makes sense there, over TCP and TLS.

use crate::build::Built;
use crate::examples::{self, Example};
use crate::local_worker::LocalWorker;
use crate::repo::Repo;
use crate::step;
use crate::toolchain::Toolchain;
use crate::windows::wine::Wine;
use crate::windows::{self, programs};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::PathBuf;

/// The software GPU that the programs use.
const MODEL: &str = "mi300x";

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Only programs whose name contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
}

pub fn run(repo: &Repo, toolchain: &Toolchain, built: &Built, arguments: &Arguments) -> Result<()> {
    let dlls = windows::build(repo)?;
    let wine = Wine::prepare(repo, &dlls)?;
    let sources = sources(repo, arguments)?;
    step::heading(&format!("{} programs for Windows", sources.len()));
    let folder = repo.target.join("windows-programs");
    let programs = programs::compile(toolchain, &sources, &examples::header(repo), &dlls, &folder)?;
    let worker = LocalWorker::start(&built.remora, MODEL, &repo.logs().join("windows-worker.log"))?;
    let mut failed = Vec::new();
    for Example { name, program } in &programs {
        let mut command = wine.command(program, &[]);
        command.env("TF_WORKER_HOST", worker.host()).env("TF_WORKER_PORT", worker.port().to_string());
        let log = repo.logs().join(format!("windows-{name}.log"));
        let outcome = examples::run_command(name, &mut command, &log)?;
        step::progress(&format!("{} in {}", outcome.line, step::seconds(outcome.time)));
        if !outcome.right {
            failed.push(format!("{name}: {} (log: {})", outcome.line, log.display()));
        }
    }
    if !failed.is_empty() {
        bail!("{} of {} programs failed under Wine\n{}", failed.len(), programs.len(), failed.join("\n"));
    }
    step::progress(&format!("{} programs passed under Wine", programs.len()));
    Ok(())
}

fn sources(repo: &Repo, arguments: &Arguments) -> Result<Vec<PathBuf>> {
    let folders = [repo.root.join("examples/hip"), repo.root.join("conformance/windows")];
    let mut sources = Vec::new();
    for folder in folders {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let is_wanted = arguments.filter.as_deref().is_none_or(|text| name.contains(text));
            if path.extension().is_some_and(|extension| extension == "hip") && is_wanted {
                sources.push(path);
            }
        }
    }
    sources.sort();
    Ok(sources)
}
