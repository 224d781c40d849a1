//! Events: recorded and timed on the worker.

use std::ffi::c_uint;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hip_api::types::*;
use session::progress::{Completion, WatchTarget};

use super::{Status, set};
use crate::graph::node::Work;
use crate::state::objects::Event;
use crate::state::runtime::{Runtime, runtime};
use crate::state::streams;

/// After the program has polled this many events, new ones are watched from the start.
const HABIT: u32 = 4;

/// The event behind a handle.
pub fn find(runtime: &Runtime, event: hipEvent_t) -> Result<Arc<Event>, hipError_t> {
    runtime.tables.events.get(event as u64).ok_or(hipErrorInvalidHandle)
}

pub unsafe fn hipEventCreate(event: *mut hipEvent_t) -> Status {
    // SAFETY: the caller's out-pointer.
    unsafe { hipEventCreateWithFlags(event, hipEventDefault) }
}

pub unsafe fn hipEventCreateWithFlags(event: *mut hipEvent_t, flags: c_uint) -> Status {
    const KNOWN: c_uint = hipEventBlockingSync
        | hipEventDisableTiming
        | hipEventInterprocess
        | hipEventDisableSystemFence
        | hipEventReleaseToDevice
        | hipEventReleaseToSystem;
    let contradictory = flags & hipEventReleaseToDevice != 0 && flags & hipEventReleaseToSystem != 0;
    let shared_and_timed = flags & hipEventInterprocess != 0 && flags & hipEventDisableTiming == 0;
    if event.is_null() || flags & !KNOWN != 0 || contradictory || shared_and_timed {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let (index, device) = runtime.current()?;
    let make = |id| Event::new(id, index, flags);
    let (id, made) = runtime.tables.events.insert_with(make).ok_or(hipErrorOutOfMemory)?;
    if runtime.waits.polled_events.load(Ordering::Relaxed) >= HABIT {
        expect_polls(runtime, &made);
    }
    runtime.post(&wire::CreateEvent { event: id, device: device.ordinal, flags }, &[])?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(event, id as hipEvent_t) }
}

pub unsafe fn hipEventDestroy(event: hipEvent_t) -> Status {
    if event.is_null() {
        return Err(hipErrorInvalidHandle);
    }
    let runtime = runtime()?;
    let gone = runtime.tables.events.remove(event as u64).ok_or(hipErrorContextIsDestroyed)?;
    if gone.mark.is_polled() {
        runtime.connection.progress().forget(WatchTarget::Event(gone.id));
    }
    runtime.post(&wire::DestroyEvent { event: event as u64 }, &[])
}

pub unsafe fn hipEventRecord(event: hipEvent_t, stream: hipStream_t) -> Status {
    let runtime = runtime()?;
    let found = find(runtime, event)?;
    let at = runtime.resolve(stream)?;
    if let Some(kept) = runtime.captures.record_event(at, found.id) {
        return kept;
    }
    if at.device != found.device {
        return Err(hipErrorInvalidHandle);
    }
    let stamp = found.mark.advance();
    if found.mark.is_polled() {
        // Before sending: the notification may arrive at once.
        found.mark.watch(stamp);
        runtime.post(&wire::RecordWatched { event: found.id, stream: at.id, stamp }, &[])?;
    } else {
        runtime.post(&wire::RecordEvent { event: found.id, stream: at.id }, &[])?;
    }
    found.recorded.store(true, Ordering::Release);
    Ok(())
}

pub unsafe fn hipEventRecordWithFlags(event: hipEvent_t, stream: hipStream_t, flags: c_uint) -> Status {
    if flags & !hipEventRecordExternal != 0 {
        return Err(hipErrorInvalidValue);
    }
    if flags & hipEventRecordExternal != 0 {
        let runtime = runtime()?;
        let found = find(runtime, event)?;
        let at = runtime.resolve(stream)?;
        let kept = runtime.record(at, || Ok(Work::RecordEvent(found)));
        if let Some(kept) = kept {
            return kept;
        }
    }
    // SAFETY: no pointers.
    unsafe { hipEventRecord(event, stream) }
}

pub unsafe fn hipEventRecord_spt(event: hipEvent_t, stream: hipStream_t) -> Status {
    // SAFETY: no pointers.
    unsafe { hipEventRecord(event, streams::spt(stream)) }
}

pub unsafe fn hipEventSynchronize(event: hipEvent_t) -> Status {
    let runtime = runtime()?;
    let found = find(runtime, event)?;
    runtime.captures.refuse_event(found.id)?;
    if !found.recorded.load(Ordering::Acquire) {
        return Ok(());
    }
    runtime.captures.refuse_unsafe()?;
    let stamp = found.mark.latest();
    runtime.call(&wire::SynchronizeEvent { event: found.id })?;
    found.mark.reach(stamp, 0);
    Ok(())
}

pub unsafe fn hipEventQuery(event: hipEvent_t) -> Status {
    let runtime = runtime()?;
    let found = find(runtime, event)?;
    runtime.captures.refuse_event(found.id)?;
    if !found.mark.is_polled() {
        runtime.waits.polled_events.fetch_add(1, Ordering::Relaxed);
        expect_polls(runtime, &found);
    }
    if !found.recorded.load(Ordering::Acquire) {
        return Ok(());
    }
    if found.mark.completion() == Completion::Pending {
        runtime.connection.read_available();
    }
    match found.mark.completion() {
        Completion::Reached(0) => Ok(()),
        Completion::Reached(status) => Err(hipError_t(status as u32)),
        Completion::Pending => runtime.not_ready(),
        // The first query of this event; from now on it is watched.
        Completion::Unknown => {
            let stamp = found.mark.latest();
            found.mark.watch(stamp);
            if !runtime.call(&wire::QueryEventWatched { event: found.id, stamp })?.done {
                return Err(hipErrorNotReady);
            }
            found.mark.reach(stamp, 0);
            Ok(())
        }
    }
}

/// Registers for notifications of this event's records.
fn expect_polls(runtime: &Runtime, event: &Event) {
    runtime.connection.progress().attach(WatchTarget::Event(event.id), &event.mark);
    event.mark.note_poll();
}

pub unsafe fn hipEventElapsedTime(milliseconds: *mut f32, start: hipEvent_t, stop: hipEvent_t) -> Status {
    if milliseconds.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let runtime = runtime()?;
    let (start, stop) = (find(runtime, start)?, find(runtime, stop)?);
    let usable =
        |event: &Event| event.flags & hipEventDisableTiming == 0 && event.recorded.load(Ordering::Acquire);
    if !usable(&start) || !usable(&stop) || start.device != stop.device {
        return Err(hipErrorInvalidHandle);
    }
    let reply = runtime.call(&wire::ElapsedTime { start: start.id, stop: stop.id })?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(milliseconds, reply.milliseconds) }
}
