//! Settings for dstack.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Default AMD GPUs, and their assumed price per hour while there is no offer.
pub const GPUS: &[(&str, f64)] = &[("MI210", 1.50), ("MI250X", 3.00), ("MI300A", 4.00), ("MI300X", 5.00)];
/// Default image: contains AMD's runtime and little else that is large.
pub const IMAGE: &str = "rocm/dev-ubuntu-22.04:6.4-complete";

/// How the board uses a dstack project.
#[derive(Clone, PartialEq)]
pub struct DstackConfig {
    /// Address of the dstack server.
    pub url: String,
    /// Project of the runs.
    pub project: String,
    /// Token of the dstack server.
    pub token: String,
    /// Container image of the worker.
    pub image: String,
    /// Path of `remora` in the image. Without it the board uploads its own program.
    pub program: Option<String>,
    /// Program to upload.
    pub own_program: PathBuf,
    /// Back end of the worker.
    pub backend: WorkerBackend,
    /// Allowed fleets; empty for any.
    pub fleets: Vec<String>,
    /// Highest price per hour.
    pub max_price: Option<f64>,
    /// Whether spot instances are acceptable.
    pub spot: bool,
    /// How long an idle worker is kept.
    pub idle: Duration,
    /// How long dstack keeps the machine after that.
    pub instance_idle: Duration,
    /// Timeout until a worker answers.
    pub start: Duration,
    /// Maximum duration of a run, enforced by dstack.
    pub longest: Duration,
    /// The command `ssh`.
    pub ssh: OsString,
    /// Command that succeeds if a worker answers. `--worker ENDPOINT` is appended; the token is in `REMORA_TOKEN`.
    pub probe: Vec<OsString>,
}

/// Back end of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerBackend {
    /// AMD's runtime, on a GPU.
    Hip,
    /// Software GPUs, for hosts without AMD GPUs.
    Emulator,
}

impl DstackConfig {
    /// Creates settings with defaults.
    pub fn new(url: &str, project: &str, token: &str, own_program: PathBuf) -> DstackConfig {
        DstackConfig {
            url: url.to_owned(),
            project: project.to_owned(),
            token: token.to_owned(),
            image: IMAGE.to_owned(),
            program: None,
            backend: WorkerBackend::Hip,
            fleets: Vec::new(),
            max_price: None,
            spot: false,
            idle: Duration::from_secs(600),
            instance_idle: Duration::ZERO,
            start: Duration::from_secs(1200),
            longest: Duration::from_secs(12 * 3600),
            ssh: "ssh".into(),
            probe: vec![own_program.clone().into(), "devices".into()],
            own_program,
        }
    }

    /// Returns the idle time after which a worker exits by itself. It is longer than the board's own idle time, so that a restarted board
    /// finds the worker.
    pub fn worker_idle(&self) -> Duration {
        self.idle + self.idle.clamp(Duration::from_secs(60), Duration::from_secs(600))
    }
}

impl std::fmt::Debug for DstackConfig {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Keeps the token out of logs.
        formatter
            .debug_struct("DstackConfig")
            .field("url", &self.url)
            .field("project", &self.project)
            .field("image", &self.image)
            .field("fleets", &self.fleets)
            .field("max_price", &self.max_price)
            .field("idle", &self.idle)
            .finish_non_exhaustive()
    }
}
