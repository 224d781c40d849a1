//! The drop-in HIP runtime: implements every HIP function by forwarding it to a worker process.
//!
//! `abi/` exports the C functions, which call `calls/`. Those use the state of the session in `state/` and of graphs in
//! `graph/`. `process/` has what belongs to the process (environment, exit, fork), `telemetry/` what a user can watch, `os/`
//! what depends on the operating system. The transport is the crate `session`.

pub mod abi;
mod calls;
mod graph;
mod os;
pub mod process;
mod state;
mod telemetry;
