//! Fill nodes.

use hip_api::types::*;

use super::super::{Status, set};
use super::{add, get, with};
use crate::graph::executable::find;
use crate::graph::lower;
use crate::graph::node::{Fill, Work};
use crate::memory::Place;
use crate::runtime::{Runtime, runtime};

fn fill(work: &mut Work) -> Result<&mut Fill, hipError_t> {
    if let Work::Fill(fill) = work { Ok(fill) } else { Err(hipErrorInvalidValue) }
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
    // Of host memory only what is pinned can be filled.
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
    unsafe { hipGraphAddMemsetNode(node, graph, after, count, parameters) }
}

pub unsafe fn hipGraphMemsetNodeGetParams(node: hipGraphNode_t, parameters: *mut hipMemsetParams) -> Status {
    let found = with(node, |work| Ok(fill(work)?.parameters))?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(parameters, found) }
}

/// Puts a fill in the place of a fill.
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

/// In an executable graph, rows stay as many and as wide as they are.
pub(super) fn change(
    executable: hipGraphExec_t,
    node: hipGraphNode_t,
    new: impl FnOnce(&Runtime) -> Result<Fill, hipError_t>,
) -> Status {
    let (runtime, executable) = find(executable)?;
    let new = new(runtime)?;
    executable.with(node as u64, |work| match work {
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
    unsafe { hipGraphExecMemsetNodeSetParams(executable, node, parameters) }
}
