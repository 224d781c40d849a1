//! Memory with a side in this process and one on the worker: allocated, mirrored on demand, shared and freed.

use std::ffi::c_void;

use hip_api::types::*;
use session::arena::charge;

use super::memory::{Allocation, Kind};
use super::runtime::Runtime;
use super::{Status, thread, variables};
use crate::os::memory::{self as pages, PAGE};
use crate::process::env;
use crate::telemetry::report;

/// Kinds of memory on the wire.
const MANAGED: u32 = 1;
const PINNED: u32 = 2;

impl Runtime {
    /// Allocates memory with the same address in this process and on the worker. Managed memory is charged to the device.
    pub fn allocate_mirror(&self, bytes: usize, kind: Kind, flags: u32) -> Result<*mut c_void, hipError_t> {
        let (index, device) = self.current()?;
        let managed = kind == Kind::Managed;
        let cost = if managed { charge(bytes as u64) } else { 0 };
        device.ledger.book(cost)?;
        let place = self.reserve_mirror(bytes, kind, index, flags);
        let place = place.inspect_err(|_| device.ledger.give_back(cost))?;
        let start = place.start as *mut c_void;
        if kind == Kind::Host && !env::mapped_at_once() {
            self.host_memory.unmirrored.insert(place.start..place.end());
            return Ok(start);
        }
        if let Err(error) = self.show_mirror(&place) {
            // Also returns the charged bytes to the ledger.
            let _ = self.forget_mirror(&place);
            return Err(error);
        }
        Ok(start)
    }

    /// Reserves addresses and makes them accessible in this process.
    fn reserve_mirror(
        &self,
        bytes: usize,
        kind: Kind,
        index: usize,
        flags: u32,
    ) -> Result<Allocation, hipError_t> {
        let length = bytes.checked_next_multiple_of(PAGE).ok_or(hipErrorOutOfMemory)?;
        let place = self.memory.reserve(bytes as u64, kind, index, flags, 0).ok_or(hipErrorOutOfMemory)?;
        let start = place.start as *mut c_void;
        // SAFETY: the pages lie in this session's reservation and were just reserved for this range alone.
        if unsafe { pages::commit(start, length) }.is_err() {
            self.memory.remove(place.start);
            return Err(hipErrorOutOfMemory);
        }
        Ok(place)
    }

    /// Allocates the worker's side of memory of this process and adds it to the mirrors.
    fn show_mirror(&self, place: &Allocation) -> Status {
        let kind = if place.kind == Kind::Managed { MANAGED } else { PINNED };
        let device = self.devices[place.device].ordinal;
        let operation = wire::Allocate { device, kind, address: place.start, bytes: place.bytes };
        match place.kind {
            Kind::Managed if self.shares_memory() => self.allocate_remote(&operation)?,
            _ => self.allocate_mirror_side(&operation)?,
        }
        let mirrors = self.connection.mirrors();
        // SAFETY: accessible until `forget_mirror`, which removes it from the mirrors first.
        let inserted = unsafe { mirrors.insert(place.start, place.start, place.bytes as usize, true) };
        if inserted.is_err() {
            self.post(&wire::Release { address: place.start }, &[])?;
            return Err(hipErrorOutOfMemory);
        }
        self.memory.show(place.start, place.start);
        Ok(())
    }

    /// Mirrors pinned memory on the worker, because its address is about to be sent to the device.
    pub fn expose(&self, start: u64) -> Status {
        // Avoids a deadlock: a thread that a stream waits for must not wait for a thread that waits for the stream.
        let waits = !thread::holds_stream();
        let Some(_one) = (if waits {
            Some(self.host_memory.exposing.lock())
        } else {
            self.host_memory.exposing.try_lock()
        }) else {
            return Ok(());
        };
        let found =
            self.memory.find(start).filter(|a| a.start == start && a.kind == Kind::Host && a.view == 0);
        let Some(place) = found else { return Ok(()) };
        if self.connection.awaits_bytes(place.start, place.bytes) {
            if !waits {
                return Ok(());
            }
            // Bytes still to arrive here come from other device memory and would be missing in the mirror. Calls the
            // connection directly: errors of earlier work must be reported by the program's next synchronizing call.
            for device in &self.devices {
                let wait = wire::SynchronizeDevice { device: device.ordinal };
                let _ = self.connection.call(&wait, thread::current_call());
            }
        }
        self.show_mirror(&place)?;
        self.host_memory.unmirrored.remove(start);
        Ok(())
    }

    /// Mirrors all pinned memory whose address occurs in `bytes`, which are about to be sent to the device.
    pub fn expose_in(&self, bytes: &[u8]) -> Status {
        self.host_memory.unmirrored.search(bytes).into_iter().try_for_each(|start| self.expose(start))
    }

