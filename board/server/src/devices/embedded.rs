//! A software GPU in a separate worker process, restarted when it ends.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::{DeviceError, Grant};

/// Timeout until a new worker listens.
const START: Duration = Duration::from_secs(60);
/// Restart backoff: initial and longest delay.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// A worker that ran this long resets the backoff.
const STEADY: Duration = Duration::from_secs(10);
/// Grace period of a worker to end after SIGTERM.
const END: Duration = Duration::from_secs(3);

#[derive(Debug, Clone)]
enum Phase {
    Starting,
    Up(Grant),
    /// The last start failed, with the reason.
    Down(String),
}

/// A supervised worker process.
#[derive(Debug)]
pub struct Embedded {
    phase: watch::Receiver<Phase>,
    generation: Arc<AtomicU64>,
    stop: watch::Sender<bool>,
    ended: watch::Receiver<bool>,
}

impl Embedded {
    pub fn start(command: &[OsString], model: &str, gpus: u32, sockets: &Path) -> Arc<Embedded> {
        let (phase, seen) = watch::channel(Phase::Starting);
        let (stop, stopping) = watch::channel(false);
        let (end, ended) = watch::channel(false);
        let generation = Arc::new(AtomicU64::new(0));
        let keeper = Keeper {
            command: command.to_vec(),
            model: model.to_owned(),
            gpus,
            socket: sockets.join(model),
            phase,
            generation: Arc::clone(&generation),
            stopping,
        };
        tokio::spawn(async move {
            keeper.keep().await;
            let _ = end.send(true);
        });
        Arc::new(Embedded { phase: seen, generation, stop, ended })
    }

    pub async fn ready(&self) -> Result<Grant, DeviceError> {
        let mut phase = self.phase.clone();
        let waited = tokio::time::timeout(START, phase.wait_for(|phase| matches!(phase, Phase::Up(_)))).await;
        match waited {
            Ok(Ok(up)) => match &*up {
                Phase::Up(address) => Ok(address.clone()),
                _ => Err(DeviceError::Embedded("it is starting".to_owned())),
            },
            _ => match &*self.phase.borrow() {
                Phase::Down(why) => Err(DeviceError::Embedded(why.clone())),
                _ => Err(DeviceError::Embedded("it takes too long".to_owned())),
            },
        }
    }

    pub fn is_up(&self) -> bool {
        matches!(&*self.phase.borrow(), Phase::Up(_))
    }

    /// Returns how often a worker has been started.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub async fn stop(&self) {
        let _ = self.stop.send(true);
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }
}

/// Supervises the process.
struct Keeper {
    command: Vec<OsString>,
    model: String,
    gpus: u32,
    socket: PathBuf,
    phase: watch::Sender<Phase>,
    generation: Arc<AtomicU64>,
    stopping: watch::Receiver<bool>,
}

impl Keeper {
    async fn keep(self) {
        let mut pause = PAUSE;
        let mut stopping = self.stopping.clone();
        while !*self.stopping.borrow() {
            let started = tokio::time::Instant::now();
            match self.spawn().await {
                Ok(mut child) => {
                    tokio::select! {
                        ended = child.wait() => {
                            tracing::warn!("the worker of {} ended ({ended:?}); restarting it", self.model);
                            self.set(Phase::Starting);
                        }
                        () = stopped(&mut stopping) => {
                            end(&mut child).await;
                            return;
                        }
                    }
                }
                Err(why) => {
                    tracing::error!("the worker of {} could not be started: {why}", self.model);
                    self.set(Phase::Down(why));
                }
            }
            if started.elapsed() > STEADY {
                pause = PAUSE;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stopped(&mut stopping) => return,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn set(&self, phase: Phase) {
        // There is no receiver only while the server stops.
        let _ = self.phase.send(phase);
    }

    async fn spawn(&self) -> Result<Child, String> {
        if let Some(folder) = self.socket.parent() {
            std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let (program, arguments) = self.command.split_first().ok_or("no worker is configured")?;
        let mut child = Command::new(program)
            .args(arguments)
            .arg("--listen")
            .arg(format!("unix:{}", self.socket.display()))
            .args((0..self.gpus).flat_map(|_| ["--device", &self.model]))
            .args(["--ready", "--exit-with-parent"])
            // Tokens and certificates are for workers on the network.
            .env_remove("REMORA_TOKEN")
            .env_remove("REMORA_TOKEN_FILE")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{}: {error}", Path::new(program).display()))?;
        let output = child.stdout.take().ok_or("it has no output")?;
        let mut line = String::new();
        let read = tokio::time::timeout(START, BufReader::new(output).read_line(&mut line)).await;
        let address = line.trim().strip_prefix("listening on ").map(str::to_owned);
        match (read, address) {
            (Ok(Ok(_)), Some(worker)) => {
                self.generation.fetch_add(1, Ordering::AcqRel);
                self.set(Phase::Up(Grant { worker, token: None }));
                Ok(child)
            }
            _ => {
                end(&mut child).await;
                Err("it did not report its address; see the log for its messages".to_owned())
            }
        }
    }
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // If the sender is gone, the server has stopped.
    let _ = stopping.wait_for(|stop| *stop).await;
}

/// Ends a process: sends SIGTERM, and kills it after the grace period.
async fn end(child: &mut Child) {
    if let Some(pid) = child.id() {
        // SAFETY: the process is a child that has not been waited for, so the PID is still its own.
        unsafe { libc::kill(pid as libc::pid_t, libc::SIGTERM) };
    }
    if tokio::time::timeout(END, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}
