//! The worker: accepts connections, proves who they are, and serves each session in a process of its own.
//!
//! [`supervise`] is the process that listens; [`execute`] is the process of one session. Between them runs a control socket.
//! Owns sessions, their grace periods and limits; refuses to know what a kernel is (the back ends do) and never reads the
//! environment (its caller does).

mod absent;
mod administration;
mod allowance;
mod arrival;
mod broker;
mod bulk;
mod compile;
mod config;
mod control;
mod departure;
mod dispatch;
mod executor;
mod graph;
mod greeting;
mod handshakes;
mod inbox;
mod link;
mod manifest;
mod mirror;
mod name_expression;
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
pub use compile::{CompileError, Compiler, Request as CompileRequest, Response as CompileResponse};
pub use config::{BackendConfig, DeviceConfig, SessionConfig, WorkerConfig, WorkerError};
pub use executor::execute;
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
