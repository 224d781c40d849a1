//! Contiguous copies; `copy_box.rs` has rectangles and boxes, `copy_batch.rs` batches. The location of a pointer is
//! looked up instead of trusting the copy kind. Copies are posted where possible.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use hip_api::types::*;

pub use super::copy_batch::*;
pub use super::copy_box::*;
use super::{Status, set};
use crate::graph::node::{Copy as CopyNode, Work};
use crate::state::memory::{Kind, Place};
use crate::state::runtime::{Runtime, runtime};
use crate::state::stream::StreamRef;
use crate::state::{registry, streams, variables};

/// When the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// When the destination can be read and the source overwritten.
    Done,
    /// When the copy is queued; the program synchronizes later.
    Queued,
}

/// Whether the bytes at `source` must be read later than now, because a pending host function may still write them. A
/// synchronous copy waits for the function; a copy from pinned memory is made when its turn comes. HIP reads other memory
/// during the call.
pub(super) fn must_wait(
    runtime: &Runtime,
    source: u64,
    at: StreamRef,
    until: Until,
) -> Result<bool, hipError_t> {
    if !runtime.connection.awaits_host_function() {
        return Ok(false);
    }
    if until == Until::Done {
        runtime.call(&wire::SynchronizeStream { stream: at.id })?;
        return Ok(false);
    }
    Ok(runtime.memory.find(source).is_some())
}

pub(super) fn copy(
    runtime: &Runtime,
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: hipMemcpyKind,
    at: StreamRef,
    until: Until,
) -> Status {
    if bytes == 0 {
        return Ok(());
    }
    if to.is_null() || from.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let (destination, source, length) = (to as u64, from as u64, bytes as u64);
    if until == Until::Done {
        runtime.captures.refuse_any(hipErrorStreamCaptureImplicit)?;
    }
    let (to_view, to_place) = runtime.locate(destination, length)?;
    let (from_view, from_place) = runtime.locate(source, length)?;
    runtime.check_kind(kind, to_place, from_place, destination, source)?;
    let kept =
        runtime.record(at, || Ok(Work::Copy(CopyNode::Flat { to: destination, from: source, bytes, kind })));
    if let Some(kept) = kept {
        return kept;
    }
    let (to_host, from_host) = (runtime.memory.is_host(destination), runtime.memory.is_host(source));
    if to_host && from_host && is_ours(kind, to_place, from_place) {
        runtime.call(&wire::SynchronizeStream { stream: at.id })?;
        // SAFETY: the program guarantees both ranges; they may overlap.
        unsafe { std::ptr::copy(from.cast::<u8>(), to.cast::<u8>(), bytes) };
        return Ok(());
    }
    let on_device = wire::Copy { stream: at.id, destination: to_view, source: from_view, bytes: length };
    match (to_place, from_place) {
        (Place::Device, Place::Device) if to_host && !from_host => {
            runtime.post(&on_device, &[])?;
            // Reading a mirror from its device address into its host address updates both sides.
            if until == Until::Queued {
                // SAFETY: not null; the program guarantees `bytes` writable bytes at `to` until it synchronizes.
                return unsafe {
                    runtime.read_later(at.id, to_view, NonNull::new_unchecked(to.cast()), bytes)
                };
            }
            // SAFETY: the program guarantees `bytes` writable bytes at `to` until the call returns.
            let into = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), bytes) };
            runtime.read(at.id, to_view, into)
        }
        (Place::Device, Place::Device) if from_host && !to_host => {
            if until == Until::Done && bytes <= SMALL && !runtime.connection.mirrors().may_lag() {
                // SAFETY: the program guarantees `bytes` readable bytes at `from` until the call returns.
                let body = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) };
                runtime.write(at.id, to_view, body)?;
                return runtime.copy_made(at);
            }
            runtime.post(&on_device, &[])?;
            wait_if(runtime, at, until == Until::Done)
        }
        (Place::Device, Place::Device) => {
            runtime.post(&on_device, &[])?;
            wait_if(runtime, at, until == Until::Done && to_host)
        }
        (Place::Device, Place::Host) if must_wait(runtime, source, at, until)? => {
            runtime.when_due(at, move |runtime, own| {
                // SAFETY: the memory is pinned: the program keeps it until it has synchronized.
                let body = unsafe { std::slice::from_raw_parts(source as *const u8, bytes) };
                runtime.write(own, to_view, body)
            })
        }
        (Place::Device, Place::Host) => {
            // SAFETY: the program guarantees `bytes` readable bytes at `from` until the call returns.
            let body = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) };
            runtime.write(at.id, to_view, body)?;
            end_write(runtime, at, until)
        }
        (Place::Host, Place::Device) if until == Until::Done => {
            // SAFETY: the program guarantees `bytes` writable bytes at `to` until the call returns.
            let into = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), bytes) };
            runtime.read(at.id, from_view, into)
        }
        (Place::Host, Place::Device) => {
            // SAFETY: not null; the program guarantees `bytes` writable bytes at `to` until it synchronizes.
            unsafe { runtime.read_later(at.id, from_view, NonNull::new_unchecked(to.cast()), bytes) }
        }
        (Place::Host, Place::Host) => {
            runtime.call(&wire::SynchronizeStream { stream: at.id })?;
            // SAFETY: the program guarantees both ranges; they may overlap.
            unsafe { std::ptr::copy(from.cast::<u8>(), to.cast::<u8>(), bytes) };
            Ok(())
        }
    }
}

