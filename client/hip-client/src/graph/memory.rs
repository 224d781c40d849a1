//! Memory that graphs allocate: its address is fixed when the node is created, its lifetime begins with a launch.
//!
//! The memory of an allocation is mapped by the first launch. It stays mapped until it is trimmed or no graph can
//! allocate it any more, so later launches send nothing for it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Memory of an allocation node.
#[derive(Debug)]
pub struct GraphAllocation {
    pub address: u64,
    pub bytes: u64,
    /// Index of the visible device.
    pub device: usize,
    pub(super) state: Mutex<AllocationState>,
}

#[derive(Debug, Default)]
pub(super) struct AllocationState {
    pub mapped: bool,
    /// Set from the launch that allocates it until it is freed.
    pub live: bool,
    /// A free node for it exists.
    pub has_free: bool,
}

/// Graph memory statistics of a device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub used: u64,
    pub used_high: u64,
    pub reserved: u64,
    pub reserved_high: u64,
}

/// All memory of graphs.
#[derive(Debug, Default)]
pub struct GraphMemory {
    pub(super) allocations: Mutex<HashMap<u64, Arc<GraphAllocation>>>,
    figures: Mutex<HashMap<usize, Figures>>,
}

impl GraphMemory {
    pub fn find(&self, address: u64) -> Option<Arc<GraphAllocation>> {
        self.allocations.lock().get(&address).cloned()
    }

    pub fn figures(&self, device: usize) -> Figures {
        self.figures.lock().get(&device).copied().unwrap_or_default()
    }

    pub fn change(&self, device: usize, change: impl FnOnce(&mut Figures)) {
        let mut figures = self.figures.lock();
        let figures = figures.entry(device).or_default();
        change(figures);
        figures.used_high = figures.used_high.max(figures.used);
        figures.reserved_high = figures.reserved_high.max(figures.reserved);
    }
}

impl GraphAllocation {
    /// Records that a free node exists; returns false if there already was one.
    pub fn will_be_freed(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().has_free, true)
    }

    pub fn is_live(&self) -> bool {
        self.state.lock().live
    }
}
