//! What a worker reports about itself, as JSON: its devices and sessions. Types only.

#![warn(missing_docs)]

mod qos;
mod size;
mod status;

pub use qos::Qos;
pub use size::parse_bytes;
pub use status::{DeviceLimits, DeviceStatus, SessionStatus, Status};

/// Name of the only tenant of a worker with one token or none.
pub const DEFAULT_TENANT: &str = "default";
