//! Stream-ordered allocation. Addresses are allocated at once; the worker frees in stream order.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hip_api::types::*;

use super::{Status, ipc, set};
use crate::graph::node::Work;
use crate::os::descriptor;
use crate::os::object_kind::Kind;
use crate::state::objects::Pool;
use crate::state::runtime::{Runtime, runtime};
use crate::state::streams;

pub unsafe fn hipMallocAsync(pointer: *mut *mut c_void, bytes: usize, on: hipStream_t) -> Status {
    let runtime = runtime()?;
    let device = runtime.resolve(on).map_err(streams::gone_is(hipErrorInvalidHandle))?.device;
    let pool = runtime.devices[device].current_pool.load(Ordering::Relaxed);
    // SAFETY: the caller's out-pointer.
    unsafe { hipMallocFromPoolAsync(pointer, bytes, pool as hipMemPool_t, on) }
}

pub unsafe fn hipMallocFromPoolAsync(
    pointer: *mut *mut c_void,
    bytes: usize,
    pool: hipMemPool_t,
    on: hipStream_t,
) -> Status {
    let runtime = runtime()?;
    let at = runtime.resolve(on).map_err(streams::gone_is(hipErrorInvalidHandle))?;
    let found = find(runtime, pool)?;
    if pointer.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let mut address = 0;
    let kept = runtime.record(at, || {
        let node = runtime.new_graph_allocation(found.device, bytes)?;
        address = node.memory.address;
        Ok(Work::Allocate(node))
    });
    if let Some(kept) = kept {
        // SAFETY: the caller's out-pointer, not null.
        return kept.and_then(|()| unsafe { set(pointer, address as *mut c_void) });
    }
    let address = runtime.allocate(bytes, 0, pool as u64)?;
    let used = found.used.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
    found.used_high.fetch_max(used, Ordering::Relaxed);
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(pointer, address) }
}

pub unsafe fn hipFreeAsync(pointer: *mut c_void, on: hipStream_t) -> Status {
    let runtime = runtime()?;
    let at = runtime.resolve(on).map_err(streams::gone_is(hipErrorInvalidHandle))?;
    if pointer.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let kept = runtime.record(at, || {
        let memory = runtime.graphs.memory.find(pointer as u64).filter(|it| it.will_be_freed());
        memory.map(Work::Free).ok_or(hipErrorInvalidValue)
    });
    if let Some(kept) = kept {
        return kept;
    }
    let freed = runtime.free(pointer as u64)?;
    if let Some(pool) = runtime.tables.pools.get(freed.pool) {
        pool.used.fetch_sub(freed.bytes, Ordering::Relaxed);
    }
    Ok(())
}

pub unsafe fn hipDeviceGetDefaultMemPool(pool: *mut hipMemPool_t, device: c_int) -> Status {
    let found = runtime()?.device(device)?.default_pool.load(Ordering::Relaxed);
    // SAFETY: the caller's out-pointer.
    unsafe { set(pool, found as hipMemPool_t) }
}

pub unsafe fn hipDeviceGetMemPool(pool: *mut hipMemPool_t, device: c_int) -> Status {
    let found =
        runtime()?.device(device).map_err(|_| hipErrorInvalidValue)?.current_pool.load(Ordering::Relaxed);
    // SAFETY: the caller's out-pointer.
    unsafe { set(pool, found as hipMemPool_t) }
}

pub unsafe fn hipDeviceSetMemPool(device: c_int, pool: hipMemPool_t) -> Status {
    let runtime = runtime()?;
    let on = runtime.device(device).map_err(|_| hipErrorInvalidValue)?;
    if find(runtime, pool)?.device != device as usize {
        return Err(hipErrorInvalidDevice);
    }
    on.current_pool.store(pool as u64, Ordering::Relaxed);
    Ok(())
}

