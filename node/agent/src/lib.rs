//! The agent of a machine with GPUs: finds them, gives parts of them to those who ask, keeps the workers running that serve the parts,
//! and tells what is used.
//!
//! One allocation is one worker process with limits (docs/limits.md); the agent is not in the way of the data. Workers outlive the
//! agent, which finds them again. Owns the books, the processes and the HTTP interface; refuses to know kernels, frames or devices
//! other than by the provider library's C interface. docs/agent.md says how it is used.

mod agent;
mod allocation;
mod book;
mod certificate;
mod cgroup;
mod client;
mod config;
mod device;
mod error;
mod hip_order;
mod http;
mod keeper;
mod leases;
mod lines;
mod metrics;
mod orders;
mod process;
mod provider;
mod push;
mod sample;
mod serve;
mod snapshot;
mod spool;
mod state;
mod tokens;
mod vram;
mod worker;

pub use agent::Agent;
pub use allocation::{Allocation, AllocationRequest, ComputeRequest, LeaseRequest, MemoryRequest};
pub use config::{Config, ConfigError, Oversubscription, Placement, PushConfig, SoftwareGpu, WorkerTls};
pub use device::{Backing, Gpu};
pub use error::AgentError;
pub use serve::{Server, serve};
