//! Stream capture: there is none, and asking costs nothing.

use std::cell::Cell;

use hip_api::types::*;

use super::{Status, set, set_if_wanted, stream};
use crate::runtime::runtime;

thread_local! {
    static CAPTURE_MODE: Cell<u32> = const { Cell::new(0) };
}

pub unsafe fn hipStreamGetCaptureInfo(
    on: hipStream_t,
    status: *mut hipStreamCaptureStatus,
    id: *mut u64,
) -> Status {
    stream::resolve(runtime()?, on)?;
    // SAFETY: the caller's out-pointers; the id may be null.
    unsafe {
        set(status, hipStreamCaptureStatusNone)?;
        set_if_wanted(id, 0);
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

/// The mode is kept per thread and given back, as HIP specifies; without captures it forbids nothing.
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
