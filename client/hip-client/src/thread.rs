//! What HIP keeps per host thread: current device, last error, pending launch configuration, default stream.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use hip_api::types::*;

use crate::soname;

/// A launch configuration pushed by `<<< >>>` or hipConfigureCall.
#[derive(Clone, Debug)]
pub struct CallConfiguration {
    pub grid: dim3,
    pub block: dim3,
    pub shared_bytes: usize,
    pub stream: hipStream_t,
    /// Arguments collected by hipSetupArgument.
    pub arguments: Vec<u8>,
}

#[derive(Debug, Default)]
struct ThreadState {
    device: Cell<usize>,
    last_error: Cell<u32>,
    /// The table number of the exported call this thread is in.
    call: Cell<u16>,
    configurations: RefCell<Vec<CallConfiguration>>,
    contexts: RefCell<Vec<u64>>,
    /// hipStreamPerThread, by device: made on first use.
    streams: RefCell<HashMap<usize, OwnedStream>>,
}

/// A per-thread stream, destroyed with its thread.
#[derive(Debug)]
struct OwnedStream(u64);

impl Drop for OwnedStream {
    fn drop(&mut self) {
        crate::runtime::forget_thread_stream(self.0);
    }
}

thread_local! {
    static STATE: ThreadState = ThreadState::default();
}

/// The device calls of this thread act on (an index into the visible devices).
pub fn device() -> usize {
    STATE.with(|s| s.device.get())
}

pub fn set_device(device: usize) {
    STATE.with(|s| s.device.set(device));
}

/// Marks the start of an exported call; returns the number to restore when it ends (exports call each other's bodies).
pub fn enter_call(number: u16) -> u16 {
    STATE.try_with(|s| s.call.replace(number)).unwrap_or(0)
}

pub fn leave_call(outer: u16) {
    let _ = STATE.try_with(|s| s.call.set(outer));
}

/// The HIP function on whose behalf this thread sends.
pub fn current_call() -> u16 {
    STATE.try_with(|s| s.call.get()).unwrap_or(0)
}

/// Keeps the outcome of a call for hipGetLastError. Since HIP 7 only errors are kept; before, every call overwrote it.
pub fn remember(status: hipError_t) {
    let is_query = status == hipErrorNotReady;
    if status != hipSuccess && !is_query || soname::hip_major() < 7 {
        let _ = STATE.try_with(|s| s.last_error.set(status.0));
    }
}

pub fn last_error() -> hipError_t {
    STATE.with(|s| hipError_t(s.last_error.get() as _))
}

pub fn take_last_error() -> hipError_t {
    STATE.with(|s| hipError_t(s.last_error.replace(0) as _))
}

pub fn push_configuration(configuration: CallConfiguration) {
    STATE.with(|s| s.configurations.borrow_mut().push(configuration));
}

pub fn pop_configuration() -> Option<CallConfiguration> {
    STATE.with(|s| s.configurations.borrow_mut().pop())
}

/// Runs `change` on the innermost configuration, if there is one.
pub fn with_configuration<R>(change: impl FnOnce(&mut CallConfiguration) -> R) -> Option<R> {
    STATE.with(|s| s.configurations.borrow_mut().last_mut().map(change))
}

pub fn push_context(context: u64) {
    STATE.with(|s| s.contexts.borrow_mut().push(context));
}

pub fn pop_context() -> Option<u64> {
    STATE.with(|s| s.contexts.borrow_mut().pop())
}

pub fn context() -> Option<u64> {
    STATE.with(|s| s.contexts.borrow().last().copied())
}

/// This thread's default stream on `device`, made by `make` on first use.
pub fn default_stream(
    device: usize,
    make: impl FnOnce() -> Result<u64, hipError_t>,
) -> Result<u64, hipError_t> {
    STATE.with(|s| {
        if let Some(stream) = s.streams.borrow().get(&device) {
            return Ok(stream.0);
        }
        let stream = make()?;
        s.streams.borrow_mut().insert(device, OwnedStream(stream));
        Ok(stream)
    })
}

/// Drops this thread's handles of a session that is gone (after a fork, or a device reset).
pub fn forget_streams() {
    STATE.with(|s| {
        for (_, stream) in s.streams.borrow_mut().drain() {
            std::mem::forget(stream);
        }
    });
}

/// The answer of hipGetLastError: an error code that is a value, not the outcome of the call that returns it.
#[derive(Clone, Copy, Debug)]
pub struct LastError(pub hipError_t);
