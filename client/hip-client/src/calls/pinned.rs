//! Pinned host memory: allocated here or registered by the program, and mapped for kernels.

use std::ffi::{c_uint, c_void};

use hip_api::types::*;

use super::{Status, set};
use crate::process::env;
use crate::state::memory::{Allocation, Kind};
use crate::state::runtime::{Runtime, runtime};
use crate::state::thread;
use crate::state::variables;
use crate::telemetry::report;
use session::arena::charge;

const PAGE: usize = 4096;
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
            self.unseen.insert(place.start..place.end());
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
        if unsafe { libc::mprotect(start, length, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
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
            Kind::Managed if self.shares_memory() => self.take(&operation)?,
            _ => self.show(&operation)?,
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
        let Some(_one) = (if waits { Some(self.exposing.lock()) } else { self.exposing.try_lock() }) else {
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
        self.unseen.remove(start);
        Ok(())
    }

    /// Mirrors all pinned memory whose address occurs in `bytes`, which are about to be sent to the device.
    pub fn expose_in(&self, bytes: &[u8]) -> Status {
        self.unseen.search(bytes).into_iter().try_for_each(|start| self.expose(start))
    }

    /// Frees memory of `allocate_mirror`, or of `allocate_unseen` where mapping is disabled.
    pub fn free_mirror(&self, allocation: &Allocation) -> Status {
        // Not while `expose` is mirroring it.
        let _one = self.exposing.lock();
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
            unsafe { libc::munmap(start, length) };
            return Ok(());
        }
        if allocation.kind == Kind::Managed {
            self.advised.lock().forget(allocation.start..allocation.end());
            self.devices[allocation.device].ledger.give_back(charge(allocation.bytes));
        }
        if allocation.view == 0 {
            self.unseen.remove(allocation.start);
        } else {
            self.connection.mirrors().remove(allocation.start);
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: the pages lie in this session's reservation and belonged to this range alone; they return to PROT_NONE
        // without memory.
        unsafe { libc::mmap(start, length, libc::PROT_NONE, flags, -1, 0) };
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
                self.show(&operation).inspect_err(|_| self.memory.release_view(base, room))?;
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
    fn unshare(&self, address: u64, bytes: u64, view: u64) -> Status {
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
        let mut shared = self.shared_variables.lock();
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
    fn allocate_unseen(&self, bytes: usize, flags: u32) -> Result<*mut c_void, hipError_t> {
        let (index, _) = self.current()?;
        let length = bytes.checked_next_multiple_of(PAGE).ok_or(hipErrorOutOfMemory)?;
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh anonymous mapping replaces nothing.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(hipErrorOutOfMemory);
        }
        self.memory.insert(start as u64, bytes as u64, Kind::Host, index, flags, 0);
        Ok(start)
    }
}

/// Reports a request for mapped memory that REMORA_MAPPED=refuse disables; returns the error.
pub fn refuse(what: &str) -> hipError_t {
    report::line(format_args!("{what} is refused: REMORA_MAPPED=refuse"));
    hipErrorNotSupported
}

pub unsafe fn hipHostMalloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) -> Status {
    const KNOWN: c_uint = hipHostMallocPortable
        | hipHostMallocMapped
        | hipHostMallocWriteCombined
        | hipHostMallocUncached
        | hipHostMallocNumaUser
        | hipHostMallocCoherent
        | hipHostMallocNonCoherent;
    let contradictory = flags & hipHostMallocCoherent != 0 && flags & hipHostMallocNonCoherent != 0;
    if pointer.is_null() || flags & !KNOWN != 0 || contradictory {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    runtime.captures.refuse_unsafe()?;
    runtime.current()?;
    let made = if bytes == 0 {
        std::ptr::null_mut()
    } else if !env::mapped() {
        if flags & (hipHostMallocMapped | hipHostMallocCoherent) != 0 {
            return Err(refuse("mapped host memory"));
        }
        runtime.allocate_unseen(bytes, flags)?
    } else {
        runtime.allocate_mirror(bytes, Kind::Host, flags)?
    };
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(pointer, made) }
}

pub unsafe fn hipMallocHost(pointer: *mut *mut c_void, bytes: usize) -> Status {
    // SAFETY: the caller's out-pointer.
    unsafe { hipHostMalloc(pointer, bytes, hipHostMallocDefault) }
}

pub unsafe fn hipMemAllocHost(pointer: *mut *mut c_void, bytes: usize) -> Status {
    // SAFETY: the caller's out-pointer.
    unsafe { hipHostMalloc(pointer, bytes, hipHostMallocDefault) }
}

pub unsafe fn hipHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) -> Status {
    // SAFETY: the caller's out-pointer.
    unsafe { hipHostMalloc(pointer, bytes, flags) }
}

