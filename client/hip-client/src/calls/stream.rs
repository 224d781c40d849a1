//! Streams: handles are allocated here, ordering happens on the worker.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hip_api::types::*;
use parking_lot::Mutex;

pub use super::stream_attribute::*;
pub use super::stream_value::*;
use super::{Status, event, set};
use crate::graph::capture::View;
use crate::graph::node::Work;
use crate::state::credit::Credit;
use crate::state::runtime::{Runtime, Stream, runtime};
use crate::state::thread;
use crate::telemetry::report;
use session::progress::{Completion, WatchTarget};

/// A resolved stream argument.
#[derive(Clone, Copy, Debug)]
pub struct StreamRef {
    /// Its number on the wire.
    pub id: u64,
    /// Index of the visible device it belongs to.
    pub device: usize,
}

/// Resolves a stream handle for a call that queues work on it; counts the command against the stream's credit.
#[inline]
pub fn resolve(runtime: &Runtime, stream: hipStream_t) -> Result<StreamRef, hipError_t> {
    understand(runtime, stream, |credit, at| credit.use_one(runtime, at.id, at.device))
}

/// Like [`resolve`], for a call that only queries.
#[inline]
fn look_up(runtime: &Runtime, stream: hipStream_t) -> Result<StreamRef, hipError_t> {
    understand(runtime, stream, |_, _| ())
}

/// Null and hipStreamLegacy are the null stream of the current device.
#[inline]
fn understand(
    runtime: &Runtime,
    stream: hipStream_t,
    charge: impl FnOnce(&Credit, StreamRef),
) -> Result<StreamRef, hipError_t> {
    if stream.is_null() || stream == hipStreamLegacy {
        let (device, found) = runtime.current()?;
        let at = StreamRef { id: u64::from(found.ordinal), device };
        charge(&found.credit, at);
        return Ok(at);
    }
    let handle = if stream == hipStreamPerThread { per_thread(runtime)? } else { stream as u64 };
    let found = runtime.streams.get(handle).ok_or(hipErrorContextIsDestroyed)?;
    let at = StreamRef { id: found.id, device: found.device };
    charge(&found.credit, at);
    Ok(at)
}

/// Maps the error for a nonexistent stream, for functions that have a different one.
pub fn gone_is(word: hipError_t) -> impl Fn(hipError_t) -> hipError_t {
    move |error| if error == hipErrorContextIsDestroyed { word } else { error }
}

/// The stream that `_spt` functions use when they are passed null.
pub fn spt(stream: hipStream_t) -> hipStream_t {
    if stream.is_null() { hipStreamPerThread } else { stream }
}

fn per_thread(runtime: &Runtime) -> Result<u64, hipError_t> {
    let (device, _) = runtime.current()?;
    thread::default_stream(device, || create(runtime, hipStreamDefault, 0, Vec::new()))
}

fn create(runtime: &Runtime, flags: c_uint, priority: c_int, cu_mask: Vec<u32>) -> Result<u64, hipError_t> {
    let (index, _) = runtime.current()?;
    let stream = create_on(runtime, index, flags, priority, cu_mask)?;
    if flags & hipStreamNonBlocking != 0 {
        runtime.wait_for_copies(stream)?;
    }
    Ok(stream)
}

/// Creates a stream on a visible device, current or not. It does not wait for earlier copies.
pub fn create_on(
    runtime: &Runtime,
    index: usize,
    flags: c_uint,
    priority: c_int,
    cu_mask: Vec<u32>,
) -> Result<u64, hipError_t> {
    let device = &runtime.devices[index];
    let (attributes, credit) = (Mutex::default(), Credit::default());
    let make = |id| Stream { id, device: index, flags, priority, cu_mask, attributes, credit };
    let (id, _) = runtime.streams.insert_with(make).ok_or(hipErrorOutOfMemory)?;
    runtime.post(&wire::CreateStream { device: device.ordinal, stream: id, flags, priority }, &[])?;
    Ok(id)
}

