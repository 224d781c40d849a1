//! Device queries, answered from the snapshot that came with the session.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::Ordering;

use hip_api::types::*;

use super::{Status, set, set_if_wanted, text};
use crate::abi::exports;
use crate::process::soname;
use crate::state::device::Device;
use crate::state::runtime::{existing, replace, runtime};
use crate::state::thread;

pub unsafe fn hipInit(flags: c_uint) -> Status {
    if flags != 0 {
        return Err(hipErrorInvalidValue);
    }
    runtime().map(|_| ())
}

pub unsafe fn hipGetDeviceCount(count: *mut c_int) -> Status {
    // SAFETY: the caller's out-pointer. It stays 0 unless the call succeeds.
    unsafe { set(count, 0) }?;
    let devices = runtime()?.devices.len();
    if devices == 0 {
        return Err(hipErrorNoDevice);
    }
    // SAFETY: as above.
    unsafe { set(count, devices as c_int) }
}

pub unsafe fn hipGetDevice(device: *mut c_int) -> Status {
    if device.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let (index, _) = runtime()?.current()?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(device, index as c_int) }
}

pub unsafe fn hipSetDevice(device: c_int) -> Status {
    runtime()?.device(device)?;
    thread::set_device(device as usize);
    Ok(())
}

pub unsafe fn hipSetValidDevices(devices: *mut c_int, len: c_int) -> Status {
    let runtime = runtime()?;
    if len < 0 || devices.is_null() && len > 0 {
        return Err(hipErrorInvalidValue);
    }
    for i in 0..len as usize {
        // SAFETY: the caller's array of `len` ordinals.
        runtime.device(unsafe { *devices.add(i) })?;
    }
    Ok(())
}

pub unsafe fn hipDeviceGet(device: *mut hipDevice_t, ordinal: c_int) -> Status {
    runtime()?.device(ordinal)?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(device, ordinal) }
}

pub unsafe fn hipGetDevicePropertiesR0600(properties: *mut hipDeviceProp_tR0600, device: c_int) -> Status {
    let device = runtime()?.device(device)?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(properties, *device.properties) }
}

pub unsafe fn hipGetDevicePropertiesR0000(properties: *mut hipDeviceProp_tR0000, device: c_int) -> Status {
    let device = runtime()?.device(device)?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(properties, hipDeviceProp_tR0000::from(&*device.properties)) }
}

/// The unsuffixed name has the layout of HIP 5; newer headers rename calls to the R0600 one.
pub unsafe fn hipGetDeviceProperties(properties: *mut hipDeviceProp_tR0000, device: c_int) -> Status {
    // SAFETY: the caller's out-pointer.
    unsafe { hipGetDevicePropertiesR0000(properties, device) }
}

/// Chooses the first device with the requested compute capability and memory, or device 0.
pub unsafe fn hipChooseDeviceR0600(device: *mut c_int, wanted: *const hipDeviceProp_tR0600) -> Status {
    if wanted.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: checked for null; the caller's struct.
    let (major, memory) = unsafe { ((*wanted).major, (*wanted).totalGlobalMem) };
    // SAFETY: the caller's out-pointer.
    unsafe { choose(device, major, memory) }
}

pub unsafe fn hipChooseDeviceR0000(device: *mut c_int, wanted: *const hipDeviceProp_tR0000) -> Status {
    if wanted.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: checked for null; the caller's struct.
    let (major, memory) = unsafe { ((*wanted).major, (*wanted).totalGlobalMem) };
    // SAFETY: the caller's out-pointer.
    unsafe { choose(device, major, memory) }
}

pub unsafe fn hipChooseDevice(device: *mut c_int, wanted: *const hipDeviceProp_tR0000) -> Status {
    // SAFETY: the caller's pointers.
    unsafe { hipChooseDeviceR0000(device, wanted) }
}

unsafe fn choose(device: *mut c_int, major: c_int, memory: usize) -> Status {
    let devices = &runtime()?.devices;
    let fits = |d: &Device| d.properties.major >= major && d.properties.totalGlobalMem >= memory;
    let chosen = devices.iter().position(fits).unwrap_or(0);
    // SAFETY: the caller's out-pointer.
    unsafe { set(device, chosen as c_int) }
}

