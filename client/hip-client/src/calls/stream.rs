//! Streams: handles are allocated here, ordering happens on the worker.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hip_api::types::*;
use session::progress::WatchTarget;

pub use super::stream_attribute::*;
pub use super::stream_value::*;
use super::{Status, event, set};
use crate::graph::capture::View;
use crate::graph::node::Work;
use crate::state::runtime::{Runtime, runtime};
use crate::state::streams;

pub unsafe fn hipStreamAttachMemAsync(
    on: hipStream_t,
    pointer: *mut c_void,
    bytes: usize,
    flags: c_uint,
) -> Status {
    super::managed::attach(runtime()?, on, pointer, bytes, flags)
}

pub unsafe fn hipStreamCreate(stream: *mut hipStream_t) -> Status {
    // SAFETY: the caller's out-pointer.
    unsafe { hipStreamCreateWithPriority(stream, hipStreamDefault, 0) }
}

pub unsafe fn hipStreamCreateWithFlags(stream: *mut hipStream_t, flags: c_uint) -> Status {
    // SAFETY: the caller's out-pointer.
    unsafe { hipStreamCreateWithPriority(stream, flags, 0) }
}

pub unsafe fn hipStreamCreateWithPriority(
    stream: *mut hipStream_t,
    flags: c_uint,
    priority: c_int,
) -> Status {
    if stream.is_null() || flags & !hipStreamNonBlocking != 0 {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let (_, device) = runtime.current()?;
    // Greater priorities are smaller numbers; values out of range are clamped.
    let priority = priority.clamp(
        device.snapshot.greatest_priority.min(device.snapshot.least_priority),
        device.snapshot.greatest_priority.max(device.snapshot.least_priority),
    );
    let id = runtime.create_stream(flags, priority, Vec::new())?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(stream, id as hipStream_t) }
}

/// The mask is stored and returned by queries, but work is not restricted to it.
pub unsafe fn hipExtStreamCreateWithCUMask(stream: *mut hipStream_t, words: u32, mask: *const u32) -> Status {
    if stream.is_null() || words == 0 || mask.is_null() {
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller's array of `words` entries, not null.
    let mask = unsafe { std::slice::from_raw_parts(mask, words as usize) }.to_vec();
    let id = runtime()?.create_stream(hipStreamDefault, 0, mask)?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(stream, id as hipStream_t) }
}

pub unsafe fn hipExtStreamGetCUMask(stream: hipStream_t, words: u32, mask: *mut u32) -> Status {
    let runtime = runtime()?;
    let at = runtime.look_up(stream)?;
    let units = runtime.devices[at.device].properties.multiProcessorCount.max(0) as u32;
    if mask.is_null() || words < units.div_ceil(32) {
        return Err(hipErrorInvalidValue);
    }
    // A mask without any unit counts as no mask, as in AMD's runtime.
    let known =
        runtime.tables.streams.get(at.id).map(|s| s.cu_mask.clone()).filter(|m| m.iter().any(|w| *w != 0));
    for word in 0..words {
        let all = match units.saturating_sub(word * 32) {
            0 => 0,
            left if left >= 32 => u32::MAX,
            left => (1 << left) - 1,
        };
        let bits = match &known {
            Some(mask) => mask.get(word as usize).copied().unwrap_or(0),
            None => all,
        };
        // SAFETY: the caller's array of `words` entries.
        unsafe { mask.add(word as usize).write(bits) };
    }
    Ok(())
}

pub unsafe fn hipStreamDestroy(stream: hipStream_t) -> Status {
    let runtime = runtime()?;
    if stream.is_null() || stream == hipStreamLegacy || stream == hipStreamPerThread {
        return Err(hipErrorInvalidResourceHandle);
    }
    let gone = runtime.tables.streams.remove(stream as u64).ok_or(hipErrorContextIsDestroyed)?;
    runtime.forget_credit(&gone.credit);
    runtime.fences.leave(stream as u64);
    runtime.abandon_capture(stream as u64);
    runtime.connection.progress().forget(WatchTarget::Stream(stream as u64));
    runtime.post(&wire::DestroyStream { stream: stream as u64 }, &[])
}

pub unsafe fn hipStreamSynchronize(stream: hipStream_t) -> Status {
    let runtime = runtime()?;
    let at = runtime.look_up(stream)?;
    runtime.captures.refuse_waiting(at)?;
    if runtime.has_waited_for(at.id) {
        return Ok(());
    }
    runtime.call(&wire::SynchronizeStream { stream: at.id }).map(|_| ())
}

pub unsafe fn hipStreamSynchronize_spt(stream: hipStream_t) -> Status {
    // SAFETY: no pointers.
    unsafe { hipStreamSynchronize(streams::spt(stream)) }
}

pub unsafe fn hipStreamQuery(stream: hipStream_t) -> Status {
    let runtime = runtime()?;
    let at = runtime.look_up(stream)?;
    runtime.captures.refuse_waiting(at)?;
    runtime.query_stream(at.id)
}

pub unsafe fn hipStreamQuery_spt(stream: hipStream_t) -> Status {
    // SAFETY: no pointers.
    unsafe { hipStreamQuery(streams::spt(stream)) }
}

