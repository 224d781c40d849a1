//! The [`Device`] trait: the contract between a worker and the GPUs of one session.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::{
    Command, Counters, DeviceError, DeviceInfo, EventId, FunctionId, ModuleId, Snapshot, Span, StreamId, Tag,
    VirtualMemory,
};

/// The address range that a session owns. Device addresses are native: a pointer has the same value in kernels, copies,
/// arguments and memory, so it is never translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arena {
    /// First address.
    pub base: u64,
    /// Size of the range.
    pub bytes: u64,
}

impl Arena {
    /// Whether a range lies in the arena.
    pub fn contains(&self, address: u64, bytes: u64) -> bool {
        address >= self.base
            && address.checked_add(bytes).is_some_and(|end| end <= self.base.saturating_add(self.bytes))
    }
}

/// Optional features of a back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Modules are loaded at the base address the caller passes, so symbol addresses are known before the load.
    pub placed_modules: bool,
    /// The buffer that [`Device::direct`] passes to its caller is device memory itself, not a staging buffer.
    pub direct_writes: bool,
}

/// Kind of a memory allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum MemoryKind {
    /// Memory of the device.
    Device,
    /// Memory that host and device share, and that belongs to the device.
    Managed,
    /// Host memory that the device can access.
    PinnedHost,
}

/// Memory of a device in bytes, as its session sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MemoryUse {
    /// Bytes that can still be allocated.
    pub free: u64,
    /// Bytes that the device has.
    pub total: u64,
    /// Bytes that the session has allocated.
    pub used: u64,
}

/// Set of work that [`Device::synchronize`] and [`Device::query`] cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The work of a stream.
    Stream(StreamId),
    /// The work of all streams of a device.
    Device(u32),
    /// The work before the event's latest record.
    Event(EventId),
    /// The work of all streams.
    Everything,
}

/// Callback for a completed operation. Called once: inline if the operation has already completed, else on a device thread or in
/// [`Device::idle`].
pub type Completion = Box<dyn FnOnce(Result<(), DeviceError>) + Send>;

/// Receiver of events that occur on the device's own threads.
pub trait Notifier: Send + Sync {
    /// The command enqueued with `tag` failed. A fault is reported once; the commands that are cancelled because of it are not
    /// reported.
    fn failed(&self, tag: Tag, error: &DeviceError);
    /// A stream has reached host function `token` and waits for its completion.
    fn host_function(&self, token: u64, status: Result<(), DeviceError>);
    /// A kernel printed text (device `printf`).
    fn output(&self, text: &[u8]);
    /// A kernel wrote an error message, such as a failed device assertion.
    fn error_output(&self, text: &[u8]) {
        self.output(text);
    }
    /// The first launch of a kernel waits for its translation, which may take long. `None`: the translation has ended.
    fn translating(&self, kernel: Option<&str>) {
        let _ = kernel;
    }
    /// A stream has executed a command while [`Device::record_spans`] is on. Called before the completion of that command is
    /// reported, if the back end has the times by then; otherwise later, at the latest when recording is turned off.
    fn spent(&self, span: &Span) {
        let _ = span;
    }
    /// A command could not be timed.
    fn span_lost(&self) {}
}

/// The device side of one session: every GPU it sees, behind one address space.
///
/// Commands of a stream run in the order of `enqueue`. A command on the null stream of a device waits for all earlier work of
/// the device's blocking streams, and their later work waits for it. No method blocks on queued work, with two exceptions:
/// `map` waits if an earlier `unmap` of the range is still pending, and `enqueue` waits if too much is queued. After a fault
/// every method that runs or waits for work returns the fault, until [`Device::reset`].
pub trait Device: VirtualMemory + Snapshot + Send + Sync {
    /// The GPUs, by ordinal.
    fn info(&self) -> &[DeviceInfo];
    /// The optional features of this back end.
    fn capabilities(&self) -> Capabilities;
    /// The address range of the session.
    fn arena(&self) -> Arena;
    /// Sets the receiver of failures, output and host functions. Must be called before the first command.
    fn notify(&self, notifier: Arc<dyn Notifier>);

