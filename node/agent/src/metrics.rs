//! `/metrics` in the Prometheus text format. Names and units follow its conventions: base units, `_total` for counters.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::agent::Agent;
use crate::allocation::Allocation;
use crate::reservation;

/// One metric family with all its samples.
struct Figure<'a> {
    out: &'a mut String,
    name: &'static str,
}

/// The output text. The format requires the samples of a metric family to be contiguous.
#[derive(Default)]
struct Page {
    out: String,
}

impl Page {
    fn figure(&mut self, kind: &str, name: &'static str, help: &str) -> Figure<'_> {
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Figure { out: &mut self.out, name }
    }
}

impl Figure<'_> {
    fn row(&mut self, labels: &str, value: f64) {
        if value.is_finite() {
            let _ = writeln!(self.out, "{}{{{labels}}} {value}", self.name);
        }
    }

    fn plain(&mut self, value: f64) {
        let _ = writeln!(self.out, "{} {value}", self.name);
    }
}

/// Formats labels as `name="value"`, joined by commas.
fn labels(pairs: &[(&str, &str)]) -> String {
    let quoted = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let all: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{name}=\"{}\"", quoted(value))).collect();
    all.join(",")
}

impl Agent {
    /// Formats all metrics as text.
    pub(crate) fn prometheus(&self) -> String {
        let mut page = Page::default();
        let allocations: Vec<Allocation> = self.allocations.lock().values().cloned().collect();
        self.agent_figures(&mut page, allocations.len());
        self.device_figures(&mut page, &allocations);
        self.worker_figures(&mut page, &allocations);
        self.session_figures(&mut page, &allocations);
        page.out
    }

