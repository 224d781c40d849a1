//! Software GPUs for one program: a private worker.

use std::io::{BufRead, BufReader};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use backend_emulator::{Model, ObserveConfig};
use transport::Endpoint;

use super::Job;
use crate::env::Environment;
use crate::models;

/// Timeout for a private worker to start.
const WORKER_START: Duration = Duration::from_secs(20);

/// Options of `remora run` for software GPUs that it starts.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Software GPU to start: mi300x, mi300a, mi325x, mi210 or mi250x [default: one that the program was built for].
    /// Repeatable
    #[arg(long, value_name = "MODEL", conflicts_with = "worker")]
    device: Vec<String>,
    /// Seconds after which a kernel on the software GPU is aborted; 0 means no limit
    #[arg(long, value_name = "SECONDS", conflicts_with = "worker")]
    watchdog: Option<f64>,
    /// Memory size of the software GPU, such as 16G
    #[arg(long, value_name = "BYTES", conflicts_with = "worker")]
    memory: Option<String>,
    /// Set only LD_LIBRARY_PATH, not LD_AUDIT; a libamdhip64 that the program loads by RPATH or by its path is then not replaced
    #[arg(long)]
    no_audit: bool,
}

impl Options {
    /// Whether a model is named, which comes before a worker of the environment.
    pub fn names_device(&self) -> bool {
        !self.device.is_empty()
    }

    /// The job without the audit library, if that is wanted.
    pub fn apply<'a>(&self, mut job: Job<'a>) -> Job<'a> {
        job.audit &= !self.no_audit;
        job
    }

    /// Runs a program on software GPUs of its own.
    pub fn run(&self, job: &Job, environment: &Environment) -> Result<ExitCode> {
        let local = LocalGpu {
            device: &self.device,
            watchdog: self.watchdog,
            memory: self.memory.as_deref(),
            observe: None,
        };
        if let Some(code) = job.refused(&local.isas(job)) {
            return Ok(code);
        }
        let (endpoint, worker) = PrivateWorker::start(job, &local, environment)?;
        let code = job.run(&endpoint, environment)?;
        drop(worker);
        Ok(code)
    }

    /// Rejects options for a private worker if the environment selects a worker. On the command line, clap rejects them with `--worker`.
    pub fn refuse_with(&self, endpoint: &Endpoint) -> Result<()> {
        let given = [("--watchdog", self.watchdog.is_some()), ("--memory", self.memory.is_some())];
        if let Some((option, _)) = given.iter().find(|(_, is_given)| *is_given) {
            bail!(
                "{option} applies to a software GPU that `remora run` starts, but the environment selects the worker {endpoint}; give \
                 {option} to that worker, or choose a software GPU with --device"
            );
        }
        Ok(())
    }
}

/// Options of a private worker.
pub struct LocalGpu<'a> {
    pub device: &'a [String],
    pub watchdog: Option<f64>,
    pub memory: Option<&'a str>,
    /// Kernel observation, and a descriptor that every process of the worker inherits and keeps open until it exits.
    pub observe: Option<(&'a ObserveConfig, BorrowedFd<'a>)>,
}

impl LocalGpu<'_> {
    /// The ISAs of the software GPUs that would be started; empty if a model is unknown, which the worker then reports.
    pub fn isas(&self, job: &Job) -> Vec<String> {
        if self.device.is_empty() {
            return match models::model_for(&job.targets) {
                Some(model) => vec![model.isa()],
                None => models::emulated(),
            };
        }
        let models = self.device.iter().map(|key| Model::find(key).map(Model::isa));
        models.collect::<Option<Vec<String>>>().unwrap_or_default()
    }
}

/// A worker process for one program; terminated on drop.
pub struct PrivateWorker {
    child: Child,
    _folder: tempfile::TempDir,
}

impl PrivateWorker {
    pub fn start(
        job: &Job,
        local: &LocalGpu,
        environment: &Environment,
    ) -> Result<(Endpoint, PrivateWorker)> {
        let models = match local.device {
            [] => {
                let model =
                    models::model_for(&job.targets).context("no software GPU model can run this program")?;
                vec![model.key.to_owned()]
            }
            models => models.to_vec(),
        };
        let folder = tempfile::Builder::new()
            .prefix("remora-")
            .tempdir()
            .context("cannot create a folder for the worker's socket")?;
        let socket = folder.path().join("worker");
        let mut command = Command::new(std::env::current_exe()?);
        // No upload cache: this worker serves only one program run.
        command
            .args(["worker", "--no-config", "--no-upload-cache"])
            .arg("--listen")
            .arg(format!("unix:{}", socket.display()));
        for model in &models {
            command.args(["--device", model]);
        }
        if let Some(watchdog) = local.watchdog {
            command.arg("--watchdog").arg(watchdog.to_string());
        }
        if let Some(memory) = local.memory {
            command.arg("--memory").arg(memory);
        }
        if let Some((observe, held)) = &local.observe {
            command.arg("--observe").arg(serde_json::to_string(observe)?);
            let held = held.as_raw_fd();
            // SAFETY: between fork and exec only a system call, on a descriptor that the caller keeps open.
            unsafe {
                command.pre_exec(move || match libc::fcntl(held, libc::F_SETFD, 0) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                });
            }
        }
        command.args(["--ready", "--exit-with-parent"]);
        // The private worker has a separate socket; tokens in the environment are for another worker.
        command.env_remove("REMORA_TOKEN").env_remove("REMORA_TOKEN_FILE");
        if environment.log.is_none() {
            command.env("REMORA_LOG", "warn");
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().context("cannot start the worker")?;
        let Some(output) = child.stdout.take() else { bail!("the worker has no output") };
        let worker = PrivateWorker { child, _folder: folder };
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(output).read_line(&mut line);
            let _ = sender.send(line);
        });
        let line = receiver.recv_timeout(WORKER_START).unwrap_or_default();
        let Some(endpoint) = line.trim().strip_prefix("listening on ") else {
            bail!("the private worker did not start; run `remora worker` to see why");
        };
        Ok((endpoint.parse()?, worker))
    }
}

impl Drop for PrivateWorker {
    fn drop(&mut self) {
        // SAFETY: the process is our child and has not been reaped, so the PID is still its own.
        unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGTERM) };
        for _ in 0..200 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