    /// Frees memory of `allocate_mirror`, or of `allocate_unmapped` where mapping is disabled.
    pub fn free_mirror(&self, allocation: &Allocation) -> Status {
        // Not while `expose` is mirroring it.
        let _one = self.host_memory.exposing.lock();
        let now = self.memory.find(allocation.start).ok_or(hipErrorInvalidValue)?;
        self.forget_mirror(&now)?;
        match now.view {
            0 => Ok(()),
            _ => self.post(&wire::Release { address: now.start }, &[]),
        }
    }

    /// Like [`free_mirror`](Self::free_mirror), without a request to the worker.
    pub fn forget_mirror(&self, allocation: &Allocation) -> Status {
        self.memory.remove(allocation.start).ok_or(hipErrorInvalidValue)?;
        let (start, length) =
            (allocation.start as *mut c_void, (allocation.bytes as usize).next_multiple_of(PAGE));
        if !self.memory.is_device_address(allocation.start) {
            // SAFETY: this library made the mapping, and this call has just removed it from the table.
            unsafe { pages::unmap(start, length) };
            return Ok(());
        }
        if allocation.kind == Kind::Managed {
            self.host_memory.advised.lock().forget(allocation.start..allocation.end());
            self.devices[allocation.device].ledger.give_back(charge(allocation.bytes));
        }
        if allocation.view == 0 {
            self.host_memory.unmirrored.remove(allocation.start);
        } else {
            self.connection.mirrors().remove(allocation.start);
        }
        // SAFETY: the pages lie in this session's reservation and belonged to this range alone.
        unsafe { pages::decommit(start, length) };
        Ok(())
    }

    /// Mirrors memory of this process for kernels: at the same address if that is free on the worker, else at another.
    /// Returns the device address.
    ///
    /// # Safety
    /// The memory stays readable and writable until `unshare`.
    pub unsafe fn share(&self, address: u64, bytes: u64, ordinal: u32) -> Result<u64, hipError_t> {
        // Calls the connection directly: an occupied address is not an error of the program.
        let adopt = wire::Adopt { device: ordinal, address, bytes };
        let view = match self.connection.call(&adopt, thread::current_call()) {
            Ok(_) => address,
            // Another address would not help either.
            Err(failure) if failure.status == hipErrorOutOfMemory.0 as i32 => {
                return Err(hipErrorOutOfMemory);
            }
            Err(_) => {
                // Keeps the offset within a page: programs align by address.
                let inside = address % PAGE as u64;
                let room = bytes + inside;
                let base = self.memory.reserve_view(room).ok_or(hipErrorOutOfMemory)?;
                let operation = wire::Allocate { device: ordinal, kind: PINNED, address: base, bytes: room };
                self.allocate_mirror_side(&operation)
                    .inspect_err(|_| self.memory.release_view(base, room))?;
                base + inside
            }
        };
        // SAFETY: guaranteed by the caller.
        let inserted = unsafe { self.connection.mirrors().insert(address, view, bytes as usize, false) };
        if inserted.is_err() {
            self.unshare(address, bytes, view)?;
            return Err(hipErrorOutOfMemory);
        }
        Ok(view)
    }

    /// Reverts `share`.
    pub fn unshare(&self, address: u64, bytes: u64, view: u64) -> Status {
        self.connection.mirrors().remove(view);
        if view == address {
            return self.post(&wire::Release { address }, &[]);
        }
        let inside = address % PAGE as u64;
        self.memory.release_view(view - inside, bytes + inside);
        self.post(&wire::Release { address: view - inside }, &[])
    }

    /// Mirrors managed variables that are not mirrored yet.
    pub fn share_variables(&self) -> Status {
        let mut shared = self.host_memory.shared_variables.lock();
        let Some((start, bytes, variables)) = variables::beyond(*shared) else { return Ok(()) };
        if !env::mapped() {
            return Err(refuse("managed memory"));
        }
        let (index, device) = self.current()?;
        // SAFETY: memory of managed variables is never freed.
        let view = unsafe { self.share(start, bytes, device.ordinal)? };
        for variable in variables {
            let (at, length) = (variable.address, variable.bytes);
            self.memory.insert(at, length, Kind::Managed, index, hipMemAttachGlobal, 0);
            self.memory.show(at, view + (at - start));
        }
        *shared += bytes;
        Ok(())
    }

    /// Allocates host memory that is not mapped for kernels, for REMORA_MAPPED=refuse.
    pub fn allocate_unmapped(&self, bytes: usize, flags: u32) -> Result<*mut c_void, hipError_t> {
        let (index, _) = self.current()?;
        let length = bytes.checked_next_multiple_of(PAGE).ok_or(hipErrorOutOfMemory)?;
        let start = pages::map(length).map_err(|_| hipErrorOutOfMemory)?;
        self.memory.insert(start as u64, bytes as u64, Kind::Host, index, flags, 0);
        Ok(start)
    }
}

/// Reports a request for mapped memory that REMORA_MAPPED=refuse disables; returns the error.
pub fn refuse(what: &str) -> hipError_t {
    report::line(format_args!("{what} is refused: REMORA_MAPPED=refuse"));
    hipErrorNotSupported
}