/// Runs `work` on the callback thread once everything before it on the stream is done; later work of the stream waits for
/// it. `work` receives a new, idle stream.
pub fn when_due(
    runtime: &Runtime,
    at: StreamRef,
    work: impl FnOnce(&'static Runtime, u64) -> Status + Send + 'static,
) -> Status {
    let due = due(runtime, at.device, move |runtime, own| work(runtime, own.id));
    runtime.host_function(at.id, due).inspect_err(|_| {
        runtime.copies_due.fetch_sub(1, Ordering::SeqCst);
    })
}

/// Like [`when_due`], for a turn whose Callback was requested by another operation.
pub fn do_when_due(
    runtime: &Runtime,
    token: u64,
    device: usize,
    work: impl FnOnce(&'static Runtime, StreamRef) -> Status + Send + 'static,
) -> Status {
    runtime.expect_turn(token, due(runtime, device, work)).inspect_err(|_| {
        runtime.copies_due.fetch_sub(1, Ordering::SeqCst);
    })
}

/// Counts the work in `copies_due` until it is done.
fn due(
    runtime: &Runtime,
    device: usize,
    work: impl FnOnce(&'static Runtime, StreamRef) -> Status + Send + 'static,
) -> impl FnOnce(hipError_t) + Send + 'static {
    let cause = thread::current_call();
    let run = move |runtime: &'static Runtime| {
        let own = create_on(runtime, device, hipStreamNonBlocking, 0, Vec::new())?;
        let done = work(runtime, StreamRef { id: own, device });
        // Calls the connection directly: errors of posted requests must be reported by the program's next call, not by
        // this one.
        let finished = runtime.connection.call(&wire::SynchronizeStream { stream: own }, cause);
        runtime.streams.remove(own);
        runtime.post(&wire::DestroyStream { stream: own }, &[])?;
        done.and(finished.map_err(|failure| hipError_t(failure.status as u32)))
    };
    runtime.copies_due.fetch_add(1, Ordering::SeqCst);
    move |status| {
        let Ok(runtime) = self::runtime() else { return };
        let outer = thread::enter_call(cause);
        if status == hipSuccess
            && let Err(error) = run(runtime)
        {
            report::line(format_args!("a copy that waited for a host function failed (error {})", error.0));
        }
        thread::leave_call(outer);
        runtime.copies_due.fetch_sub(1, Ordering::SeqCst);
    }
}

pub unsafe fn hipStreamAttachMemAsync(
    on: hipStream_t,
    pointer: *mut c_void,
    bytes: usize,
    flags: c_uint,
) -> Status {
    super::managed::attach(runtime()?, on, pointer, bytes, flags)
}

impl Runtime {
    /// Whether a stream is idle. Queries the worker once after each new request; then its notifications suffice.
    fn query_stream(&self, stream: u64) -> Status {
        let mark = self.connection.progress().mark(WatchTarget::Stream(stream));
        let mut asked_at = mark.asked_at.lock();
        if *asked_at == self.connection.requests() {
            if mark.completion() == Completion::Pending {
                self.connection.read_available();
            }
            match mark.completion() {
                Completion::Reached(0) => return Ok(()),
                Completion::Reached(status) => return Err(hipError_t(status as u32)),
                Completion::Pending => return event::not_ready(self),
                Completion::Unknown => {}
            }
        }
        // The query itself counts as one. If other requests were made meanwhile, the count is too low and the next query
        // asks again.
        *asked_at = self.connection.requests() + 1;
        let stamp = mark.advance();
        mark.watch(stamp);
        if !self.call(&wire::QueryWatched { stream, stamp })?.done {
            return Err(hipErrorNotReady);
        }
        mark.reach(stamp, 0);
        Ok(())
    }
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
    let id = create(runtime, flags, priority, Vec::new())?;
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
    let id = create(runtime()?, hipStreamDefault, 0, mask)?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(stream, id as hipStream_t) }
}

pub unsafe fn hipExtStreamGetCUMask(stream: hipStream_t, words: u32, mask: *mut u32) -> Status {
    let runtime = runtime()?;
    let at = look_up(runtime, stream)?;
    let units = runtime.devices[at.device].properties.multiProcessorCount.max(0) as u32;
    if mask.is_null() || words < units.div_ceil(32) {
        return Err(hipErrorInvalidValue);
    }
    // A mask without any unit counts as no mask, as in AMD's runtime.
    let known = runtime.streams.get(at.id).map(|s| s.cu_mask.clone()).filter(|m| m.iter().any(|w| *w != 0));
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
    let gone = runtime.streams.remove(stream as u64).ok_or(hipErrorContextIsDestroyed)?;
    gone.credit.forget(runtime);
    runtime.fences.leave(stream as u64);
    runtime.captures.abandon(runtime, stream as u64);
    runtime.connection.progress().forget(WatchTarget::Stream(stream as u64));
    runtime.post(&wire::DestroyStream { stream: stream as u64 }, &[])
}

