//! Samples current usage: queries each worker's status, and the vendor's library for the GPUs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use worker_client::WorkerAddress;
use worker_status::Status;

use crate::agent::Agent;
use crate::provider::Health;

/// Sampling interval.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// A worker's usage of one of its GPUs between two samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    pub(crate) memory_bytes: u64,
    /// Percent of the GPU's time.
    pub(crate) compute_percent: f64,
    /// Bytes per second received from clients, and sent to them.
    pub(crate) received: f64,
    pub(crate) sent: f64,
}

/// The latest sample of a worker.
#[derive(Clone, Debug)]
pub(crate) struct WorkerSample {
    pub(crate) status: Status,
    at: Instant,
    /// Usage by device, in the order of the allocation's devices.
    pub(crate) usage: Vec<Usage>,
}

impl WorkerSample {
    /// Creates a sample. Rates are computed from the difference to the previous sample.
    pub(crate) fn new(status: Status, at: Instant, before: Option<&WorkerSample>) -> WorkerSample {
        // The counters of a restarted worker start at zero.
        let before =
            before.filter(|it| it.status.pid == status.pid && it.status.uptime_ms <= status.uptime_ms);
        let elapsed = before.map_or(0.0, |it| at.duration_since(it.at).as_secs_f64());
        let rate = |now: u64, then: u64| match elapsed > 0.0 {
            true => now.saturating_sub(then) as f64 / elapsed,
            false => 0.0,
        };
        let traffic = |status: &Status| {
            let sum = |bytes: fn(&worker_status::SessionStatus) -> u64| {
                status.sessions.iter().map(bytes).sum::<u64>()
            };
            (sum(|session| session.bytes_received), sum(|session| session.bytes_sent))
        };
        let (now, then) = (traffic(&status), before.map_or((0, 0), |it| traffic(&it.status)));
        let usage = status.devices.iter().enumerate().map(|(at, device)| {
            let spent = |status: &Status| {
                status.devices.get(at).and_then(|it| it.limits.as_ref()).map_or(0, |limits| limits.spent_ns)
            };
            let spent_then = before.map_or(0, |it| spent(&it.status));
            Usage {
                memory_bytes: device.memory_used,
                compute_percent: rate(spent(&status), spent_then) / 1e7,
                received: rate(now.0, then.0),
                sent: rate(now.1, then.1),
            }
        });
        let usage = usage.collect();
        WorkerSample { status, at, usage }
    }
}

/// The latest samples of all workers and GPUs.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    workers: Mutex<BTreeMap<String, Arc<WorkerSample>>>,
    health: Mutex<HashMap<String, Health>>,
}

impl Samples {
    pub(crate) fn of(&self, id: &str) -> Option<Arc<WorkerSample>> {
        self.workers.lock().get(id).cloned()
    }

    pub(crate) fn health(&self, uuid: &str) -> Option<Health> {
        self.health.lock().get(uuid).cloned()
    }

    pub(crate) fn forget(&self, id: &str) {
        self.workers.lock().remove(id);
    }
}

/// Body of the sampling thread: runs until the agent stops.
pub(crate) fn watch(agent: &Arc<Agent>) {
    while !agent.stopping.load(Ordering::Relaxed) {
        agent.look();
        std::thread::sleep(LOOK);
    }
}

impl Agent {
    /// Samples every worker and the vendor's library.
    pub(crate) fn look(&self) {
        let running: Vec<(String, WorkerAddress)> = {
            let allocations = self.allocations.lock();
            let running = allocations.values().filter(|it| it.worker.process.is_some());
            running.filter_map(|it| Some((it.id.clone(), crate::worker::place(&self.config, it)?))).collect()
        };
        for (id, place) in running {
            match place.inspect() {
                Ok(status) => {
                    let before = self.samples.of(&id);
                    let sample = WorkerSample::new(status, Instant::now(), before.as_deref());
                    // Do not insert a sample of an allocation that was released in the meantime.
                    if self.allocations.lock().contains_key(&id) {
                        self.samples.workers.lock().insert(id, Arc::new(sample));
                    }
                }
                Err(error) => {
                    tracing::debug!("allocation {id}: {error}");
                    self.samples.forget(&id);
                }
            }
        }
        if let Some(provider) = &self.provider {
            let uuids: Vec<String> = self.gpus.read().iter().map(|gpu| gpu.uuid.clone()).collect();
            let names: Vec<&str> = uuids.iter().map(String::as_str).collect();
            match provider.health(&names) {
                Ok(health) => *self.samples.health.lock() = uuids.into_iter().zip(health).collect(),
                Err(error) => tracing::warn!("{error}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use worker_status::{DeviceLimits, DeviceStatus, SessionStatus};

    use super::*;

    fn status(uptime_ms: u64, spent_ns: u64, bytes: u64) -> Status {
        let limits = Some(DeviceLimits { spent_ns, ..DeviceLimits::default() });
        Status {
            pid: 7,
            uptime_ms,
            devices: vec![DeviceStatus { memory_used: 5, limits, ..DeviceStatus::default() }],
            sessions: vec![SessionStatus { bytes_received: bytes, ..SessionStatus::default() }],
            ..Status::default()
        }
    }

    #[test]
    fn use_is_what_was_added_between_two_looks() {
        let start = Instant::now();
        let first = WorkerSample::new(status(1000, 9_000_000_000, 100), start, None);
        assert_eq!(first.usage[0], Usage { memory_bytes: 5, ..Usage::default() });
        let later = start + Duration::from_secs(4);
        let second = WorkerSample::new(status(5000, 10_000_000_000, 4100), later, Some(&first));
        let expected = Usage { memory_bytes: 5, compute_percent: 25.0, received: 1000.0, sent: 0.0 };
        assert_eq!(second.usage[0], expected);
        let anew = WorkerSample::new(status(10, 1_000_000, 0), later + LOOK, Some(&second));
        assert_eq!(anew.usage[0].compute_percent, 0.0);
    }
}
