//! Conformance tests that every back end must pass.
//!
//! `backend_suite::device_suite!(make)` turns each function here into a test; `make` opens a new device whose GPU 0 can run the
//! suite's gfx942 kernels. All waits have a timeout, so that a back end that never completes fails instead of hanging.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use hip_api::types::{
    hipErrorIllegalAddress, hipErrorInvalidHandle, hipErrorInvalidValue, hipErrorNotReady,
    hipErrorOutOfMemory,
};

use backend::{Command, Device, DeviceError, Launch, MemoryKind, Notifier, Scope, Span, StreamId, Tag};

mod counting;
mod region;
mod snapshot;
mod span;
mod value_wait;
mod virtual_memory;

pub use counting::*;
pub use region::*;
pub use snapshot::*;
pub use span::*;
pub use value_wait::*;
pub use virtual_memory::*;

/// The code object of `kernels/suite.hip`.
pub const KERNELS: &[u8] = include_bytes!("../kernels/suite.gfx942.co");

const PATIENCE: Duration = Duration::from_secs(60);
const MODULE: u64 = 0x1000;
const MIB: u64 = 1 << 20;
/// Number of loops with which `slow_store` runs longer than any command that might wrongly overtake it.
const SLOW: i32 = 20_000;
/// Token of the host function with which `Rig::hold` blocks a stream.
const HELD: u64 = 0x4e1d;

/// Generates a test for every function of the suite.
#[macro_export]
macro_rules! device_suite {
    ($make:expr) => {
        $crate::device_suite! { @tests $make;
            copies_fills_and_kernels_of_a_stream_keep_their_order
            a_read_waits_for_the_kernel_before_it
            the_null_stream_waits_for_blocking_streams_and_they_for_it
            a_non_blocking_stream_does_not_wait_for_the_null_stream
            an_event_orders_two_streams
            elapsed_time_covers_the_work_between_two_events
            elapsed_time_of_unfinished_or_unrecorded_events_is_refused
            a_freed_range_stays_until_its_work_has_ended
            an_address_can_be_used_again_after_it_was_freed
            a_wild_write_is_a_sticky_fault_told_once
            reset_forgets_a_fault
            a_stream_waits_for_its_host_function
            rectangles_touch_only_their_rows
            boxes_touch_only_their_rows
            boxes_beyond_memory_are_refused
            a_direct_write_lands_in_stream_order
            synchronize_calls_back_inline_when_idle
            memory_beyond_the_quota_is_refused
            nonsense_addresses_and_handles_are_refused
            globals_are_shared_between_kernels_and_copies
            launches_before_the_end_of_their_module_are_made
            launch_events_enclose_the_kernel
            many_small_commands_all_run
            a_poke_waits_for_no_stream_and_the_next_kernel_sees_it
            memory_is_never_put_where_something_lies
            a_stream_waits_for_a_value_that_another_writes
            waits_for_values_compare_as_asked
            commands_are_timed_while_someone_wants_to_know
            what_kernels_execute_is_counted_while_it_is_asked_for_or_refused
            mapped_memory_is_zero_and_works_like_any_other
            neighbouring_mappings_are_one_range_for_copies
            a_write_to_a_mapping_for_reading_is_a_fault
            a_mapping_without_access_is_a_fault_for_kernels
            physical_memory_lives_as_long_as_its_mapping
            nonsense_mappings_are_refused
            shared_memory_is_the_same_under_another_number
            what_there_is_is_told_while_nothing_runs_or_refused
        }
    };
    (@tests $make:expr; $($name:ident)*) => { $(
        #[test]
        fn $name() {
            $crate::$name($crate::Rig::new($make));
        }
    )* };
}

/// Notification that the device has sent.
#[derive(Debug, PartialEq, Eq)]
enum Note {
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
    device: Arc<dyn Device>,
    notes: mpsc::Receiver<Note>,
    next: std::cell::Cell<u64>,
}

impl std::fmt::Debug for Rig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rig")
    }
}

impl Rig {
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

    fn alloc(&self, bytes: u64) -> u64 {
        let address = self.next.get();
        self.next.set(address + bytes.next_multiple_of(2 * MIB) + 2 * MIB);
        self.device.map(0, MemoryKind::Device, address, bytes).expect("memory");
        address
    }

    fn stream(&self, id: StreamId, non_blocking: bool) -> StreamId {
        self.device.create_stream(0, id, non_blocking, 0).expect("a stream");
        id
    }

