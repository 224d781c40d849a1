//! Host function nodes.

use std::ffi::c_void;

use hip_api::types::*;

use super::super::{Status, set};
use super::arguments::{add, find, get, with};
use crate::graph::node::{Host, Work};

fn host(work: &mut Work) -> Result<&mut Host, hipError_t> {
    if let Work::Host(host) = work { Ok(host) } else { Err(hipErrorInvalidValue) }
}

/// # Safety
/// `parameters` is null or valid for a read.
pub(super) unsafe fn described(parameters: *const hipHostNodeParams) -> Result<Host, hipError_t> {
    // SAFETY: the caller's struct.
    let it = unsafe { get(parameters)? };
    Ok(Host { function: it.r#fn.ok_or(hipErrorInvalidValue)?, data: it.userData as usize })
}

pub unsafe fn hipGraphAddHostNode(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    after: *const hipGraphNode_t,
    count: usize,
    parameters: *const hipHostNodeParams,
) -> Status {
    // SAFETY: the caller's pointers.
    unsafe { add(node, graph, after, count, |_| Ok(Work::Host(described(parameters)?))) }
}

pub unsafe fn hipGraphHostNodeGetParams(node: hipGraphNode_t, parameters: *mut hipHostNodeParams) -> Status {
    let found = with(node, |work| Ok(*host(work)?))?;
    let answer = hipHostNodeParams { r#fn: Some(found.function), userData: found.data as *mut c_void };
    // SAFETY: the caller's out-pointer.
    unsafe { set(parameters, answer) }
}

/// Replaces the function of a node.
pub(super) fn replace(work: &mut Work, new: Host) -> Status {
    *host(work)? = new;
    Ok(())
}

pub unsafe fn hipGraphHostNodeSetParams(
    node: hipGraphNode_t,
    parameters: *const hipHostNodeParams,
) -> Status {
    // SAFETY: the caller's struct.
    let new = unsafe { described(parameters)? };
    with(node, |work| replace(work, new))
}

pub unsafe fn hipGraphExecHostNodeSetParams(
    executable: hipGraphExec_t,
    node: hipGraphNode_t,
    parameters: *const hipHostNodeParams,
) -> Status {
    let (runtime, executable) = find(executable)?;
    // SAFETY: the caller's struct.
    let new = unsafe { described(parameters)? };
    let is_host = executable.with(runtime, node as u64, |work| matches!(work, Work::Host(_)))?;
    if !is_host {
        return Err(hipErrorInvalidValue);
    }
    executable.set(runtime, node as u64, Work::Host(new))
}
