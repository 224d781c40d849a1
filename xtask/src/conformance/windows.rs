//! Windows programs under Wine against a Linux worker: the examples and the programs of the end-to-end tests that make sense there,
//! over TCP, some of them over TLS too; then `remora.exe`, and the latency of a call.

mod command_line;
mod latency;

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
use std::path::{Path, PathBuf};
use std::process::Command;

/// The software GPU that the programs use.
const MODEL: &str = "mi300x";
/// The programs that also run over TLS.
const OVER_TLS: &[&str] = &["launch_storm", "managed", "vector_add"];

/// Programs of the end-to-end tests that need neither arguments nor functions of Linux.
const PROGRAMS: &[&str] = &[
    "boxes",
    "copies_complete",
    "copies_in_order",
    "graph",
    "graph_capture",
    "graph_errors",
    "graph_nodes",
    "graph_random",
    "graph_replay",
    "link",
    "managed",
    "mapped",
    "mapped_copies",
    "module_managed",
    "registered",
    "stream_values",
    "threads",
    "virtual_memory",
];

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
    let site = Site::start(repo, built, wine, &folder)?;
    let mut failed = Vec::new();
    let mut count = 0;
    for Example { name, program } in &programs {
        for scheme in ["tcp", "tls"] {
            if scheme == "tls" && !OVER_TLS.contains(&name.as_str()) {
                continue;
            }
            let mut command = site.command(program, &[], scheme);
            let log = repo.logs().join(format!("windows-{name}-{scheme}.log"));
            let outcome = examples::run_command(name, &mut command, &log)?;
            step::progress(&format!("{} over {scheme} in {}", outcome.line, step::seconds(outcome.time)));
            count += 1;
            if !outcome.right {
                failed.push(format!("{name} over {scheme}: {} (log: {})", outcome.line, log.display()));
            }
        }
    }
    if !failed.is_empty() {
        bail!("{} of {count} runs failed under Wine\n{}", failed.len(), failed.join("\n"));
    }
    step::progress(&format!("{count} runs of {} programs under Wine, all right", programs.len()));
    if arguments.filter.is_none() {
        command_line::run(&site, &dlls, &programs)?;
        latency::run(&site, toolchain, &dlls)?;
    }
    Ok(())
}

/// Two workers, with and without TLS, and Wine to reach them from.
#[derive(Debug)]
struct Site<'a> {
    repo: &'a Repo,
    wine: Wine,
    plain: LocalWorker,
    encrypted: LocalWorker,
    /// The token of both, and the fingerprint of the second one's certificate.
    secret: String,
    pin: String,
    /// The Linux program.
    remora: &'a Path,
    folder: PathBuf,
}

impl<'a> Site<'a> {
    fn start(repo: &'a Repo, built: &'a Built, wine: Wine, folder: &Path) -> Result<Site<'a>> {
        let token = folder.join("token");
        let _ = fs::remove_file(&token);
        examples::checked(Command::new(&built.remora).args(["token", "new", "--out"]).arg(&token))?;
        let file = token.display().to_string();
        let start = |more: &[&str], log: &str| {
            let options = [&["--no-upload-cache", "--token-file", &file], more].concat();
            LocalWorker::start_with(Command::new(&built.remora), MODEL, &options, &repo.logs().join(log))
        };
        let plain = start(&[], "windows-worker.log")?;
        let encrypted = start(&["--tls-self-signed"], "windows-tls-worker.log")?;
        let secret =
            fs::read_to_string(&token).with_context(|| format!("cannot read {}", token.display()))?;
        let log = fs::read_to_string(repo.logs().join("windows-tls-worker.log")).unwrap_or_default();
        let pin = fingerprint(&log).context("the worker with TLS printed no fingerprint")?;
        let (secret, remora, folder) = (secret.trim().to_owned(), &*built.remora, folder.to_owned());
        Ok(Site { repo, wine, plain, encrypted, secret, pin, remora, folder })
    }

    /// A command that runs a Windows program with a worker.
    fn command(&self, program: &Path, arguments: &[&str], scheme: &str) -> Command {
        self.with_worker(self.wine.command(program, arguments), scheme)
    }

    /// The same for `remora.exe`, which finds the DLLs itself.
    fn remora_command(&self, program: &Path, arguments: &[&str], scheme: &str) -> Command {
        self.with_worker(self.wine.bare_command(program, arguments), scheme)
    }

    fn with_worker(&self, mut command: Command, scheme: &str) -> Command {
        let worker = if scheme == "tls" { &self.encrypted } else { &self.plain };
        command.env("REMORA_WORKER", format!("{scheme}://{}", worker.address()));
        command.env("REMORA_TOKEN", &self.secret).env("REMORA_TLS_CA", &self.pin);
        command
    }
}

/// The fingerprint of the certificate that the worker printed.
fn fingerprint(log: &str) -> Option<String> {
    let at = log.find("sha256:")?;
    let end = log[at + 7..].find(|c: char| !c.is_ascii_hexdigit() && c != ':')?;
    Some(log[at..at + 7 + end].to_owned())
}

fn sources(repo: &Repo, arguments: &Arguments) -> Result<Vec<PathBuf>> {
    let folder = repo.root.join("examples/hip");
    let mut sources: Vec<PathBuf> =
        PROGRAMS.iter().map(|name| repo.root.join(format!("e2e/programs/{name}.hip"))).collect();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "hip") {
            sources.push(path);
        }
    }
    let name = |path: &PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    sources.retain(|path| arguments.filter.as_deref().is_none_or(|text| name(path).contains(text)));
    sources.sort_by_key(name);
    if sources.is_empty() {
        bail!("no program has this text in its name");
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_is_found_in_the_line_that_prints_it() {
        let line = "INFO certificate sha256:00ff for clients: REMORA_TLS_CA=sha256:00ff\n";
        assert_eq!(fingerprint(line).as_deref(), Some("sha256:00ff"));
        assert_eq!(fingerprint("listening"), None);
    }
}
