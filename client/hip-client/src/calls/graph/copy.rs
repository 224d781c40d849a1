//! Copy nodes: contiguous, boxes, and to and from device variables.

use std::ffi::c_void;

use hip_api::types::*;

use super::super::copy::symbol_range;
use super::super::{Status, set};
use super::arguments::{add, find, get, with};
use crate::graph::block::Block;
use crate::graph::lower;
use crate::graph::node::{Copy, Work};
use crate::state::runtime::{Runtime, runtime};

fn copy(work: &mut Work) -> Result<&mut Copy, hipError_t> {
    if let Work::Copy(copy) = work { Ok(copy) } else { Err(hipErrorInvalidValue) }
}

/// Validates a copy as far as possible before it is executed.
fn checked(runtime: &Runtime, copy: Copy) -> Result<Copy, hipError_t> {
    let (to, from) = lower::blocks(&copy)?;
    if !to.is_empty() {
        lower::places(runtime, &to, &from, copy.kind())?;
    }
    Ok(copy)
}

fn flat(
    runtime: &Runtime,
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: hipMemcpyKind,
) -> Result<Copy, hipError_t> {
    if to.is_null() || from.is_null() || bytes == 0 || to.cast_const() == from {
        return Err(hipErrorInvalidValue);
    }
    checked(runtime, Copy::Flat { to: to as u64, from: from as u64, bytes, kind })
}

/// # Safety
/// `parameters` is null or valid for a read.
pub(super) unsafe fn boxed(
    runtime: &Runtime,
    parameters: *const hipMemcpy3DParms,
) -> Result<Copy, hipError_t> {
    // SAFETY: the caller's struct.
    let it = unsafe { get(parameters)? };
    if it.srcArray.is_null() == it.srcPtr.ptr.is_null() || it.dstArray.is_null() == it.dstPtr.ptr.is_null() {
        return Err(hipErrorInvalidValue);
    }
    if it.srcPtr.pitch < it.srcPtr.xsize || it.dstPtr.pitch < it.dstPtr.xsize {
        return Err(hipErrorInvalidPitchValue);
    }
    if it.srcPtr.pitch >= i32::MAX as usize || it.dstPtr.pitch >= i32::MAX as usize {
        return Err(hipErrorInvalidValue);
    }
    if it.srcArray.is_null() && it.dstArray.is_null() {
        let outside = |at: hipPos, pointer: hipPitchedPtr| {
            it.extent.width.checked_add(at.x).is_none_or(|end| end > pointer.pitch)
        };
        if outside(it.srcPos, it.srcPtr) || outside(it.dstPos, it.dstPtr) {
            return Err(hipErrorInvalidValue);
        }
    }
    checked(runtime, Copy::Box(it))
}

/// # Safety
/// `parameters` is null or valid for a read.
unsafe fn driver(runtime: &Runtime, parameters: *const HIP_MEMCPY3D) -> Result<Copy, hipError_t> {
    // SAFETY: the caller's struct.
    checked(runtime, Copy::Driver(unsafe { get(parameters)? }))
}

fn to_symbol(
    runtime: &Runtime,
    symbol: *const c_void,
    from: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
) -> Result<Copy, hipError_t> {
    if from.is_null() || bytes == 0 || symbol == from {
        return Err(hipErrorInvalidValue);
    }
    let to = symbol_range(runtime, symbol, offset, bytes)?;
    if ![hipMemcpyHostToDevice, hipMemcpyDeviceToDevice, hipMemcpyDefault].contains(&kind) {
        return Err(hipErrorInvalidMemcpyDirection);
    }
    checked(runtime, Copy::Flat { to, from: from as u64, bytes, kind })
}

fn from_symbol(
    runtime: &Runtime,
    to: *mut c_void,
    symbol: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
) -> Result<Copy, hipError_t> {
    if to.is_null() || bytes == 0 || symbol == to.cast_const() {
        return Err(hipErrorInvalidValue);
    }
    let from = symbol_range(runtime, symbol, offset, bytes)?;
    if ![hipMemcpyDeviceToHost, hipMemcpyDeviceToDevice, hipMemcpyDefault].contains(&kind) {
        return Err(hipErrorInvalidMemcpyDirection);
    }
    checked(runtime, Copy::Flat { to: to as u64, from, bytes, kind })
}

