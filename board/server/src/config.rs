//! What a server is told when it starts.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use crate::places::dstack::settings::{DstackConfig, GPUS as DSTACK_GPUS, WorkerBackend};

/// Everything a server is told.
#[derive(Clone, Debug)]
pub struct Config {
    pub listen: SocketAddr,
    /// Where the database file, sockets and caches are.
    pub data: PathBuf,
    /// Another database than the file in `data`.
    pub database: Option<String>,
    /// Whether every request needs a key.
    pub require_key: bool,
    /// The command that judges one submission: a job on standard input, events on standard output.
    pub judge: Vec<OsString>,
    /// The command that offers software GPUs (`remora worker`); devices and socket are added to it.
    pub worker: Vec<OsString>,
    pub devices: Vec<DeviceConfig>,
    pub limits: Limits,
    /// Seconds between signs of life on a stream of events.
    pub heartbeat: Duration,
}

/// One device of the board.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceConfig {
    /// What submissions ask for, such as `MI300X`.
    pub gpu_type: String,
    pub name: String,
    pub place: PlaceConfig,
    pub emulated: bool,
    pub price_per_hour: f64,
    /// Submissions that run on it at the same time.
    pub slots: usize,
}

impl DeviceConfig {
    /// A software GPU inside the server, such as `mi300x`.
    pub fn embedded(model: &str, slots: usize) -> DeviceConfig {
        let gpu_type = model.to_uppercase();
        DeviceConfig {
            name: format!("{gpu_type} in software"),
            gpu_type,
            place: PlaceConfig::Embedded { model: model.to_owned() },
            emulated: true,
            price_per_hour: 0.0,
            slots,
        }
    }

    /// A GPU rented through dstack. `price` is what it costs while dstack offers none.
    pub fn dstack(gpu: &str, price: f64, config: &Arc<DstackConfig>) -> DeviceConfig {
        DeviceConfig {
            gpu_type: gpu.to_uppercase(),
            name: format!("{} by dstack", gpu.to_uppercase()),
            place: PlaceConfig::Dstack(Arc::clone(config)),
            emulated: config.backend == WorkerBackend::Emulator,
            price_per_hour: price,
            slots: 1,
        }
    }

    /// The model without what tells devices of one model apart (`MI300X-software`).
    pub fn model(&self) -> &str {
        self.gpu_type.split('-').next().unwrap_or_default()
    }
}

/// Where a device is.
#[derive(Clone, Debug, PartialEq)]
pub enum PlaceConfig {
    /// A software GPU of this model, in a process that the server starts and watches.
    Embedded { model: String },
    /// A worker somebody else runs.
    Worker { endpoint: String, token: Option<String> },
    /// A GPU rented through dstack when somebody needs it.
    Dstack(Arc<DstackConfig>),
}

/// What users and submissions may do.
#[derive(Clone, Debug)]
pub struct Limits {
    pub source_bytes: usize,
    pub body_bytes: usize,
    pub per_minute: i64,
    pub per_day: i64,
    /// Submissions that wait, of all users together.
    pub queue: i64,
    /// Submissions of one user that run at the same time.
    pub concurrency: usize,
    /// How often a submission is started before it counts as failed.
    pub attempts: i64,
    /// How much longer than its own limit a judge may take to say that it is reached.
    pub margin: Duration,
    /// What the judge is told.
    pub job: board_judge::Limits,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            source_bytes: 256 << 10,
            body_bytes: 1 << 20,
            per_minute: 60,
            per_day: 1000,
            queue: 1000,
            concurrency: 2,
            attempts: 3,
            margin: Duration::from_secs(30),
            job: board_judge::Limits {
                compile_s: 60.0,
                run_s: 60.0,
                whole_s: 600.0,
                memory: 8 << 30,
                output: 1 << 20,
            },
        }
    }
}
