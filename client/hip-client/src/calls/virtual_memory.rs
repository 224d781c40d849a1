//! Virtual memory management calls: reserve, create, map, set access.

use std::ffi::c_void;

use hip_api::types::*;

use super::{Status, set};
use crate::os::descriptor;
use crate::os::object_kind::Kind;
use crate::process::soname;
use crate::state::runtime::{Runtime, runtime};
use crate::state::virtual_memory::GRANULARITY;

pub unsafe fn hipMemAddressReserve(
    pointer: *mut *mut c_void,
    bytes: usize,
    alignment: usize,
    _wish: *mut c_void,
    flags: u64,
) -> Status {
    if pointer.is_null() || flags != 0 {
        return Err(hipErrorInvalidValue);
    }
    let whole = bytes > 0 && (bytes as u64).is_multiple_of(GRANULARITY);
    if !whole || !(alignment == 0 || alignment.is_power_of_two()) {
        return Err(hipErrorOutOfMemory);
    }
    let start = runtime()?.reserve_addresses(bytes as u64, alignment as u64)?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(pointer, start as *mut c_void) }
}

pub unsafe fn hipMemAddressFree(pointer: *mut c_void, bytes: usize) -> Status {
    if pointer.is_null() || bytes == 0 {
        return Err(hipErrorInvalidValue);
    }
    runtime()?.return_addresses(pointer as u64, bytes as u64)
}

/// [`hipMemAllocationProp`] in the layout of HIP 5: the same members in another order.
#[repr(C)]
struct PropertiesOfHip5 {
    compression: u8,
    location: hipMemLocation,
    handle_type: hipMemAllocationHandleType,
    kind: hipMemAllocationType,
    usage: u16,
    win32: *mut c_void,
}

impl From<PropertiesOfHip5> for hipMemAllocationProp {
    fn from(it: PropertiesOfHip5) -> hipMemAllocationProp {
        let [low, high] = it.usage.to_ne_bytes();
        hipMemAllocationProp {
            r#type: it.kind,
            requestedHandleType: it.handle_type,
            location: it.location,
            win32HandleMetaData: it.win32,
            allocFlags: [it.compression, 0, low, high],
        }
    }
}

impl From<hipMemAllocationProp> for PropertiesOfHip5 {
    fn from(it: hipMemAllocationProp) -> PropertiesOfHip5 {
        let [compression, _, low, high] = it.allocFlags;
        PropertiesOfHip5 {
            compression,
            location: it.location,
            handle_type: it.requestedHandleType,
            kind: it.r#type,
            usage: u16::from_ne_bytes([low, high]),
            win32: it.win32HandleMetaData,
        }
    }
}

/// The device of the properties, if they are valid.
unsafe fn device_of(
    runtime: &Runtime,
    properties: *const hipMemAllocationProp,
) -> Result<(usize, hipMemAllocationProp), hipError_t> {
    if properties.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's struct, not null, with the layout of its HIP version.
    let properties = unsafe {
        match soname::hip_major() {
            ..6 => properties.cast::<PropertiesOfHip5>().read().into(),
            _ => *properties,
        }
    };
    let kind = properties.r#type;
    if (kind != hipMemAllocationTypePinned && kind != hipMemAllocationTypeUncached)
        || properties.location.r#type != hipMemLocationTypeDevice
    {
        return Err(hipErrorInvalidValue);
    }
    runtime.device(properties.location.id).map_err(|_| hipErrorInvalidValue)?;
    Ok((properties.location.id as usize, properties))
}

pub unsafe fn hipMemCreate(
    handle: *mut hipMemGenericAllocationHandle_t,
    bytes: usize,
    properties: *const hipMemAllocationProp,
    flags: u64,
) -> Status {
    if handle.is_null() || bytes == 0 || flags != 0 {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    // SAFETY: the caller's struct.
    let (device, properties) = unsafe { device_of(runtime, properties)? };
    let shared_by = properties.requestedHandleType;
    if shared_by != hipMemHandleTypeNone && shared_by != hipMemHandleTypePosixFileDescriptor {
        return Err(hipErrorNotSupported);
    }
    if !(bytes as u64).is_multiple_of(GRANULARITY) {
        return Err(hipErrorInvalidValue);
    }
    let made = runtime.create_physical(device, bytes as u64, properties)?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(handle, made as hipMemGenericAllocationHandle_t) }
}

pub unsafe fn hipMemRelease(handle: hipMemGenericAllocationHandle_t) -> Status {
    runtime()?.release_physical(handle as u64)
}

pub unsafe fn hipMemRetainAllocationHandle(
    handle: *mut hipMemGenericAllocationHandle_t,
    pointer: *mut c_void,
) -> Status {
    if handle.is_null() || pointer.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let memory = runtime()?.retain_physical(pointer as u64)?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(handle, memory as hipMemGenericAllocationHandle_t) }
}

pub unsafe fn hipMemMap(
    pointer: *mut c_void,
    bytes: usize,
    offset: usize,
    handle: hipMemGenericAllocationHandle_t,
    flags: u64,
) -> Status {
    if pointer.is_null() || handle.is_null() || bytes == 0 || offset != 0 || flags != 0 {
        return Err(hipErrorInvalidValue);
    }
    runtime()?.map_physical(handle as u64, pointer as u64, bytes as u64)
}