/// Replaces the copy of a node.
pub(super) fn replace(work: &mut Work, new: Copy) -> Status {
    *copy(work)? = new;
    Ok(())
}

/// Like [`replace`], in an executable graph, where the direction must stay the same.
pub(super) fn change(
    executable: hipGraphExec_t,
    node: hipGraphNode_t,
    new: impl FnOnce(&Runtime) -> Result<Copy, hipError_t>,
) -> Status {
    let (runtime, executable) = find(executable)?;
    let kind = executable.with(runtime, node as u64, |work| match work {
        Work::Copy(copy) => Ok(copy.kind()),
        _ => Err(hipErrorInvalidValue),
    })??;
    let new = new(runtime)?;
    if new.kind() != kind {
        return Err(hipErrorInvalidValue);
    }
    executable.set(runtime, node as u64, Work::Copy(new))
}

pub unsafe fn hipGraphAddMemcpyNode(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    after: *const hipGraphNode_t,
    count: usize,
    parameters: *const hipMemcpy3DParms,
) -> Status {
    // SAFETY: the caller's pointers.
    unsafe { add(node, graph, after, count, |runtime| Ok(Work::Copy(boxed(runtime, parameters)?))) }
}

pub unsafe fn hipGraphAddMemcpyNode1D(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    after: *const hipGraphNode_t,
    count: usize,
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: hipMemcpyKind,
) -> Status {
    // SAFETY: the caller's pointers.
    unsafe { add(node, graph, after, count, |runtime| Ok(Work::Copy(flat(runtime, to, from, bytes, kind)?))) }
}

pub unsafe fn hipGraphAddMemcpyNodeToSymbol(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    after: *const hipGraphNode_t,
    count: usize,
    symbol: *const c_void,
    from: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
) -> Status {
    // SAFETY: the caller's pointers.
    unsafe {
        add(node, graph, after, count, |runtime| {
            Ok(Work::Copy(to_symbol(runtime, symbol, from, bytes, offset, kind)?))
        })
    }
}

pub unsafe fn hipGraphAddMemcpyNodeFromSymbol(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    after: *const hipGraphNode_t,
    count: usize,
    to: *mut c_void,
    symbol: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
) -> Status {
    // SAFETY: the caller's pointers.
    unsafe {
        add(node, graph, after, count, |runtime| {
            Ok(Work::Copy(from_symbol(runtime, to, symbol, bytes, offset, kind)?))
        })
    }
}

pub unsafe fn hipDrvGraphAddMemcpyNode(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    after: *const hipGraphNode_t,
    count: usize,
    parameters: *const HIP_MEMCPY3D,
    context: hipCtx_t,
) -> Status {
    if context.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's pointers.
    unsafe { add(node, graph, after, count, |runtime| Ok(Work::Copy(driver(runtime, parameters)?))) }
}

/// Every copy can be described as a box copy.
pub unsafe fn hipGraphMemcpyNodeGetParams(node: hipGraphNode_t, parameters: *mut hipMemcpy3DParms) -> Status {
    let found = with(node, |work| {
        let copy = copy(work)?;
        if let Copy::Box(parameters) = copy {
            return Ok(*parameters);
        }
        let (to, from) = lower::blocks(copy)?;
        let pitched = |it: Block| hipPitchedPtr {
            ptr: it.address as *mut c_void,
            pitch: it.pitch as usize,
            xsize: it.width as usize,
            ysize: it.height as usize,
        };
        Ok(hipMemcpy3DParms {
            srcPtr: pitched(from),
            dstPtr: pitched(to),
            extent: hipExtent {
                width: to.width as usize,
                height: to.height as usize,
                depth: to.depth as usize,
            },
            kind: copy.kind(),
            ..Default::default()
        })
    })?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(parameters, found) }
}