    fn agent_figures(&self, page: &mut Page, allocations: usize) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        let it = &self.counters;
        let up = self.started.elapsed().as_secs_f64();
        page.figure("gauge", "remora_agent_uptime_seconds", "Time since the agent started.").plain(up);
        page.figure("gauge", "remora_agent_allocations", "Current allocations.").plain(allocations as f64);
        for (name, help, counter) in [
            ("remora_agent_allocations_created_total", "Allocations created.", &it.created),
            ("remora_agent_allocations_refused_total", "Allocation requests that failed.", &it.refused),
            ("remora_agent_allocations_released_total", "Allocations released.", &it.released),
            (
                "remora_agent_allocations_expired_total",
                "Allocations released because their lease ended.",
                &it.expired,
            ),
            ("remora_agent_worker_restarts_total", "Worker restarts.", &it.restarts),
            ("remora_agent_push_batches_total", "Batches of metrics written to the spool.", &it.push_batches),
            ("remora_agent_push_bytes_total", "Bytes of metrics accepted by the receiver.", &it.pushed_bytes),
            ("remora_agent_push_failures_total", "Failed attempts to send a batch.", &it.push_failures),
            (
                "remora_agent_push_dropped_bytes_total",
                "Bytes of metrics dropped from the spool.",
                &it.dropped_bytes,
            ),
        ] {
            page.figure("counter", name, help).plain(read(counter));
        }
        let spooled = read(&it.spooled_bytes);
        page.figure("gauge", "remora_agent_push_spool_bytes", "Bytes of metrics in the spool.")
            .plain(spooled);
    }

    fn device_figures(&self, page: &mut Page, allocations: &[Allocation]) {
        let all = allocations.iter().map(|it| (it.id.clone(), it.clone())).collect();
        let gpus = self.gpus.read().clone();
        let rows: Vec<_> = gpus
            .iter()
            .map(|gpu| {
                let index = gpu.index.to_string();
                let labels = labels(&[
                    ("node", &self.config.node),
                    ("pool", &self.config.pool),
                    ("device", &gpu.uuid),
                    ("index", &index),
                    ("model", &gpu.model),
                    ("vendor", &gpu.vendor),
                ]);
                let promised = Agent::promised(&all, &gpu.uuid);
                let capacity = reservation::capacity(gpu, &self.config.oversubscription);
                (labels, gpu, promised, capacity, self.device_usage(gpu, allocations))
            })
            .collect();
        macro_rules! gauges {
            ($($name:literal $help:literal |$gpu:pat_param, $promised:pat_param, $capacity:pat_param, $usage:pat_param| $value:expr;)*) => {$({
                let mut figure = page.figure("gauge", $name, $help);
                for (labels, $gpu, $promised, $capacity, $usage) in &rows {
                    figure.row(labels, $value);
                }
            })*};
        }
        gauges! {
            "remora_device_memory_total_bytes" "Memory of the GPU." |gpu, _, _, _| gpu.memory_bytes as f64;
            "remora_device_memory_used_bytes" "GPU memory used by workers." |_, _, _, usage| usage.memory_bytes as f64;
            "remora_device_memory_requested_bytes" "Sum of the memory requests." |_, promised, _, _| promised.memory_request_bytes as f64;
            "remora_device_memory_limited_bytes" "Sum of the memory limits." |_, promised, _, _| promised.memory_limit_bytes as f64;
            "remora_device_memory_limit_capacity_bytes" "Largest allowed sum of the memory limits." |_, _, capacity, _| capacity.memory_limit_bytes as f64;
            "remora_device_compute_used_ratio" "Share of the GPU's time used by workers." |_, _, _, usage| usage.compute_percent / 100.0;
            "remora_device_compute_requested_ratio" "Sum of the compute requests." |_, promised, _, _| promised.compute_request_percent / 100.0;
            "remora_device_compute_limited_ratio" "Sum of the compute limits." |_, promised, _, _| promised.compute_limit_percent / 100.0;
            "remora_device_compute_limit_capacity_ratio" "Largest allowed sum of the compute limits." |_, _, capacity, _| capacity.compute_limit_percent / 100.0;
            "remora_device_peak_tflops" "Half-precision peak." |gpu, _, _, _| gpu.tflops;
        }
        let known: Vec<_> = rows
            .iter()
            .filter_map(|(labels, gpu, ..)| Some((labels, self.samples.health(&gpu.uuid)?)))
            .collect();
        for (name, help, value) in [
            ("remora_device_power_watts", "Power, as reported by the vendor's library.", 0),
            ("remora_device_temperature_celsius", "Temperature, as reported by the vendor's library.", 1),
            (
                "remora_device_utilization_ratio",
                "Utilization by all processes, as reported by the vendor's library.",
                2,
            ),
        ] {
            let mut figure = page.figure("gauge", name, help);
            for (labels, health) in &known {
                let values = [
                    health.power_watts,
                    health.temperature_celsius,
                    f64::from(health.utilization_percent) / 100.0,
                ];
                figure.row(labels, values[value]);
            }
        }
    }

    fn allocation_labels(&self, it: &Allocation) -> String {
        labels(&[
            ("node", &self.config.node),
            ("pool", &self.config.pool),
            ("allocation", &it.id),
            ("worker", it.name()),
            ("namespace", it.namespace()),
            ("workload", it.workload()),
            ("pod", it.request.pod.as_deref().unwrap_or_default()),
            ("qos", it.qos.name()),
        ])
    }

    fn worker_figures(&self, page: &mut Page, allocations: &[Allocation]) {
        let mut figure = page.figure("gauge", "remora_worker_up", "Whether the worker answers.");
        for it in allocations {
            figure.row(&self.allocation_labels(it), f64::from(u8::from(self.samples.of(&it.id).is_some())));
        }
        let mut figure = page.figure("counter", "remora_worker_restarts_total", "Restarts of the worker.");
        for it in allocations {
            figure.row(&self.allocation_labels(it), f64::from(it.worker.restarts));
        }
        let mut figure = page.figure("gauge", "remora_worker_sessions", "Sessions of the worker.");
        for it in allocations {
            if let Some(sample) = self.samples.of(&it.id) {
                figure.row(&self.allocation_labels(it), sample.status.sessions.len() as f64);
            }
        }
        let rows: Vec<_> = allocations
            .iter()
            .filter_map(|it| Some((it, self.samples.of(&it.id)?)))
            .flat_map(|(it, sample)| {
                let devices = it.devices.iter().zip(sample.status.devices.clone()).zip(sample.usage.clone());
                let own = self.allocation_labels(it);
                let rows = devices.map(move |((uuid, device), usage)| {
                    let limits = device.limits.unwrap_or_default();
                    (format!("{own},{}", labels(&[("device", uuid)])), device.memory_used, limits, usage)
                });
                rows.collect::<Vec<_>>()
            })
            .collect();
        macro_rules! rows {
            ($($kind:literal $name:literal $help:literal |$memory:pat_param, $limits:pat_param, $usage:pat_param| $value:expr;)*) => {$({
                let mut figure = page.figure($kind, $name, $help);
                for (labels, $memory, $limits, $usage) in &rows {
                    figure.row(labels, $value);
                }
            })*};
        }
        rows! {
            "gauge" "remora_worker_memory_used_bytes" "Memory in use." |memory, _, _| *memory as f64;
            "gauge" "remora_worker_memory_limit_bytes" "Memory limit." |_, limits, _| limits.memory.map_or(f64::NAN, |limit| limit as f64);
            "counter" "remora_worker_allocations_refused_total" "Allocations refused at the limit." |_, limits, _| limits.refused as f64;
            "gauge" "remora_worker_compute_used_ratio" "Share of the GPU's time used." |_, _, usage| usage.compute_percent / 100.0;
            "gauge" "remora_worker_compute_limit_ratio" "Compute limit as a share of the GPU's time." |_, limits, _| limits.compute_percent / 100.0;
            "gauge" "remora_worker_compute_request_ratio" "Compute request as a share of the GPU's time." |_, limits, _| limits.compute_request_percent / 100.0;
            "counter" "remora_worker_compute_seconds_total" "GPU time used." |_, limits, _| limits.spent_ns as f64 / 1e9;
            "counter" "remora_worker_launches_total" "Kernels launched." |_, limits, _| limits.launches as f64;
            "counter" "remora_worker_throttled_total" "Launches that were throttled." |_, limits, _| limits.throttled as f64;
            "counter" "remora_worker_throttled_seconds_total" "Time that launches were throttled." |_, limits, _| limits.throttled_ns as f64 / 1e9;
        }
    }

    fn session_figures(&self, page: &mut Page, allocations: &[Allocation]) {
        let rows: Vec<_> = allocations
            .iter()
            .filter_map(|it| Some((self.allocation_labels(it), self.samples.of(&it.id)?)))
            .flat_map(|(own, sample)| {
                let sessions = sample.status.sessions.clone().into_iter().map(move |session| {
                    let (id, pid) = (wire::SessionId(session.id).to_string(), session.pid.to_string());
                    let named = labels(&[("session", &id), ("client", &session.client), ("pid", &pid)]);
                    (format!("{own},{named}"), session)
                });
                sessions.collect::<Vec<_>>()
            })
            .collect();
        macro_rules! rows {
            ($($kind:literal $name:literal $help:literal |$session:pat_param| $value:expr;)*) => {$({
                let mut figure = page.figure($kind, $name, $help);
                for (labels, $session) in &rows {
                    figure.row(labels, $value);
                }
            })*};
        }
        rows! {
            "gauge" "remora_session_memory_used_bytes" "Memory in use." |it| it.memory_used.iter().sum::<u64>() as f64;
            "counter" "remora_session_compute_seconds_total" "GPU time used, of all GPUs." |it| it.spent_ns.iter().sum::<u64>() as f64 / 1e9;
            "counter" "remora_session_requests_total" "Requests of the client." |it| it.requests as f64;
            "counter" "remora_session_round_trips_total" "Requests that waited for a response." |it| it.round_trips as f64;
            "counter" "remora_session_received_bytes_total" "Bytes from the client." |it| it.bytes_received as f64;
            "counter" "remora_session_sent_bytes_total" "Bytes to the client." |it| it.bytes_sent as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_quoted_and_unknown_values_left_out() {
        assert_eq!(labels(&[("a", "x\"y\\z\n"), ("b", "")]), "a=\"x\\\"y\\\\z\\n\",b=\"\"");
        let mut page = Page::default();
        let mut figure = page.figure("gauge", "g", "Help.");
        figure.row("a=\"1\"", 0.5);
        figure.row("a=\"2\"", f64::NAN);
        assert_eq!(page.out, "# HELP g Help.\n# TYPE g gauge\ng{a=\"1\"} 0.5\n");
    }
}
