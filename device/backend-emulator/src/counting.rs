//! Instruction counters of an emulated device, while a client has counting turned on.

use std::sync::Arc;

use backend::{Counters, DeviceError};
use emulator::observe::model::{KernelEstimate, Resource};
use emulator::observe::{KernelProfile, ObserveOptions, Observer};
use parking_lot::Mutex;

/// Counters of one device; `None` inside while counting is off.
#[derive(Debug, Default)]
pub(crate) struct Counting(Mutex<Option<Arc<Observer>>>);

impl Counting {
    /// Starts counting from zero and discards earlier counts.
    pub(crate) fn begin(&self) {
        let options = ObserveOptions { profile: true, model: true, ..ObserveOptions::default() };
        *self.0.lock() = Some(Arc::new(Observer::new(options, None)));
    }

    pub(crate) fn end(&self) -> Result<Counters, DeviceError> {
        let observer = self.0.lock().take();
        let observer =
            observer.ok_or_else(|| DeviceError::invalid_value("instruction counting was not started"))?;
        let mut counters = Counters::default();
        for profile in observer.profile().unwrap_or_default() {
            add(&mut counters, &profile);
        }
        add_estimates(&mut counters, &observer.model().unwrap_or_default());
        Ok(counters)
    }

    /// Whether counting is on.
    pub(crate) fn is_on(&self) -> bool {
        self.0.lock().is_some()
    }

    /// The observer to attach to a launch, if counting is on.
    pub(crate) fn observer(&self) -> Option<Arc<Observer>> {
        self.0.lock().clone()
    }
}

fn add_estimates(counters: &mut Counters, kernels: &[KernelEstimate]) {
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
    let longest = kernels.iter().max_by(|one, other| one.time_ns.total_cmp(&other.time_ns));
    let limit = longest.and_then(|kernel| Resource::ALL.iter().position(|it| *it == kernel.limit));
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