    fn run(&self, stream: StreamId, command: Command) {
        self.device.enqueue(stream, 7, command).expect("the command is accepted");
    }

    fn kernel(&self, stream: StreamId, function: u64, items: u32, arguments: Vec<u8>) {
        self.run(stream, launch(function, items, arguments));
    }

    fn slow_store(&self, stream: StreamId, address: u64, value: i32) {
        self.kernel(stream, 2, 1, arguments(address, &[value, SLOW]));
    }

    /// Blocks the stream until `release`, independently of how this thread is scheduled.
    fn hold(&self, stream: StreamId) {
        self.run(stream, Command::HostFunction { token: HELD });
        assert_eq!(self.note(), Note::HostFunction(HELD));
    }

    fn release(&self) {
        self.device.host_function_done(HELD).expect("a stream is blocked by `hold`");
    }

    fn read(&self, stream: StreamId, source: u64, bytes: u64) -> Result<Vec<u8>, DeviceError> {
        let (sender, receiver) = mpsc::channel();
        let sink = Box::new(move |result: Result<&[u8], DeviceError>| {
            let _ = sender.send(result.map(<[u8]>::to_vec));
        });
        self.device.enqueue(stream, 8, Command::Read { source, bytes, sink })?;
        receiver.recv_timeout(PATIENCE).expect("the read completes")
    }

    fn word(&self, stream: StreamId, address: u64) -> i32 {
        let bytes = self.read(stream, address, 4).expect("readable");
        i32::from_le_bytes(bytes.try_into().expect("four bytes"))
    }

    fn wait(&self, scope: Scope) -> Result<(), DeviceError> {
        let (sender, receiver) = mpsc::channel();
        self.device.synchronize(scope, Box::new(move |result| drop(sender.send(result))));
        receiver.recv_timeout(PATIENCE).expect("the wait completes within the timeout")
    }

    fn note(&self) -> Note {
        self.notes.recv_timeout(PATIENCE).expect("a notification arrives within the timeout")
    }
}

