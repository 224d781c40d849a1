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
    // Destructors of the program's own objects may call us after this thread's state is gone: what every call needs has
    // nothing to destroy and stays; the rest is then answered as on a thread that never used it.
    static DEVICE: Cell<usize> = const { Cell::new(0) };
    static LAST_ERROR: Cell<u32> = const { Cell::new(0) };
    /// The table number of the exported call this thread is in.
    static CALL: Cell<u16> = const { Cell::new(0) };
    /// What other threads' captures forbid this one.
    static CAPTURE_MODE: Cell<u32> = const { Cell::new(0) };
    static STATE: ThreadState = ThreadState::default();
    /// A stream waits for this thread.
    static HOLDS_STREAM: Cell<bool> = const { Cell::new(false) };
}

/// Whether a stream waits for what this thread is doing, which then must not wait for the stream.
pub fn holds_stream() -> bool {
    HOLDS_STREAM.get()
}

pub fn set_holds_stream(holds: bool) {
    HOLDS_STREAM.set(holds);
}

/// The device calls of this thread act on (an index into the visible devices).
pub fn device() -> usize {
    DEVICE.get()
}

pub fn set_device(device: usize) {
    DEVICE.set(device);
}

pub fn capture_mode() -> hipStreamCaptureMode {
    hipStreamCaptureMode(CAPTURE_MODE.get())
}

/// Sets the mode; returns the one before.
pub fn exchange_capture_mode(mode: hipStreamCaptureMode) -> hipStreamCaptureMode {
    hipStreamCaptureMode(CAPTURE_MODE.replace(mode.0))
}

/// Marks the start of an exported call; returns the number to restore when it ends (exports call each other's bodies).
pub fn enter_call(number: u16) -> u16 {
    CALL.replace(number)
}

pub fn leave_call(outer: u16) {
    CALL.set(outer);
}

/// The HIP function on whose behalf this thread sends.
pub fn current_call() -> u16 {
    CALL.get()
}

/// Keeps the outcome of a call for hipGetLastError. Since HIP 7 only errors are kept; before, every call overwrote it.
pub fn remember(status: hipError_t) {
    let is_query = status == hipErrorNotReady;
    if status != hipSuccess && !is_query || soname::hip_major() < 7 {
        LAST_ERROR.set(status.0);
    }
}

pub fn last_error() -> hipError_t {
    hipError_t(LAST_ERROR.get() as _)
}

pub fn take_last_error() -> hipError_t {
    hipError_t(LAST_ERROR.replace(0) as _)
}

pub fn push_configuration(configuration: CallConfiguration) {
    let _ = STATE.try_with(|s| s.configurations.borrow_mut().push(configuration));
}

pub fn pop_configuration() -> Option<CallConfiguration> {
    STATE.try_with(|s| s.configurations.borrow_mut().pop()).ok().flatten()
}

/// Runs `change` on the innermost configuration, if there is one.
pub fn with_configuration<R>(change: impl FnOnce(&mut CallConfiguration) -> R) -> Option<R> {
    STATE.try_with(|s| s.configurations.borrow_mut().last_mut().map(change)).ok().flatten()
}

pub fn push_context(context: u64) {
    let _ = STATE.try_with(|s| s.contexts.borrow_mut().push(context));
}

pub fn pop_context() -> Option<u64> {
    STATE.try_with(|s| s.contexts.borrow_mut().pop()).ok().flatten()
}

pub fn context() -> Option<u64> {
    STATE.try_with(|s| s.contexts.borrow().last().copied()).ok().flatten()
}

/// This thread's default stream on `device`, made by `make` on first use.
pub fn default_stream(
    device: usize,
    make: impl FnOnce() -> Result<u64, hipError_t>,
) -> Result<u64, hipError_t> {
    let found = STATE.try_with(|s| {
        if let Some(stream) = s.streams.borrow().get(&device) {
            return Ok(stream.0);
        }
        let stream = make()?;
        s.streams.borrow_mut().insert(device, OwnedStream(stream));
        Ok(stream)
    });
    found.unwrap_or(Err(hipErrorDeinitialized))
}

/// Drops this thread's handles of a session that is gone (after a fork, or a device reset).
pub fn forget_streams() {
    let _ = STATE.try_with(|s| {
        for (_, stream) in s.streams.borrow_mut().drain() {
            std::mem::forget(stream);
        }
    });
}

/// The answer of hipGetLastError: an error code that is a value, not the outcome of the call that returns it.
#[derive(Clone, Copy, Debug)]
pub struct LastError(pub hipError_t);
