//! Classes of service.

use serde::{Deserialize, Serialize};

/// Quality-of-service class, from the lowest to the highest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Qos {
    /// Least CPU time under contention.
    Low,
    /// The default.
    #[default]
    Medium,
    /// As much CPU time as other processes of the machine.
    High,
    /// Like `High`.
    Critical,
}

impl Qos {
    /// Name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Qos::Low => "low",
            Qos::Medium => "medium",
            Qos::High => "high",
            Qos::Critical => "critical",
        }
    }
}
