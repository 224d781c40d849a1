//! Metrics of a device, and its usage by process.

/// Current metrics of a device. Unknown values are `None` or missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    pub power_watts: Option<f64>,
    pub temperature: Option<f64>,
    /// Utilization in percent.
    pub utilization: Option<u32>,
    pub memory_used: Option<u64>,
    /// Further values. Their names are those of the usage table's columns, if it has a column for them.
    pub extra: Vec<(&'static str, f64)>,
}

impl Metrics {
    /// Adds a value unless the key exists: the first source takes precedence.
    pub fn extra(&mut self, key: &'static str, value: f64) {
        if value.is_finite() && !self.extra.iter().any(|(known, _)| *known == key) {
            self.extra.push((key, value));
        }
    }

    /// Fills in missing values from `other`.
    pub fn or(mut self, other: Metrics) -> Metrics {
        for (key, value) in other.extra {
            self.extra(key, value);
        }
        Metrics {
            power_watts: self.power_watts.or(other.power_watts),
            temperature: self.temperature.or(other.temperature),
            utilization: self.utilization.or(other.utilization),
            memory_used: self.memory_used.or(other.memory_used),
            extra: self.extra,
        }
    }
}

/// A process's usage of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessUse {
    pub pid: u32,
    pub device: String,
    /// Compute units that run wavefronts of the process, and the device's total.
    pub occupied_units: u64,
    pub total_units: u64,
    pub memory_used: u64,
    pub memory_total: u64,
}

impl ProcessUse {
    pub fn compute_percent(&self) -> f64 {
        percent(self.occupied_units, self.total_units)
    }

    pub fn memory_percent(&self) -> f64 {
        percent(self.memory_used, self.memory_total)
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (100.0 * part as f64 / whole as f64).min(100.0) }
}
