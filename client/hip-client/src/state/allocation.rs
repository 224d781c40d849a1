//! Allocates and frees device memory, and resets a device.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use hip_api::types::*;
use session::arena::charge;

use super::memory::{Allocation, Kind};
use super::runtime::Runtime;
use super::thread;

impl Runtime {
    /// Allocates memory on the current device: returns an address, or out of memory, without a round trip unless memory
    /// is shared.
    pub fn allocate(&self, bytes: usize, flags: u32, pool: u64) -> Result<*mut c_void, hipError_t> {
        let (index, device) = self.current()?;
        if bytes == 0 {
            return Ok(std::ptr::null_mut());
        }
        let bytes = bytes as u64;
        device.ledger.book(charge(bytes))?;
        let Some(place) = self.memory.reserve(bytes, Kind::Device, index, flags, pool) else {
            device.ledger.give_back(charge(bytes));
            return Err(hipErrorOutOfMemory);
        };
        let operation = wire::Allocate { device: device.ordinal, kind: 0, address: place.start, bytes };
        self.allocate_remote(&operation).inspect_err(|_| {
            self.memory.remove(place.start);
            device.ledger.give_back(charge(bytes));
        })?;
        Ok(place.start as *mut c_void)
    }

    /// Frees the allocation that starts at `address`, of any kind.
    pub fn free(&self, address: u64) -> Result<Allocation, hipError_t> {
        if let Some(freed) = self.free_graph_memory(address) {
            return freed;
        }
        let allocation =
            self.memory.find(address).filter(|a| a.start == address).ok_or(hipErrorInvalidValue)?;
        match allocation.kind {
            Kind::Device => {
                // A pending copy of this process must still find its destination. Freeing also synchronizes with the
                // device, as in HIP, if the program could observe that in mirrored memory.
                if self.waits.copies_due.load(Ordering::SeqCst) > 0 || self.connection.mirrors().may_lag() {
                    let device = self.devices[allocation.device].ordinal;
                    self.call(&wire::SynchronizeDevice { device })?;
                }
                self.memory.remove(address).ok_or(hipErrorInvalidValue)?;
                self.devices[allocation.device].ledger.give_back(charge(allocation.bytes));
                self.post(&wire::Release { address }, &[])?;
            }
            // Managed variables cannot be freed.
            Kind::Managed if !self.memory.is_device_address(address) => return Err(hipErrorInvalidValue),
            Kind::Host | Kind::Managed => {
                let device = self.devices[allocation.device].ordinal;
                self.call(&wire::SynchronizeDevice { device })?;
                self.free_mirror(&allocation)?;
            }
            // Memory imported from another process through a pool is freed like the pool's own.
            Kind::Virtual => self.close_shared(address)?,
            Kind::Module | Kind::Registered => return Err(hipErrorInvalidValue),
        }
        Ok(allocation)
    }

    /// Drops everything the program held on `device`, after the worker has.
    pub fn reset_device(&self, device: usize) {
        let managed = |a: &Allocation| a.kind == Kind::Managed && self.memory.is_device_address(a.start);
        for allocation in self.memory.all_where(|a| a.device == device && managed(a)) {
            // Ignore failure: another thread may have removed it concurrently.
            let _ = self.forget_mirror(&allocation);
        }
        for allocation in
            self.memory.remove_where(|a| a.device == device && matches!(a.kind, Kind::Device | Kind::Module))
        {
            self.devices[device].ledger.give_back(charge(allocation.bytes));
            self.tables.textures.remove(allocation.start);
        }
        self.forget_physical(device);
        let streams = self.tables.streams.remove_where(|stream| stream.device == device);
        streams.iter().map(|stream| &stream.credit).for_each(|credit| self.reset_credit(credit));
        let null_stream = u64::from(self.devices[device].ordinal);
        self.fences.forget(null_stream, |stream| self.tables.streams.get(stream).is_some());
        self.reset_credit(&self.devices[device].credit);
        self.tables.events.remove_where(|event| event.device == device);
        let modules = self.tables.modules.remove_where(|module| module.device == device);
        self.tables.functions.remove_where(|function| function.device == device);
        self.kernels.binaries.lock().retain(|(_, on), _| *on != device);
        self.kernels.stubs.write().retain(|(_, on), _| *on != device);
        drop(modules);
        thread::forget_streams();
    }
}