/// Copies from mirrored memory up to this size are sent as bytes instead of waiting for a device-side copy.
const SMALL: usize = 64 << 10;

/// Whether a host-to-host copy is made in this process. The device copies mirrored memory itself, unless the kind is
/// host-to-host.
pub(super) fn is_ours(kind: hipMemcpyKind, to: Place, from: Place) -> bool {
    kind == hipMemcpyHostToHost || !matches!((to, from), (Place::Device, Place::Device))
}

/// Completes a write. A synchronous HIP copy returns when it and all earlier work is done, which the program may observe
/// in mirrored memory.
pub(super) fn end_write(runtime: &Runtime, at: StreamRef, until: Until) -> Status {
    match until {
        Until::Queued => Ok(()),
        Until::Done if runtime.connection.mirrors().may_lag() => wait_if(runtime, at, true),
        Until::Done => runtime.copy_made(at),
    }
}

pub(super) fn wait_if(runtime: &Runtime, at: StreamRef, wait: bool) -> Status {
    if wait { runtime.call(&wire::SynchronizeStream { stream: at.id }).map(|_| ()) } else { Ok(()) }
}

/// Null, for the functions that have no stream argument.
const NULL: hipStream_t = std::ptr::null_mut();

pub unsafe fn hipMemcpy(to: *mut c_void, from: *const c_void, bytes: usize, kind: hipMemcpyKind) -> Status {
    // SAFETY: the caller's ranges.
    unsafe { hipMemcpyWithStream(to, from, bytes, kind, NULL) }
}

pub unsafe fn hipMemcpy_spt(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: hipMemcpyKind,
) -> Status {
    // SAFETY: the caller's ranges.
    unsafe { hipMemcpyWithStream(to, from, bytes, kind, hipStreamPerThread) }
}

pub unsafe fn hipMemcpyWithStream(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: hipMemcpyKind,
    on: hipStream_t,
) -> Status {
    let runtime = runtime()?;
    copy(runtime, to, from, bytes, kind, runtime.resolve(on)?, Until::Done)
}

pub unsafe fn hipMemcpyAsync(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: hipMemcpyKind,
    on: hipStream_t,
) -> Status {
    let runtime = runtime()?;
    copy(runtime, to, from, bytes, kind, runtime.resolve(on)?, Until::Queued)
}

pub unsafe fn hipMemcpyAsync_spt(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: hipMemcpyKind,
    on: hipStream_t,
) -> Status {
    // SAFETY: the caller's ranges.
    unsafe { hipMemcpyAsync(to, from, bytes, kind, streams::spt(on)) }
}

pub unsafe fn hipMemcpyHtoD(to: hipDeviceptr_t, from: *const c_void, bytes: usize) -> Status {
    // SAFETY: the caller's ranges.
    unsafe { hipMemcpy(to, from, bytes, hipMemcpyHostToDevice) }
}

pub unsafe fn hipMemcpyHtoDAsync(
    to: hipDeviceptr_t,
    from: *const c_void,
    bytes: usize,
    on: hipStream_t,
) -> Status {
    // SAFETY: the caller's ranges.
    unsafe { hipMemcpyAsync(to, from, bytes, hipMemcpyHostToDevice, on) }
}

pub unsafe fn hipMemcpyDtoH(to: *mut c_void, from: hipDeviceptr_t, bytes: usize) -> Status {
    // SAFETY: the caller's ranges.
    unsafe { hipMemcpy(to, from, bytes, hipMemcpyDeviceToHost) }
}

pub unsafe fn hipMemcpyDtoHAsync(
    to: *mut c_void,
    from: hipDeviceptr_t,
    bytes: usize,
    on: hipStream_t,
) -> Status {
    // SAFETY: the caller's ranges.
    unsafe { hipMemcpyAsync(to, from, bytes, hipMemcpyDeviceToHost, on) }
}

pub unsafe fn hipMemcpyDtoD(to: hipDeviceptr_t, from: hipDeviceptr_t, bytes: usize) -> Status {
    // SAFETY: the caller's ranges.
    unsafe { hipMemcpy(to, from, bytes, hipMemcpyDeviceToDevice) }
}

