//! The node agent of a GPU machine: discovers GPUs, allocates shares of them, supervises the workers that serve the shares, and reports
//! metrics. docs/agent.md describes its use.
//!
//! Each allocation is one worker process with limits (docs/limits.md). Clients connect to the worker directly; no data passes through the
//! agent. Workers outlive the agent, and the next agent adopts them. The crate owns the reservations, the worker processes and the HTTP
//! interface. It does not handle kernels or protocol frames, and accesses devices only through the provider library's C interface.

#![warn(missing_docs)]

mod agent;
mod allocation;
mod certificate;
mod cgroup;
mod client;
mod config;
mod device;
mod error;
mod hip_order;
mod http;
mod leases;
mod limit_files;
mod line_protocol;
mod metrics;
mod migrate;
mod process;
mod provider;
mod push;
mod redirect;
mod remote;
mod reservation;
mod restarts;
mod route;
mod sample;
mod serve;
mod snapshot;
mod spool;
mod state;
mod tokens;
mod vram;
mod worker;

pub use config::{Config, ConfigError, Oversubscription, Placement, PushConfig, SoftwareGpu, WorkerTls};
pub use error::AgentError;
pub use remote::{AgentUrl, RemoteAgent, RemoteError};
pub use serve::{Server, serve};
