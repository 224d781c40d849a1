//! Where the bench runs: programs of both sides, workers, and the sizes of the measurements.

use crate::bench::program::BenchProcess;
use crate::local_worker::LocalWorker;
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Seconds after which a program is killed. None needs nearly as long; a GPU machine must not wait for a kernel that hangs.
const PROGRAM_LIMIT: &str = "45";

/// The paths of a run.
#[derive(Debug)]
pub struct Site {
    remora: PathBuf,
    lib: PathBuf,
    /// Folder of the HIP programs.
    programs: PathBuf,
    /// Folder of the same programs compiled by nvcc; `None` without a GPU.
    native: Option<PathBuf>,
    logs: PathBuf,
    /// Arguments of `remora worker` that select the GPU.
    selection: Vec<String>,
    /// Folder of LUPINE's programs.
    lupine: Option<PathBuf>,
    /// Folder of pyflame and its training steps.
    pyflame: Option<PathBuf>,
}

impl Site {
    pub fn new(
        remora: PathBuf,
        lib: PathBuf,
        programs: PathBuf,
        native: Option<PathBuf>,
        logs: PathBuf,
        selection: Vec<String>,
    ) -> Site {
        Site { remora, lib, programs, native, logs, selection, lupine: None, pyflame: None }
    }

    /// Adds the folders of what else is measured.
    pub fn with(self, lupine: Option<PathBuf>, pyflame: Option<PathBuf>) -> Site {
        Site { lupine, pyflame, ..self }
    }

    pub fn lupine(&self) -> Option<&Path> {
        self.lupine.as_deref()
    }

    pub fn pyflame(&self) -> Option<&Path> {
        self.pyflame.as_deref()
    }

    pub fn lib(&self) -> &Path {
        &self.lib
    }

    pub fn remora(&self) -> &Path {
        &self.remora
    }

    /// Whether the figures have a meaning: on a GPU. Else sizes are the smallest and there is no native side.
    pub fn is_real(&self) -> bool {
        self.native.is_some()
    }

    /// A size or count: `full` on a GPU, `tiny` in a smoke run.
    pub fn sized(&self, full: u64, tiny: u64) -> u64 {
        if self.is_real() { full } else { tiny }
    }

    /// Starts a worker on the loopback interface, with more arguments.
    pub fn worker(&self, name: &str, arguments: &[&str]) -> Result<LocalWorker> {
        self.worker_with_cache(name, &[&["--no-upload-cache"], arguments].concat(), &self.cache())
    }

    /// Like [`Site::worker`], with its caches in a folder.
    pub fn worker_with_cache(&self, name: &str, arguments: &[&str], cache: &Path) -> Result<LocalWorker> {
        let mut all: Vec<&str> = self.selection.iter().map(String::as_str).collect();
        all.extend(arguments);
        let mut remora = Command::new(&self.remora);
        remora.env("XDG_CACHE_HOME", cache);
        LocalWorker::start_on(remora, &all.join(" "), &all, &self.log(&format!("worker-{name}")))
    }

    /// The folder of the workers' caches.
    pub fn cache(&self) -> PathBuf {
        self.logs.join("gpu-bench-cache")
    }

    /// Starts a HIP program by `remora run`, with an address in the client's notation and more environment variables.
    pub fn ours(&self, program: &str, worker: &str, variables: &[(&str, &str)]) -> Result<BenchProcess> {
        let mut command = limited(&self.remora);
        command.arg("run").arg(self.programs.join(program));
        command.env("HIP_REMOTE_LIB_DIR", &self.lib).env("REMORA_WORKER", worker);
        command.envs(variables.iter().copied());
        self.spawn(program, command)
    }

    /// Starts the program compiled by nvcc, if there is a GPU.
    pub fn native(&self, program: &str) -> Result<Option<BenchProcess>> {
        let Some(folder) = &self.native else { return Ok(None) };
        self.spawn(&format!("{program}-native"), limited(&folder.join(program))).map(Some)
    }

    /// Like [`Site::native`], with environment variables, for another system that forwards CUDA's calls.
    pub fn forwarded(&self, program: &str, variables: &[(&str, OsString)]) -> Result<Option<BenchProcess>> {
        let Some(folder) = &self.native else { return Ok(None) };
        let mut command = limited(&folder.join(program));
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        self.spawn(&format!("{program}-forwarded"), command).map(Some)
    }

    fn spawn(&self, name: &str, command: Command) -> Result<BenchProcess> {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        BenchProcess::spawn(command, self.log(&format!("{name}-{number}")))
    }

    /// The path of a log.
    pub fn log(&self, name: &str) -> PathBuf {
        self.logs.join(format!("gpu-bench-{name}.log"))
    }
}

/// Sends a command. An error has the end of what the program wrote to its standard error.
pub fn ask(program: &mut BenchProcess, side: &str, command: &str) -> Result<Vec<u64>> {
    let started = Instant::now();
    program.query(command).with_context(|| {
        let said = fs::read_to_string(program.log()).unwrap_or_default();
        let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = match lines[lines.len().saturating_sub(4)..].join("; ") {
            last if last.is_empty() => String::new(),
            last => format!(", which wrote `{last}`"),
        };
        let seconds = started.elapsed().as_secs();
        format!("{side}{last}, after {seconds} s (it is killed after {PROGRAM_LIMIT} s)")
    })
}

/// Sends a command whose reply is times in nanoseconds; returns them in seconds.
pub fn times(program: &mut BenchProcess, side: &str, command: &str) -> Result<Vec<f64>> {
    Ok(ask(program, side, command)?.into_iter().map(|nanoseconds| nanoseconds as f64 * 1e-9).collect())
}

/// Sends a command whose reply is one time.
pub fn time(program: &mut BenchProcess, side: &str, command: &str) -> Result<f64> {
    times(program, side, command)?.first().copied().with_context(|| format!("{side}: `{command}`: no time"))
}

/// The names of the two sides in errors.
pub const OURS: &str = "HIP program";
pub const NATIVE: &str = "native program";

fn limited(program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=2", PROGRAM_LIMIT]).arg(program);
    command
}
