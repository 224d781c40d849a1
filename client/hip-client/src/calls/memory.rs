//! Memory allocation and pointer queries.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::Ordering;

use hip_api::types::*;

pub use super::managed::*;
pub use super::pinned::*;
use super::{Status, set, set_if_wanted};
use crate::process::soname;
use crate::state::memory::{Allocation, Kind};
use crate::state::runtime::runtime;

/// Rows of a pitched allocation start on this boundary.
const PITCH: usize = 256;

pub unsafe fn hipMalloc(pointer: *mut *mut c_void, bytes: usize) -> Status {
    if pointer.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    runtime.captures.refuse_unsafe()?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(pointer, runtime.allocate(bytes, 0, 0)?) }
}

pub unsafe fn hipExtMallocWithFlags(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) -> Status {
    if pointer.is_null() || flags > hipDeviceMallocContiguous {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(pointer, runtime()?.allocate(bytes, flags, 0)?) }
}

pub unsafe fn hipFree(pointer: *mut c_void) -> Status {
    let runtime = runtime()?;
    runtime.captures.refuse_unsafe()?;
    if pointer.is_null() { Ok(()) } else { runtime.free(pointer as u64).map(|_| ()) }
}

pub unsafe fn hipMallocPitch(
    pointer: *mut *mut c_void,
    pitch: *mut usize,
    width: usize,
    height: usize,
) -> Status {
    if pointer.is_null() || pitch.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let row = width.checked_next_multiple_of(PITCH).ok_or(hipErrorOutOfMemory)?;
    let bytes = row.checked_mul(height).ok_or(hipErrorOutOfMemory)?;
    runtime()?.captures.refuse_unsafe()?;
    // SAFETY: the caller's out-pointers, not null.
    unsafe {
        set(pointer, runtime()?.allocate(bytes, 0, 0)?)?;
        set(pitch, row)
    }
}

pub unsafe fn hipMemAllocPitch(
    pointer: *mut hipDeviceptr_t,
    pitch: *mut usize,
    width: usize,
    height: usize,
    element: c_uint,
) -> Status {
    if ![4, 8, 16].contains(&element) || width == 0 || height == 0 {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's out-pointers.
    unsafe { hipMallocPitch(pointer, pitch, width, height) }
}

pub unsafe fn hipMalloc3D(pitched: *mut hipPitchedPtr, extent: hipExtent) -> Status {
    let (mut pointer, mut pitch) = (std::ptr::null_mut(), 0);
    let rows = extent.height.checked_mul(extent.depth).ok_or(hipErrorOutOfMemory)?;
    if pitched.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: local out-pointers, then the caller's.
    unsafe {
        hipMallocPitch(&mut pointer, &mut pitch, extent.width, rows)?;
        set(pitched, hipPitchedPtr { ptr: pointer, pitch, xsize: extent.width, ysize: extent.height })
    }
}

pub unsafe fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> Status {
    let runtime = runtime()?;
    let (_, device) = runtime.current()?;
    let info = runtime.call(&wire::MemoryInfo { device: device.ordinal })?;
    // SAFETY: the caller's out-pointers, either of which may be null.
    unsafe {
        set_if_wanted(free, info.free as usize);
        set_if_wanted(total, info.total as usize);
    }
    Ok(())
}

pub unsafe fn hipMemGetAddressRange(
    base: *mut hipDeviceptr_t,
    bytes: *mut usize,
    pointer: hipDeviceptr_t,
) -> Status {
    let found = runtime()?.memory.find(pointer as u64).ok_or(hipErrorNotFound)?;
    // SAFETY: the caller's out-pointers, either of which may be null.
    unsafe {
        set_if_wanted(base, found.start as hipDeviceptr_t);
        set_if_wanted(bytes, found.bytes as usize);
    }
    Ok(())
}

pub unsafe fn hipMemPtrGetInfo(pointer: *mut c_void, bytes: *mut usize) -> Status {
    let found = runtime()?.memory.find(pointer as u64).ok_or(hipErrorInvalidValue)?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(bytes, found.bytes as usize) }
}

pub unsafe fn hipPointerGetAttributes(
    attributes: *mut hipPointerAttribute_t,
    pointer: *const c_void,
) -> Status {
    if attributes.is_null() || pointer.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let Some(found) = runtime.memory.find(pointer as u64) else {
        if soname::hip_major() < 6 {
            return Err(hipErrorInvalidValue);
        }
        let unknown =
            hipPointerAttribute_t { r#type: hipMemoryTypeUnregistered, device: -2, ..Default::default() };
        // SAFETY: the caller's out-pointer, not null.
        return unsafe { set(attributes, unknown) };
    };
    let memory_type = memory_type(&found);
    let seen = match runtime.memory.seen_at(&found) {
        0 => 0,
        start => start + (pointer as u64 - found.start),
    };
    let answer = hipPointerAttribute_t {
        r#type: if soname::hip_major() < 6 { memory_type.for_soname_5() } else { memory_type },
        device: found.device as c_int,
        devicePointer: seen as *mut c_void,
        hostPointer: if found.is_host() { pointer.cast_mut() } else { std::ptr::null_mut() },
        isManaged: (found.kind == Kind::Managed).into(),
        allocationFlags: found.flags,
    };
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(attributes, answer) }
}

