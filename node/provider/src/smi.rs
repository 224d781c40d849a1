//! AMD's management library (AMD SMI), loaded at run time: `libamd_smi` of ROCm 6.1 and later.

mod device;
mod layout;
mod library;
mod session;

pub(crate) use device::devices;
pub use layout::{LAYOUTS, Layout, Power, Process};
pub(crate) use session::Session;
