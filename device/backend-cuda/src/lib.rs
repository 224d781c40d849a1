//! Back end for NVIDIA GPUs: runs AMD's code objects, translated to PTX, through NVIDIA's driver, loaded with dlopen.
//!
//! Implements [`backend::Device`] with calls of the driver API: maps memory at the addresses the caller chooses, loads modules
//! there, and translates their kernels when they are first launched. Does not link to the driver, so a worker starts without it.
//! To programs a GPU looks like the AMD model that it imitates.

#![warn(missing_docs)]

mod cache;
mod describe;
mod device;
mod error;
mod event;
mod functions;
mod gpu;
mod heap;
mod hostcall;
mod launch;
mod linger;
mod memory;
mod module;
mod pace;
mod pinned;
mod program;
mod region;
mod scatter;
mod schedule;
mod spans;
#[cfg(test)]
mod stand_in;
mod stream;
mod submitter;
mod transfer;
mod translate;
mod types;
mod value_wait;
mod virtual_memory;
mod waiter;

pub use cache::Cache;
pub use device::{Cuda, Options};
pub use functions::{Functions, LoadError};
pub use translate::{Facts, Lifter, Program, Request, Translator};