pub unsafe fn hipMemUnmap(pointer: *mut c_void, bytes: usize) -> Status {
    if pointer.is_null() || bytes == 0 {
        return Err(hipErrorInvalidValue);
    }
    runtime()?.unmap_physical(pointer as u64, bytes as u64)
}

pub unsafe fn hipMemSetAccess(
    pointer: *mut c_void,
    bytes: usize,
    list: *const hipMemAccessDesc,
    count: usize,
) -> Status {
    if pointer.is_null() || bytes == 0 || list.is_null() || count == 0 {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    for index in 0..count {
        // SAFETY: the caller's array of `count` entries.
        let entry = unsafe { *list.add(index) };
        let known = [hipMemAccessFlagsProtNone, hipMemAccessFlagsProtRead, hipMemAccessFlagsProtReadWrite];
        let device = runtime.device(entry.location.id).map(|_| entry.location.id as usize);
        if entry.location.r#type != hipMemLocationTypeDevice || !known.contains(&entry.flags) {
            return Err(hipErrorInvalidValue);
        }
        let device = device.map_err(|_| hipErrorInvalidValue)?;
        runtime.set_access(pointer as u64, bytes as u64, device, entry.flags.0)?;
    }
    Ok(())
}

pub unsafe fn hipMemGetAccess(
    flags: *mut u64,
    location: *const hipMemLocation,
    pointer: *mut c_void,
) -> Status {
    if flags.is_null() || location.is_null() || pointer.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    // SAFETY: the caller's struct, not null.
    let location = unsafe { *location };
    if location.r#type != hipMemLocationTypeDevice || runtime.device(location.id).is_err() {
        return Err(hipErrorInvalidValue);
    }
    let access = runtime.access_of(pointer as u64, location.id as usize)?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(flags, u64::from(access)) }
}

pub unsafe fn hipMemGetAllocationGranularity(
    granularity: *mut usize,
    properties: *const hipMemAllocationProp,
    option: hipMemAllocationGranularity_flags,
) -> Status {
    let known = [hipMemAllocationGranularityMinimum, hipMemAllocationGranularityRecommended];
    if granularity.is_null() || !known.contains(&option) {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's struct.
    unsafe { device_of(runtime()?, properties)? };
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(granularity, GRANULARITY as usize) }
}

pub unsafe fn hipMemGetAllocationPropertiesFromHandle(
    properties: *mut hipMemAllocationProp,
    handle: hipMemGenericAllocationHandle_t,
) -> Status {
    let found = runtime()?.tables.physical.get(handle as u64).ok_or(hipErrorInvalidValue)?;
    // SAFETY: the caller's out-pointer, to a struct with the layout of its HIP version.
    unsafe {
        match soname::hip_major() {
            ..6 => set(properties.cast::<PropertiesOfHip5>(), found.properties.0.into()),
            _ => set(properties, found.properties.0),
        }
    }
}

pub unsafe fn hipMemExportToShareableHandle(
    shareable: *mut c_void,
    handle: hipMemGenericAllocationHandle_t,
    kind: hipMemAllocationHandleType,
    flags: u64,
) -> Status {
    if !descriptor::SUPPORTED {
        return Err(hipErrorNotSupported);
    }
    if shareable.is_null() || flags != 0 || kind != hipMemHandleTypePosixFileDescriptor {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let found = runtime.tables.physical.get(handle as u64).ok_or(hipErrorInvalidValue)?;
    if found.properties.0.requestedHandleType != kind {
        return Err(hipErrorInvalidValue);
    }
    let token = runtime.call(&wire::ShareMemory { memory: handle as u64 })?.token;
    let fd = descriptor::make(Kind::Memory, token).map_err(|_| hipErrorOutOfMemory)?;
    // SAFETY: the handle type determines the type behind the pointer: a file descriptor.
    unsafe { set(shareable.cast(), fd) }
}

pub unsafe fn hipMemImportFromShareableHandle(
    handle: *mut hipMemGenericAllocationHandle_t,
    shareable: *mut c_void,
    kind: hipMemAllocationHandleType,
) -> Status {
    if !descriptor::SUPPORTED {
        return Err(hipErrorNotSupported);
    }
    if handle.is_null() || kind != hipMemHandleTypePosixFileDescriptor {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    // SAFETY: the caller's descriptor, or its address.
    let fd = unsafe { descriptor::of(shareable) };
    let token = descriptor::read(Kind::Memory, fd).ok_or(hipErrorInvalidValue)?;
    let (device, _) = runtime.current()?;
    let properties = hipMemAllocationProp {
        r#type: hipMemAllocationTypePinned,
        requestedHandleType: kind,
        location: hipMemLocation { r#type: hipMemLocationTypeDevice, id: device as i32 },
        ..Default::default()
    };
    let (memory, _) = runtime.import_physical(device, token, properties)?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(handle, memory as hipMemGenericAllocationHandle_t) }
}