pub unsafe fn hipDeviceGetAttribute(
    value: *mut c_int,
    attribute: hipDeviceAttribute_t,
    device: c_int,
) -> Status {
    let device = runtime()?.device(device)?;
    let sent = device.snapshot.attributes.iter().find(|(number, _)| *number as u32 == attribute.0);
    let found = match sent {
        Some((_, value)) => Some(*value),
        None => hip_api::properties::attribute(&device.properties, attribute),
    };
    // SAFETY: the caller's out-pointer.
    unsafe { set(value, found.ok_or(hipErrorInvalidValue)?) }
}

pub unsafe fn hipDeviceComputeCapability(
    major: *mut c_int,
    minor: *mut c_int,
    device: hipDevice_t,
) -> Status {
    let device = runtime()?.device(device)?;
    // SAFETY: the caller's out-pointers.
    unsafe {
        set(major, device.properties.major)?;
        set(minor, device.properties.minor)
    }
}

pub unsafe fn hipDeviceGetName(name: *mut c_char, len: c_int, device: hipDevice_t) -> Status {
    let device = runtime()?.device(device)?;
    // SAFETY: the caller's buffer of `len` bytes.
    unsafe { copy_text(name, len, &chars(&device.properties.name)) }
}

pub unsafe fn hipDeviceGetUuid(uuid: *mut hipUUID, device: hipDevice_t) -> Status {
    let device = runtime()?.device(device)?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(uuid, device.properties.uuid) }
}

pub unsafe fn hipDeviceTotalMem(bytes: *mut usize, device: hipDevice_t) -> Status {
    let device = runtime()?.device(device)?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(bytes, device.snapshot.total_memory as usize) }
}

pub unsafe fn hipDeviceGetPCIBusId(id: *mut c_char, len: c_int, device: c_int) -> Status {
    let device = runtime()?.device(device)?;
    if len < 13 {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's buffer of `len` bytes.
    unsafe { copy_text(id, len, pci_bus_id(device).as_bytes()) }
}

pub unsafe fn hipDeviceGetByPCIBusId(device: *mut c_int, id: *const c_char) -> Status {
    // SAFETY: the caller's string.
    let wanted = unsafe { text(id) }?.to_ascii_lowercase();
    // The domain may be omitted, and so may the function.
    let matches = |d: &Device| {
        let full = pci_bus_id(d);
        full == wanted || full[5..] == wanted || full.trim_end_matches(".0") == wanted
    };
    let found = runtime()?.devices.iter().position(matches).ok_or(hipErrorInvalidValue)?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(device, found as c_int) }
}

fn pci_bus_id(device: &Device) -> String {
    let p = &device.properties;
    format!("{:04x}:{:02x}:{:02x}.0", p.pciDomainID, p.pciBusID, p.pciDeviceID)
}

pub unsafe fn hipDeviceGetLimit(value: *mut usize, limit: hipLimit_t) -> Status {
    if limit.0 >= hipLimitRange.0 {
        return Err(hipErrorInvalidValue);
    }
    let (_, device) = runtime()?.current()?;
    let found = device.settings.limits.lock().get(&limit.0).copied().ok_or(hipErrorUnsupportedLimit)?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(value, found as usize) }
}

pub unsafe fn hipDeviceSetLimit(limit: hipLimit_t, value: usize) -> Status {
    if limit.0 >= hipLimitRange.0 {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let (_, device) = runtime.current()?;
    if !device.settings.limits.lock().contains_key(&limit.0) {
        return Err(hipErrorUnsupportedLimit);
    }
    let operation = wire::SetLimit { device: device.ordinal, limit: limit.0 as i32, value: value as u64 };
    let accepted = runtime.call(&operation)?.value;
    device.settings.limits.lock().insert(limit.0, accepted);
    Ok(())
}

pub unsafe fn hipDeviceGetCacheConfig(config: *mut hipFuncCache_t) -> Status {
    let (_, device) = runtime()?.current()?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(config, hipFuncCache_t(device.settings.cache_config.load(Ordering::Relaxed))) }
}

pub unsafe fn hipDeviceSetCacheConfig(config: hipFuncCache_t) -> Status {
    let (_, device) = runtime()?.current()?;
    device.settings.cache_config.store(config.0, Ordering::Relaxed);
    Ok(())
}

/// The banks of AMD's devices are four bytes wide, whatever was configured.
pub unsafe fn hipDeviceGetSharedMemConfig(config: *mut hipSharedMemConfig) -> Status {
    runtime()?.current()?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(config, hipSharedMemBankSizeFourByte) }
}

pub unsafe fn hipDeviceSetSharedMemConfig(config: hipSharedMemConfig) -> Status {
    runtime()?.current()?;
    if config.0 > hipSharedMemBankSizeEightByte.0 { Err(hipErrorInvalidValue) } else { Ok(()) }
}

