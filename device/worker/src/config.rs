//! Configuration of a worker and of its sessions.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use backend_emulator::ObserveConfig;
use limits::LimitConfig;
use serde::{Deserialize, Serialize};
use transport::{Endpoint, tls};
use worker_client::WorkerAddress;

use crate::compile::task::CompilerConfig;
use crate::store::UploadConfig;
use crate::supervisor::ledgers::LedgerConfig;
use crate::supervisor::tokens::TokenConfig;

/// Configuration of one emulated GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceConfig {
    /// `mi300x`, `mi210`, ...
    pub model: String,
    /// Memory in bytes; `None` uses the model's size.
    pub memory: Option<u64>,
}

/// The back end of the worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendConfig {
    /// Software GPUs on this machine's CPU.
    Emulator {
        /// The devices, in order.
        devices: Vec<DeviceConfig>,
        /// What to record of kernels, if anything.
        observe: Option<ObserveConfig>,
    },
    /// AMD's HIP runtime.
    Hip {
        /// Path of the library; `None` searches the usual paths.
        library: Option<PathBuf>,
    },
    /// NVIDIA GPUs that run translated kernels.
    Cuda {
        /// Path of the driver library; `None` searches the usual paths.
        library: Option<PathBuf>,
        /// Model that they imitate: `mi300x`, `mi210`, ...
        model: String,
    },
}

impl BackendConfig {
    /// Name in options and reports.
    pub fn name(&self) -> &'static str {
        match self {
            BackendConfig::Emulator { .. } => "emulator",
            BackendConfig::Hip { .. } => "hip",
            BackendConfig::Cuda { .. } => "cuda",
        }
    }
}

/// Configuration sent to every session's process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionConfig {
    /// The devices of the session.
    pub backend: BackendConfig,
    /// Time limit for a kernel, after which it is aborted; `None` for no limit.
    pub watchdog: Option<Duration>,
    /// Grace period of a session whose client closed the connection without a goodbye.
    pub grace_closed: Duration,
    /// Grace period of a session whose connection was lost.
    pub grace_lost: Duration,
    /// The run-time compiler. Its cache folder here is the root for all tenants; each session gets its tenant's subfolder.
    pub compiler: CompilerConfig,
    /// The upload cache, kept across sessions; `None` disables it.
    pub uploads: Option<UploadConfig>,
    /// Limits on what all sessions together may use of each device; `None` neither limits nor measures.
    #[serde(default)]
    pub limits: Option<LimitConfig>,
    /// Runs session processes without confinement, for debugging.
    #[serde(default)]
    pub unconfined: bool,
}

impl SessionConfig {
    /// Whether the operator limits host memory.
    pub(crate) fn limits_host_memory(&self) -> bool {
        self.limits.is_some_and(|limits| limits.memory.is_some() || limits.host_memory.is_some())
    }
}

/// Where sessions go when the worker is terminated (SIGTERM).
#[derive(Clone, Debug)]
pub struct DrainConfig {
    /// Folder where they are saved, and resumed from at the next start.
    pub folder: Option<PathBuf>,
    /// Worker that takes them; if it does not, they are saved.
    pub successor: Option<WorkerAddress>,
    /// Time until the worker ends in any case.
    pub timeout: Duration,
}

/// Checkpoints of running sessions.
#[derive(Clone, Debug)]
pub struct CheckpointConfig {
    /// Folder where they are stored, and those of workers whose peer this one is.
    pub folder: Option<PathBuf>,
    /// Worker that stores those of this one instead, and continues the sessions.
    pub peer: Option<WorkerAddress>,
    /// Time between two checkpoints of a session.
    pub interval: Duration,
}

/// How sessions outlive the supervisor: one that is killed, and one that executes another program in place.
#[derive(Clone, Debug)]
pub struct HandoverConfig {
    /// Folder of the keeper's socket: that of saved sessions, which the worker locks.
    pub folder: PathBuf,
    /// Program and arguments of the keeper, which gets its socket as file descriptor 3.
    pub keeper: Vec<PathBuf>,
    /// Complete environment of the keeper.
    pub environment: Vec<(OsString, OsString)>,
    /// How long sessions wait for another supervisor before they end.
    pub orphan_timeout: Duration,
    /// Program and arguments of this worker, executed again by an upgrade in place.
    pub program: Vec<OsString>,
    /// Arguments with which the program prints its handover version.
    pub version_arguments: Vec<OsString>,
}

/// Configuration of the supervisor.
#[derive(Debug)]
pub struct WorkerConfig {
    /// Endpoints to listen on.
    pub listen: Vec<Endpoint>,
    /// Tokens that clients must prove; at least one is required for addresses that other machines can reach. Without any, only
    /// processes of the worker's own user and of root are served.
    pub tokens: Vec<TokenConfig>,
    /// File with more tokens, read at startup and again on SIGHUP.
    pub tokens_file: Option<PathBuf>,
    /// Folders where a worker without tokens writes one for its own user: the first writable one is used.
    pub local_tokens: Vec<PathBuf>,
    /// Certificate of TLS endpoints.
    pub tls: Option<tls::Identity>,
    /// Limit on sessions at the same time.
    pub max_sessions: usize,
    /// Handshake timeout: a connection that has not authenticated by then is closed.
    pub handshake_timeout: Duration,
    /// Program and arguments of the executor, which gets the control socket as file descriptor 3.
    pub executor: Vec<PathBuf>,
    /// Complete environment of the executor. The worker's own is not inherited: it may hold its token.
    pub executor_environment: Vec<(OsString, OsString)>,
    /// Program and arguments of a session's compiler service, likewise.
    pub compiler: Vec<PathBuf>,
    /// Configuration of sessions.
    pub session: SessionConfig,
    /// Print `listening on ADDRESS` to standard output.
    pub announce: bool,
    /// Ledgers of GPUs that are shared with other workers; requires limits.
    pub ledgers: Option<LedgerConfig>,
    /// What happens to sessions when the worker is terminated; without it they end.
    pub drain: Option<DrainConfig>,
    /// Checkpoints of sessions whose clients keep a journal; without it such a session is replayed from its start.
    pub checkpoints: Option<CheckpointConfig>,
    /// How sessions outlive the supervisor; without it they end with it. Requires a folder of saved sessions.
    pub handover: Option<HandoverConfig>,
    /// Exit after this long without a session; `None` runs until stopped.
    pub exit_when_idle: Option<Duration>,
}
