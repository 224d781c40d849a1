//! Stream capture: begin, end, and queries.

use std::ffi::c_uint;

use hip_api::types::*;

use super::super::{Status, set, set_if_wanted, stream};
use super::arguments::{get, handles};
use crate::state::runtime::runtime;
use crate::state::{streams, thread};

const ADD_DEPENDENCIES: c_uint = 0;
const SET_DEPENDENCIES: c_uint = 1;

/// Rejects streams and modes that cannot be captured.
fn can_begin(on: hipStream_t, mode: hipStreamCaptureMode) -> Status {
    if on.is_null() || on == hipStreamLegacy {
        return Err(hipErrorStreamCaptureUnsupported);
    }
    if mode.0 > hipStreamCaptureModeRelaxed.0 { Err(hipErrorInvalidValue) } else { Ok(()) }
}

pub unsafe fn hipStreamBeginCapture(on: hipStream_t, mode: hipStreamCaptureMode) -> Status {
    let runtime = runtime()?;
    let at = runtime.resolve(on)?;
    can_begin(on, mode)?;
    runtime.captures.begin(&runtime.graphs, at, mode, None)
}

pub unsafe fn hipStreamBeginCapture_spt(on: hipStream_t, mode: hipStreamCaptureMode) -> Status {
    // SAFETY: no pointers.
    unsafe { hipStreamBeginCapture(streams::spt(on), mode) }
}

pub unsafe fn hipStreamBeginCaptureToGraph(
    on: hipStream_t,
    graph: hipGraph_t,
    after: *const hipGraphNode_t,
    edges: *const hipGraphEdgeData,
    count: usize,
    mode: hipStreamCaptureMode,
) -> Status {
    // Edge ports are for kernels that launch others, which HIP does not have.
    if !edges.is_null() {
        return Err(hipErrorNotSupported);
    }
    if after.is_null() != (count == 0) {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let graph = runtime.graphs.graph(graph)?;
    let at = runtime.resolve(on)?;
    can_begin(on, mode)?;
    // SAFETY: the caller's array.
    let after = unsafe { handles(after, count)? };
    if !after.iter().all(|it| graph.contains(*it)) {
        return Err(hipErrorInvalidValue);
    }
    runtime.captures.begin(&runtime.graphs, at, mode, Some((graph, after)))
}

pub unsafe fn hipStreamEndCapture(on: hipStream_t, graph: *mut hipGraph_t) -> Status {
    let runtime = runtime()?;
    if graph.is_null() {
        return Err(hipErrorInvalidValue);
    }
    if on.is_null() || on == hipStreamLegacy {
        return Err(hipErrorIllegalState);
    }
    let at = runtime.resolve(on)?;
    let captured = runtime.end_capture(at);
    let handle = captured.as_ref().map_or(0, |it| it.id);
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(graph, handle as hipGraph_t)? };
    captured.map(drop)
}

pub unsafe fn hipStreamEndCapture_spt(on: hipStream_t, graph: *mut hipGraph_t) -> Status {
    // SAFETY: the caller's out-pointer.
    unsafe { hipStreamEndCapture(streams::spt(on), graph) }
}

pub unsafe fn hipStreamGetCaptureInfo(
    on: hipStream_t,
    status: *mut hipStreamCaptureStatus,
    id: *mut u64,
) -> Status {
    let (graph, after, count) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the caller's out-pointers.
    unsafe { hipStreamGetCaptureInfo_v2(on, status, id, graph, after, count) }
}

pub unsafe fn hipStreamGetCaptureInfo_spt(
    on: hipStream_t,
    status: *mut hipStreamCaptureStatus,
    id: *mut u64,
) -> Status {
    // SAFETY: the caller's out-pointers.
    unsafe { hipStreamGetCaptureInfo(streams::spt(on), status, id) }
}

pub unsafe fn hipStreamGetCaptureInfo_v2(
    on: hipStream_t,
    status: *mut hipStreamCaptureStatus,
    id: *mut u64,
    graph: *mut hipGraph_t,
    after: *mut *const hipGraphNode_t,
    count: *mut usize,
) -> Status {
    if status.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let view = stream::captured(runtime()?, on)?;
    // SAFETY: the caller's out-pointers, all except the status may be null. Handles are as large as pointers.
    unsafe {
        set(status, view.status)?;
        if view.status == hipStreamCaptureStatusActive {
            set_if_wanted(id, view.id);
            set_if_wanted(graph, view.graph as hipGraph_t);
            set_if_wanted(after, view.after.cast());
            set_if_wanted(count, view.count);
        }
    }
    Ok(())
}

pub unsafe fn hipStreamGetCaptureInfo_v2_spt(
    on: hipStream_t,
    status: *mut hipStreamCaptureStatus,
    id: *mut u64,
    graph: *mut hipGraph_t,
    after: *mut *const hipGraphNode_t,
    count: *mut usize,
) -> Status {
    // SAFETY: the caller's out-pointers.
    unsafe { hipStreamGetCaptureInfo_v2(streams::spt(on), status, id, graph, after, count) }
}

pub unsafe fn hipStreamUpdateCaptureDependencies(
    on: hipStream_t,
    nodes: *mut hipGraphNode_t,
    count: usize,
    flags: c_uint,
) -> Status {
    let runtime = runtime()?;
    let at = runtime.resolve(on)?;
    if runtime.captures.view(at.id).status == hipStreamCaptureStatusNone {
        return Err(hipErrorIllegalState);
    }
    if flags != ADD_DEPENDENCIES && flags != SET_DEPENDENCIES {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's array.
    let nodes = unsafe { handles(nodes, count)? };
    runtime.captures.depend(at, &nodes, flags == SET_DEPENDENCIES)
}

pub unsafe fn hipThreadExchangeStreamCaptureMode(mode: *mut hipStreamCaptureMode) -> Status {
    // SAFETY: the caller's in-and-out pointer.
    let wanted = unsafe { get(mode)? };
    if wanted.0 > hipStreamCaptureModeRelaxed.0 {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: as above.
    unsafe { set(mode, thread::exchange_capture_mode(wanted)) }
}
