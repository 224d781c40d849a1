//! Stream capture and the graphs it makes. Graphs built node by node are not supported.

use std::cell::Cell;
use std::ffi::c_char;
use std::sync::Arc;

use hip_api::types::*;

use super::{Status, set, set_if_wanted, stream};
use crate::capture::{Executable, Graph};
use crate::runtime::{Runtime, runtime};

thread_local! {
    static CAPTURE_MODE: Cell<u32> = const { Cell::new(0) };
}

pub unsafe fn hipStreamBeginCapture(on: hipStream_t, mode: hipStreamCaptureMode) -> Status {
    let runtime = runtime()?;
    let at = stream::resolve(runtime, on)?;
    if mode.0 > hipStreamCaptureModeRelaxed.0 {
        return Err(hipErrorInvalidValue);
    }
    if on.is_null() || on == hipStreamLegacy {
        return Err(hipErrorStreamCaptureUnsupported);
    }
    runtime.captures.begin(at)
}

pub unsafe fn hipStreamBeginCapture_spt(on: hipStream_t, mode: hipStreamCaptureMode) -> Status {
    // SAFETY: no pointers.
    unsafe { hipStreamBeginCapture(stream::spt(on), mode) }
}

pub unsafe fn hipStreamEndCapture(on: hipStream_t, graph: *mut hipGraph_t) -> Status {
    let runtime = runtime()?;
    let at = stream::resolve(runtime, on)?;
    if graph.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let captured = runtime.captures.end(at)?;
    let (handle, _) = runtime.graphs.insert_with(|_| captured).ok_or(hipErrorOutOfMemory)?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(graph, handle as hipGraph_t) }
}

pub unsafe fn hipStreamEndCapture_spt(on: hipStream_t, graph: *mut hipGraph_t) -> Status {
    // SAFETY: the caller's out-pointer.
    unsafe { hipStreamEndCapture(stream::spt(on), graph) }
}

fn find(runtime: &Runtime, graph: hipGraph_t) -> Result<Arc<Graph>, hipError_t> {
    runtime.graphs.get(graph as u64).ok_or(hipErrorInvalidValue)
}

pub unsafe fn hipGraphDestroy(graph: hipGraph_t) -> Status {
    runtime()?.graphs.remove(graph as u64).map(drop).ok_or(hipErrorInvalidValue)
}

pub unsafe fn hipGraphInstantiate(
    executable: *mut hipGraphExec_t,
    graph: hipGraph_t,
    error_node: *mut hipGraphNode_t,
    log: *mut c_char,
    log_bytes: usize,
) -> Status {
    // SAFETY: the caller's out-pointer.
    unsafe { hipGraphInstantiateWithFlags(executable, graph, 0)? };
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
    // Free on launch, upload, and priorities of nodes ask for nothing that a list of work does not do anyway; launching from
    // the device (4) does.
    let known = 1 | 2 | 8;
    if executable.is_null() || flags & !known != 0 {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let graph = find(runtime, graph)?;
    let made = runtime.executables.insert_with(|_| Executable { graph });
    let (handle, _) = made.ok_or(hipErrorOutOfMemory)?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(executable, handle as hipGraphExec_t) }
}

pub unsafe fn hipGraphExecDestroy(executable: hipGraphExec_t) -> Status {
    runtime()?.executables.remove(executable as u64).map(drop).ok_or(hipErrorInvalidValue)
}

/// Nothing waits on the worker for a launch, so there is nothing to send ahead.
pub unsafe fn hipGraphUpload(executable: hipGraphExec_t, on: hipStream_t) -> Status {
    let runtime = runtime()?;
    stream::resolve(runtime, on)?;
    runtime.executables.get(executable as u64).map(drop).ok_or(hipErrorInvalidValue)
}

pub unsafe fn hipGraphLaunch(executable: hipGraphExec_t, on: hipStream_t) -> Status {
    let runtime = runtime()?;
    let at = stream::resolve(runtime, on)?;
    let found = runtime.executables.get(executable as u64).ok_or(hipErrorInvalidValue)?;
    let graph = found.graph.clone();
    let kept = runtime.captures.keep(at, || Arc::new(move |runtime, at| graph.launch(runtime, at)));
    kept.unwrap_or_else(|| found.graph.launch(runtime, at))
}

pub unsafe fn hipGraphLaunch_spt(executable: hipGraphExec_t, on: hipStream_t) -> Status {
    // SAFETY: no pointers.
    unsafe { hipGraphLaunch(executable, stream::spt(on)) }
}

pub unsafe fn hipStreamGetCaptureInfo(
    on: hipStream_t,
    status: *mut hipStreamCaptureStatus,
    id: *mut u64,
) -> Status {
    let runtime = runtime()?;
    let (found, number) = runtime.captures.status(stream::resolve(runtime, on)?);
    // SAFETY: the caller's out-pointers; the id may be null.
    unsafe {
        set(status, found)?;
        set_if_wanted(id, number);
    }
    Ok(())
}

pub unsafe fn hipStreamGetCaptureInfo_spt(
    on: hipStream_t,
    status: *mut hipStreamCaptureStatus,
    id: *mut u64,
) -> Status {
    // SAFETY: the caller's out-pointers.
    unsafe { hipStreamGetCaptureInfo(stream::spt(on), status, id) }
}

pub unsafe fn hipStreamGetCaptureInfo_v2(
    on: hipStream_t,
    status: *mut hipStreamCaptureStatus,
    id: *mut u64,
    graph: *mut hipGraph_t,
    dependencies: *mut *const hipGraphNode_t,
    count: *mut usize,
) -> Status {
    // SAFETY: the caller's out-pointers, all but the status allowed to be null.
    unsafe {
        hipStreamGetCaptureInfo(on, status, id)?;
        set_if_wanted(graph, std::ptr::null_mut());
        set_if_wanted(dependencies, std::ptr::null());
        set_if_wanted(count, 0);
    }
    Ok(())
}

pub unsafe fn hipStreamGetCaptureInfo_v2_spt(
    on: hipStream_t,
    status: *mut hipStreamCaptureStatus,
    id: *mut u64,
    graph: *mut hipGraph_t,
    dependencies: *mut *const hipGraphNode_t,
    count: *mut usize,
) -> Status {
    // SAFETY: the caller's out-pointers.
    unsafe { hipStreamGetCaptureInfo_v2(stream::spt(on), status, id, graph, dependencies, count) }
}

/// The mode is kept per thread and given back, as HIP specifies; it forbids nothing: every call that is not captured is safe
/// during a capture.
pub unsafe fn hipThreadExchangeStreamCaptureMode(mode: *mut hipStreamCaptureMode) -> Status {
    if mode.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's in-and-out pointer, not null.
    let wanted = unsafe { *mode };
    if wanted.0 > hipStreamCaptureModeRelaxed.0 {
        return Err(hipErrorInvalidValue);
    }
    let before = CAPTURE_MODE.replace(wanted.0);
    // SAFETY: as above.
    unsafe { set(mode, hipStreamCaptureMode(before)) }
}