pub unsafe fn hipMemPoolCreate(pool: *mut hipMemPool_t, properties: *const hipMemPoolProps) -> Status {
    if pool.is_null() || properties.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    // SAFETY: the caller's struct, not null.
    let properties = unsafe { *properties };
    if properties.allocType != hipMemAllocationTypePinned
        || properties.location.r#type != hipMemLocationTypeDevice
        || !matches!(properties.handleTypes, hipMemHandleTypeNone | hipMemHandleTypePosixFileDescriptor)
    {
        return Err(hipErrorInvalidValue);
    }
    runtime.device(properties.location.id)?;
    let shareable = properties.handleTypes == hipMemHandleTypePosixFileDescriptor;
    let made = runtime.new_pool(properties.location.id as usize, shareable)?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(pool, made as hipMemPool_t) }
}

pub unsafe fn hipMemPoolDestroy(pool: hipMemPool_t) -> Status {
    let runtime = runtime()?;
    let found = find(runtime, pool)?;
    let device = &runtime.devices[found.device];
    if device.default_pool.load(Ordering::Relaxed) == pool as u64 {
        return Err(hipErrorInvalidValue);
    }
    let _ = device.current_pool.compare_exchange(
        pool as u64,
        device.default_pool.load(Ordering::Relaxed),
        Ordering::Relaxed,
        Ordering::Relaxed,
    );
    runtime.tables.pools.remove(pool as u64).map(|_| ()).ok_or(hipErrorInvalidValue)
}

pub unsafe fn hipMemPoolGetAttribute(
    pool: hipMemPool_t,
    attribute: hipMemPoolAttr,
    value: *mut c_void,
) -> Status {
    let found = find(runtime()?, pool)?;
    if value.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the attribute determines the type behind `value`: int for the reuse policies, u64 for the rest.
    unsafe {
        match attribute {
            hipMemPoolReuseFollowEventDependencies
            | hipMemPoolReuseAllowOpportunistic
            | hipMemPoolReuseAllowInternalDependencies => {
                let known = found.attributes.lock().get(&attribute.0).copied().unwrap_or(0);
                set(value.cast::<c_int>(), known as c_int)
            }
            hipMemPoolAttrReleaseThreshold => {
                let known = found.attributes.lock().get(&attribute.0).copied().unwrap_or(0);
                set(value.cast::<u64>(), known)
            }
            hipMemPoolAttrReservedMemCurrent | hipMemPoolAttrUsedMemCurrent => {
                set(value.cast::<u64>(), found.used.load(Ordering::Relaxed))
            }
            hipMemPoolAttrReservedMemHigh | hipMemPoolAttrUsedMemHigh => {
                set(value.cast::<u64>(), found.used_high.load(Ordering::Relaxed))
            }
            _ => Err(hipErrorInvalidValue),
        }
    }
}

pub unsafe fn hipMemPoolSetAttribute(
    pool: hipMemPool_t,
    attribute: hipMemPoolAttr,
    value: *mut c_void,
) -> Status {
    let found = find(runtime()?, pool)?;
    if value.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: as in hipMemPoolGetAttribute.
    let given = unsafe {
        match attribute {
            hipMemPoolReuseFollowEventDependencies
            | hipMemPoolReuseAllowOpportunistic
            | hipMemPoolReuseAllowInternalDependencies => *value.cast::<c_int>() as u64,
            hipMemPoolAttrReleaseThreshold => *value.cast::<u64>(),
            // The high-water marks can only be reset.
            hipMemPoolAttrReservedMemHigh | hipMemPoolAttrUsedMemHigh if *value.cast::<u64>() == 0 => {
                found.used_high.store(found.used.load(Ordering::Relaxed), Ordering::Relaxed);
                return Ok(());
            }
            _ => return Err(hipErrorInvalidValue),
        }
    };
    found.attributes.lock().insert(attribute.0, given);
    Ok(())
}

/// A pool caches no memory, so there is never anything to trim.
pub unsafe fn hipMemPoolTrimTo(pool: hipMemPool_t, _keep: usize) -> Status {
    find(runtime()?, pool).map(|_| ())
}

