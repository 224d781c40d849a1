//! A software GPU for one observed run: a private worker, which writes what it observed to a private folder when its sessions end.
//!
//! Neither the folder nor the worker's socket is visible to user code, and no other submission uses this worker.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, PipeReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use board_contract::Endpoint;

use crate::job::{Grant, Job};
use crate::observed::Observed;
use crate::tools::Tools;

/// Timeout until the worker listens.
const START: Duration = Duration::from_secs(30);
/// Timeout until its sessions have written their results, and until its processes have ended.
const END: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);
/// Most bytes of the results of a session.
const MOST_BYTES: u64 = 64 << 20;
/// Part of the time limit after which a kernel is aborted. The rest is for the report.
const WATCHDOG_SHARE: f64 = 0.8;

/// Why a software GPU gave no results.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SoftwareGpuError {
    #[error("no worker is configured")]
    NoWorker,
    #[error("the worker did not report its address")]
    NoAddress,
    #[error("a session did not write its results in time")]
    NoResults,
    #[error("the results of a session cannot be read: {0}")]
    Results(#[from] serde_json::Error),
    #[error("{what}: {source}")]
    Io { what: &'static str, source: io::Error },
}

/// A private worker. Ended on drop.
pub(crate) struct SoftwareGpu {
    child: Child,
    folder: tempfile::TempDir,
    address: String,
    /// Ends when the worker's last process has exited.
    gone: PipeReader,
}

impl SoftwareGpu {
    /// Starts a worker with the GPU of a job, which observes what the job's endpoint needs.
    pub fn start(tools: &Tools, job: &Job) -> Result<SoftwareGpu, SoftwareGpuError> {
        let failed = |what| move |source| SoftwareGpuError::Io { what, source };
        let folder = tempfile::Builder::new()
            .prefix("observed-")
            .tempdir()
            .map_err(failed("cannot create a folder for results"))?;
        let results = folder.path().join("results");
        fs::create_dir(&results).map_err(failed("cannot create a folder for results"))?;
        let check = job.endpoint == Endpoint::Check;
        let observe = serde_json::json!({
            "kernel": null, "launch": null, "trace": null, "folder": results,
            "check": check, "profile": !check, "model": !check,
        });
        let (gone, held) = io::pipe().map_err(failed("cannot create a pipe to the worker"))?;
        let (program, arguments) = tools.worker.split_first().ok_or(SoftwareGpuError::NoWorker)?;
        let gpus = board_problems::find(&job.problem).map_or(1, |problem| problem.devices);
        let gpu = job.gpu.to_lowercase();
        let mut command = Command::new(program);
        command
            .args(arguments)
            .args(["--no-upload-cache", "--no-saved-sessions", "--ready", "--exit-with-parent"])
            .arg("--listen")
            .arg(format!("unix:{}", folder.path().join("worker").display()))
            .args((0..gpus).flat_map(|_| ["--device", gpu.as_str()]))
            // A session whose runner was killed writes its results soon.
            .args(["--grace", "0.2", "--grace-closed", "0.2"])
            .arg("--watchdog")
            .arg((job.limits.run_s * WATCHDOG_SHARE).to_string())
            .arg("--observe")
            .arg(observe.to_string())
            // Tokens are for workers on the network.
            .env_remove("REMORA_TOKEN")
            .env_remove("REMORA_TOKEN_FILE")
            .env("REMORA_LOG", "warn")
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let descriptor = held.as_raw_fd();
        // SAFETY: between fork and exec only a system call, on a descriptor that stays open until the child runs.
        unsafe {
            command.pre_exec(move || match libc::fcntl(descriptor, libc::F_SETFD, 0) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
        let mut child = command.spawn().map_err(failed("cannot start the worker"))?;
        drop(held);
        let output = child.stdout.take();
        let mut gpu = SoftwareGpu { child, folder, address: String::new(), gone };
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = output.map(|output| BufReader::new(output).read_line(&mut line));
            let _ = sender.send(line);
        });
        let line = receiver.recv_timeout(START).unwrap_or_default();
        let address = line.trim().strip_prefix("listening on ").ok_or(SoftwareGpuError::NoAddress)?;
        gpu.address = address.to_owned();
        Ok(gpu)
    }

    /// Returns the access to the worker.
    pub fn grant(&self) -> Grant {
        Grant { worker: self.address.clone(), token: None }
    }

    /// Ends the worker and returns what it observed, by session. The sessions must have been closed.
    pub fn results(mut self) -> Result<Vec<Observed>, SoftwareGpuError> {
        let failed = |what| move |source| SoftwareGpuError::Io { what, source };
        let deadline = Instant::now() + END;
        // A session creates its file when it starts, and fills it when it ends.
        while !self.files().map_err(failed("cannot list the results"))?.iter().all(is_written) {
            if Instant::now() > deadline {
                return Err(SoftwareGpuError::NoResults);
            }
            std::thread::sleep(LOOK);
        }
        self.stop();
        // Files are complete when their writers are gone.
        if !self.is_gone() {
            return Err(SoftwareGpuError::NoResults);
        }
        let mut all = Vec::new();
        for path in self.files().map_err(failed("cannot list the results"))? {
            let mut text = Vec::new();
            let file = File::open(&path).map_err(failed("cannot read the results"))?;
            file.take(MOST_BYTES).read_to_end(&mut text).map_err(failed("cannot read the results"))?;
            all.push(serde_json::from_slice(&text)?);
        }
        Ok(all)
    }

    /// Waits until the worker's last process has exited. Nothing is ever written to the pipe.
    fn is_gone(&self) -> bool {
        let mut end = libc::pollfd { fd: self.gone.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which lives through the call.
        unsafe { libc::poll(&raw mut end, 1, END.as_millis() as libc::c_int) > 0 }
    }

    fn files(&self) -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(self.folder.path().join("results"))?;
        entries.map(|entry| entry.map(|entry| entry.path())).collect()
    }

    fn stop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        // SAFETY: the process is our child and has not been waited for, so the PID is still its own.
        unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGTERM) };
        let deadline = Instant::now() + END;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(LOOK);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for SoftwareGpu {
    fn drop(&mut self) {
        self.stop();
    }
}

fn is_written(path: &PathBuf) -> bool {
    fs::metadata(path).is_ok_and(|data| data.len() > 0)
}
