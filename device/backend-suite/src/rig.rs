//! The rig that every test gets: a device with the suite's kernels loaded, and helpers to queue commands and wait for them.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use backend::{
    Command, Device, DeviceError, Launch, MemoryKind, Notifier, Region, Scope, Span, StreamId, Tag,
};

use crate::KERNELS;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const MODULE: u64 = 0x1000;
pub(crate) const MIB: u64 = 1 << 20;
/// Number of loops with which `slow_store` runs longer than any command that might wrongly overtake it.
pub(crate) const SLOW: i32 = 20_000;
/// Token of the host function with which `Rig::hold` blocks a stream.
pub(crate) const HELD: u64 = 0x4e1d;

/// Notification that the device has sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Note {
    Failed(Tag, DeviceError),
    HostFunction(u64),
    Spent(Span),
}

struct Listener(mpsc::Sender<Note>);

impl Notifier for Listener {
    fn failed(&self, tag: Tag, error: &DeviceError) {
        let _ = self.0.send(Note::Failed(tag, error.clone()));
    }

    fn host_function(&self, token: u64, _status: Result<(), DeviceError>) {
        let _ = self.0.send(Note::HostFunction(token));
    }

    fn output(&self, _text: &[u8]) {}

    fn spent(&self, span: &Span) {
        let _ = self.0.send(Note::Spent(*span));
    }
}

/// A device with the suite's kernels loaded.
pub struct Rig {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) notes: mpsc::Receiver<Note>,
    pub(crate) next: std::cell::Cell<u64>,
}

impl std::fmt::Debug for Rig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rig")
    }
}

impl Rig {
    /// Loads the suite's kernels on GPU 0 of a new device.
    pub fn new(device: Arc<dyn Device>) -> Rig {
        let (sender, notes) = mpsc::channel();
        device.notify(Arc::new(Listener(sender)));
        let base = device.arena().base;
        device.load_module(0, MODULE, base, KERNELS).expect("the suite's kernels load");
        for (id, name) in
            ["add_one", "slow_store", "write_through", "forever", "bump_counter"].iter().enumerate()
        {
            device.define_function(id as u64 + 1, MODULE, name).expect("the module has the kernel");
        }
        Rig { device, notes, next: std::cell::Cell::new(base + 16 * MIB) }
    }

    pub(crate) fn alloc(&self, bytes: u64) -> u64 {
        let address = self.next.get();
        self.next.set(address + bytes.next_multiple_of(2 * MIB) + 2 * MIB);
        self.device.map(0, MemoryKind::Device, address, bytes).expect("memory");
        address
    }

    pub(crate) fn stream(&self, id: StreamId, non_blocking: bool) -> StreamId {
        self.device.create_stream(0, id, non_blocking, 0).expect("a stream");
        id
    }

    pub(crate) fn run(&self, stream: StreamId, command: Command) {
        self.device.enqueue(stream, 7, command).expect("the command is accepted");
    }

    pub(crate) fn kernel(&self, stream: StreamId, function: u64, items: u32, arguments: Vec<u8>) {
        self.run(stream, launch(function, items, arguments));
    }

    pub(crate) fn slow_store(&self, stream: StreamId, address: u64, value: i32) {
        self.kernel(stream, 2, 1, arguments(address, &[value, SLOW]));
    }

    /// Blocks the stream until `release`, independently of how this thread is scheduled.
    pub(crate) fn hold(&self, stream: StreamId) {
        self.run(stream, Command::HostFunction { token: HELD });
        assert_eq!(self.note(), Note::HostFunction(HELD));
    }

    pub(crate) fn release(&self) {
        self.device.host_function_done(HELD).expect("a stream is blocked by `hold`");
    }

    /// Reads a range in stream order.
    pub(crate) fn read(&self, stream: StreamId, source: u64, bytes: u64) -> Result<Vec<u8>, DeviceError> {
        self.read_region(stream, Region::flat(source, bytes))
    }

    /// Reads a region in stream order; the result is packed.
    pub(crate) fn read_region(&self, stream: StreamId, from: Region) -> Result<Vec<u8>, DeviceError> {
        let (sender, receiver) = mpsc::channel();
        let sink = Box::new(move |result: Result<&[u8], DeviceError>| {
            let _ = sender.send(result.map(<[u8]>::to_vec));
        });
        self.device.enqueue(stream, 8, Command::Read { from, sink })?;
        receiver.recv_timeout(PATIENCE).expect("the read completes")
    }

    pub(crate) fn word(&self, stream: StreamId, address: u64) -> i32 {
        let bytes = self.read(stream, address, 4).expect("readable");
        i32::from_le_bytes(bytes.try_into().expect("four bytes"))
    }

    pub(crate) fn wait(&self, scope: Scope) -> Result<(), DeviceError> {
        let (sender, receiver) = mpsc::channel();
        self.device.synchronize(scope, Box::new(move |result| drop(sender.send(result))));
        receiver.recv_timeout(PATIENCE).expect("the wait completes within the timeout")
    }

    pub(crate) fn note(&self) -> Note {
        self.notes.recv_timeout(PATIENCE).expect("a notification arrives within the timeout")
    }
}

pub(crate) fn launch(function: u64, items: u32, arguments: Vec<u8>) -> Command {
    Command::Launch(Launch {
        function,
        grid: [items, 1, 1],
        block: [items.min(64), 1, 1],
        shared_bytes: 0,
        cooperative: false,
        start_event: 0,
        stop_event: 0,
        arguments,
    })
}

pub(crate) fn arguments(address: u64, rest: &[i32]) -> Vec<u8> {
    let mut bytes = address.to_le_bytes().to_vec();
    rest.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
    bytes
}

/// Command that copies a flat region.
pub(crate) fn copy(destination: u64, source: u64, bytes: u64) -> Command {
    Command::Copy { to: Region::flat(destination, bytes), from: Region::flat(source, bytes) }
}

/// Command that fills a flat region with `count` elements of `element` bytes.
pub(crate) fn fill(destination: u64, value: u32, element: u32, count: u64) -> Command {
    Command::Fill { to: Region::flat(destination, count * u64::from(element)), value, element }
}
