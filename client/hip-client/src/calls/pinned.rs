//! Pinned host memory: allocated here or registered by the program, and mapped for kernels.

use std::ffi::{c_uint, c_void};

use hip_api::types::*;

use super::{Status, set};
use crate::os::memory::is_mapped;
use crate::process::env;
use crate::state::memory::{Allocation, Kind};
use crate::state::mirroring::refuse;
use crate::state::runtime::runtime;

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
        runtime.allocate_unmapped(bytes, flags)?
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
    if !is_mapped(address, bytes as u64) {
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
