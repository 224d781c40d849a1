//! What a worker tells of itself, as JSON: to `remora devices` and to anyone who inspects it.

use serde::{Deserialize, Serialize};

/// A session as its own process sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SessionReport {
    /// Bytes in use, by device.
    pub(crate) memory_used: Vec<u64>,
    /// Share of the last second each device was busy, in percent.
    pub(crate) load_percent: Vec<f32>,
    pub(crate) connected: bool,
    pub(crate) requests: u64,
    pub(crate) round_trips: u64,
    pub(crate) bytes_received: u64,
    pub(crate) bytes_sent: u64,
}

/// A GPU of the worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceStatus {
    pub ordinal: u32,
    pub name: String,
    /// `gfx942:sramecc+:xnack-`.
    pub isa: String,
    pub memory_total: u64,
    pub memory_used: u64,
    pub compute_units: u32,
    pub clock_mhz: u32,
    pub memory_clock_mhz: u32,
    pub load_percent: f32,
    /// Sessions with memory or work on it.
    pub sessions: u32,
}

/// A client of the worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionStatus {
    pub id: u64,
    /// The program's name and process, as the client gave them.
    pub client: String,
    pub pid: u32,
    pub peer: String,
    pub age_s: u64,
    pub connected: bool,
    pub requests: u64,
    /// Requests whose answer the client waited for.
    #[serde(default)]
    pub round_trips: u64,
    /// From the client, and to it.
    #[serde(default)]
    pub bytes_received: u64,
    #[serde(default)]
    pub bytes_sent: u64,
    /// By device, as are the loads.
    pub memory_used: Vec<u64>,
    #[serde(default)]
    pub load_percent: Vec<f32>,
}

/// The whole worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub worker: String,
    pub backend: String,
    pub pid: u32,
    pub uptime_s: u64,
    /// The same, exactly enough for rates.
    #[serde(default)]
    pub uptime_ms: u64,
    pub max_sessions: usize,
    pub devices: Vec<DeviceStatus>,
    pub sessions: Vec<SessionStatus>,
}

impl Status {
    pub fn to_json(&self) -> String {
        // Strings and numbers only: there is nothing in it that JSON cannot say.
        serde_json::to_string(self).unwrap_or_default()
    }

    pub fn from_json(text: &str) -> Result<Status, serde_json::Error> {
        serde_json::from_str(text)
    }
}