pub unsafe fn hipDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) -> Status {
    let (_, device) = runtime()?.current()?;
    // SAFETY: the caller's out-pointers, either of which may be null.
    unsafe {
        set_if_wanted(least, device.snapshot.least_priority);
        set_if_wanted(greatest, device.snapshot.greatest_priority);
    }
    Ok(())
}

pub unsafe fn hipGetDeviceFlags(flags: *mut c_uint) -> Status {
    let (_, device) = runtime()?.current()?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(flags, device.settings.flags.load(Ordering::Relaxed)) }
}

pub unsafe fn hipSetDeviceFlags(flags: c_uint) -> Status {
    /// Wait policy: hipDeviceScheduleMask.
    const SCHEDULE: c_uint = 0x7;
    /// hipDeviceMapHost and hipDeviceLmemResizeToMax, which apply on every device.
    const ALWAYS: c_uint = 0x8 | 0x10;
    let schedule = flags & SCHEDULE;
    if flags & !(SCHEDULE | ALWAYS) != 0 || schedule.count_ones() > 1 {
        return Err(hipErrorInvalidValue);
    }
    let (_, device) = runtime()?.current()?;
    device.settings.flags.store(schedule, Ordering::Relaxed);
    Ok(())
}

/// Devices of one worker share an address space: each can access every other.
pub unsafe fn hipDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) -> Status {
    let runtime = runtime()?;
    runtime.device(device)?;
    runtime.device(peer)?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(can, c_int::from(device != peer)) }
}

pub unsafe fn hipDeviceEnablePeerAccess(peer: c_int, flags: c_uint) -> Status {
    let runtime = runtime()?;
    runtime.device(peer)?;
    let (index, device) = runtime.current()?;
    if flags != 0 {
        return Err(hipErrorInvalidValue);
    }
    if peer as usize == index {
        return Err(hipErrorInvalidDevice);
    }
    if device.settings.peers.lock().insert(peer as usize) {
        Ok(())
    } else {
        Err(hipErrorPeerAccessAlreadyEnabled)
    }
}

pub unsafe fn hipDeviceDisablePeerAccess(peer: c_int) -> Status {
    let runtime = runtime()?;
    runtime.device(peer)?;
    let (_, device) = runtime.current()?;
    if device.settings.peers.lock().remove(&(peer as usize)) {
        Ok(())
    } else {
        Err(hipErrorPeerAccessNotEnabled)
    }
}

pub unsafe fn hipDeviceGetP2PAttribute(
    value: *mut c_int,
    attribute: hipDeviceP2PAttr,
    from: c_int,
    to: c_int,
) -> Status {
    let runtime = runtime()?;
    runtime.device(from)?;
    runtime.device(to)?;
    if from == to {
        return Err(hipErrorInvalidDevice);
    }
    let answer = match attribute {
        hipDevP2PAttrPerformanceRank => 0,
        hipDevP2PAttrAccessSupported | hipDevP2PAttrNativeAtomicSupported => 1,
        hipDevP2PAttrHipArrayAccessSupported => 0,
        _ => return Err(hipErrorInvalidValue),
    };
    // SAFETY: the caller's out-pointer.
    unsafe { set(value, answer) }
}

pub unsafe fn hipDeviceSynchronize() -> Status {
    let runtime = runtime()?;
    runtime.captures.refuse_any(hipErrorStreamCaptureUnsupported)?;
    let (_, device) = runtime.current()?;
    runtime.call(&wire::SynchronizeDevice { device: device.ordinal }).map(|_| ())
}

/// Frees the program's resources on the device; its streams and events become invalid, as HIP specifies. If the session is lost,
/// opens a new one: the program can go on without a restart.
pub unsafe fn hipDeviceReset() -> Status {
    let runtime = runtime()?;
    let (index, device) = runtime.current()?;
    if let Err(error) = runtime.call(&wire::ResetDevice { device: device.ordinal }) {
        return if runtime.is_lost() { replace(runtime) } else { Err(error) };
    }
    runtime.reset_device(index);
    device.settings.flags.store(0, Ordering::Relaxed);
    device.settings.cache_config.store(0, Ordering::Relaxed);
    Ok(())
}

pub unsafe fn hipDriverGetVersion(version: *mut c_int) -> Status {
    if version.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's out-pointer.
    unsafe { set(version, hip_version(|snapshot| snapshot.driver_version)) }
}

