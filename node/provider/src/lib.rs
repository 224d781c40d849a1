//! `libaccelerator_amd.so`: which AMD GPUs a machine has, how they hang together, how busy they are and who uses them, through
//! the accelerator interface that node agents load.
//!
//! One core ([`Node`]) asks three sources in order: AMD's management library, if it is there and its layout is known; what the
//! kernel driver tells below `/sys`; and the list of software GPUs. Two thin layers ([`abi`]) give its answers the shapes of
//! both generations of the interface. It refuses to guess: a library of an unknown version is not asked, a file that makes no
//! sense is as good as none, and what cannot be done is said to be not supported. It does not link AMD's libraries.

pub mod abi;
mod address;
mod agent;
mod assignment;
mod device;
mod env;
pub mod exercise;
mod gfx;
mod kernel;
mod kfd;
mod limits;
mod log;
mod metrics;
mod mounts;
mod node;
mod partition;
mod pci;
mod refusal;
pub mod smi;
mod software;
mod topology;
mod tree;

pub use address::PciAddress;
pub use agent::{Agent, AgentError, Chosen};
pub use assignment::Assignment;
pub use device::{Device, PcieLink, Source};
pub use env::{Settings, SmiChoice, TopologyForm};
pub use kfd::Properties;
pub use limits::{Ledger, Limit, Limiter, LimitsError};
pub use log::Level;
pub use metrics::{Metrics, ProcessUse};
pub use mounts::Mount;
pub use node::Node;
pub use partition::{ComputeMode, MemoryMode, Modes, Template};
pub use refusal::Refusal;
pub use software::{MODELS, Model};
pub use topology::{Link, LinkKind};
pub use tree::Tree;