fn launch(function: u64, items: u32, arguments: Vec<u8>) -> Command {
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

fn arguments(address: u64, rest: &[i32]) -> Vec<u8> {
    let mut bytes = address.to_le_bytes().to_vec();
    rest.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
    bytes
}

pub fn copies_fills_and_kernels_of_a_stream_keep_their_order(rig: Rig) {
    let stream = rig.stream(0x100, false);
    let (a, b) = (rig.alloc(4096), rig.alloc(4096));
    rig.run(stream, Command::Write { destination: a, data: 5i32.to_le_bytes().repeat(64) });
    rig.kernel(stream, 1, 64, arguments(a, &[64]));
    rig.run(stream, Command::Copy { destination: b, source: a, bytes: 256 });
    rig.run(stream, Command::Fill { destination: a, value: 9, width: 4, count: 64 });
    rig.kernel(stream, 1, 64, arguments(a, &[32]));
    rig.run(stream, Command::Fill { destination: b + 8, value: 0xabcd, width: 2, count: 2 });
    let words = |bytes: Vec<u8>| -> Vec<i32> {
        bytes.chunks(4).map(|word| i32::from_le_bytes(word.try_into().unwrap())).collect()
    };
    let got = words(rig.read(stream, a, 256).unwrap());
    assert!(
        got[..32].iter().all(|value| *value == 10) && got[32..].iter().all(|value| *value == 9),
        "{got:?}"
    );
    let got = words(rig.read(stream, b, 16).unwrap());
    assert_eq!(got, [6, 6, 0xabcd_abcdu32 as i32, 6]);
}

pub fn a_read_waits_for_the_kernel_before_it(rig: Rig) {
    let stream = rig.stream(0x100, false);
    let a = rig.alloc(64);
    rig.slow_store(stream, a, 77);
    assert_eq!(rig.word(stream, a), 77);
}

pub fn the_null_stream_waits_for_blocking_streams_and_they_for_it(rig: Rig) {
    let stream = rig.stream(0x100, false);
    let a = rig.alloc(64);
    rig.slow_store(stream, a, 1);
    assert_eq!(rig.word(0, a), 1, "the null stream waits for the stream");
    rig.slow_store(0, a, 2);
    assert_eq!(rig.word(stream, a), 2, "the stream waits for the null stream");
    rig.slow_store(stream, a, 3);
    rig.wait(Scope::Stream(0)).unwrap();
    let other = rig.stream(0x101, true);
    assert_eq!(rig.word(other, a), 3, "waiting for the null stream includes all blocking streams");
}

pub fn a_non_blocking_stream_does_not_wait_for_the_null_stream(rig: Rig) {
    let stream = rig.stream(0x100, true);
    let a = rig.alloc(64);
    rig.kernel(0, 4, 1, arguments(a, &[]));
    assert!(!rig.device.query(Scope::Stream(0)).unwrap());
    rig.run(stream, Command::Fill { destination: a, value: 1, width: 4, count: 1 });
    rig.wait(Scope::Stream(0)).expect("the kernel saw the store of the other stream and ended");
}

pub fn an_event_orders_two_streams(rig: Rig) {
    let (first, second) = (rig.stream(0x100, true), rig.stream(0x101, true));
    let a = rig.alloc(64);
    rig.device.create_event(0x200, 0, 0).unwrap();
    rig.hold(first);
    rig.slow_store(first, a, 5);
    rig.run(first, Command::RecordEvent(0x200));
    assert!(!rig.device.query(Scope::Event(0x200)).unwrap());
    rig.run(second, Command::WaitEvent(0x200));
    rig.kernel(second, 1, 1, arguments(a, &[1]));
    rig.release();
    assert_eq!(rig.word(second, a), 6);
    assert!(rig.device.query(Scope::Event(0x200)).unwrap());
    rig.wait(Scope::Event(0x200)).unwrap();
    rig.device.destroy_event(0x200).unwrap();
    assert_eq!(rig.device.destroy_event(0x200).unwrap_err().code, hipErrorInvalidHandle);
}

pub fn elapsed_time_covers_the_work_between_two_events(rig: Rig) {
    let a = rig.alloc(64);
    rig.device.create_event(0x200, 0, 0).unwrap();
    rig.device.create_event(0x201, 0, 0).unwrap();
    rig.run(0, Command::RecordEvent(0x200));
    let begin = Instant::now();
    rig.slow_store(0, a, 1);
    rig.run(0, Command::RecordEvent(0x201));
    rig.wait(Scope::Event(0x201)).unwrap();
    let wall = begin.elapsed().as_secs_f32() * 1000.0;
    let elapsed = rig.device.elapsed(0x200, 0x201).unwrap();
    assert!(elapsed > 0.0 && elapsed < wall * 1.5 + 5.0, "{elapsed} ms by events, {wall} ms by the clock");
    assert!(rig.device.elapsed(0x201, 0x200).unwrap() < 0.0, "the reverse order gives a negative time");
}

pub fn elapsed_time_of_unfinished_or_unrecorded_events_is_refused(rig: Rig) {
    let a = rig.alloc(64);
    rig.device.create_event(0x200, 0, 0).unwrap();
    rig.device.create_event(0x201, 0, 0).unwrap();
    assert_eq!(rig.device.elapsed(0x200, 0x201).unwrap_err().code, hipErrorInvalidHandle);
    rig.run(0, Command::RecordEvent(0x200));
    rig.hold(0);
    rig.slow_store(0, a, 1);
    rig.run(0, Command::RecordEvent(0x201));
    assert_eq!(rig.device.elapsed(0x200, 0x201).unwrap_err().code, hipErrorNotReady);
    rig.release();
    rig.wait(Scope::Device(0)).unwrap();
    rig.device.elapsed(0x200, 0x201).unwrap();
}

pub fn a_freed_range_stays_until_its_work_has_ended(rig: Rig) {
    let stream = rig.stream(0x100, true);
    let (a, b) = (rig.alloc(64), rig.alloc(64));
    let before = rig.device.memory(0).unwrap().used;
    rig.slow_store(stream, a, 8);
    rig.run(stream, Command::Copy { destination: b, source: a, bytes: 4 });
    rig.device.unmap(a).unwrap();
    let late = rig.device.enqueue(stream, 9, Command::Fill { destination: a, value: 1, width: 4, count: 1 });
    assert_eq!(late.unwrap_err().code, hipErrorInvalidValue, "new work cannot use freed memory");
    assert_eq!(rig.word(stream, b), 8, "queued work still saw the memory");
    rig.wait(Scope::Everything).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while rig.device.memory(0).unwrap().used >= before {
        assert!(Instant::now() < deadline, "the memory is released within the timeout");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(rig.device.unmap(a).is_err(), "freed twice");
}

pub fn an_address_can_be_used_again_after_it_was_freed(rig: Rig) {
    let stream = rig.stream(0x100, true);
    let a = rig.alloc(4096);
    for round in 1..20 {
        rig.slow_store(stream, a, round);
        rig.device.unmap(a).unwrap();
        rig.device.map(0, MemoryKind::Device, a, 4096).unwrap();
        // The earlier kernel must not write to the new allocation.
        rig.run(0, Command::Fill { destination: a, value: 0, width: 4, count: 4 });
        assert_eq!(rig.word(0, a), 0, "round {round}");
    }
}

pub fn a_wild_write_is_a_sticky_fault_told_once(rig: Rig) {
    let a = rig.alloc(64);
    rig.device.enqueue(0, 0x55, launch(3, 1, arguments(0, &[]))).unwrap();
    // Either queued after the faulting kernel and cancelled, or rejected because the fault has already happened.
    if let Err(error) = rig.device.enqueue(0, 0x56, launch(2, 1, arguments(a, &[1, SLOW]))) {
        assert_eq!(error.code, hipErrorIllegalAddress);
    }
    let error = rig.wait(Scope::Stream(0)).unwrap_err();
    assert_eq!(error.code, hipErrorIllegalAddress);
    let Note::Failed(tag, told) = rig.note() else { panic!("the failure is reported") };
    assert_eq!((tag, told.code), (0x55, hipErrorIllegalAddress));
    assert!(told.text.contains("write_through"), "the text names the kernel: {told}");
    assert_eq!(rig.wait(Scope::Device(0)).unwrap_err().code, hipErrorIllegalAddress);
    assert_eq!(rig.read(0, a, 4).unwrap_err().code, hipErrorIllegalAddress);
    let fill = Command::Fill { destination: a, value: 0, width: 4, count: 1 };
    assert_eq!(rig.device.enqueue(0, 1, fill).unwrap_err().code, hipErrorIllegalAddress);
    assert!(rig.notes.try_recv().is_err(), "nothing else is reported");
    rig.device.unmap(a).expect("memory can still be freed");
}

pub fn reset_forgets_a_fault(rig: Rig) {
    let a = rig.alloc(64);
    rig.kernel(0, 3, 1, arguments(0, &[]));
    rig.wait(Scope::Device(0)).unwrap_err();
    rig.device.reset(0).unwrap();
    assert_eq!(rig.device.memory(0).unwrap().used, 0, "memory and modules are freed");
    rig.device.map(0, MemoryKind::Device, a, 64).unwrap();
    rig.run(0, Command::Fill { destination: a, value: 3, width: 4, count: 1 });
    assert_eq!(rig.word(0, a), 3);
}

pub fn a_stream_waits_for_its_host_function(rig: Rig) {
    let stream = rig.stream(0x100, true);
    let a = rig.alloc(64);
    rig.slow_store(stream, a, 1);
    rig.run(stream, Command::HostFunction { token: 0xf00d });
    rig.run(stream, Command::Fill { destination: a, value: 2, width: 4, count: 1 });
    assert_eq!(rig.note(), Note::HostFunction(0xf00d));
    let other = rig.stream(0x101, true);
    assert_eq!(rig.word(other, a), 1, "the stream has not continued");
    assert!(!rig.device.query(Scope::Stream(stream)).unwrap());
    rig.device.host_function_done(0xf00d).unwrap();
    assert_eq!(rig.word(stream, a), 2);
    assert!(rig.device.host_function_done(0xf00d).is_err());
}

pub fn rectangles_touch_only_their_rows(rig: Rig) {
    let (a, b) = (rig.alloc(4096), rig.alloc(4096));
    rig.run(
        0,
        Command::WriteRect { destination: a, pitch: 16, width: 4, height: 3, data: (1..=12).collect() },
    );
    let copy = Command::CopyRect {
        destination: b,
        destination_pitch: 8,
        source: a,
        source_pitch: 16,
        width: 4,
        height: 3,
    };
    rig.run(0, copy);
    rig.run(0, Command::FillRect { destination: b + 1, pitch: 8, value: 0xee, width: 2, height: 2 });
    let expected = [1, 0xee, 0xee, 4, 0, 0, 0, 0, 5, 0xee, 0xee, 8, 0, 0, 0, 0, 9, 10, 11, 12, 0, 0, 0, 0];
    assert_eq!(rig.read(0, b, 24).unwrap(), expected);
    let (sender, receiver) = mpsc::channel();
    let sink =
        Box::new(move |result: Result<&[u8], DeviceError>| drop(sender.send(result.map(<[u8]>::to_vec))));
    rig.run(0, Command::ReadRect { source: a, pitch: 16, width: 4, height: 3, sink });
    let packed = receiver.recv_timeout(PATIENCE).unwrap().unwrap();
    assert_eq!(packed, (1..=12).collect::<Vec<u8>>());
    let huge = Command::FillRect { destination: a, pitch: u64::MAX, value: 0, width: 1, height: u64::MAX };
    assert_eq!(rig.device.enqueue(0, 1, huge).unwrap_err().code, hipErrorInvalidValue);
}

pub fn a_direct_write_lands_in_stream_order(rig: Rig) {
    let stream = rig.stream(0x100, true);
    let a = rig.alloc(64);
    rig.hold(stream);
    rig.slow_store(stream, a, 1);
    let busy = rig.device.direct(stream, a, 4, &mut |_| panic!("the stream is busy"));
    assert_eq!(busy, None);
    rig.release();
    rig.wait(Scope::Stream(stream)).unwrap();
    let direct = rig.device.direct(stream, a, 4, &mut |memory| {
        memory.copy_from_slice(&21i32.to_le_bytes());
        true
    });
    if direct.is_none() {
        assert!(!rig.device.capabilities().direct_writes, "an idle stream accepts direct writes");
        rig.run(stream, Command::Write { destination: a, data: 21i32.to_le_bytes().to_vec() });
    }
    rig.kernel(stream, 1, 1, arguments(a, &[1]));
    assert_eq!(rig.word(stream, a), 22);
    assert_eq!(rig.device.direct(stream, 0x10, 4, &mut |_| true), None, "a bad address is not written");
}

pub fn synchronize_calls_back_inline_when_idle(rig: Rig) {
    let here = std::thread::current().id();
    for scope in [Scope::Stream(0), Scope::Device(0), Scope::Everything] {
        let (sender, receiver) = mpsc::channel();
        rig.device.synchronize(
            scope,
            Box::new(move |result| drop(sender.send((result, std::thread::current().id())))),
        );
        assert_eq!(receiver.try_recv().expect("called before synchronize returned"), (Ok(()), here));
    }
}

pub fn memory_beyond_the_quota_is_refused(rig: Rig) {
    let before = rig.device.memory(0).unwrap();
    let address = rig.next.get();
    let error = rig.device.map(0, MemoryKind::Device, address, before.free + 1).unwrap_err();
    assert_eq!(error.code, hipErrorOutOfMemory);
    assert_eq!(rig.device.memory(0).unwrap(), before, "nothing changed");
}

pub fn nonsense_addresses_and_handles_are_refused(rig: Rig) {
    let a = rig.alloc(64);
    let arena = rig.device.arena();
    for address in [0, 8, arena.base - 4096, a + 4096, u64::MAX - 2] {
        let fill = Command::Fill { destination: address, value: 0, width: 4, count: 1 };
        assert_eq!(rig.device.enqueue(0, 1, fill).unwrap_err().code, hipErrorInvalidValue, "{address:#x}");
        assert_eq!(rig.read(0, address, 4).unwrap_err().code, hipErrorInvalidValue, "{address:#x}");
    }
    let past = Command::Fill { destination: a, value: 0, width: 4, count: 1 << 40 };
    assert_eq!(rig.device.enqueue(0, 1, past).unwrap_err().code, hipErrorInvalidValue);
    let lost = rig.device.enqueue(0xdead, 1, launch(1, 1, arguments(a, &[1])));
    assert_eq!(lost.unwrap_err().code, hipErrorInvalidHandle, "no such stream");
    let lost = rig.device.enqueue(0, 1, launch(99, 1, arguments(a, &[1])));
    assert_eq!(lost.unwrap_err().code, hipErrorInvalidHandle, "no such function");
    assert_eq!(rig.wait(Scope::Event(0xdead)).unwrap_err().code, hipErrorInvalidHandle);
    assert!(rig.device.create_stream(0, 3, false, 0).is_err(), "IDs of null streams are reserved");
    assert!(rig.device.create_stream(9, 0x100, false, 0).is_err(), "no such device");
    assert!(rig.device.load_module(0, 5, arena.base + 8 * MIB, b"not a code object").is_err());
    assert!(rig.device.map(0, MemoryKind::Device, a, 64).is_err(), "the range is in use");
    rig.wait(Scope::Device(0)).expect("none of this is a fault");
}

pub fn globals_are_shared_between_kernels_and_copies(rig: Rig) {
    let a = rig.alloc(64);
    let (address, bytes) = rig.device.global(MODULE, "counter").unwrap();
    assert_eq!(bytes, 4);
    assert_eq!(rig.word(0, address), 41);
    rig.kernel(0, 5, 1, arguments(a, &[]));
    assert_eq!(rig.word(0, a), 42);
    rig.run(0, Command::Write { destination: address, data: 99i32.to_le_bytes().to_vec() });
    rig.kernel(0, 5, 1, arguments(a, &[]));
    assert_eq!(rig.word(0, a), 100);
    assert!(rig.device.global(MODULE, "nothing").is_err());
    rig.device.unload_module(MODULE).unwrap();
    let gone = rig.device.enqueue(0, 1, launch(5, 1, arguments(a, &[])));
    assert_eq!(gone.unwrap_err().code, hipErrorInvalidHandle);
}

pub fn launches_before_the_end_of_their_module_are_made(rig: Rig) {
    let a = rig.alloc(64);
    rig.slow_store(0, a + 4, 1);
    rig.kernel(0, 5, 1, arguments(a, &[]));
    rig.device.unload_module(MODULE).unwrap();
    assert_eq!(rig.word(0, a), 42);
}

pub fn launch_events_enclose_the_kernel(rig: Rig) {
    let a = rig.alloc(64);
    rig.device.create_event(0x200, 0, 0).unwrap();
    rig.device.create_event(0x201, 0, 0).unwrap();
    let Command::Launch(mut it) = launch(2, 1, arguments(a, &[1, SLOW])) else {
        unreachable!("a launch is a launch")
    };
    (it.start_event, it.stop_event) = (0x200, 0x201);
    rig.run(0, Command::Launch(it));
    rig.wait(Scope::Event(0x201)).unwrap();
    assert!(rig.device.elapsed(0x200, 0x201).unwrap() > 0.0);
}

pub fn many_small_commands_all_run(rig: Rig) {
    let streams: Vec<StreamId> = (0..4).map(|at| rig.stream(0x100 + at, true)).collect();
    let blocks: Vec<u64> = streams.iter().map(|_| rig.alloc(4096)).collect();
    for _ in 0..500 {
        for (stream, block) in streams.iter().zip(&blocks) {
            rig.kernel(*stream, 1, 64, arguments(*block, &[64]));
        }
    }
    rig.wait(Scope::Everything).unwrap();
    for (stream, block) in streams.iter().zip(&blocks) {
        assert_eq!(rig.word(*stream, *block), 500);
    }
    assert!(rig.device.busy_ns(0) > 0 || !rig.device.capabilities().direct_writes);
}

pub fn a_poke_waits_for_no_stream_and_the_next_kernel_sees_it(rig: Rig) {
    let stream = rig.stream(0x100, false);
    let a = rig.alloc(4096);
    rig.hold(stream);
    rig.kernel(stream, 1, 64, arguments(a, &[64]));
    rig.device.poke(a + 4, &41i32.to_le_bytes()).expect("a poke does not wait for a blocked stream");
    let mut seen = Vec::new();
    rig.device.peek(a, 12, &mut |bytes| seen.extend_from_slice(bytes)).expect("readable");
    assert_eq!(seen, [[0; 4], 41i32.to_le_bytes(), [0; 4]].concat());
    rig.release();
    assert_eq!(rig.word(stream, a + 4), 42);
    assert_eq!(rig.word(stream, a + 8), 1);
    assert_eq!(rig.device.poke(a + (1 << 30), &[1]).unwrap_err().code, hipErrorInvalidValue);
}

pub fn memory_is_never_put_where_something_lies(rig: Rig) {
    let ours = vec![7u8; 10_000];
    assert!(rig.device.adopt(0, ours.as_ptr() as u64, 10_000).is_err());
    assert!(ours.iter().all(|byte| *byte == 7));
    let a = rig.alloc(4096);
    assert!(rig.device.adopt(0, a + 8192, 16).is_err(), "addresses in the arena cannot be adopted");
    assert!(rig.device.adopt(0, 16, 16).is_err());
    assert!(rig.device.adopt(99, 1 << 40, 16).is_err());
}