pub unsafe fn hipHostFree(pointer: *mut c_void) -> Status {
    let runtime = runtime()?;
    runtime.captures.refuse_unsafe()?;
    if pointer.is_null() {
        return Ok(());
    }
    let address = pointer as u64;
    let known = runtime.memory.find(address).filter(|a| a.kind == Kind::Host && a.start == address);
    let allocation = known.ok_or(hipErrorInvalidValue)?;
    // Work that still uses the buffer must finish first.
    let (_, device) = runtime.current()?;
    runtime.call(&wire::SynchronizeDevice { device: device.ordinal })?;
    runtime.free_mirror(&allocation)
}

pub unsafe fn hipFreeHost(pointer: *mut c_void) -> Status {
    // SAFETY: the caller's pointer.
    unsafe { hipHostFree(pointer) }
}

/// Registered memory has its host address on the device if that is free on the worker, else another one, which
/// hipHostGetDevicePointer returns.
pub unsafe fn hipHostRegister(pointer: *mut c_void, bytes: usize, flags: c_uint) -> Status {
    const KNOWN: c_uint = hipHostRegisterPortable
        | hipHostRegisterMapped
        | hipHostRegisterIoMemory
        | hipHostRegisterReadOnly
        | hipExtHostRegisterCoarseGrained
        | hipExtHostRegisterUncached;
    let runtime = runtime()?;
    let (index, device) = runtime.current()?;
    let address = pointer as u64;
    let wraps = address.checked_add(bytes as u64).is_none();
    if pointer.is_null() || bytes == 0 || wraps || flags & !KNOWN != 0 {
        return Err(hipErrorInvalidValue);
    }
    if runtime.memory.is_device_address(address) && runtime.memory.find(address).is_none() {
        return Err(hipErrorInvalidValue);
    }
    if runtime.memory.overlaps(address, bytes as u64) {
        return Err(hipErrorHostMemoryAlreadyRegistered);
    }
    // Unmapped memory could not be pinned either, and this library reads the range later.
    if !is_there(address, bytes as u64) {
        return Err(hipErrorInvalidValue);
    }
    if !env::mapped() {
        if flags & hipHostRegisterMapped != 0 {
            return Err(refuse("mapped host memory"));
        }
        runtime.memory.insert(address, bytes as u64, Kind::Registered, index, flags, 0);
        return Ok(());
    }
    // SAFETY: the program keeps registered memory valid until it has unregistered it.
    let view = unsafe { runtime.share(address, bytes as u64, device.ordinal)? };
    runtime.memory.insert(address, bytes as u64, Kind::Registered, index, flags, 0);
    runtime.memory.show(address, view);
    Ok(())
}

/// Whether a whole range is mapped in this process.
fn is_there(address: u64, bytes: u64) -> bool {
    const PAGE: u64 = 4096;
    const PIECE: u64 = 1 << 30;
    let (mut at, end) = (address & !(PAGE - 1), address + bytes);
    let mut pages = vec![0; (end - at).min(PIECE).div_ceil(PAGE) as usize];
    while at < end {
        let piece = (end - at).min(PIECE);
        // SAFETY: mincore does not access the range, and `pages` has a byte for each page of a piece.
        if unsafe { libc::mincore(at as *mut c_void, piece as usize, pages.as_mut_ptr()) } != 0 {
            return false;
        }
        at += piece;
    }
    true
}

pub unsafe fn hipHostUnregister(pointer: *mut c_void) -> Status {
    let runtime = runtime()?;
    if pointer.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let address = pointer as u64;
    let known = runtime.memory.find(address);
    let allocation = known
        .filter(|a| a.kind == Kind::Registered && a.start == address)
        .ok_or(hipErrorHostMemoryNotRegistered)?;
    // The program receives what kernels wrote; afterwards they cannot access the memory.
    let (_, device) = runtime.current()?;
    runtime.call(&wire::SynchronizeDevice { device: device.ordinal })?;
    runtime.memory.remove(address);
    let view = allocation.view;
    if view == 0 {
        return Ok(());
    }
    runtime.unshare(address, allocation.bytes, view)
}

pub unsafe fn hipHostGetDevicePointer(device: *mut *mut c_void, host: *mut c_void, flags: c_uint) -> Status {
    let runtime = runtime()?;
    if device.is_null() || host.is_null() || flags != 0 {
        return Err(hipErrorInvalidValue);
    }
    let found = runtime.memory.find(host as u64).filter(Allocation::is_host);
    let found = found.ok_or(hipErrorInvalidValue)?;
    if !env::mapped() {
        return Err(refuse("a device pointer to host memory"));
    }
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(device, (runtime.memory.seen_at(&found) + (host as u64 - found.start)) as *mut c_void) }
}

pub unsafe fn hipHostGetFlags(flags: *mut c_uint, pointer: *mut c_void) -> Status {
    let found = runtime()?.memory.find(pointer as u64);
    let found = found.filter(|a| matches!(a.kind, Kind::Host | Kind::Registered));
    // SAFETY: the caller's out-pointer.
    unsafe { set(flags, found.ok_or(hipErrorInvalidValue)?.flags) }
}
