//! Instruction counters of an emulated device, while a client has counting turned on.

use std::collections::BTreeMap;
use std::sync::Arc;

use backend::{Counters, DeviceError};
use emulator::observe::model::{KernelEstimate, Resource, Transfer};
use emulator::observe::{KernelProfile, ObserveOptions, Observer};
use parking_lot::Mutex;

/// Counters of one device; `None` inside while counting is off.
#[derive(Debug, Default)]
pub(crate) struct Counting(Mutex<Option<Counted>>);

/// What was counted so far.
#[derive(Debug)]
struct Counted {
    observer: Arc<Observer>,
    /// Estimated times of copies and fills, by what limits them.
    transfers_ns: BTreeMap<Resource, f64>,
}

impl Counting {
    /// Starts counting from zero and discards earlier counts.
    pub(crate) fn begin(&self) {
        let options = ObserveOptions { profile: true, model: true, ..ObserveOptions::default() };
        let observer = Arc::new(Observer::new(options, None));
        *self.0.lock() = Some(Counted { observer, transfers_ns: BTreeMap::new() });
    }

    pub(crate) fn end(&self) -> Result<Counters, DeviceError> {
        let counted = self.0.lock().take();
        let Counted { observer, transfers_ns } =
            counted.ok_or_else(|| DeviceError::invalid_value("instruction counting was not started"))?;
        let mut counters = Counters::default();
        for profile in observer.profile().unwrap_or_default() {
            add(&mut counters, &profile);
        }
        add_estimates(&mut counters, &observer.model().unwrap_or_default(), &transfers_ns);
        Ok(counters)
    }

    /// Adds the estimated time of a copy or a fill.
    pub(crate) fn add_transfer(&self, transfer: Transfer, ns: f64) {
        let limit = match transfer {
            Transfer::Copy | Transfer::Fill => Resource::Hbm,
            Transfer::Peer => Resource::Link,
            Transfer::Host => Resource::HostLink,
        };
        if let Some(counted) = &mut *self.0.lock() {
            *counted.transfers_ns.entry(limit).or_default() += ns;
        }
    }

    /// Whether counting is on.
    pub(crate) fn is_on(&self) -> bool {
        self.0.lock().is_some()
    }

    /// The observer to attach to a launch, if counting is on.
    pub(crate) fn observer(&self) -> Option<Arc<Observer>> {
        self.0.lock().as_ref().map(|counted| Arc::clone(&counted.observer))
    }
}

fn add_estimates(
    counters: &mut Counters,
    kernels: &[KernelEstimate],
    transfers_ns: &BTreeMap<Resource, f64>,
) {
    for kernel in kernels {
        counters.estimated_ns += kernel.time_ns.round() as u64;
        counters.l1_hits += kernel.l1.hits;
        counters.l1_accesses += kernel.l1.accesses;
        counters.l2_hits += kernel.l2.hits;
        counters.l2_accesses += kernel.l2.accesses;
        counters.infinity_hits += kernel.infinity_cache.hits;
        counters.infinity_accesses += kernel.infinity_cache.accesses;
        counters.hbm_bytes += kernel.hbm_bytes;
    }
    counters.estimated_ns += transfers_ns.values().sum::<f64>().round() as u64;
    let kernels = kernels.iter().map(|kernel| (kernel.limit, kernel.time_ns));
    let transfers = transfers_ns.iter().map(|(limit, ns)| (*limit, *ns));
    let longest = kernels.chain(transfers).max_by(|one, other| one.1.total_cmp(&other.1));
    let limit = longest.and_then(|(limit, _)| Resource::ALL.iter().position(|it| *it == limit));
    counters.limit = limit.map_or(0, |index| index as u64 + 1);
}

fn add(counters: &mut Counters, profile: &KernelProfile) {
    counters.launches += profile.launches;
    counters.waves += profile.waves;
    for class in &profile.classes {
        let kind = match class.name.as_str() {
            "scalar" => &mut counters.scalar,
            "branch" => &mut counters.branches,
            "scalar memory" => &mut counters.scalar_memory,
            "vector" => &mut counters.vector,
            "matrix" => &mut counters.matrix,
            "local memory" => &mut counters.local_memory,
            "vector memory" | "private memory" => &mut counters.vector_memory,
            // Instructions of the emulator's own helper code are not part of the program.
            "emulator's own" => continue,
            _ => &mut counters.other,
        };
        *kind += class.instructions;
        counters.instructions += class.instructions;
    }
    let atomics = profile.global_atomics.bytes;
    counters.bytes_read += profile.global_loads.bytes + profile.scalar_loads.bytes + atomics;
    counters.bytes_written += profile.global_stores.bytes + atomics;
    let local = [&profile.local_loads, &profile.local_stores, &profile.local_atomics];
    counters.bank_conflicts += local.iter().map(|traffic| traffic.conflicts).sum::<u64>();
}
