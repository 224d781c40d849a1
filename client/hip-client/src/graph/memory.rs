//! Memory that graphs allocate: its address is fixed when the node is created, its lifetime begins with a launch.
//!
//! The memory of an allocation is mapped by the first launch. It stays mapped until it is trimmed or no graph can
//! allocate it any more, so later launches send nothing for it.

use std::collections::HashMap;
use std::sync::Arc;

use hip_api::types::*;
use parking_lot::Mutex;

use crate::state::memory::{Allocation, Kind};
use crate::state::runtime::Runtime;
use session::arena::charge;

/// Memory of an allocation node.
#[derive(Debug)]
pub struct GraphAllocation {
    pub address: u64,
    pub bytes: u64,
    /// Index of the visible device.
    pub device: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    mapped: bool,
    /// Set from the launch that allocates it until it is freed.
    live: bool,
    /// A free node for it exists.
    has_free: bool,
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
    allocations: Mutex<HashMap<u64, Arc<GraphAllocation>>>,
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

    /// Allocates it for a launch.
    pub fn begin(&self, runtime: &Runtime) -> Result<(), hipError_t> {
        let mut state = self.state.lock();
        let device = &runtime.devices[self.device];
        if !state.mapped {
            device.ledger.book(charge(self.bytes))?;
            let (address, bytes) = (self.address, self.bytes);
            let operation = wire::Allocate { device: device.ordinal, kind: 0, address, bytes };
            runtime.take(&operation).inspect_err(|_| device.ledger.give_back(charge(bytes)))?;
            state.mapped = true;
            runtime.graph_memory.change(self.device, |it| it.reserved += self.bytes);
        }
        if !std::mem::replace(&mut state.live, true) {
            runtime.graph_memory.change(self.device, |it| it.used += self.bytes);
        }
        Ok(())
    }

    /// Frees it; returns false if it was not in use.
    pub fn end(&self, runtime: &Runtime) -> bool {
        let was_live = std::mem::replace(&mut self.state.lock().live, false);
        if was_live {
            runtime.graph_memory.change(self.device, |it| it.used -= self.bytes);
        }
        was_live
    }

    fn unmap(&self, runtime: &Runtime) -> Result<(), hipError_t> {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.mapped, false) {
            runtime.devices[self.device].ledger.give_back(charge(self.bytes));
            runtime.graph_memory.change(self.device, |it| it.reserved -= self.bytes);
            runtime.post(&wire::Release { address: self.address }, &[])?;
        }
        Ok(())
    }
}

impl Runtime {
    /// Reserves an address for memory that a node will allocate.
    pub fn reserve_graph_memory(
        &self,
        device: usize,
        bytes: u64,
    ) -> Result<Arc<GraphAllocation>, hipError_t> {
        let place = self.memory.reserve(bytes, Kind::Device, device, 0, 0).ok_or(hipErrorOutOfMemory)?;
        let made = Arc::new(GraphAllocation { address: place.start, bytes, device, state: Mutex::default() });
        self.graph_memory.allocations.lock().insert(place.start, Arc::clone(&made));
        Ok(made)
    }

    /// Frees memory if a graph allocated it; `None` if none did.
    pub fn free_graph_memory(&self, address: u64) -> Option<Result<Allocation, hipError_t>> {
        let found = self.graph_memory.find(address)?;
        let Some(booked) = self.memory.find(address).filter(|_| found.end(self)) else {
            return Some(Err(hipErrorInvalidValue));
        };
        drop(found);
        self.sweep_graph_memory();
        Some(Ok(booked))
    }

    /// Releases unused memory that no graph can allocate again.
    pub fn sweep_graph_memory(&self) {
        let mut allocations = self.graph_memory.allocations.lock();
        if allocations.is_empty() {
            return;
        }
        let gone = |it: &Arc<GraphAllocation>| Arc::strong_count(it) == 1 && !it.is_live();
        let swept: Vec<_> = allocations.extract_if(|_, it| gone(it)).map(|(_, it)| it).collect();
        drop(allocations);
        for allocation in swept {
            // Fails only if the session is over, and then nothing needs to be released.
            let _ = allocation.unmap(self);
            self.memory.remove(allocation.address);
        }
    }

    /// Releases the unused graph memory of a device.
    pub fn trim_graph_memory(&self, device: usize) -> Result<(), hipError_t> {
        let allocations: Vec<_> = self.graph_memory.allocations.lock().values().cloned().collect();
        for allocation in allocations.iter().filter(|it| it.device == device && !it.is_live()) {
            allocation.unmap(self)?;
        }
        Ok(())
    }
}