pub unsafe fn hipStreamSynchronize(stream: hipStream_t) -> Status {
    let runtime = runtime()?;
    let at = look_up(runtime, stream)?;
    runtime.captures.refuse_waiting(at)?;
    if runtime.has_waited_for(at.id) {
        return Ok(());
    }
    runtime.call(&wire::SynchronizeStream { stream: at.id }).map(|_| ())
}

pub unsafe fn hipStreamSynchronize_spt(stream: hipStream_t) -> Status {
    // SAFETY: no pointers.
    unsafe { hipStreamSynchronize(spt(stream)) }
}

pub unsafe fn hipStreamQuery(stream: hipStream_t) -> Status {
    let runtime = runtime()?;
    let at = look_up(runtime, stream)?;
    runtime.captures.refuse_waiting(at)?;
    runtime.query_stream(at.id)
}

pub unsafe fn hipStreamQuery_spt(stream: hipStream_t) -> Status {
    // SAFETY: no pointers.
    unsafe { hipStreamQuery(spt(stream)) }
}

pub unsafe fn hipStreamWaitEvent(stream: hipStream_t, event: hipEvent_t, flags: c_uint) -> Status {
    let runtime = runtime()?;
    let at = resolve(runtime, stream).map_err(gone_is(hipErrorInvalidHandle))?;
    let stream = at.id;
    let event = event::find(runtime, event)?;
    if flags & !hipEventWaitExternal != 0 {
        return Err(hipErrorInvalidValue);
    }
    let kept = if flags & hipEventWaitExternal != 0 {
        runtime.captures.record(runtime, at, || Ok(Work::WaitEvent(Arc::clone(&event))))
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
    unsafe { hipStreamWaitEvent(spt(stream), event, flags) }
}

pub unsafe fn hipStreamGetFlags(stream: hipStream_t, flags: *mut c_uint) -> Status {
    if stream.is_null() || flags.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let at = look_up(runtime, stream)?;
    let found = runtime.streams.get(at.id).map_or(hipStreamDefault, |s| s.flags);
    // SAFETY: the caller's out-pointer.
    unsafe { set(flags, found) }
}

pub unsafe fn hipStreamGetFlags_spt(stream: hipStream_t, flags: *mut c_uint) -> Status {
    // SAFETY: the caller's out-pointer.
    unsafe { hipStreamGetFlags(spt(stream), flags) }
}

pub unsafe fn hipStreamGetPriority(stream: hipStream_t, priority: *mut c_int) -> Status {
    let runtime = runtime()?;
    let at = look_up(runtime, stream)?;
    let found = runtime.streams.get(at.id).map_or(0, |s| s.priority);
    // SAFETY: the caller's out-pointer.
    unsafe { set(priority, found) }
}

pub unsafe fn hipStreamGetPriority_spt(stream: hipStream_t, priority: *mut c_int) -> Status {
    // SAFETY: the caller's out-pointer.
    unsafe { hipStreamGetPriority(spt(stream), priority) }
}

pub unsafe fn hipStreamGetDevice(stream: hipStream_t, device: *mut hipDevice_t) -> Status {
    let at = look_up(runtime()?, stream)?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(device, at.device as hipDevice_t) }
}

pub unsafe fn hipStreamGetId(stream: hipStream_t, id: *mut u64) -> Status {
    let at = look_up(runtime()?, stream)?;
    // SAFETY: the caller's out-pointer.
    unsafe { set(id, at.id) }
}

pub unsafe fn hipGetStreamDeviceId(stream: hipStream_t) -> c_int {
    match runtime().and_then(|runtime| look_up(runtime, stream)) {
        Ok(at) => at.device as c_int,
        Err(_) => -1,
    }
}

/// The capture a stream is in. Querying the null stream fails while streams that it waits for are capturing.
pub fn captured(runtime: &Runtime, stream: hipStream_t) -> Result<View, hipError_t> {
    let at = look_up(runtime, stream)?;
    let is_null = stream.is_null() || stream == hipStreamLegacy;
    if is_null && runtime.captures.involves_null_stream(runtime) {
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
    unsafe { hipStreamIsCapturing(spt(stream), status) }
}

pub unsafe fn hipStreamAddCallback(
    stream: hipStream_t,
    callback: hipStreamCallback_t,
    data: *mut c_void,
    flags: c_uint,
) -> Status {
    let runtime = runtime()?;
    let at = resolve(runtime, stream)?;
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
    unsafe { hipStreamAddCallback(spt(stream), callback, data, flags) }
}