pub unsafe fn hipRuntimeGetVersion(version: *mut c_int) -> Status {
    if version.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's out-pointer.
    unsafe { set(version, hip_version(|snapshot| snapshot.runtime_version)) }
}

/// The worker's version if its major version is the one this library replaces, else a version of that major version:
/// programs choose struct layouts by it. Does not open a session.
fn hip_version(of: impl Fn(&wire::DeviceSnapshot) -> i32) -> c_int {
    let own = match soname::hip_major() {
        5 => 50_221_153,
        7 => 70_253_211,
        _ => 60_443_484,
    };
    let remote = existing().and_then(|runtime| runtime.devices.first()).map(|device| of(&device.snapshot));
    match remote {
        Some(remote) if remote / 10_000_000 == own / 10_000_000 => remote,
        _ => own,
    }
}

pub unsafe fn hipGetProcAddress(
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    _flags: u64,
    status: *mut hipDriverProcAddressQueryResult,
) -> Status {
    // SAFETY: the caller's string.
    let name = unsafe { text(symbol) }?;
    if function.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let found = exports::address_of(versioned(&name, version)).filter(|_| !name.is_empty());
    // SAFETY: the caller's out-pointers.
    unsafe {
        set(function, found.unwrap_or(std::ptr::null_mut()))?;
        let outcome = if found.is_some() {
            HIP_GET_PROC_ADDRESS_SUCCESS
        } else {
            HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
        };
        set_if_wanted(status, outcome);
    }
    if found.is_some() { Ok(()) } else { Err(hipErrorNotFound) }
}

/// Since HIP 6 the headers rename these to their R0600 forms; a lookup by name must do the same.
fn versioned(name: &str, version: c_int) -> &str {
    match name {
        "hipGetDeviceProperties" if version >= 600 => "hipGetDevicePropertiesR0600",
        "hipChooseDevice" if version >= 600 => "hipChooseDeviceR0600",
        other => other,
    }
}

pub unsafe fn hipGetDriverEntryPoint(
    symbol: *const c_char,
    function: *mut *mut c_void,
    _flags: u64,
    status: *mut hipDriverEntryPointQueryResult,
) -> Status {
    // SAFETY: the caller's pointers.
    let result = unsafe { hipGetProcAddress(symbol, function, c_int::MAX, 0, std::ptr::null_mut()) };
    let outcome = match result {
        Ok(()) => hipDriverEntryPointSuccess,
        Err(_) => hipDriverEntryPointSymbolNotFound,
    };
    // SAFETY: the caller's out-pointer.
    unsafe { set_if_wanted(status, outcome) };
    result
}

pub unsafe fn hipGetDriverEntryPoint_spt(
    symbol: *const c_char,
    function: *mut *mut c_void,
    flags: u64,
    status: *mut hipDriverEntryPointQueryResult,
) -> Status {
    // SAFETY: the caller's pointers.
    let per_thread = unsafe { text(symbol) }? + "_spt";
    if let Some(found) = exports::address_of(&per_thread) {
        // SAFETY: the caller's out-pointers.
        unsafe {
            set(function, found)?;
            set_if_wanted(status, hipDriverEntryPointSuccess);
        }
        return Ok(());
    }
    // SAFETY: the caller's pointers.
    unsafe { hipGetDriverEntryPoint(symbol, function, flags, status) }
}

/// The bytes of a fixed C string field.
fn chars(field: &[c_char]) -> Vec<u8> {
    field.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect()
}

/// Copies text and a NUL into a buffer of `len` bytes, truncating it if necessary.
unsafe fn copy_text(buffer: *mut c_char, len: c_int, text: &[u8]) -> Status {
    if buffer.is_null() || len <= 0 {
        return Err(hipErrorInvalidValue);
    }
    let fits = text.len().min(len as usize - 1);
    // SAFETY: the caller's buffer holds `len` bytes and `fits` is less.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), fits);
        buffer.add(fits).write(0);
    }
    Ok(())
}

/// Type and hop count of the link between two devices of the worker.
pub unsafe fn hipExtGetLinkTypeAndHopCount(
    first: c_int,
    second: c_int,
    kind: *mut u32,
    hops: *mut u32,
) -> Status {
    if kind.is_null() || hops.is_null() || first == second || first < 0 || second < 0 {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let (from, to) = (runtime.device(first)?.ordinal, runtime.device(second)?.ordinal);
    let link = runtime.call(&wire::QueryLink { from, to })?;
    // SAFETY: the caller's out-pointers, not null.
    unsafe {
        set(kind, link.kind)?;
        set(hops, link.hops)
    }
}
