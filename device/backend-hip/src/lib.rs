//! Real AMD GPUs, through AMD's own libamdhip64, opened at run time.
//!
//! Owns the translation of [`backend::Device`] into HIP calls: minted numbers to handles, minted addresses to virtual memory
//! mapped there. Links to nothing, so that a worker without ROCm starts; refuses runtimes without virtual memory management,
//! since addresses could not be native on them.

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
