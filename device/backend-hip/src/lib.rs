//! Back end for real AMD GPUs, through AMD's libamdhip64, loaded with dlopen.
//!
//! Implements [`backend::Device`] with HIP calls: maps object IDs to runtime handles, and maps memory at the addresses the caller
//! chooses. Does not link to the runtime, so a worker starts without ROCm. Rejects runtimes without virtual memory management,
//! because they cannot place memory at given addresses.

#![warn(missing_docs)]

mod device;
mod error;
mod event;
mod functions;
mod launch;
mod memory;
mod module;
mod pace;
mod region;
mod spans;
mod stream;
mod virtual_memory;

pub use device::Hip;
pub use functions::{Functions, LoadError};
