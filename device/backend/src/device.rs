//! The contract between a worker and the GPUs of one session.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::{
    Command, Counters, DeviceError, DeviceInfo, EventId, FunctionId, ModuleId, Snapshot, Span, StreamId, Tag,
    VirtualMemory,
};

/// A range of addresses that a session owns. Device addresses are native: a pointer means the same to every kernel, copy and
/// argument, wherever it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arena {
    pub base: u64,
    pub bytes: u64,
}

impl Arena {
    pub fn contains(&self, address: u64, bytes: u64) -> bool {
        address >= self.base
            && address.checked_add(bytes).is_some_and(|end| end <= self.base.saturating_add(self.bytes))
    }
}

/// Who chooses addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The caller, anywhere in the arena, at multiples of the granularity.
    Caller { granularity: u64 },
}

/// What a back end can do beyond the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Modules are loaded at the base the caller names, so that addresses of symbols are known before the load.
    pub placed_modules: bool,
    /// The bytes a [`Device::direct`] write lands in are device memory itself.
    pub direct_writes: bool,
}

/// What a piece of memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum MemoryKind {
    Device,
    Managed,
    PinnedHost,
}

/// Bytes of a device, as its session sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MemoryUse {
    pub free: u64,
    pub total: u64,
    pub used: u64,
}

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Stream(StreamId),
    Device(u32),
    Event(EventId),
    Everything,
}

/// Called once, when something has completed: inline when it already has, else on a thread of the device.
pub type Completion = Box<dyn FnOnce(Result<(), DeviceError>) + Send>;

/// Hears what happens on the device's own threads.
pub trait Notifier: Send + Sync {
    /// The command enqueued with `tag` failed. Faults are told once; the commands they take with them are not.
    fn failed(&self, tag: Tag, error: &DeviceError);
    /// The stream has reached host function `token` and waits for it.
    fn host_function(&self, token: u64, status: Result<(), DeviceError>);
    /// A kernel printed.
    fn output(&self, text: &[u8]);
    /// A kernel complained, such as of an assertion that does not hold.
    fn error_output(&self, text: &[u8]) {
        self.output(text);
    }
    /// A stream has worked, while [`Device::record_spans`] is on. Told before anybody hears that the work has ended, where the
    /// back end knows in time; later at the latest when recording is turned off.
    fn spent(&self, span: &Span) {
        let _ = span;
    }
    /// A piece of work could not be timed.
    fn span_lost(&self) {}
}

/// The device side of one session: every GPU it sees, behind one address space.
///
/// Work of a stream runs in the order of `enqueue`. Work on the null stream of a device waits for all earlier work of the
/// device's blocking streams, and they wait for it. Nothing here waits for work, except `map` for a range whose `unmap` has
/// not happened yet and `enqueue` when too much is queued. After a fault every method that runs or waits for work returns
/// the fault, until [`Device::reset`].
pub trait Device: VirtualMemory + Snapshot + Send + Sync {
    /// The GPUs, by ordinal.
    fn info(&self) -> &[DeviceInfo];
    fn capabilities(&self) -> Capabilities;
    fn placement(&self) -> Placement;
    /// The addresses of the session.
    fn arena(&self) -> Arena;
    /// Who hears of failures, output and host functions. Set before the first command.
    fn notify(&self, notifier: Arc<dyn Notifier>);

