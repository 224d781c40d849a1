//! The worker: accepts connections, authenticates them, and serves each session in a separate process.
//!
//! [`supervise`] is the process that listens; [`execute`] is the process of one session. A control socket connects them. The
//! worker owns sessions, their grace periods and limits. Kernels are the business of the back ends, and reading the environment
//! is its caller's.

mod absent;
mod administration;
mod allowance;
mod arrival;
mod broker;
mod bulk;
mod compile;
mod compile_budget;
mod compile_cache;
mod compile_channel;
mod compile_client;
mod compile_options;
mod compile_service;
mod config;
mod confine;
mod control;
mod departure;
mod dispatch;
mod executor;
mod graph;
mod greeting;
mod growth;
mod handshakes;
mod inbox;
mod link;
mod manifest;
mod mirror;
mod name_expression;
mod oom;
mod outbox;
mod packed;
mod pieces;
mod place;
mod prelude;
mod probe;
mod proxy;
mod region;
mod rehearsal;
mod sessions;
mod snapshot;
mod spans;
mod status;
mod store;
mod supervisor;
mod tenants;
mod virtual_memory;
mod watches;

pub use administration::{MoveError, Taken, migrate, redirect, resume, resume_for, snapshot};
pub use compile::{
    CompileError, Compiler, CompilerConfig, Request as CompileRequest, Response as CompileResponse,
};
pub use compile_service::serve_compiler;
pub use config::{BackendConfig, DeviceConfig, SessionConfig, WorkerConfig, WorkerError};
pub use executor::execute;
pub use growth::LedgerConfig;
pub use limits::{LimitConfig, LimitError, Qos};
pub use place::{InspectError, Place};
pub use probe::{DeviceSummary, probe};
#[doc(hidden)]
pub use rehearsal::{rehearse, rehearse_arrival};
pub use snapshot::SnapshotError;
pub use status::{DeviceLimits, DeviceStatus, SessionStatus, Status};
pub use store::UploadConfig;
pub use supervisor::supervise;
pub use tenants::{DEFAULT_TENANT, Role, TokenConfig, TokensError, parse_bytes, read_tokens};
pub use toolchain::{Toolchain, ToolchainProblem};
pub use wire::SessionId;
