//! Fill nodes.

use std::ffi::c_uint;

use hip_api::types::*;

use super::super::{Status, set};
use super::arguments::{add, find, get, with};
use crate::graph::lower;
use crate::graph::node::{Fill, Work};
use crate::process::soname;
use crate::state::memory::Place;
use crate::state::runtime::{Runtime, runtime};

fn fill(work: &mut Work) -> Result<&mut Fill, hipError_t> {
    if let Work::Fill(fill) = work { Ok(fill) } else { Err(hipErrorInvalidValue) }
}

/// HIP_MEMSET_NODE_PARAMS: the parameters of the driver-style functions before HIP 7, with the members in another order.
#[repr(C)]
#[derive(Clone, Copy)]
struct BeforeHip7 {
    dst: hipDeviceptr_t,
    pitch: usize,
    value: c_uint,
    elementSize: c_uint,
    width: usize,
    height: usize,
}

const _: () = assert!(size_of::<BeforeHip7>() == 40);

/// The parameters of the driver-style functions, converted from the layout of this HIP version.
///
/// # Safety
/// `parameters` is null or valid for a read of the struct that the headers of this HIP version declare.
unsafe fn driver(parameters: *const hipMemsetParams) -> Result<hipMemsetParams, hipError_t> {
    if soname::hip_major() >= 7 {
        // SAFETY: the caller's struct.
        return unsafe { get(parameters) };
    }
    // SAFETY: the caller's struct, which was compiled with this layout.
    let it = unsafe { get(parameters.cast::<BeforeHip7>())? };
    let BeforeHip7 { dst, pitch, value, elementSize, width, height } = it;
    Ok(hipMemsetParams { dst, elementSize, height, pitch, value, width })
}

/// # Safety
/// `parameters` is null or valid for a read.
pub(super) unsafe fn described(
    runtime: &Runtime,
    parameters: *const hipMemsetParams,
) -> Result<Fill, hipError_t> {
    // SAFETY: the caller's struct.
    let it = unsafe { get(parameters)? };
    let odd = ![1, 2, 4].contains(&it.elementSize);
    if it.dst.is_null() || it.width == 0 || it.height == 0 || odd {
        return Err(hipErrorInvalidValue);
    }
    let row = it.width.checked_mul(it.elementSize as usize).ok_or(hipErrorInvalidValue)?;
    if it.height > 1 && it.pitch < row {
        return Err(hipErrorInvalidValue);
    }
    let fill = Fill { parameters: it, depth: 1, rows: it.height };
    let block = lower::filled(&fill)?;
    let bytes = block.span().ok_or(hipErrorInvalidValue)?;
    let place = runtime.memory.place(block.address, bytes)?;
    // Only pinned host memory can be filled.
    let pinned = || runtime.memory.find(block.address).is_some_and(|it| it.end() >= block.address + bytes);
    if matches!(place, Place::Host) && !pinned() {
        return Err(hipErrorInvalidValue);
    }
    Ok(fill)
}

pub unsafe fn hipGraphAddMemsetNode(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    after: *const hipGraphNode_t,
    count: usize,
    parameters: *const hipMemsetParams,
) -> Status {
    // SAFETY: the caller's pointers.
    unsafe { add(node, graph, after, count, |runtime| Ok(Work::Fill(described(runtime, parameters)?))) }
}

pub unsafe fn hipDrvGraphAddMemsetNode(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    after: *const hipGraphNode_t,
    count: usize,
    parameters: *const hipMemsetParams,
    _context: hipCtx_t,
) -> Status {
    // SAFETY: the caller's pointers.
    unsafe { hipGraphAddMemsetNode(node, graph, after, count, &driver(parameters)?) }
}

pub unsafe fn hipGraphMemsetNodeGetParams(node: hipGraphNode_t, parameters: *mut hipMemsetParams) -> Status {
    let found = with(node, |work| Ok(fill(work)?.parameters))?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(parameters, found) }
}

/// Replaces the fill of a node.
pub(super) fn replace(work: &mut Work, new: Fill) -> Status {
    *fill(work)? = new;
    Ok(())
}

pub unsafe fn hipGraphMemsetNodeSetParams(
    node: hipGraphNode_t,
    parameters: *const hipMemsetParams,
) -> Status {
    // SAFETY: the caller's struct.
    let new = unsafe { described(runtime()?, parameters)? };
    with(node, |work| replace(work, new))
}

/// Like [`replace`], in an executable graph, where the number and width of rows must stay the same.
pub(super) fn change(
    executable: hipGraphExec_t,
    node: hipGraphNode_t,
    new: impl FnOnce(&Runtime) -> Result<Fill, hipError_t>,
) -> Status {
    let (runtime, executable) = find(executable)?;
    let new = new(runtime)?;
    executable.with(runtime, node as u64, |work| match work {
        Work::Fill(old) => {
            let bytes = |it: &Fill| it.parameters.width * it.parameters.elementSize as usize;
            let same = bytes(old) == bytes(&new) && old.parameters.height == new.parameters.height;
            if new.parameters.height > 1 && !same { Err(hipErrorInvalidValue) } else { Ok(()) }
        }
        _ => Err(hipErrorInvalidValue),
    })??;
    executable.set(runtime, node as u64, Work::Fill(new))
}

pub unsafe fn hipGraphExecMemsetNodeSetParams(
    executable: hipGraphExec_t,
    node: hipGraphNode_t,
    parameters: *const hipMemsetParams,
) -> Status {
    // SAFETY: the caller's struct.
    change(executable, node, |runtime| unsafe { described(runtime, parameters) })
}

pub unsafe fn hipDrvGraphExecMemsetNodeSetParams(
    executable: hipGraphExec_t,
    node: hipGraphNode_t,
    parameters: *const hipMemsetParams,
    _context: hipCtx_t,
) -> Status {
    // SAFETY: the caller's struct.
    unsafe { hipGraphExecMemsetNodeSetParams(executable, node, &driver(parameters)?) }
}
