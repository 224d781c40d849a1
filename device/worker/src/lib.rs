//! The worker: accepts connections, authenticates them, and serves each session in a separate process.
//!
//! [`supervise`] is the process that listens; [`execute`] is the process of one session. A control socket connects them. The
//! worker owns sessions, their grace periods and limits. Kernels are the business of the back ends, and reading the environment
//! is its caller's.

#![warn(missing_docs)]

/// Run-time compilation: compilers in the sandbox, and the service process that runs them.
mod compile;
mod config;
/// Confinement of a session's process.
mod confine;
mod control;
mod error;
mod growth;
/// The process that holds the sessions of a worker whose supervisor has ended.
mod keeper;
/// What a session sends: frames, mirrors, spans, watches.
mod outgoing;
mod rehearsal;
/// What a client requests, one file per family of operations.
mod request;
mod seat;
/// The process of one session, its snapshots and its migration.
mod session;
mod session_report;
mod store;
/// Whether this session's process has a supervisor.
mod supervision;
/// The listening process: connections, tokens, limits, and the table of sessions.
mod supervisor;

pub use compile::compiler::Compiler;
pub use compile::service::serve_compiler;
pub use compile::task::{
    CompileError, CompilerConfig, Request as CompileRequest, Response as CompileResponse,
};
pub use config::{
    BackendConfig, CheckpointConfig, DeviceConfig, DrainConfig, HandoverConfig, SessionConfig, WorkerConfig,
};
pub use error::WorkerError;
pub use keeper::{HANDOVER_VERSION, keep};
pub use limits::{LimitConfig, LimitError, Qos};
#[doc(hidden)]
pub use rehearsal::{rehearse, rehearse_arrival};
pub use session::executor::execute;
pub use session::snapshot::SnapshotError;
pub use store::UploadConfig;
pub use supervisor::ledgers::LedgerConfig;
pub use supervisor::probe::{DeviceSummary, probe};
pub use supervisor::supervise;
pub use supervisor::tokens::{Role, TokenConfig, TokensError, read_tokens};
pub use toolchain::{Toolchain, ToolchainProblem};
pub use wire::SessionId;
