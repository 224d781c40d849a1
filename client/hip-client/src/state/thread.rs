//! Per-thread state of HIP: current device, last error, pending launch configuration, default stream.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;

use hip_api::types::*;

use crate::process::soname;

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

/// A per-thread stream, destroyed with its thread.
#[derive(Debug)]
struct OwnedStream {
    id: u64,
    session: u64,
    destroy: fn(u64, u64),
}

impl Drop for OwnedStream {
    fn drop(&mut self) {
        (self.destroy)(self.session, self.id);
    }
}

/// Frees a thread's state when the thread ends.
struct Cleaner;

impl Drop for Cleaner {
    fn drop(&mut self) {
        HAS_ENDED.set(true);
        CONFIGURATIONS.with_borrow_mut(|it| drop(std::mem::take(&mut **it)));
        CONTEXTS.with_borrow_mut(|it| drop(std::mem::take(&mut **it)));
        let streams = STREAMS.with_borrow_mut(|it| std::mem::take(&mut **it));
        drop(streams);
    }
}

thread_local! {
    // The thread that calls `exit` runs its thread-local destructors first, then atexit handlers and static destructors.
    // These may call HIP and launch kernels. So none of these variables has a destructor, and all remain usable to the
    // end. Memory that a late call allocates is freed by the end of the process.
    static DEVICE: Cell<usize> = const { Cell::new(0) };
    static LAST_ERROR: Cell<u32> = const { Cell::new(0) };
    /// The table number of the exported call this thread is in.
    static CALL: Cell<u16> = const { Cell::new(0) };
    /// Which calls captures of other threads forbid on this one.
    static CAPTURE_MODE: Cell<u32> = const { Cell::new(0) };
    static CONFIGURATIONS: RefCell<ManuallyDrop<Vec<CallConfiguration>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
    static CONTEXTS: RefCell<ManuallyDrop<Vec<u64>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
    /// hipStreamPerThread, by device: created on first use.
    static STREAMS: RefCell<ManuallyDrop<Vec<(usize, OwnedStream)>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
    static CLEANER: Cleaner = const { Cleaner };
    /// The thread-local destructors of this thread have run.
    static HAS_ENDED: Cell<bool> = const { Cell::new(false) };
    /// A stream waits for this thread: it is running a host function.
    static HOLDS_STREAM: Cell<bool> = const { Cell::new(false) };
}

/// Registers the clean-up at the end of this thread, unless the thread is already ending.
#[inline]
pub fn clean_up_at_end() {
    let _ = CLEANER.try_with(|_| ());
}

/// Whether this thread has run its thread-local destructors: it has called `exit`, or it is ending.
pub fn has_ended() -> bool {
    HAS_ENDED.get()
}

/// Whether a stream waits for this thread, which must then not wait for the stream (deadlock).
pub fn holds_stream() -> bool {
    HOLDS_STREAM.get()
}

pub fn set_holds_stream(holds: bool) {
    HOLDS_STREAM.set(holds);
}

/// The current device of this thread (an index into the visible devices).
pub fn device() -> usize {
    DEVICE.get()
}

pub fn set_device(device: usize) {
    DEVICE.set(device);
}

pub fn capture_mode() -> hipStreamCaptureMode {
    hipStreamCaptureMode(CAPTURE_MODE.get())
}

/// Sets the capture mode; returns the previous one.
pub fn exchange_capture_mode(mode: hipStreamCaptureMode) -> hipStreamCaptureMode {
    hipStreamCaptureMode(CAPTURE_MODE.replace(mode.0))
}

/// Marks the start of an exported call; returns the number to restore at its end (exports call each other's bodies).
pub fn enter_call(number: u16) -> u16 {
    CALL.replace(number)
}

pub fn leave_call(outer: u16) {
    CALL.set(outer);
}

/// The HIP function that this thread is executing.
pub fn current_call() -> u16 {
    CALL.get()
}

