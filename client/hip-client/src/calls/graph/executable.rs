//! Instantiation, launch and update of graphs.

use std::ffi::{c_char, c_uint};

use hip_api::types::*;

use super::super::{Status, set, set_if_wanted};
use super::arguments::{find, get};
use crate::graph::executable::{Executable, Mismatch};
use crate::graph::node::Work;
use crate::state::runtime::{Runtime, runtime};
use crate::state::streams;

const AUTO_FREE_ON_LAUNCH: u64 = 1;
const UPLOAD: u64 = 2;
const DEVICE_LAUNCH: u64 = 4;
const USE_NODE_PRIORITY: u64 = 8;

fn instantiate(runtime: &Runtime, executable: *mut hipGraphExec_t, graph: hipGraph_t, flags: u64) -> Status {
    if executable.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let graph = runtime.graphs.graph(graph)?;
    let made = Executable::make(runtime, &graph, flags)?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(executable, made.id as hipGraphExec_t) }
}

pub unsafe fn hipGraphInstantiate(
    executable: *mut hipGraphExec_t,
    graph: hipGraph_t,
    error_node: *mut hipGraphNode_t,
    log: *mut c_char,
    log_bytes: usize,
) -> Status {
    instantiate(runtime()?, executable, graph, 0)?;
    // SAFETY: the caller's out-pointers; either may be null, and the log is written only if it has room.
    unsafe {
        set_if_wanted(error_node, std::ptr::null_mut());
        if log_bytes > 0 {
            set_if_wanted(log, 0);
        }
    }
    Ok(())
}

pub unsafe fn hipGraphInstantiateWithFlags(
    executable: *mut hipGraphExec_t,
    graph: hipGraph_t,
    flags: u64,
) -> Status {
    if ![0, AUTO_FREE_ON_LAUNCH, USE_NODE_PRIORITY].contains(&flags) {
        return Err(hipErrorInvalidValue);
    }
    instantiate(runtime()?, executable, graph, flags)
}

pub unsafe fn hipGraphInstantiateWithParams(
    executable: *mut hipGraphExec_t,
    graph: hipGraph_t,
    parameters: *mut hipGraphInstantiateParams,
) -> Status {
    let runtime = runtime()?;
    // SAFETY: the caller's struct.
    let wanted = unsafe { get(parameters)? };
    let known = [0, AUTO_FREE_ON_LAUNCH, UPLOAD, USE_NODE_PRIORITY];
    let made = if known.contains(&wanted.flags) {
        instantiate(runtime, executable, graph, wanted.flags)
    } else if wanted.flags == DEVICE_LAUNCH {
        // Kernels cannot launch graphs here.
        Err(hipErrorNotSupported)
    } else {
        Err(hipErrorInvalidValue)
    };
    let result = if made.is_ok() { hipGraphInstantiateSuccess } else { hipGraphInstantiateError };
    // SAFETY: the caller's struct, not null.
    unsafe {
        (*parameters).result_out = result;
        (*parameters).errNode_out = std::ptr::null_mut();
    }
    made?;
    if wanted.flags == UPLOAD {
        runtime.resolve(wanted.uploadStream)?;
    }
    Ok(())
}

pub unsafe fn hipGraphExecDestroy(executable: hipGraphExec_t) -> Status {
    let runtime = runtime()?;
    let found = runtime.graphs.executables.remove(executable as u64).ok_or(hipErrorInvalidValue)?;
    found.destroy(runtime)
}

pub unsafe fn hipGraphExecGetFlags(executable: hipGraphExec_t, flags: *mut u64) -> Status {
    let (_, found) = find(executable)?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(flags, found.flags) }
}

/// No-op: the worker has had the graph since it was instantiated.
pub unsafe fn hipGraphUpload(executable: hipGraphExec_t, on: hipStream_t) -> Status {
    let (runtime, _) = find(executable)?;
    runtime.resolve(on).map(drop)
}

pub unsafe fn hipGraphLaunch(executable: hipGraphExec_t, on: hipStream_t) -> Status {
    let (runtime, found) = find(executable)?;
    let at = runtime.resolve(on)?;
    let kept = runtime.record(at, || {
        if found.any(Work::is_memory) {
            return Err(hipErrorNotSupported);
        }
        Ok(Work::Child(found.as_graph(runtime)?))
    });
    kept.unwrap_or_else(|| found.launch(runtime, at))
}

pub unsafe fn hipGraphLaunch_spt(executable: hipGraphExec_t, on: hipStream_t) -> Status {
    // SAFETY: no pointers.
    unsafe { hipGraphLaunch(executable, streams::spt(on)) }
}

pub unsafe fn hipGraphExecUpdate(
    executable: hipGraphExec_t,
    graph: hipGraph_t,
    error_node: *mut hipGraphNode_t,
    result: *mut hipGraphExecUpdateResult,
) -> Status {
    if error_node.is_null() || result.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let (runtime, found) = find(executable)?;
    let graph = runtime.graphs.graph(graph)?;
    let (node, outcome) = match found.update(runtime, &graph) {
        Ok(()) => (0, hipGraphExecUpdateSuccess),
        Err(Mismatch { node, result }) => (node, result),
    };
    // SAFETY: the caller's out-pointers, not null.
    unsafe {
        set(error_node, node as hipGraphNode_t)?;
        set(result, outcome)?;
    }
    if outcome == hipGraphExecUpdateSuccess { Ok(()) } else { Err(hipErrorGraphExecUpdateFailure) }
}

/// Only kernels, copies and fills can be disabled.
fn can_switch(runtime: &Runtime, executable: &Executable, node: hipGraphNode_t) -> Status {
    let can = executable
        .with(runtime, node as u64, |work| matches!(work, Work::Kernel(_) | Work::Copy(_) | Work::Fill(_)))?;
    if can { Ok(()) } else { Err(hipErrorInvalidValue) }
}

pub unsafe fn hipGraphNodeSetEnabled(
    executable: hipGraphExec_t,
    node: hipGraphNode_t,
    enabled: c_uint,
) -> Status {
    let (runtime, found) = find(executable)?;
    can_switch(runtime, &found, node)?;
    found.enable(runtime, node as u64, enabled != 0)
}

pub unsafe fn hipGraphNodeGetEnabled(
    executable: hipGraphExec_t,
    node: hipGraphNode_t,
    enabled: *mut c_uint,
) -> Status {
    let (runtime, found) = find(executable)?;
    can_switch(runtime, &found, node)?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(enabled, c_uint::from(found.is_enabled(node as u64)?)) }
}
