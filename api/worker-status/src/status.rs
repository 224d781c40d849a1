//! Status of a worker as JSON, for `remora devices` and other clients that inspect it.

use serde::{Deserialize, Serialize};

use crate::qos::Qos;

/// Limits of a worker on one of its devices, and its usage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceLimits {
    /// Memory limit in bytes, for all sessions together.
    pub memory: Option<u64>,
    /// Percent of the device's time, for all sessions together.
    pub compute_percent: f64,
    /// Percent of the device's time that the worker is to get even under contention.
    pub compute_request_percent: f64,
    /// Priority of the worker's processes.
    pub qos: Qos,
    /// Share of device time used in the last second, in percent.
    pub used_percent: f32,
    /// The same over the last minute.
    pub used_percent_minute: f32,
    /// Device time used since the worker started, in nanoseconds.
    pub spent_ns: u64,
    /// Number of kernel launches.
    pub launches: u64,
    /// Number of launches that were throttled.
    pub throttled: u64,
    /// Nanoseconds that throttled launches waited.
    pub throttled_ns: u64,
    /// Allocations refused because the limit was reached.
    pub refused: u64,
    /// Host memory limit in bytes, for all sessions and all devices together.
    #[serde(default)]
    pub host_memory: u64,
    /// Bytes of host memory in use.
    #[serde(default)]
    pub host_memory_used: u64,
}

/// Status of one GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// Number of the device on this worker.
    pub ordinal: u32,
    /// Marketing name.
    pub name: String,
    /// `gfx942:sramecc+:xnack-`.
    pub isa: String,
    /// Bytes of device memory.
    pub memory_total: u64,
    /// Bytes that sessions use.
    pub memory_used: u64,
    /// Number of compute units.
    pub compute_units: u32,
    /// Clock of the compute units.
    pub clock_mhz: u32,
    /// Clock of the memory.
    pub memory_clock_mhz: u32,
    /// Share of the last second in which the device was busy.
    pub load_percent: f32,
    /// Sessions with memory or work on the device.
    pub sessions: u32,
    /// Limits, if the worker shares the device with others.
    #[serde(default)]
    pub limits: Option<DeviceLimits>,
}

/// Status of one session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// Session id: 16 hexadecimal digits in JSON. Older workers send a number.
    #[serde(with = "spelling")]
    pub id: u64,
    /// Name of the tenant whose token the client proved.
    #[serde(default)]
    pub tenant: String,
    /// Program name and process id, as reported by the client.
    pub client: String,
    /// Process id of the client.
    pub pid: u32,
    /// Address of the client.
    pub peer: String,
    /// What carries the connection: `tcp`, `tls`, `unix socket` or `shared memory`. Older workers do not say.
    #[serde(default)]
    pub transport: String,
    /// Process id of the session's executor.
    #[serde(default)]
    pub process: u32,
    /// Seconds since the session started.
    pub age_s: u64,
    /// Whether a connection is open.
    pub connected: bool,
    /// Number of requests so far.
    pub requests: u64,
    /// Requests for which the client waited for the reply.
    #[serde(default)]
    pub round_trips: u64,
    /// Bytes received from the client, and sent to it.
    #[serde(default)]
    pub bytes_received: u64,
    /// Bytes sent to the client so far.
    #[serde(default)]
    pub bytes_sent: u64,
    /// Memory in bytes, by device; so is the load.
    pub memory_used: Vec<u64>,
    /// Load of each device in percent.
    #[serde(default)]
    pub load_percent: Vec<f32>,
    /// Device time used, by device, in nanoseconds, if it is measured.
    #[serde(default)]
    pub spent_ns: Vec<u64>,
}

/// Status of the whole worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Name and version of the worker.
    pub worker: String,
    /// Name of the back end.
    pub backend: String,
    /// Process id of the supervisor.
    pub pid: u32,
    /// Seconds since the worker started.
    pub uptime_s: u64,
    /// Uptime in milliseconds, precise enough to compute rates.
    #[serde(default)]
    pub uptime_ms: u64,
    /// Limit on sessions at the same time.
    pub max_sessions: usize,
    /// The worker's devices.
    pub devices: Vec<DeviceStatus>,
    /// The sessions that the requester may see.
    pub sessions: Vec<SessionStatus>,
    /// Whether sessions are being restored that are not listed yet. Always false for a tenant and at older workers.
    #[serde(default)]
    pub restores: bool,
}

impl Status {
    /// Encodes the status for the wire.
    pub fn to_json(&self) -> String {
        // Cannot fail: the structure holds only strings and numbers.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Decodes a status from the wire.
    pub fn from_json(text: &str) -> Result<Status, serde_json::Error> {
        serde_json::from_str(text)
    }
}

/// JSON encoding of a session id.
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