pub unsafe fn hipMemPoolGetAccess(
    flags: *mut hipMemAccessFlags,
    pool: hipMemPool_t,
    location: *mut hipMemLocation,
) -> Status {
    let runtime = runtime()?;
    find(runtime, pool)?;
    if location.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's struct, not null.
    runtime.device(unsafe { (*location).id })?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(flags, hipMemAccessFlagsProtReadWrite) }
}

/// Every device of a worker can access every pool; revoking access from a pool's own device is refused, as in HIP.
pub unsafe fn hipMemPoolSetAccess(pool: hipMemPool_t, list: *const hipMemAccessDesc, count: usize) -> Status {
    let runtime = runtime()?;
    let found = find(runtime, pool)?;
    if list.is_null() && count > 0 {
        return Err(hipErrorInvalidValue);
    }
    for i in 0..count {
        // SAFETY: the caller's array of `count` entries.
        let entry = unsafe { *list.add(i) };
        runtime.device(entry.location.id)?;
        if entry.location.id as usize == found.device && entry.flags == hipMemAccessFlagsProtNone {
            return Err(hipErrorInvalidDevice);
        }
    }
    Ok(())
}

/// A pool is only a label for allocations, so its shareable handle contains just its device.
pub unsafe fn hipMemPoolExportToShareableHandle(
    shareable: *mut c_void,
    pool: hipMemPool_t,
    kind: hipMemAllocationHandleType,
    flags: c_uint,
) -> Status {
    if !descriptor::SUPPORTED {
        return Err(hipErrorNotSupported);
    }
    let found = find(runtime()?, pool)?;
    if shareable.is_null() || flags != 0 || kind != hipMemHandleTypePosixFileDescriptor || !found.shareable {
        return Err(hipErrorInvalidValue);
    }
    let mut content = [0; 32];
    content[..8].copy_from_slice(&(found.device as u64).to_le_bytes());
    let fd = descriptor::make(Kind::Pool, content).map_err(|_| hipErrorOutOfMemory)?;
    // SAFETY: the handle type determines the type behind the pointer: a file descriptor.
    unsafe { set(shareable.cast(), fd) }
}

pub unsafe fn hipMemPoolImportFromShareableHandle(
    pool: *mut hipMemPool_t,
    shareable: *mut c_void,
    kind: hipMemAllocationHandleType,
    flags: c_uint,
) -> Status {
    if !descriptor::SUPPORTED {
        return Err(hipErrorNotSupported);
    }
    if pool.is_null() || flags != 0 || kind != hipMemHandleTypePosixFileDescriptor {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    // SAFETY: the caller's descriptor, or its address.
    let content = descriptor::read(Kind::Pool, unsafe { descriptor::of(shareable) });
    let device = content.and_then(|content| content.first_chunk().copied()).map(u64::from_le_bytes);
    let device = device.ok_or(hipErrorInvalidValue)? as usize;
    runtime.devices.get(device).ok_or(hipErrorInvalidDevice)?;
    let made = runtime.new_pool(device, true)?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(pool, made as hipMemPool_t) }
}

pub unsafe fn hipMemPoolExportPointer(data: *mut hipMemPoolPtrExportData, pointer: *mut c_void) -> Status {
    if data.is_null() || pointer.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let pool = runtime.memory.find(pointer as u64).and_then(|it| runtime.tables.pools.get(it.pool));
    if !pool.is_some_and(|pool| pool.shareable) {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(data, ipc::export_pointer(runtime, pointer as u64)?) }
}

pub unsafe fn hipMemPoolImportPointer(
    pointer: *mut *mut c_void,
    pool: hipMemPool_t,
    data: *mut hipMemPoolPtrExportData,
) -> Status {
    if pointer.is_null() || data.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    find(runtime, pool)?;
    // SAFETY: the caller's struct, not null.
    let opened = ipc::import_pointer(runtime, unsafe { &*data })?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(pointer, opened as *mut c_void) }
}

fn find(runtime: &Runtime, pool: hipMemPool_t) -> Result<Arc<Pool>, hipError_t> {
    runtime.tables.pools.get(pool as u64).ok_or(hipErrorInvalidValue)
}
