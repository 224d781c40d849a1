//! What a worker tells of itself, as JSON: to `remora devices` and to anyone who inspects it.

use limits::Qos;
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

/// What a worker may use of one of its devices, and what it has used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceLimits {
    /// Bytes, by all sessions together.
    pub memory: Option<u64>,
    /// Percent of the device's time, by all sessions together.
    pub compute_percent: f64,
    /// Percent that is wanted even when others want the device too.
    pub compute_request_percent: f64,
    pub qos: Qos,
    /// Share of the last second's time that was used, and of the last minute's, in percent.
    pub used_percent: f32,
    pub used_percent_minute: f32,
    /// Nanoseconds of the device's time that were used since the worker began.
    pub spent_ns: u64,
    pub launches: u64,
    /// Launches that were held back, and for how long.
    pub throttled: u64,
    pub throttled_ns: u64,
    /// Allocations that were refused because the limit was reached.
    pub refused: u64,
    /// Bytes of host memory that all sessions together may use, and do use, of all devices together.
    #[serde(default)]
    pub host_memory: u64,
    #[serde(default)]
    pub host_memory_used: u64,
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
    /// Where the worker shares the device with others.
    #[serde(default)]
    pub limits: Option<DeviceLimits>,
}

/// A client of the worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// 16 hexadecimal digits in JSON, as everywhere. Workers of older versions tell a number.
    #[serde(with = "spelling")]
    pub id: u64,
    /// The name of the token that its client proved.
    #[serde(default)]
    pub tenant: String,
    /// The program's name and process, as the client gave them.
    pub client: String,
    pub pid: u32,
    pub peer: String,
    /// The process of the worker that is this session.
    #[serde(default)]
    pub process: u32,
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
    /// Nanoseconds of each device's time that it has used, where that is measured.
    #[serde(default)]
    pub spent_ns: Vec<u64>,
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

/// How JSON has the number of a session.
mod spelling {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use wire::SessionId;

    pub fn serialize<S: Serializer>(id: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&SessionId(*id))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Text(String),
            Number(u64),
        }
        match Either::deserialize(deserializer)? {
            Either::Text(text) => text.parse::<SessionId>().map(|SessionId(id)| id).map_err(D::Error::custom),
            Either::Number(id) => Ok(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_sessions_as_logs_have_them_and_older_workers_are_understood() {
        let session = SessionStatus { id: 0xfedc_ba98_7654_3210, ..SessionStatus::default() };
        let text = serde_json::to_string(&session).unwrap();
        assert!(text.contains("\"id\":\"fedcba9876543210\""), "{text}");
        assert_eq!(serde_json::from_str::<SessionStatus>(&text).unwrap(), session);
        let older = text.replace("\"fedcba9876543210\"", "18364758544493064720");
        assert_eq!(serde_json::from_str::<SessionStatus>(&older).unwrap(), session);
        assert!(serde_json::from_str::<SessionStatus>(&text.replace("fedc", "xxxx")).is_err());
    }
}
