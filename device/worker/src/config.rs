//! What a worker is told at its start, and why it may refuse to start.

use std::path::PathBuf;
use std::time::Duration;

use backend_emulator::ObserveConfig;
use limits::{LimitConfig, LimitError};
use serde::{Deserialize, Serialize};
use transport::{Endpoint, TransportError, tls};

use crate::store::UploadConfig;
use crate::tenants::{TokenConfig, TokensError};

/// One emulated GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceConfig {
    /// `mi300x`, `mi210`, ...
    pub model: String,
    /// Bytes of memory, if not the model's own.
    pub memory: Option<u64>,
}

/// What stands behind the worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendConfig {
    /// Software GPUs on this machine's CPU.
    Emulator { devices: Vec<DeviceConfig>, observe: Option<ObserveConfig> },
    /// AMD's own runtime; `None` searches the usual places.
    Hip { library: Option<PathBuf> },
}

impl BackendConfig {
    pub fn name(&self) -> &'static str {
        match self {
            BackendConfig::Emulator { .. } => "emulator",
            BackendConfig::Hip { .. } => "hip",
        }
    }
}

/// What every session's process is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionConfig {
    pub backend: BackendConfig,
    /// A kernel that runs longer is aborted; `None` lets it run.
    pub watchdog: Option<Duration>,
    /// How long a session is kept after its client closed the connection without saying goodbye.
    pub grace_closed: Duration,
    /// How long it is kept after the connection was lost.
    pub grace_lost: Duration,
    /// Where the run-time compiler's parts are, if not in the usual places.
    pub toolchain: Option<PathBuf>,
    /// Where compiled programs are kept; `None` keeps none.
    pub cache: Option<PathBuf>,
    /// Where uploads are kept for the next run; `None` keeps none.
    pub uploads: Option<UploadConfig>,
    /// What all sessions together may use of each device; `None` neither limits nor measures.
    #[serde(default)]
    pub limits: Option<LimitConfig>,
}

/// What the supervisor is told.
#[derive(Debug)]
pub struct WorkerConfig {
    pub listen: Vec<Endpoint>,
    /// Asked of clients; at least one is required for addresses that other machines can reach. Without any, only processes of the
    /// worker's own user and of root are served.
    pub tokens: Vec<TokenConfig>,
    /// More tokens, read at the start and again on SIGHUP.
    pub tokens_file: Option<PathBuf>,
    /// Where a worker without tokens leaves one for its own user: the first of these that can be written.
    pub local_tokens: Vec<PathBuf>,
    pub tls: Option<tls::Identity>,
    pub max_sessions: usize,
    /// A connection that has not proved itself after this long is closed.
    pub handshake_timeout: Duration,
    /// The program and its arguments that run a session with the control socket as descriptor 3.
    pub executor: Vec<PathBuf>,
    pub session: SessionConfig,
    /// Print `listening on ADDRESS` to standard output.
    pub announce: bool,
    /// End after so long without a session; `None` waits for ever.
    pub exit_when_idle: Option<Duration>,
}

/// Why a worker does not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    #[error(
        "{endpoint} can be reached by other machines: give a token (`remora token new --out FILE` makes one for --token-file FILE), or \
         listen on 127.0.0.1"
    )]
    TokenRequired { endpoint: String },
    #[error("there is no device model \"{model}\"; known are {known}")]
    UnknownModel { model: String, known: String },
    #[error("{endpoint} asks for TLS: give --tls-cert and --tls-key, or --tls-self-signed")]
    NoCertificate { endpoint: String },
    #[error("--admin-token-file needs a token for tenants, too: give --token-file or --tokens")]
    OnlyAdmin,
    #[error(transparent)]
    Tokens(#[from] TokensError),
    #[error(transparent)]
    Limits(#[from] LimitError),
    #[error("{what}")]
    Io { what: &'static str, source: std::io::Error },
    #[error(transparent)]
    Transport(#[from] TransportError),
    #[error("the session's process was told nonsense: {0}")]
    Control(String),
    #[error("the device could not be opened")]
    Device(#[source] backend::DeviceError),
}
