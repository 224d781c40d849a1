//! The limits of a worker as its operator writes them.

use serde::{Deserialize, Serialize};

/// What is promised to whom, from the least to the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Qos {
    Low,
    #[default]
    Medium,
    High,
    Critical,
}

impl Qos {
    pub fn name(self) -> &'static str {
        match self {
            Qos::Low => "low",
            Qos::Medium => "medium",
            Qos::High => "high",
            Qos::Critical => "critical",
        }
    }

    /// Steps of niceness that the class costs, a quarter of the weight each.
    fn steps(self) -> i32 {
        match self {
            Qos::Critical | Qos::High => 0,
            Qos::Medium => 2,
            Qos::Low => 5,
        }
    }
}

/// Why limits are refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LimitError {
    #[error("a compute limit of {0} %: it is more than 0 and at most 100")]
    Compute(f64),
    #[error("a compute request of {request} % is more than its limit of {limit} %, or not more than 0")]
    Request { request: f64, limit: f64 },
    #[error("a memory limit of {0} bytes: at least one page of 4096 is needed")]
    Memory(u64),
}

/// What a worker may use of each of its devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitConfig {
    /// Bytes, by all sessions together.
    pub memory: Option<u64>,
    /// Percent of a device's time, by all sessions together.
    pub compute: Option<f64>,
    /// Percent that is wanted even when others want the device too; the limit by default.
    pub request: Option<f64>,
    #[serde(default)]
    pub qos: Qos,
}

impl LimitConfig {
    pub fn check(&self) -> Result<(), LimitError> {
        if let Some(memory) = self.memory.filter(|memory| *memory < 4096) {
            return Err(LimitError::Memory(memory));
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

    /// How nice a session's process is to others: it steps back by as much as it may use more than it requested, so that of workers
    /// which want the processors at the same time each gets what it requested. Each step is worth a quarter of the weight.
    pub fn niceness(&self) -> i32 {
        let limit = self.compute.unwrap_or(100.0);
        let share = (self.request.unwrap_or(limit) / limit).clamp(0.001, 1.0);
        let steps = -share.ln() / 1.25f64.ln();
        (steps.round() as i32 + self.qos.steps()).clamp(0, 19)
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
        let firm = LimitConfig { compute: Some(25.0), qos: Qos::High, ..LimitConfig::default() };
        assert_eq!(firm.niceness(), 0);
        let weight = |nice: i32| 1.25f64.powi(-nice);
        for (more, less) in [(100.0, 50.0), (50.0, 25.0), (40.0, 10.0)] {
            let ratio = weight(nice(more, Qos::High)) / weight(nice(less, Qos::High));
            assert!((ratio / (more / less) - 1.0).abs() < 0.15, "{more} to {less}: {ratio}");
        }
        assert!(nice(50.0, Qos::Low) > nice(50.0, Qos::Medium));
        assert!(nice(50.0, Qos::Medium) > nice(50.0, Qos::High));
        assert_eq!(nice(0.1, Qos::Low), 19);
    }
}