    /// Allocates `bytes` of memory and maps them at `address`.
    fn map(&self, device: u32, kind: MemoryKind, address: u64, bytes: u64) -> Result<(), DeviceError>;
    /// Frees the mapping at `address` once all earlier work of its device has ended.
    fn unmap(&self, address: u64) -> Result<(), DeviceError>;
    /// Memory of a device.
    fn memory(&self, device: u32) -> Result<MemoryUse, DeviceError>;
    /// Fails unless the whole range lies in one allocation of the session.
    fn check(&self, address: u64, bytes: u64) -> Result<(), DeviceError>;
    /// Passes the current bytes of a range to `show`. Not ordered with any stream.
    fn read_unordered(
        &self,
        address: u64,
        bytes: u64,
        show: &mut dyn FnMut(&[u8]),
    ) -> Result<(), DeviceError>;
    /// Writes bytes immediately, not ordered with any stream: a host store to memory that host and device share.
    fn write_unordered(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError>;
    /// Writes several runs of bytes, each at its address, as [`Device::write_unordered`] does.
    fn write_runs_unordered(&self, runs: &[(u64, &[u8])]) -> Result<(), DeviceError> {
        runs.iter().try_for_each(|(address, bytes)| self.write_unordered(*address, bytes))
    }
    /// Maps `bytes` at an address outside the arena, if this process has nothing mapped there. The address is one of the client's
    /// host pointers: it has no alignment, and several such ranges may share a page. `unmap` frees the range.
    fn map_host_range(&self, device: u32, address: u64, bytes: u64) -> Result<(), DeviceError>;
    /// Returns a pointer to a mapped range if its bytes lie in this process. It is readable until the range is unmapped.
    fn resident(&self, address: u64, bytes: u64) -> Option<NonNull<u8>>;
    /// Writes straight into device memory, in stream order, if the stream is idle. A back end with a staging buffer may do it on a
    /// stream that is not.
    ///
    /// `fill` gets the destination buffer. It is called before this returns, or not at all, and its result is returned. On `None`
    /// the caller must enqueue a [`Command::Write`] instead, which also reports an invalid address.
    fn direct(
        &self,
        stream: StreamId,
        destination: u64,
        bytes: u64,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Option<bool>;

    /// Creates a stream. Smaller numbers have higher priority.
    fn create_stream(
        &self,
        device: u32,
        stream: StreamId,
        non_blocking: bool,
        priority: i32,
    ) -> Result<(), DeviceError>;
    /// Destroys a stream. Work that is already queued still runs.
    fn destroy_stream(&self, stream: StreamId) -> Result<(), DeviceError>;
    /// Queues a command. Returns errors found before the command ran; later errors go to the notifier.
    fn enqueue(&self, stream: StreamId, tag: Tag, command: Command) -> Result<(), DeviceError>;
    /// Reports that the host function a stream waits for has returned.
    fn host_function_done(&self, token: u64) -> Result<(), DeviceError>;
    /// Calls `done` when all work in `scope` that was enqueued before this call has ended.
    fn synchronize(&self, scope: Scope, done: Completion);
    /// Whether all work in `scope` that was enqueued before this call has ended.
    fn query(&self, scope: Scope) -> Result<bool, DeviceError>;

    /// The caller has nothing else to do until `has_news` returns true. A back end may use the thread for a short while, to call
    /// completions. A caller that has called this once must call it again whenever it is about to wait for requests.
    fn idle(&self, _has_news: &mut dyn FnMut() -> bool) {}

    /// Creates an event with `hipEvent` flags.
    fn create_event(&self, event: EventId, device: u32, flags: u32) -> Result<(), DeviceError>;
    /// Destroys an event. Waits for it that are already queued still take effect.
    fn destroy_event(&self, event: EventId) -> Result<(), DeviceError>;
    /// Milliseconds between the records of two events.
    fn elapsed(&self, start: EventId, stop: EventId) -> Result<f32, DeviceError>;

    /// Loads a code object. `base` is the load address of its first segment, if the back end supports placed modules.
    fn load_module(&self, device: u32, module: ModuleId, base: u64, image: &[u8]) -> Result<(), DeviceError>;
    /// Unloads a module once all earlier work of its device has ended.
    fn unload_module(&self, module: ModuleId) -> Result<(), DeviceError>;
    /// Address and size of a module's global variable.
    fn global(&self, module: ModuleId, name: &str) -> Result<(u64, u64), DeviceError>;
    /// Assigns an ID to a kernel of a module.
    fn define_function(&self, function: FunctionId, module: ModuleId, name: &str) -> Result<(), DeviceError>;

    /// Sets a `hipLimit_t` and returns the value now in effect.
    fn set_limit(&self, device: u32, limit: i32, value: u64) -> Result<u64, DeviceError>;
    /// Cancels all work, frees all memory and objects of a device, and clears its fault.
    fn reset(&self, device: u32) -> Result<(), DeviceError>;
    /// Link between two devices: its HSA link type and the number of hops.
    fn link(&self, from: u32, to: u32) -> Result<(u32, u32), DeviceError>;
    /// Turns timing on or off for commands queued from now on; the times go to [`Notifier::spent`]. When turned off, returns
    /// after the spans of all completed commands have been reported. The caller must time writes through [`Device::direct`] itself.
    fn record_spans(&self, on: bool);
    /// Starts counting the instructions and accesses of kernels that run from now on. Counting makes kernels slower.
    fn begin_counting(&self, _device: u32) -> Result<(), DeviceError> {
        Err(DeviceError::new(hip_api::types::hipErrorNotSupported, "this device has no instruction counters"))
    }
    /// Stops counting and returns the counters. Kernels that are still running are not included.
    fn end_counting(&self, _device: u32) -> Result<Counters, DeviceError> {
        Err(DeviceError::new(hip_api::types::hipErrorNotSupported, "this device has no instruction counters"))
    }
    /// Nanoseconds that a device has been busy since the session started.
    fn busy_ns(&self, device: u32) -> u64;
    /// Ends the session. Everything that is still to be reported about it is reported before this returns. May be called more
    /// than once.
    fn close(&self) {}
}