pub unsafe fn hipStreamWaitEvent(stream: hipStream_t, event: hipEvent_t, flags: c_uint) -> Status {
    let runtime = runtime()?;
    let at = runtime.resolve(stream).map_err(streams::gone_is(hipErrorInvalidHandle))?;
    let stream = at.id;
    let event = event::find(runtime, event)?;
    if flags & !hipEventWaitExternal != 0 {
        return Err(hipErrorInvalidValue);
    }
    let kept = if flags & hipEventWaitExternal != 0 {
        runtime.record(at, || Ok(Work::WaitEvent(Arc::clone(&event))))
    } else {
        runtime.captures.wait_event(at, event.id, event.recorded.load(Ordering::Acquire))
    };
    if let Some(kept) = kept {
        return kept;
    }
    // An event that was never recorded has nothing to wait for.
    if !event.recorded.load(Ordering::Acquire) {
        return Ok(());
    }
    runtime.post(&wire::WaitEvent { stream, event: event.id }, &[])
}

pub unsafe fn hipStreamWaitEvent_spt(stream: hipStream_t, event: hipEvent_t, flags: c_uint) -> Status {
    // SAFETY: no pointers.
    unsafe { hipStreamWaitEvent(streams::spt(stream), event, flags) }
}

pub unsafe fn hipStreamGetFlags(stream: hipStream_t, flags: *mut c_uint) -> Status {
    if stream.is_null() || flags.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let at = runtime.look_up(stream)?;
    let found = runtime.tables.streams.get(at.id).map_or(hipStreamDefault, |s| s.flags);
    // SAFETY: the caller's out-pointer.
    unsafe { set(flags, found) }
}

pub unsafe fn hipStreamGetFlags_spt(stream: hipStream_t, flags: *mut c_uint) -> Status {
    // SAFETY: the caller's out-pointer.
    unsafe { hipStreamGetFlags(streams::spt(stream), flags) }
}

pub unsafe fn hipStreamGetPriority(stream: hipStream_t, priority: *mut c_int) -> Status {
    let runtime = runtime()?;
    let at = runtime.look_up(stream)?;
    let found = runtime.tables.streams.get(at.id).map_or(0, |s| s.priority);
    // SAFETY: the caller's out-pointer.
    unsafe { set(priority, found) }
}

pub unsafe fn hipStreamGetPriority_spt(stream: hipStream_t, priority: *mut c_int) -> Status {
    // SAFETY: the caller's out-pointer.
    unsafe { hipStreamGetPriority(streams::spt(stream), priority) }
}

pub unsafe fn hipStreamGetDevice(stream: hipStream_t, device: *mut hipDevice_t) -> Status {
    let at = runtime()?.look_up(stream)?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(device, at.device as hipDevice_t) }
}

pub unsafe fn hipStreamGetId(stream: hipStream_t, id: *mut u64) -> Status {
    let at = runtime()?.look_up(stream)?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(id, at.id) }
}

pub unsafe fn hipGetStreamDeviceId(stream: hipStream_t) -> c_int {
    match runtime().and_then(|runtime| runtime.look_up(stream)) {
        Ok(at) => at.device as c_int,
        Err(_) => -1,
    }
}

/// The capture a stream is in. Querying the null stream fails while streams that it waits for are capturing.
pub fn captured(runtime: &Runtime, stream: hipStream_t) -> Result<View, hipError_t> {
    let at = runtime.look_up(stream)?;
    let is_null = stream.is_null() || stream == hipStreamLegacy;
    if is_null && runtime.captures.involves_null_stream(&runtime.tables.streams) {
        return Err(hipErrorStreamCaptureImplicit);
    }
    Ok(runtime.captures.view(at.id))
}

pub unsafe fn hipStreamIsCapturing(stream: hipStream_t, status: *mut hipStreamCaptureStatus) -> Status {
    let runtime = runtime()?;
    if status.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let found = captured(runtime, stream)?.status;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(status, found) }
}

pub unsafe fn hipStreamIsCapturing_spt(stream: hipStream_t, status: *mut hipStreamCaptureStatus) -> Status {
    // SAFETY: the caller's out-pointer.
    unsafe { hipStreamIsCapturing(streams::spt(stream), status) }
}

pub unsafe fn hipStreamAddCallback(
    stream: hipStream_t,
    callback: hipStreamCallback_t,
    data: *mut c_void,
    flags: c_uint,
) -> Status {
    let runtime = runtime()?;
    let at = runtime.resolve(stream)?;
    let callback = callback.filter(|_| flags == 0).ok_or(hipErrorInvalidValue)?;
    runtime.captures.refuse(at)?;
    let (stream, data) = (stream as usize, data as usize);
    runtime.host_function(at.id, move |status| {
        // SAFETY: the program passed the function and its data for exactly this call.
        unsafe { callback(stream as hipStream_t, status, data as *mut c_void) }
    })
}

pub unsafe fn hipStreamAddCallback_spt(
    stream: hipStream_t,
    callback: hipStreamCallback_t,
    data: *mut c_void,
    flags: c_uint,
) -> Status {
    // SAFETY: the caller's function and data.
    unsafe { hipStreamAddCallback(streams::spt(stream), callback, data, flags) }
}
