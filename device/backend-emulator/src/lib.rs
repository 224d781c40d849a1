//! Software GPUs behind the worker's [`backend::Device`]: streams, memory and modules around the emulator.
//!
//! Owns order (what may run when), addresses (what is mapped where) and the description of each model; refuses to know of
//! instructions, which are the emulator's, and of clients, which are the worker's.

mod counting;
mod device;
mod env;
mod error;
mod event;
mod foreign;
mod heap;
mod host;
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
pub use host::Host;
pub use model::{DEFAULT_STACK_BYTES, MODELS, Model};
pub use observation::{Findings, ObserveConfig, ObserveFiles, TraceConfig};