pub unsafe fn hipDrvGraphMemcpyNodeGetParams(node: hipGraphNode_t, parameters: *mut HIP_MEMCPY3D) -> Status {
    let found = with(node, |work| match copy(work)? {
        Copy::Driver(parameters) => Ok(*parameters),
        _ => Err(hipErrorInvalidValue),
    })?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(parameters, found) }
}

pub unsafe fn hipGraphMemcpyNodeSetParams(
    node: hipGraphNode_t,
    parameters: *const hipMemcpy3DParms,
) -> Status {
    // SAFETY: the caller's struct.
    let new = unsafe { boxed(runtime()?, parameters)? };
    with(node, |work| replace(work, new))
}

pub unsafe fn hipDrvGraphMemcpyNodeSetParams(
    node: hipGraphNode_t,
    parameters: *const HIP_MEMCPY3D,
) -> Status {
    // SAFETY: the caller's struct.
    let new = unsafe { driver(runtime()?, parameters)? };
    with(node, |work| replace(work, new))
}

pub unsafe fn hipGraphMemcpyNodeSetParams1D(
    node: hipGraphNode_t,
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: hipMemcpyKind,
) -> Status {
    let new = flat(runtime()?, to, from, bytes, kind)?;
    with(node, |work| replace(work, new))
}

/// Checks that a symbol is not null.
fn named(symbol: *const c_void) -> Status {
    if symbol.is_null() { Err(hipErrorInvalidSymbol) } else { Ok(()) }
}

pub unsafe fn hipGraphMemcpyNodeSetParamsToSymbol(
    node: hipGraphNode_t,
    symbol: *const c_void,
    from: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
) -> Status {
    named(symbol)?;
    let new = to_symbol(runtime()?, symbol, from, bytes, offset, kind)?;
    with(node, |work| replace(work, new))
}

pub unsafe fn hipGraphMemcpyNodeSetParamsFromSymbol(
    node: hipGraphNode_t,
    to: *mut c_void,
    symbol: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
) -> Status {
    named(symbol)?;
    let new = from_symbol(runtime()?, to, symbol, bytes, offset, kind)?;
    with(node, |work| replace(work, new))
}

pub unsafe fn hipGraphExecMemcpyNodeSetParams(
    executable: hipGraphExec_t,
    node: hipGraphNode_t,
    parameters: *mut hipMemcpy3DParms,
) -> Status {
    // SAFETY: the caller's struct.
    change(executable, node, |runtime| unsafe { boxed(runtime, parameters) })
}

pub unsafe fn hipDrvGraphExecMemcpyNodeSetParams(
    executable: hipGraphExec_t,
    node: hipGraphNode_t,
    parameters: *const HIP_MEMCPY3D,
    _context: hipCtx_t,
) -> Status {
    // SAFETY: the caller's struct.
    change(executable, node, |runtime| unsafe { driver(runtime, parameters) })
}

pub unsafe fn hipGraphExecMemcpyNodeSetParams1D(
    executable: hipGraphExec_t,
    node: hipGraphNode_t,
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: hipMemcpyKind,
) -> Status {
    change(executable, node, |runtime| flat(runtime, to, from, bytes, kind))
}

pub unsafe fn hipGraphExecMemcpyNodeSetParamsToSymbol(
    executable: hipGraphExec_t,
    node: hipGraphNode_t,
    symbol: *const c_void,
    from: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
) -> Status {
    named(symbol)?;
    change(executable, node, |runtime| to_symbol(runtime, symbol, from, bytes, offset, kind))
}

pub unsafe fn hipGraphExecMemcpyNodeSetParamsFromSymbol(
    executable: hipGraphExec_t,
    node: hipGraphNode_t,
    to: *mut c_void,
    symbol: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
) -> Status {
    named(symbol)?;
    change(executable, node, |runtime| from_symbol(runtime, to, symbol, bytes, offset, kind))
}
