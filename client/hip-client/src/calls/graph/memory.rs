//! Allocation and free nodes, and queries of graph memory.

use std::ffi::{c_int, c_void};

use hip_api::types::*;

use super::super::{Status, set};
use super::arguments::{add, get, with};
use crate::graph::node::{Allocate, Work};
use crate::state::runtime::{Runtime, runtime};

/// The allocation described by parameters.
///
/// # Safety
/// The access list of `it` is null or has the length that `it` says.
pub(super) unsafe fn described(
    runtime: &Runtime,
    it: &hipMemAllocNodeParams,
) -> Result<Allocate, hipError_t> {
    let location = it.poolProps.location;
    let device = usize::try_from(location.id).ok().filter(|it| *it < runtime.devices.len());
    if it.bytesize == 0
        || it.poolProps.allocType != hipMemAllocationTypePinned
        || location.r#type != hipMemLocationTypeDevice
    {
        return Err(hipErrorInvalidValue);
    }
    let mut made = runtime.new_graph_allocation(device.ok_or(hipErrorInvalidValue)?, it.bytesize)?;
    made.properties = it.poolProps;
    if !it.accessDescs.is_null() {
        // SAFETY: the caller's list.
        made.access = unsafe { std::slice::from_raw_parts(it.accessDescs, it.accessDescCount) }.to_vec();
    }
    Ok(made)
}

pub unsafe fn hipGraphAddMemAllocNode(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    after: *const hipGraphNode_t,
    count: usize,
    parameters: *mut hipMemAllocNodeParams,
) -> Status {
    if parameters.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let mut address = 0;
    // SAFETY: the caller's pointers; the parameters are not null.
    unsafe {
        (*parameters).dptr = std::ptr::null_mut();
        add(node, graph, after, count, |runtime| {
            let made = described(runtime, &*parameters)?;
            address = made.memory.address;
            Ok(Work::Allocate(made))
        })?;
        (*parameters).dptr = address as *mut c_void;
    }
    Ok(())
}

pub unsafe fn hipGraphMemAllocNodeGetParams(
    node: hipGraphNode_t,
    parameters: *mut hipMemAllocNodeParams,
) -> Status {
    let found = with(node, |work| match work {
        Work::Allocate(it) => Ok(hipMemAllocNodeParams {
            poolProps: it.properties,
            accessDescs: if it.access.is_empty() { std::ptr::null() } else { it.access.as_ptr() },
            accessDescCount: it.access.len(),
            bytesize: it.memory.bytes as usize,
            dptr: it.memory.address as *mut c_void,
        }),
        _ => Err(hipErrorInvalidValue),
    })?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(parameters, found) }
}

/// A free node for memory that a graph allocated and no other node frees.
pub(super) fn freeing(runtime: &Runtime, pointer: *mut c_void) -> Result<Work, hipError_t> {
    let memory = runtime.graphs.memory.find(pointer as u64).filter(|it| it.will_be_freed());
    memory.map(Work::Free).ok_or(hipErrorInvalidValue)
}

pub unsafe fn hipGraphAddMemFreeNode(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    after: *const hipGraphNode_t,
    count: usize,
    pointer: *mut c_void,
) -> Status {
    if pointer.is_null() || after.is_null() != (count == 0) {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's pointers.
    unsafe { add(node, graph, after, count, |runtime| freeing(runtime, pointer)) }
}

pub unsafe fn hipDrvGraphAddMemFreeNode(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    after: *const hipGraphNode_t,
    count: usize,
    pointer: hipDeviceptr_t,
) -> Status {
    // SAFETY: the caller's pointers.
    unsafe { hipGraphAddMemFreeNode(node, graph, after, count, pointer) }
}

/// The out-pointer is declared as `void*`, but points to a pointer.
pub unsafe fn hipGraphMemFreeNodeGetParams(node: hipGraphNode_t, pointer: *mut c_void) -> Status {
    let found = with(node, |work| match work {
        Work::Free(memory) => Ok(memory.address),
        _ => Err(hipErrorInvalidValue),
    })?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(pointer.cast::<*mut c_void>(), found as *mut c_void) }
}

pub unsafe fn hipDeviceGetGraphMemAttribute(
    device: c_int,
    attribute: hipGraphMemAttributeType,
    value: *mut c_void,
) -> Status {
    let runtime = runtime()?;
    runtime.device(device)?;
    let figures = runtime.graphs.memory.figures(device as usize);
    let found = match attribute {
        hipGraphMemAttrUsedMemCurrent => figures.used,
        hipGraphMemAttrUsedMemHigh => figures.used_high,
        hipGraphMemAttrReservedMemCurrent => figures.reserved,
        hipGraphMemAttrReservedMemHigh => figures.reserved_high,
        _ => return Err(hipErrorInvalidValue),
    };
    // SAFETY: the caller's out-pointer, to 64 bits for every attribute.
    unsafe { set(value.cast::<u64>(), found) }
}

/// Only the high-water marks can be reset.
pub unsafe fn hipDeviceSetGraphMemAttribute(
    device: c_int,
    attribute: hipGraphMemAttributeType,
    value: *mut c_void,
) -> Status {
    let runtime = runtime()?;
    runtime.device(device)?;
    let reset: fn(&mut crate::graph::memory::Figures) = match attribute {
        hipGraphMemAttrUsedMemHigh => |it| it.used_high = it.used,
        hipGraphMemAttrReservedMemHigh => |it| it.reserved_high = it.reserved,
        _ => return Err(hipErrorInvalidValue),
    };
    // SAFETY: the caller's pointer, to 64 bits for both attributes; for others it is not dereferenced.
    if unsafe { get(value.cast::<u64>())? } != 0 {
        return Err(hipErrorInvalidValue);
    }
    runtime.graphs.memory.change(device as usize, reset);
    Ok(())
}

pub unsafe fn hipDeviceGraphMemTrim(device: c_int) -> Status {
    let runtime = runtime()?;
    runtime.device(device)?;
    runtime.trim_graph_memory(device as usize)
}