/// Stores the result of a call for hipGetLastError. Since HIP 7 only errors are stored; before, every call overwrote it.
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
    clean_up_at_end();
    CONFIGURATIONS.with_borrow_mut(|it| it.push(configuration));
}

pub fn pop_configuration() -> Option<CallConfiguration> {
    CONFIGURATIONS.with_borrow_mut(|it| it.pop())
}

/// Runs `change` on the innermost configuration, if there is one.
pub fn with_configuration<R>(change: impl FnOnce(&mut CallConfiguration) -> R) -> Option<R> {
    CONFIGURATIONS.with_borrow_mut(|it| it.last_mut().map(change))
}

pub fn push_context(context: u64) {
    clean_up_at_end();
    CONTEXTS.with_borrow_mut(|it| it.push(context));
}

pub fn pop_context() -> Option<u64> {
    CONTEXTS.with_borrow_mut(|it| it.pop())
}

pub fn context() -> Option<u64> {
    CONTEXTS.with_borrow(|it| it.last().copied())
}

/// This thread's default stream on a device of a session, created by `make` on first use and destroyed by `destroy` with the
/// thread.
pub fn default_stream(
    session: u64,
    device: usize,
    make: impl FnOnce() -> Result<u64, hipError_t>,
    destroy: fn(u64, u64),
) -> Result<u64, hipError_t> {
    let known = STREAMS.with_borrow(|it| {
        let mine = |(of, stream): &&(usize, OwnedStream)| *of == device && stream.session == session;
        it.iter().find(mine).map(|(_, stream)| stream.id)
    });
    if let Some(stream) = known {
        return Ok(stream);
    }
    forget_streams_except(session);
    let stream = make()?;
    clean_up_at_end();
    STREAMS.with_borrow_mut(|it| it.push((device, OwnedStream { id: stream, session, destroy })));
    Ok(stream)
}

/// Drops this thread's stream handles without destroying the streams (after a fork or a device reset).
pub fn forget_streams() {
    let streams = STREAMS.with_borrow_mut(|it| std::mem::take(&mut **it));
    for (_, stream) in streams {
        std::mem::forget(stream);
    }
}

/// The same for streams of other sessions, which were lost and replaced.
fn forget_streams_except(session: u64) {
    let lost = STREAMS
        .with_borrow_mut(|it| it.extract_if(.., |(_, stream)| stream.session != session).collect::<Vec<_>>());
    for (_, stream) in lost {
        std::mem::forget(stream);
    }
}

/// The return value of hipGetLastError: an error code that is a value, not the result of the call itself.
#[derive(Clone, Copy, Debug)]
pub struct LastError(pub hipError_t);

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration() -> CallConfiguration {
        let one = dim3::new(1, 1, 1);
        let stream = std::ptr::null_mut();
        CallConfiguration { grid: one, block: one, shared_bytes: 7, stream, arguments: Vec::new() }
    }

    /// Acts like a launch in an atexit handler, after the library's thread-local destructors.
    struct Late(std::sync::mpsc::Sender<(bool, Option<usize>, Option<u64>)>);

    impl Drop for Late {
        fn drop(&mut self) {
            push_configuration(configuration());
            push_context(5);
            let shared_bytes = pop_configuration().map(|it| it.shared_bytes);
            let _ = self.0.send((has_ended(), shared_bytes, pop_context()));
        }
    }

    thread_local! {
        static LATE: RefCell<Option<Late>> = const { RefCell::new(None) };
    }

    #[test]
    fn a_launch_is_configured_even_after_the_thread_ran_its_destructors() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            // Destructors run in reverse order of first use: LATE after the library's.
            LATE.with_borrow_mut(|it| *it = Some(Late(sender)));
            push_configuration(configuration());
            assert!(!has_ended());
        });
        thread.join().unwrap();
        assert_eq!(receiver.recv().unwrap(), (true, Some(7), Some(5)));
    }
}
