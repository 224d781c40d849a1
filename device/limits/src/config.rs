//! Resource limits of a worker, as its operator configures them.

use serde::{Deserialize, Serialize};
use worker_status::Qos;

use crate::machine::machine_memory;

/// Host memory that a worker may use in addition to its device memory limit. Code objects, compilers and small buffers need it,
/// however small the GPU share is.
pub const HOST_ALLOWANCE: u64 = 512 << 20;

/// Why a limit configuration is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum LimitError {
    #[error("invalid compute limit of {0} %: it must be more than 0 and at most 100")]
    Compute(f64),
    #[error(
        "invalid compute request of {request} %: it must be more than 0 and at most the limit of {limit} %"
    )]
    Request { request: f64, limit: f64 },
    #[error("invalid memory limit of {0} bytes: it must be at least one page (4096 bytes)")]
    Memory(u64),
    #[error("the memory request of {request} bytes exceeds the memory limit of {limit} bytes")]
    MemoryRequest { request: u64, limit: u64 },
}

/// Limits of a worker, per device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitConfig {
    /// Bytes of device memory for all sessions together.
    pub memory: Option<u64>,
    /// Bytes of device memory that are reserved even if other workers need memory; the limit by default.
    #[serde(default)]
    pub memory_request: Option<u64>,
    /// Bytes of host memory for all sessions together.
    #[serde(default)]
    pub host_memory: Option<u64>,
    /// Percent of a device's time for all sessions together.
    pub compute: Option<f64>,
    /// Percent of a device's time that is reserved even if other workers need the device; the limit by default.
    pub request: Option<f64>,
    /// Priority of the worker's processes.
    #[serde(default)]
    pub qos: Qos,
}

impl LimitConfig {
    /// Bytes of host memory for all sessions together. The default is the sum of the device memory limits plus
    /// [`HOST_ALLOWANCE`]; it never exceeds the machine's memory.
    pub fn host_limit(&self, devices: u32) -> u64 {
        let usual = |memory: u64| memory.saturating_mul(devices.into()).saturating_add(HOST_ALLOWANCE);
        let limit = self.host_memory.or(self.memory.map(usual)).unwrap_or(u64::MAX);
        limit.min(machine_memory())
    }

    /// Checks that the limits are possible.
    pub fn check(&self) -> Result<(), LimitError> {
        if let Some(memory) = self.memory.filter(|memory| *memory < 4096) {
            return Err(LimitError::Memory(memory));
        }
        if let (Some(request), Some(limit)) = (self.memory_request, self.memory)
            && request > limit
        {
            return Err(LimitError::MemoryRequest { request, limit });
        }
        let limit = self.compute.unwrap_or(100.0);
        if !(limit > 0.0 && limit <= 100.0) {
            return Err(LimitError::Compute(limit));
        }
        match self.request {
            Some(request) if !(request > 0.0 && request <= limit) => {
                Err(LimitError::Request { request, limit })
            }
            _ => Ok(()),
        }
    }

    /// CPU scheduler weight of a worker relative to others that are runnable: the requested percentage, reduced by its QoS class.
    /// Two fixed shares of 25 % and 75 % have the weights 1 to 3.
    fn weight(&self) -> f64 {
        let request = self.request.or(self.compute).unwrap_or(100.0).clamp(0.1, 100.0);
        request * 1.25f64.powi(-niceness_steps(self.qos))
    }

    /// The niceness that corresponds to the weight. One step changes the weight by a factor of 1.25.
    pub fn niceness(&self) -> i32 {
        let steps = (100.0 / self.weight()).ln() / 1.25f64.ln();
        (steps.round() as i32).clamp(0, 19)
    }
}

/// Niceness steps that a class adds. Each step divides the scheduler weight by 1.25.
fn niceness_steps(qos: Qos) -> i32 {
    match qos {
        Qos::Critical | Qos::High => 0,
        Qos::Medium => 2,
        Qos::Low => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_make_no_sense_are_refused() {
        let compute = |compute| LimitConfig { compute: Some(compute), ..LimitConfig::default() };
        assert!(compute(25.0).check().is_ok() && compute(100.0).check().is_ok());
        for wrong in [0.0, -1.0, 100.5, f64::NAN, f64::INFINITY] {
            assert!(compute(wrong).check().is_err(), "{wrong}");
        }
        assert!(LimitConfig { request: Some(60.0), ..compute(50.0) }.check().is_err());
        assert!(LimitConfig { request: Some(50.0), ..compute(50.0) }.check().is_ok());
        assert!(LimitConfig { memory: Some(100), ..LimitConfig::default() }.check().is_err());
    }

    #[test]
    fn weights_are_in_proportion_to_requests_and_classes_come_on_top() {
        let nice = |request: f64, qos| {
            LimitConfig { request: Some(request), compute: Some(100.0), qos, ..LimitConfig::default() }
                .niceness()
        };
        let firm = |percent| LimitConfig { compute: Some(percent), qos: Qos::High, ..LimitConfig::default() };
        assert_eq!(firm(100.0).niceness(), 0);
        let weight = |nice: i32| 1.25f64.powi(-nice);
        for (more, less) in [(100.0, 50.0), (50.0, 25.0), (40.0, 10.0)] {
            let ratio = weight(nice(more, Qos::High)) / weight(nice(less, Qos::High));
            assert!((ratio / (more / less) - 1.0).abs() < 0.15, "{more} to {less}: {ratio}");
        }
        // The same holds for fixed shares, whose limit equals their request.
        let ratio = weight(firm(75.0).niceness()) / weight(firm(25.0).niceness());
        assert!((ratio / 3.0 - 1.0).abs() < 0.1, "{ratio}");
        assert_eq!(firm(75.0).weight() / firm(25.0).weight(), 3.0);
        assert!(nice(50.0, Qos::Low) > nice(50.0, Qos::Medium));
        assert!(nice(50.0, Qos::Medium) > nice(50.0, Qos::High));
        assert_eq!(nice(0.1, Qos::Low), 19);
    }
}
