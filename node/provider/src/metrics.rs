//! How busy a device is, and with whom.

/// What can be said of a device now; what is unknown is not there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    pub power_watts: Option<f64>,
    pub temperature: Option<f64>,
    /// Percent.
    pub utilization: Option<u32>,
    pub memory_used: Option<u64>,
    /// Anything else, under the names of the usage table's columns where it has one.
    pub extra: Vec<(&'static str, f64)>,
}

impl Metrics {
    /// Adds a value unless it is there already: who is asked first is believed.
    pub fn extra(&mut self, key: &'static str, value: f64) {
        if value.is_finite() && !self.extra.iter().any(|(known, _)| *known == key) {
            self.extra.push((key, value));
        }
    }

    /// What this lacks is taken from another.
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

/// A process on a device.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessUse {
    pub pid: u32,
    pub device: String,
    /// Compute units that have waves of it, of all the device has.
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
