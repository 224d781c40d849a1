//! Metrics in line protocol: the tables `tf_gpu_usage`, `tf_worker_usage` and `tf_node_metrics`.
//!
//! Values that are not known are left out of a row; only measured values are written.

use std::fmt::Write as _;

use crate::agent::Agent;
use crate::allocation::Allocation;
use crate::device::Gpu;
use crate::reservation::{self, Share};

/// One row.
struct Row {
    text: String,
    has_fields: bool,
}

impl Row {
    fn new(table: &str) -> Row {
        Row { text: table.to_owned(), has_fields: false }
    }

    fn tag(mut self, name: &str, value: &str) -> Row {
        // Line protocol has no empty tags.
        if !value.is_empty() {
            let _ = write!(self.text, ",{name}={}", escaped(value));
        }
        self
    }

    fn field(&mut self, name: &str, value: f64) {
        if value.is_finite() {
            let separator = self.separator();
            let _ = write!(self.text, "{separator}{}={value}", escaped(name));
            self.has_fields = true;
        }
    }

    fn count(&mut self, name: &str, value: u64) {
        let separator = self.separator();
        let _ = write!(self.text, "{separator}{name}={value}i");
        self.has_fields = true;
    }

    fn separator(&self) -> char {
        if self.has_fields { ',' } else { ' ' }
    }

    fn end(self, out: &mut String, time_ms: u64) {
        if self.has_fields {
            let _ = writeln!(out, "{} {time_ms}", self.text);
        }
    }
}

fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars().filter(|c| !c.is_control()) {
        if [',', '=', ' ', '\\'].contains(&c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

/// Usage of a GPU by all workers together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct DeviceUsage {
    pub(crate) memory_bytes: u64,
    pub(crate) compute_percent: f64,
    pub(crate) received: f64,
    pub(crate) sent: f64,
}

impl Agent {
    pub(crate) fn device_usage(&self, gpu: &Gpu, allocations: &[Allocation]) -> DeviceUsage {
        let mut sum = DeviceUsage::default();
        for allocation in allocations {
            let Some(at) = allocation.devices.iter().position(|uuid| *uuid == gpu.uuid) else { continue };
            let Some(sample) = self.samples.of(&allocation.id) else { continue };
            if let Some(usage) = sample.usage.get(at) {
                sum.memory_bytes += usage.memory_bytes;
                sum.compute_percent += usage.compute_percent;
                sum.received += usage.received;
                sum.sent += usage.sent;
            }
        }
        sum
    }

    /// Formats all tables with their current values.
    pub(crate) fn lines(&self, time_ms: u64) -> String {
        let mut out = String::new();
        let gpus = self.gpus.read().clone();
        let allocations: Vec<Allocation> = self.allocations.lock().values().cloned().collect();
        for gpu in &gpus {
            self.gpu_row(gpu, &allocations).end(&mut out, time_ms);
        }
        for allocation in &allocations {
            for (uuid, at) in allocation.devices.iter().zip(0..) {
                let Some(gpu) = gpus.iter().find(|gpu| gpu.uuid == *uuid) else { continue };
                if let Some(row) = self.worker_row(allocation, gpu, at) {
                    row.end(&mut out, time_ms);
                }
            }
        }
        self.node_row(&gpus, &allocations).end(&mut out, time_ms);
        out
    }

    fn gpu_row(&self, gpu: &Gpu, allocations: &[Allocation]) -> Row {
        let mut row = Row::new("tf_gpu_usage")
            .tag("node", &self.config.node)
            .tag("pool", &self.config.pool)
            .tag("uuid", &gpu.uuid);
        let usage = self.device_usage(gpu, allocations);
        let is_software = matches!(gpu.backing, crate::device::Backing::Software { .. });
        // Only workers use a software GPU, so their reports are complete. For a real GPU the driver also sees other processes.
        let health = self.samples.health(&gpu.uuid).filter(|_| !is_software);
        let (memory, compute) = match &health {
            Some(health) => (health.memory_used_bytes, f64::from(health.utilization_percent)),
            None => (usage.memory_bytes, usage.compute_percent),
        };
        match &health {
            Some(health) => {
                row.field("rx", health.rx_bytes as f64);
                row.field("tx", health.tx_bytes as f64);
                row.field("temperature", health.temperature_celsius);
                row.field("power_usage", health.power_watts);
                for (name, value) in &health.extra {
                    row.field(name, *value);
                }
            }
            None => {
                row.field("rx", usage.received);
                row.field("tx", usage.sent);
            }
        }
        row.count("memory_bytes", memory);
        row.field("memory_percentage", percent(memory as f64, gpu.memory_bytes as f64));
        row.field("compute_percentage", compute);
        row.field("compute_tflops", compute / 100.0 * gpu.tflops);
        row
    }

    fn worker_row(&self, allocation: &Allocation, gpu: &Gpu, at: usize) -> Option<Row> {
        let sample = self.samples.of(&allocation.id)?;
        let usage = sample.usage.get(at)?;
        let limits = sample.status.devices.get(at)?.limits.clone().unwrap_or_default();
        let mut row = Row::new("tf_worker_usage")
            .tag("workload", allocation.workload())
            .tag("worker", allocation.name())
            .tag("namespace", allocation.namespace())
            .tag("pool", &self.config.pool)
            .tag("node", &self.config.node)
            .tag("uuid", &gpu.uuid)
            .tag("pod_name", allocation.request.pod.as_deref().unwrap_or_default())
            .tag("qos", allocation.qos.name());
        row.count("memory_bytes", usage.memory_bytes);
        row.field("memory_percentage", percent(usage.memory_bytes as f64, gpu.memory_bytes as f64));
        row.field("compute_percentage", usage.compute_percent);
        row.field("compute_tflops", usage.compute_percent / 100.0 * gpu.tflops);
        row.count("compute_throttled_cnt", limits.throttled);
        Some(row)
    }

    fn node_row(&self, gpus: &[Gpu], allocations: &[Allocation]) -> Row {
        let all = allocations.iter().map(|it| (it.id.clone(), it.clone())).collect();
        let (mut memory, mut tflops) = (0u64, 0.0);
        let (mut requested, mut limited, mut virtual_) = ([0.0; 2], [0.0; 2], [0.0; 2]);
        for gpu in gpus {
            let promised: Share = Agent::promised(&all, &gpu.uuid);
            let capacity = reservation::capacity(gpu, &self.config.oversubscription);
            memory += gpu.memory_bytes;
            tflops += gpu.tflops;
            requested[0] += promised.memory_request_bytes as f64;
            requested[1] += promised.compute_request_percent / 100.0 * gpu.tflops;
            limited[0] += promised.memory_limit_bytes as f64;
            limited[1] += promised.compute_limit_percent / 100.0 * gpu.tflops;
            virtual_[0] += capacity.memory_limit_bytes as f64;
            virtual_[1] += capacity.compute_limit_percent / 100.0 * gpu.tflops;
        }
        let mut row = Row::new("tf_node_metrics")
            .tag("node", &self.config.node)
            .tag("pool", &self.config.pool)
            .tag("phase", "Running");
        for (kind, sums) in [("allocated", requested), ("limited", limited)] {
            row.field(&format!("{kind}_tflops"), sums[1]);
            row.field(&format!("{kind}_tflops_percent"), percent(sums[1], tflops));
            row.field(&format!("{kind}_tflops_percent_virtual"), percent(sums[1], virtual_[1]));
            row.field(&format!("{kind}_vram_bytes"), sums[0]);
            row.field(&format!("{kind}_vram_percent"), percent(sums[0], memory as f64));
            row.field(&format!("{kind}_vram_percent_virtual"), percent(sums[0], virtual_[0]));
        }
        row.field("raw_cost", self.config.cost_per_hour * gpus.len() as f64);
        row.count("gpu_count", gpus.len() as u64);
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_separators_stay_one_name_and_nothing_unknown_is_written() {
        let mut out = String::new();
        let mut row = Row::new("t").tag("a", "x y,z=1").tag("b", "").tag("c", "line\nbreak");
        row.field("power", f64::NAN);
        row.field("used", 1.5);
        row.count("n", 3);
        row.end(&mut out, 99);
        Row::new("empty").tag("a", "b").end(&mut out, 1);
        assert_eq!(out, "t,a=x\\ y\\,z\\=1,c=linebreak used=1.5,n=3i 99\n");
    }
}