pub unsafe fn hipMemcpyDtoDAsync(
    to: hipDeviceptr_t,
    from: hipDeviceptr_t,
    bytes: usize,
    on: hipStream_t,
) -> Status {
    // SAFETY: the caller's ranges.
    unsafe { hipMemcpyAsync(to, from, bytes, hipMemcpyDeviceToDevice, on) }
}

pub unsafe fn hipMemcpyPeer(
    to: *mut c_void,
    to_device: c_int,
    from: *const c_void,
    from_device: c_int,
    bytes: usize,
) -> Status {
    // SAFETY: the caller's ranges.
    unsafe { hipMemcpyPeerAsync(to, to_device, from, from_device, bytes, NULL) }
}

/// Addresses are the same on every device of a worker, so a peer copy is an ordinary copy.
pub unsafe fn hipMemcpyPeerAsync(
    to: *mut c_void,
    to_device: c_int,
    from: *const c_void,
    from_device: c_int,
    bytes: usize,
    on: hipStream_t,
) -> Status {
    let runtime = runtime()?;
    runtime.device(to_device)?;
    runtime.device(from_device)?;
    let at = runtime.resolve(on)?;
    copy(runtime, to, from, bytes, hipMemcpyDeviceToDevice, at, Until::Queued)
}

/// The device address of a variable of the program, plus `offset`.
pub fn symbol_range(
    runtime: &Runtime,
    symbol: *const c_void,
    offset: usize,
    bytes: usize,
) -> Result<u64, hipError_t> {
    let (device, _) = runtime.current()?;
    let (address, size) = match registry::variable(symbol as usize) {
        Some(registered) => runtime.symbol(device, &registered)?,
        // A managed variable is identified by its address.
        None => {
            runtime.share_variables()?;
            let found = runtime.memory.find(symbol as u64).filter(|a| a.kind == Kind::Managed);
            found.map(|a| (a.start, a.bytes)).ok_or(hipErrorInvalidSymbol)?
        }
    };
    match offset.checked_add(bytes) {
        Some(end) if end as u64 <= size => Ok(address + offset as u64),
        _ => Err(hipErrorInvalidValue),
    }
}

pub unsafe fn hipGetSymbolAddress(address: *mut *mut c_void, symbol: *const c_void) -> Status {
    if address.is_null() {
        return Err(hipErrorInvalidValue);
    }
    let found = symbol_range(runtime()?, symbol, 0, 0)?;
    // SAFETY: the caller's out-pointer, not null.
    unsafe { set(address, found as *mut c_void) }
}

pub unsafe fn hipGetSymbolSize(size: *mut usize, symbol: *const c_void) -> Status {
    let bytes = match registry::variable(symbol as usize) {
        Some(registered) => registered.bytes,
        None => variables::at(symbol as u64).ok_or(hipErrorInvalidSymbol)?.bytes as usize,
    };
    // SAFETY: the caller's out-pointer.
    unsafe { set(size, bytes) }
}

unsafe fn copy_to_symbol(
    symbol: *const c_void,
    from: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
    on: hipStream_t,
    until: Until,
) -> Status {
    if kind != hipMemcpyHostToDevice && kind != hipMemcpyDeviceToDevice && kind != hipMemcpyDefault {
        return Err(hipErrorInvalidMemcpyDirection);
    }
    let runtime = runtime()?;
    let at = runtime.resolve(on)?;
    let to = symbol_range(runtime, symbol, offset, bytes)?;
    copy(runtime, to as *mut c_void, from, bytes, kind, at, until)
}

unsafe fn copy_from_symbol(
    to: *mut c_void,
    symbol: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
    on: hipStream_t,
    until: Until,
) -> Status {
    if kind != hipMemcpyDeviceToHost && kind != hipMemcpyDeviceToDevice && kind != hipMemcpyDefault {
        return Err(hipErrorInvalidMemcpyDirection);
    }
    let runtime = runtime()?;
    let at = runtime.resolve(on)?;
    let from = symbol_range(runtime, symbol, offset, bytes)?;
    copy(runtime, to, from as *const c_void, bytes, kind, at, until)
}

copies! {
    hipMemcpyToSymbol hipMemcpyToSymbol_spt hipMemcpyToSymbolAsync hipMemcpyToSymbolAsync_spt
        = copy_to_symbol(
            symbol: *const c_void, from: *const c_void, bytes: usize, offset: usize, kind: hipMemcpyKind);
    hipMemcpyFromSymbol hipMemcpyFromSymbol_spt hipMemcpyFromSymbolAsync hipMemcpyFromSymbolAsync_spt
        = copy_from_symbol(
            to: *mut c_void, symbol: *const c_void, bytes: usize, offset: usize, kind: hipMemcpyKind);
}