fn memory_type(allocation: &Allocation) -> hipMemoryType {
    match allocation.kind {
        Kind::Device | Kind::Module | Kind::Virtual => hipMemoryTypeDevice,
        Kind::Host | Kind::Registered => hipMemoryTypeHost,
        Kind::Managed => hipMemoryTypeManaged,
    }
}

pub unsafe fn hipPointerGetAttribute(
    data: *mut c_void,
    attribute: hipPointer_attribute,
    pointer: hipDeviceptr_t,
) -> Status {
    let runtime = runtime()?;
    if data.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let found = runtime.memory.find(pointer as u64).ok_or(hipErrorInvalidValue)?;
    let seen = match runtime.memory.seen_at(&found) {
        0 => 0,
        start => start + (pointer as u64 - found.start),
    };
    // SAFETY: the attribute determines the type behind `data`; the caller passed a pointer of that type.
    unsafe {
        match attribute {
            HIP_POINTER_ATTRIBUTE_CONTEXT => {
                let context = &runtime.devices[found.device].primary_context;
                set(data.cast::<u64>(), context.load(Ordering::Relaxed))
            }
            HIP_POINTER_ATTRIBUTE_MEMORY_TYPE => set(data.cast::<u32>(), memory_type(&found).0),
            HIP_POINTER_ATTRIBUTE_DEVICE_POINTER if seen == 0 => Err(hipErrorInvalidValue),
            HIP_POINTER_ATTRIBUTE_DEVICE_POINTER => set(data.cast(), seen as hipDeviceptr_t),
            HIP_POINTER_ATTRIBUTE_HOST_POINTER if !found.is_host() => Err(hipErrorInvalidValue),
            HIP_POINTER_ATTRIBUTE_HOST_POINTER => set(data.cast(), pointer),
            HIP_POINTER_ATTRIBUTE_BUFFER_ID => set(data.cast::<u64>(), found.id),
            HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS => set(data.cast::<u32>(), 0),
            HIP_POINTER_ATTRIBUTE_IS_MANAGED => set(data.cast::<u32>(), (found.kind == Kind::Managed).into()),
            HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL => set(data.cast::<c_int>(), found.device as c_int),
            HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE => set(data.cast::<u32>(), 0),
            HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR => set(data.cast::<u64>(), found.start),
            HIP_POINTER_ATTRIBUTE_RANGE_SIZE => set(data.cast::<u64>(), found.bytes),
            HIP_POINTER_ATTRIBUTE_MAPPED => set(data.cast::<u32>(), 1),
            HIP_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES => set(data.cast::<u64>(), 0),
            HIP_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE => set(data.cast::<u32>(), 0),
            HIP_POINTER_ATTRIBUTE_ACCESS_FLAGS => set(data.cast::<u32>(), hipMemAccessFlagsProtReadWrite.0),
            HIP_POINTER_ATTRIBUTE_MEMPOOL_HANDLE => set(data.cast::<u64>(), found.pool),
            _ => Err(hipErrorInvalidValue),
        }
    }
}

pub unsafe fn hipDrvPointerGetAttributes(
    count: c_uint,
    attributes: *mut hipPointer_attribute,
    data: *mut *mut c_void,
    pointer: hipDeviceptr_t,
) -> Status {
    if attributes.is_null() || data.is_null() {
        return Err(hipErrorInvalidValue);
    }
    for i in 0..count as usize {
        // SAFETY: the caller's arrays of `count` entries.
        unsafe {
            // An attribute that the pointer does not have leaves its slot unchanged, as in HIP.
            let _ = hipPointerGetAttribute(*data.add(i), *attributes.add(i), pointer);
        }
    }
    Ok(())
}

pub unsafe fn hipPointerSetAttribute(
    value: *const c_void,
    attribute: hipPointer_attribute,
    pointer: hipDeviceptr_t,
) -> Status {
    // The only settable attribute requests synchronous copies, which these already are.
    if attribute != HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS || value.is_null() {
        return Err(hipErrorInvalidValue);
    }
    runtime()?.memory.find(pointer as u64).map(|_| ()).ok_or(hipErrorInvalidDevicePointer)
}
