//! `libaccelerator_amd.so`: reports a machine's GPUs that run AMD's programs, their topology, utilization and processes, through the
//! accelerator interface that node agents load.
//!
//! The core ([`Node`]) combines four sources, in this order: AMD's management library (AMD SMI), if it is installed and its struct layout
//! is known; the kernel driver's files below `/sys`; NVIDIA's management library (NVML), since NVIDIA GPUs can imitate AMD's; and the list
//! of software GPUs. Two thin layers ([`abi`]) convert its results to both generations of the C interface. The crate does not guess: a
//! library of an unknown version is not used, an invalid file is treated as missing, and an impossible operation is reported as not
//! supported. It does not link the vendors' libraries.

#![warn(missing_docs)]

pub mod abi;
mod address;
mod agent;
mod assignment;
mod device;
mod env;
mod error;
pub mod exercise;
mod gfx;
mod kernel;
mod kfd;
mod limits;
mod log;
mod metrics;
mod mounts;
mod node;
mod nvml;
mod partition;
mod pci;
pub mod smi;
mod software;
mod symbols;
mod topology;
mod tree;

pub use device::{Device, Nvidia, PcieLink, Source};
pub use env::{Settings, SmiChoice};
pub use error::ProviderError;
pub use limits::{Ledger, Limit};
pub use log::Level;
pub use node::Node;
pub use software::MODELS;
pub use topology::LinkKind;
