//! The client's state of a session, and the operations on it that several HIP functions share.
//!
//! Files that hold state do not use [`runtime`]; files with operations extend `Runtime`, which owns all state.

use hip_api::types::hipError_t;

mod address_hash;
pub mod advice;
mod allocation;
mod backpressure;
mod copy_order;
pub mod credit;
pub mod device;
pub mod fence;
pub mod handles;
pub mod host_memory;
pub mod kernarg;
mod kernels;
pub mod linker;
mod load;
mod mapping;
pub mod memory;
pub mod mirroring;
pub mod module;
pub mod objects;
pub mod occupancy;
pub mod registry;
mod requests;
pub mod runtime;
pub mod stream;
pub mod streams;
mod tables;
pub mod texture;
pub mod thread;
pub mod unmirrored;
pub mod variables;
pub mod virtual_memory;

/// Result of most HIP functions.
pub type Status = Result<(), hipError_t>;