    /// Makes `bytes` at `address` usable.
    fn map(&self, device: u32, kind: MemoryKind, address: u64, bytes: u64) -> Result<(), DeviceError>;
    /// Gives back what was mapped at `address`, once all earlier work of its device has ended.
    fn unmap(&self, address: u64) -> Result<(), DeviceError>;
    fn memory(&self, device: u32) -> Result<MemoryUse, DeviceError>;
    /// Fails unless all of a range is memory of the session, in one piece.
    fn check(&self, address: u64, bytes: u64) -> Result<(), DeviceError>;
    /// Shows the bytes of a range as they are now, in no order with any stream.
    fn peek(&self, address: u64, bytes: u64, show: &mut dyn FnMut(&[u8])) -> Result<(), DeviceError>;
    /// Writes bytes at once, in no order with any stream: what the host does to memory that both see.
    fn poke(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError>;
    /// Makes `bytes` at an address outside the arena usable, if nothing of this process lies there. The address is the host's own,
    /// aligned to nothing, and several such ranges may share a page. `unmap` gives it back.
    fn adopt(&self, device: u32, address: u64, bytes: u64) -> Result<(), DeviceError>;
    /// Where the bytes of a mapped range lie in this process, if they do: readable until the range is unmapped.
    fn resident(&self, address: u64, bytes: u64) -> Option<NonNull<u8>>;
    /// Opens a window for writing straight into device memory, in stream order, if the stream is idle.
    ///
    /// `fill` gets the bytes and is called at once or never; what it returns is passed on. `None`: enqueue a
    /// [`Command::Write`] instead, which also reports a bad address.
    fn direct(
        &self,
        stream: StreamId,
        destination: u64,
        bytes: u64,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Option<bool>;

    fn create_stream(
        &self,
        device: u32,
        stream: StreamId,
        non_blocking: bool,
        priority: i32,
    ) -> Result<(), DeviceError>;
    /// Work already queued still runs.
    fn destroy_stream(&self, stream: StreamId) -> Result<(), DeviceError>;
    /// Queues a command. An error is the command's own, found before it ran; later ones go to the notifier.
    fn enqueue(&self, stream: StreamId, tag: Tag, command: Command) -> Result<(), DeviceError>;
    /// The host function that a stream waits for has returned.
    fn host_function_done(&self, token: u64) -> Result<(), DeviceError>;
    /// Calls `done` when all work enqueued before in `scope` has ended.
    fn synchronize(&self, scope: Scope, done: Completion);
    /// Whether all work enqueued before in `scope` has ended.
    fn query(&self, scope: Scope) -> Result<bool, DeviceError>;

    fn create_event(&self, event: EventId, device: u32, flags: u32) -> Result<(), DeviceError>;
    fn destroy_event(&self, event: EventId) -> Result<(), DeviceError>;
    /// Milliseconds between two records.
    fn elapsed(&self, start: EventId, stop: EventId) -> Result<f32, DeviceError>;

    /// Loads a code object. `base` is where its first segment goes, if modules are placed.
    fn load_module(&self, device: u32, module: ModuleId, base: u64, image: &[u8]) -> Result<(), DeviceError>;
    /// Gives a module back, once all earlier work of its device has ended.
    fn unload_module(&self, module: ModuleId) -> Result<(), DeviceError>;
    /// Address and size of a variable of a module.
    fn global(&self, module: ModuleId, name: &str) -> Result<(u64, u64), DeviceError>;
    fn define_function(&self, function: FunctionId, module: ModuleId, name: &str) -> Result<(), DeviceError>;

    /// Sets a `hipLimit_t`; returns the value in force.
    fn set_limit(&self, device: u32, limit: i32, value: u64) -> Result<u64, DeviceError>;
    /// Ends all work, frees all memory and objects of a device, and forgets its fault.
    fn reset(&self, device: u32) -> Result<(), DeviceError>;
    /// How two devices are connected: the kind of link, in HSA's numbers, and the hops.
    fn link(&self, from: u32, to: u32) -> Result<(u32, u32), DeviceError>;
    /// Times the commands that are queued from now on, for [`Notifier::spent`], or no longer. Turned off, it returns when all
    /// that has ended was told. Writes through [`Device::direct`] are the caller's to time.
    fn record_spans(&self, on: bool);
    /// Counts what kernels execute that run from now on, which makes them slower.
    fn begin_counting(&self, _device: u32) -> Result<(), DeviceError> {
        Err(DeviceError::new(hip_api::types::hipErrorNotSupported, "this device counts no instructions"))
    }
    /// Ends that, and tells. Kernels that still run are not in it.
    fn end_counting(&self, _device: u32) -> Result<Counters, DeviceError> {
        Err(DeviceError::new(hip_api::types::hipErrorNotSupported, "this device counts no instructions"))
    }
    /// Nanoseconds a device has been busy so far.
    fn busy_ns(&self, device: u32) -> u64;
    /// The session is over: what there is to tell about it is told before this returns. May be called more than once.
    fn close(&self) {}
}
