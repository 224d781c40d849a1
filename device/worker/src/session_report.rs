//! What the process of a session reports to the supervisor.

use serde::{Deserialize, Serialize};

/// Counters of a session, reported by its own process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SessionReport {
    /// Bytes in use, by device.
    pub(crate) memory_used: Vec<u64>,
    /// Share of the last second each device was busy, in percent.
    pub(crate) load_percent: Vec<f32>,
    pub(crate) connected: bool,
    /// Whether the connection goes through shared memory.
    #[serde(default)]
    pub(crate) in_shared_memory: bool,
    pub(crate) requests: u64,
    pub(crate) round_trips: u64,
    pub(crate) bytes_received: u64,
    pub(crate) bytes_sent: u64,
}
