//! Managed memory: the same address on client and worker. Advice and prefetch locations are stored for queries but move
//! no memory: changes are transferred automatically.

use std::ffi::{c_int, c_uint, c_void};
use std::ops::Range;

use hip_api::types::*;

use super::{Status, set};
use crate::process::env;
use crate::state::advice::{Advice, HOST, NOWHERE};
use crate::state::memory::{Allocation, Kind};
use crate::state::mirroring::refuse;
use crate::state::runtime::{Runtime, runtime};

pub unsafe fn hipMallocManaged(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) -> Status {
    let known = flags == hipMemAttachGlobal || flags == hipMemAttachHost;
    if pointer.is_null() || bytes == 0 || !known {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    runtime.captures.refuse_unsafe()?;
    if !env::mapped() {
        return Err(refuse("managed memory"));
    }
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(pointer, runtime.allocate_mirror(bytes, Kind::Managed, flags)?) }
}

/// A range inside one managed allocation.
fn managed(runtime: &Runtime, pointer: *const c_void, bytes: usize) -> Result<Range<u64>, hipError_t> {
    if pointer.is_null() || bytes == 0 {
        return Err(hipErrorInvalidValue);
    }
    let start = pointer as u64;
    let end = start.checked_add(bytes as u64).ok_or(hipErrorInvalidValue)?;
    let found = runtime.memory.find(start).filter(|a: &Allocation| a.kind == Kind::Managed);
    found.filter(|a| end <= a.end()).map(|_| start..end).ok_or(hipErrorInvalidValue)
}

/// The device index or HOST of a location.
fn place(runtime: &Runtime, location: hipMemLocation) -> Result<c_int, hipError_t> {
    match location.r#type {
        hipMemLocationTypeDevice => runtime.device(location.id).map(|_| location.id),
        hipMemLocationTypeHost | hipMemLocationTypeHostNuma | hipMemLocationTypeHostNumaCurrent => Ok(HOST),
        _ => Err(hipErrorInvalidValue),
    }
}

