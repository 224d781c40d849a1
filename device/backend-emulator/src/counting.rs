//! Instruction counters of an emulated device, while a client has counting turned on.

use std::sync::Arc;

use backend::{Counters, DeviceError};
use emulator::observe::{KernelProfile, ObserveOptions, Observer};
use parking_lot::Mutex;

/// Counters of one device; `None` inside while counting is off.
#[derive(Debug, Default)]
pub(crate) struct Counting(Mutex<Option<Arc<Observer>>>);

impl Counting {
    /// Starts counting from zero and discards earlier counts.
    pub(crate) fn begin(&self) {
        let options = ObserveOptions { profile: true, ..ObserveOptions::default() };
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
