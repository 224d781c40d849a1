//! What the board is told about dstack.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The AMD GPUs that tasks are made for unless others are named, and what they cost an hour while nothing is offered.
pub const GPUS: &[(&str, f64)] = &[("MI210", 1.50), ("MI250X", 3.00), ("MI300A", 4.00), ("MI300X", 5.00)];
/// An image with AMD's runtime and without anything else that is large.
pub const IMAGE: &str = "rocm/dev-ubuntu-22.04:6.4-complete";

/// How the board uses a dstack project.
#[derive(Clone, PartialEq)]
pub struct DstackConfig {
    pub url: String,
    pub project: String,
    pub token: String,
    pub image: String,
    /// Where the image has `remora`; without it the board sends its own.
    pub program: Option<String>,
    /// The program to send.
    pub own_program: PathBuf,
    pub backend: WorkerBackend,
    /// The fleets that may be used; none means any.
    pub fleets: Vec<String>,
    /// The most that an hour may cost.
    pub max_price: Option<f64>,
    /// Whether machines that may be taken away at any time will do.
    pub spot: bool,
    /// How long a worker is kept that nobody uses.
    pub idle: Duration,
    /// How long dstack keeps the machine after that.
    pub instance_idle: Duration,
    /// How long it may take until a worker answers.
    pub start: Duration,
    /// dstack ends a run after this long, whatever it does.
    pub longest: Duration,
    /// The command `ssh`.
    pub ssh: OsString,
    /// A command that succeeds if a worker answers: `--worker ENDPOINT` is added to it, the token is in `REMORA_TOKEN`.
    pub probe: Vec<OsString>,
}

/// What a worker offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerBackend {
    Hip,
    /// Software GPUs, on hosts that have none of AMD's.
    Emulator,
}

impl DstackConfig {
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

    /// After how long without use a worker ends by itself: later than the board would end it, so that a board that is
    /// started again finds it.
    pub fn worker_idle(&self) -> Duration {
        self.idle + self.idle.clamp(Duration::from_secs(60), Duration::from_secs(600))
    }
}

impl std::fmt::Debug for DstackConfig {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The token is nobody's to read in a log.
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