fn location(device: c_int) -> hipMemLocation {
    let r#type = if device == hipCpuDeviceId { hipMemLocationTypeHost } else { hipMemLocationTypeDevice };
    hipMemLocation { r#type, id: device }
}

pub unsafe fn hipMemAdvise(
    pointer: *const c_void,
    bytes: usize,
    advice: hipMemoryAdvise,
    device: c_int,
) -> Status {
    // SAFETY: no pointer is dereferenced.
    unsafe { hipMemAdvise_v2(pointer, bytes, advice, location(device)) }
}

pub unsafe fn hipMemAdvise_v2(
    pointer: *const c_void,
    bytes: usize,
    advice: hipMemoryAdvise,
    location: hipMemLocation,
) -> Status {
    let runtime = runtime()?;
    let range = managed(runtime, pointer, bytes)?;
    // The device does not matter for read-mostly advice.
    let at = match place(runtime, location) {
        Err(hipErrorInvalidDevice)
            if [hipMemAdviseSetReadMostly, hipMemAdviseUnsetReadMostly].contains(&advice) =>
        {
            HOST
        }
        found => found?,
    };
    let change = |said: &mut Advice| match advice {
        hipMemAdviseSetReadMostly => said.read_mostly = true,
        hipMemAdviseUnsetReadMostly => said.read_mostly = false,
        hipMemAdviseSetPreferredLocation => said.preferred = at,
        hipMemAdviseUnsetPreferredLocation => said.preferred = NOWHERE,
        hipMemAdviseSetAccessedBy => said.accessed_by.extend([at]),
        hipMemAdviseUnsetAccessedBy => said.accessed_by.retain(|device| *device != at),
        hipMemAdviseSetCoarseGrain => said.coarse_grained = true,
        _ => said.coarse_grained = false,
    };
    let known = (hipMemAdviseSetReadMostly.0..=hipMemAdviseUnsetAccessedBy.0).contains(&advice.0)
        || [hipMemAdviseSetCoarseGrain, hipMemAdviseUnsetCoarseGrain].contains(&advice);
    if !known {
        return Err(hipErrorInvalidValue);
    }
    runtime.host_memory.advised.lock().change(range, change);
    Ok(())
}

pub unsafe fn hipMemPrefetchAsync(
    pointer: *const c_void,
    bytes: usize,
    device: c_int,
    on: hipStream_t,
) -> Status {
    // SAFETY: no pointer is dereferenced.
    unsafe { hipMemPrefetchAsync_v2(pointer, bytes, location(device), 0, on) }
}

/// Sends the host's changes now, before the kernel that needs them. Changes of the device arrive with the next
/// synchronization in any case.
pub unsafe fn hipMemPrefetchAsync_v2(
    pointer: *const c_void,
    bytes: usize,
    location: hipMemLocation,
    flags: c_uint,
    on: hipStream_t,
) -> Status {
    let runtime = runtime()?;
    if flags != 0 {
        return Err(hipErrorInvalidValue);
    }
    let at = runtime.resolve(on).map_err(|_| hipErrorInvalidValue)?;
    let range = managed(runtime, pointer, bytes)?;
    let to = place(runtime, location)?;
    runtime.captures.refuse(at)?;
    runtime.host_memory.advised.lock().change(range, |said| said.prefetched = to);
    if to == HOST { Ok(()) } else { runtime.flush() }
}

pub unsafe fn hipMemRangeGetAttribute(
    data: *mut c_void,
    size: usize,
    attribute: hipMemRangeAttribute,
    pointer: *const c_void,
    bytes: usize,
) -> Status {
    if data.is_null() || size == 0 {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let range = managed(runtime, pointer, bytes)?;
    let advised = runtime.host_memory.advised.lock();
    if attribute == hipMemRangeAttributeAccessedBy {
        if !size.is_multiple_of(4) {
            return Err(hipErrorInvalidValue);
        }
        let mut devices = advised.accessed_by(range).into_iter();
        for index in 0..size / 4 {
            // SAFETY: the caller's array of `size` bytes.
            unsafe { data.cast::<i32>().add(index).write(devices.next().unwrap_or(NOWHERE)) };
        }
        return Ok(());
    }
    // All bytes of the range must agree, else the value is unset.
    let value = match attribute {
        hipMemRangeAttributeReadMostly => {
            advised.common(range, |said| said.read_mostly).unwrap_or(false).into()
        }
        hipMemRangeAttributePreferredLocation => {
            advised.common(range, |said| said.preferred).unwrap_or(NOWHERE)
        }
        hipMemRangeAttributeLastPrefetchLocation => {
            advised.common(range, |said| said.prefetched).unwrap_or(NOWHERE)
        }
        hipMemRangeAttributeCoherencyMode => match advised.common(range, |said| said.coarse_grained) {
            Some(coarse) => coarse.into(),
            None => 2,
        },
        _ => return Err(hipErrorInvalidValue),
    };
    if size != 4 {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's four bytes.
    unsafe { set(data.cast::<i32>(), value) }
}

pub unsafe fn hipMemRangeGetAttributes(
    data: *mut *mut c_void,
    sizes: *mut usize,
    attributes: *mut hipMemRangeAttribute,
    count: usize,
    pointer: *const c_void,
    bytes: usize,
) -> Status {
    if data.is_null() || sizes.is_null() || attributes.is_null() || count == 0 {
        return Err(hipErrorInvalidValue);
    }
    for index in 0..count {
        // SAFETY: the caller's three arrays of `count` entries, not null.
        unsafe {
            let (data, size, attribute) = (*data.add(index), *sizes.add(index), *attributes.add(index));
            hipMemRangeGetAttribute(data, size, attribute, pointer, bytes)?;
        }
    }
    Ok(())
}

/// Every stream can always access managed memory, so attaching it to one has no effect.
pub fn attach(
    runtime: &Runtime,
    on: hipStream_t,
    pointer: *mut c_void,
    bytes: usize,
    flags: c_uint,
) -> Status {
    if pointer.is_null() || ![hipMemAttachGlobal, hipMemAttachHost, hipMemAttachSingle].contains(&flags) {
        return Err(hipErrorInvalidValue);
    }
    if flags == hipMemAttachSingle && on.is_null() {
        return Err(hipErrorInvalidValue);
    }
    runtime.resolve(on)?;
    let found = runtime.memory.find(pointer as u64).ok_or(hipErrorInvalidValue)?;
    let whole = bytes == 0 || bytes as u64 == found.bytes;
    if found.kind == Kind::Managed && !whole { Err(hipErrorInvalidValue) } else { Ok(()) }
}
