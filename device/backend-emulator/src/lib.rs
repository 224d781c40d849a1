//! Back end for software GPUs: implements [`backend::Device`] with streams, memory and modules around the emulator.
//!
//! Responsible for scheduling, the address space and the description of each GPU model. The emulator executes instructions; the
//! worker handles clients.

#![warn(missing_docs)]

mod counting;
mod device;
mod env;
mod error;
mod event;
mod heap;
mod host;
mod host_pages;
mod launch;
mod memory;
mod model;
mod module;
mod observation;
mod queue;
mod release;
mod snapshot;
mod stream;
mod value_wait;
mod virtual_memory;
mod waiting;

pub use device::{DeviceConfig, Emulator, Options};
pub use emulator::observe::model::Resource;
pub use host::Host;
pub use model::{DEFAULT_STACK_BYTES, MODELS, Model};
pub use observation::{Findings, ObserveConfig, ObserveFiles, TraceConfig};
