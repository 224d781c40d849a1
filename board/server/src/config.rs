//! Configuration of a server.

mod dstack;
mod login;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use dstack::{DstackConfig, GPUS as DSTACK_GPUS, WorkerBackend};
pub use login::{LoginConfig, ProviderConfig};

/// Complete configuration of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address of the HTTP interface.
    pub listen: SocketAddr,
    /// Data folder for the database file, sockets and caches.
    pub data: PathBuf,
    /// Database URL. Default: the SQLite file in `data`.
    pub database: Option<String>,
    /// Whether every request requires a key or a login.
    pub require_key: bool,
    /// How people log in.
    pub login: LoginConfig,
    /// Command that judges one submission: it reads a job from standard input and writes events to standard output.
    pub judge: Vec<OsString>,
    /// Command that runs software GPUs (`remora worker`); devices and socket are appended.
    pub worker: Vec<OsString>,
    /// Devices; the first is the default.
    pub devices: Vec<DeviceConfig>,
    /// Limits.
    pub limits: Limits,
    /// Interval between heartbeats on an event stream.
    pub heartbeat: Duration,
}

/// Suffix of the name of a software GPU beside a real one of its model.
pub const SOFTWARE: &str = "-software";

/// One device of the board.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceConfig {
    /// Name that submissions use, such as `MI300X`.
    pub gpu_type: String,
    /// Name for people.
    pub name: String,
    /// Where it is.
    pub place: PlaceConfig,
    /// Whether it is a software GPU.
    pub emulated: bool,
    /// Price in dollars per hour.
    pub price_per_hour: f64,
    /// Number of submissions that run on it concurrently.
    pub slots: usize,
    /// Number of GPUs of its worker.
    pub gpus: u32,
}

/// GPUs of a software device. Problems for several GPUs need them; idle ones cost nothing.
pub const SOFTWARE_GPUS: u32 = 2;

impl DeviceConfig {
    /// Configures a software GPU that the server runs itself, such as `mi300x`.
    pub fn embedded(model: &str, slots: usize) -> DeviceConfig {
        let gpu_type = model.to_uppercase();
        DeviceConfig {
            name: format!("{gpu_type} in software"),
            gpu_type,
            place: PlaceConfig::Embedded { model: model.to_owned() },
            emulated: true,
            price_per_hour: 0.0,
            slots,
            gpus: SOFTWARE_GPUS,
        }
    }

    /// Configures a GPU rented through dstack. `price` is the assumed price while dstack has no offer.
    pub fn dstack(gpu: &str, price: f64, config: &Arc<DstackConfig>) -> DeviceConfig {
        DeviceConfig {
            gpu_type: gpu.to_uppercase(),
            name: format!("{} by dstack", gpu.to_uppercase()),
            place: PlaceConfig::Dstack(Arc::clone(config)),
            emulated: config.backend == WorkerBackend::Emulator,
            price_per_hour: price,
            slots: 1,
            gpus: 1,
        }
    }

    /// Returns the GPU model, without the suffix of a software GPU beside a real one of its model (`MI300X-software`). What an NVIDIA
    /// GPU imitates is a part of its model (`H200-GFX942`).
    pub fn model(&self) -> &str {
        self.gpu_type.strip_suffix(SOFTWARE).unwrap_or(&self.gpu_type)
    }
}

/// Where a device is.
#[derive(Clone, Debug, PartialEq)]
pub enum PlaceConfig {
    /// A software GPU of this model, in a process that the server supervises.
    Embedded {
        /// GPU model.
        model: String,
    },
    /// An external worker.
    Worker {
        /// Address of the worker.
        endpoint: String,
        /// Its token, if it requires one.
        token: Option<String>,
    },
    /// A GPU rented through dstack on demand.
    Dstack(Arc<DstackConfig>),
}

/// Limits of users and submissions.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Size of a source.
    pub source_bytes: usize,
    /// Size of a request.
    pub body_bytes: usize,
    /// Submissions of a user per minute.
    pub per_minute: i64,
    /// Submissions of a user per day.
    pub per_day: i64,
    /// Most waiting submissions of all users together.
    pub queue: i64,
    /// Most concurrently running submissions of one user.
    pub concurrency: usize,
    /// Most attempts to run a submission before it fails.
    pub attempts: i64,
    /// Submissions per device that are compiled while others use all of the device's slots.
    pub compile_ahead: usize,
    /// Extra time for the judge to report that its own time limit was reached.
    pub margin: Duration,
    /// Size of a comment.
    pub comment_bytes: usize,
    /// Comments of a user per minute.
    pub comments_per_minute: i64,
    /// Comments of a user per day.
    pub comments_per_day: i64,
    /// Size of an editorial.
    pub editorial_bytes: usize,
    /// How long the overall ranking is kept before it is computed again.
    pub ranking_age: Duration,
    /// Limits that are passed to the judge.
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
            compile_ahead: 1,
            margin: Duration::from_secs(30),
            comment_bytes: 8 << 10,
            comments_per_minute: 5,
            comments_per_day: 100,
            editorial_bytes: 64 << 10,
            ranking_age: Duration::from_secs(5),
            job: board_judge::Limits {
                compile_s: 60.0,
                run_s: 60.0,
                whole_s: 600.0,
                memory: 8 << 30,
                output: 1 << 20,
                ..board_judge::Limits::default()
            },
        }
    }
}
