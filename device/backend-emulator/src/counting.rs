//! Counting what kernels execute, while somebody wants to know.

use std::sync::Arc;

use backend::{Counters, DeviceError};
use emulator::observe::{KernelProfile, ObserveOptions, Observer};
use parking_lot::Mutex;

/// The counts of one device.
#[derive(Debug, Default)]
pub(crate) struct Counting(Mutex<Option<Arc<Observer>>>);

impl Counting {
    /// Starts anew, whatever was counted before.
    pub(crate) fn begin(&self) {
        let options = ObserveOptions { profile: true, ..ObserveOptions::default() };
        *self.0.lock() = Some(Arc::new(Observer::new(options, None)));
    }

    pub(crate) fn end(&self) -> Result<Counters, DeviceError> {
        let observer = self.0.lock().take();
        let observer = observer.ok_or_else(|| DeviceError::invalid_value("nothing is being counted"))?;
        let mut counters = Counters::default();
        for profile in observer.profile().unwrap_or_default() {
            add(&mut counters, &profile);
        }
        Ok(counters)
    }

    /// Whether somebody counts.
    pub(crate) fn is_on(&self) -> bool {
        self.0.lock().is_some()
    }

    /// What is to look at a launch, if anything is.
    pub(crate) fn observer(&self) -> Option<Arc<Observer>> {
        self.0.lock().clone()
    }
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
            // The emulator's own are of no program.
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
