//! Allocates, frees and trims the memory of graphs.

use std::ffi::c_int;
use std::sync::Arc;

use hip_api::types::*;
use parking_lot::Mutex;
use session::arena::charge;

use super::memory::GraphAllocation;
use super::node::Allocate;
use crate::state::memory::{Allocation, Kind};
use crate::state::runtime::Runtime;

impl Runtime {
    /// A new allocation on a device; its address is reserved now.
    pub fn new_graph_allocation(&self, device: usize, bytes: usize) -> Result<Allocate, hipError_t> {
        if bytes == 0 {
            return Err(hipErrorInvalidValue);
        }
        let location = hipMemLocation { r#type: hipMemLocationTypeDevice, id: device as c_int };
        Ok(Allocate {
            memory: self.reserve_graph_memory(device, bytes as u64)?,
            properties: hipMemPoolProps {
                allocType: hipMemAllocationTypePinned,
                location,
                ..Default::default()
            },
            access: Vec::new(),
        })
    }

    /// Allocates it for a launch.
    pub fn begin_graph_allocation(&self, it: &GraphAllocation) -> Result<(), hipError_t> {
        let mut state = it.state.lock();
        let device = &self.devices[it.device];
        if !state.mapped {
            device.ledger.book(charge(it.bytes))?;
            let (address, bytes) = (it.address, it.bytes);
            let operation = wire::Allocate { device: device.ordinal, kind: 0, address, bytes };
            self.allocate_remote(&operation).inspect_err(|_| device.ledger.give_back(charge(bytes)))?;
            state.mapped = true;
            self.graphs.memory.change(it.device, |figures| figures.reserved += it.bytes);
        }
        if !std::mem::replace(&mut state.live, true) {
            self.graphs.memory.change(it.device, |figures| figures.used += it.bytes);
        }
        Ok(())
    }

    /// Frees it; returns false if it was not in use.
    pub fn end_graph_allocation(&self, it: &GraphAllocation) -> bool {
        let was_live = std::mem::replace(&mut it.state.lock().live, false);
        if was_live {
            self.graphs.memory.change(it.device, |figures| figures.used -= it.bytes);
        }
        was_live
    }

    fn unmap_graph_allocation(&self, it: &GraphAllocation) -> Result<(), hipError_t> {
        let mut state = it.state.lock();
        if std::mem::replace(&mut state.mapped, false) {
            self.devices[it.device].ledger.give_back(charge(it.bytes));
            self.graphs.memory.change(it.device, |figures| figures.reserved -= it.bytes);
            self.post(&wire::Release { address: it.address }, &[])?;
        }
        Ok(())
    }

    /// Reserves an address for memory that a node will allocate.
    pub fn reserve_graph_memory(
        &self,
        device: usize,
        bytes: u64,
    ) -> Result<Arc<GraphAllocation>, hipError_t> {
        let place = self.memory.reserve(bytes, Kind::Device, device, 0, 0).ok_or(hipErrorOutOfMemory)?;
        let made = Arc::new(GraphAllocation { address: place.start, bytes, device, state: Mutex::default() });
        self.graphs.memory.allocations.lock().insert(place.start, Arc::clone(&made));
        Ok(made)
    }

    /// Frees memory if a graph allocated it; `None` if none did.
    pub fn free_graph_memory(&self, address: u64) -> Option<Result<Allocation, hipError_t>> {
        let found = self.graphs.memory.find(address)?;
        let Some(booked) = self.memory.find(address).filter(|_| self.end_graph_allocation(&found)) else {
            return Some(Err(hipErrorInvalidValue));
        };
        drop(found);
        self.sweep_graph_memory();
        Some(Ok(booked))
    }

    /// Releases unused memory that no graph can allocate again.
    pub fn sweep_graph_memory(&self) {
        let mut allocations = self.graphs.memory.allocations.lock();
        if allocations.is_empty() {
            return;
        }
        let gone = |it: &Arc<GraphAllocation>| Arc::strong_count(it) == 1 && !it.is_live();
        let swept: Vec<_> = allocations.extract_if(|_, it| gone(it)).map(|(_, it)| it).collect();
        drop(allocations);
        for allocation in swept {
            // Fails only if the session is over, and then nothing needs to be released.
            let _ = self.unmap_graph_allocation(&allocation);
            self.memory.remove(allocation.address);
        }
    }

    /// Releases the unused graph memory of a device.
    pub fn trim_graph_memory(&self, device: usize) -> Result<(), hipError_t> {
        let allocations: Vec<_> = self.graphs.memory.allocations.lock().values().cloned().collect();
        for allocation in allocations.iter().filter(|it| it.device == device && !it.is_live()) {
            self.unmap_graph_allocation(allocation)?;
        }
        Ok(())
    }
}
