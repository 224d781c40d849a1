//! Tests of the order of commands within and between streams.

use std::sync::mpsc;

use backend::{Command, Scope, StreamId};

use crate::rig::{Note, Rig, arguments, copy, fill};

/// Commands of a stream run in the order in which they were queued.
pub fn copies_fills_and_kernels_of_a_stream_keep_their_order(rig: Rig) {
    let stream = rig.stream(0x100, false);
    let (a, b) = (rig.alloc(4096), rig.alloc(4096));
    rig.run(stream, Command::write_flat(a, 5i32.to_le_bytes().repeat(64)));
    rig.kernel(stream, 1, 64, arguments(a, &[64]));
    rig.run(stream, copy(b, a, 256));
    rig.run(stream, fill(a, 9, 4, 64));
    rig.kernel(stream, 1, 64, arguments(a, &[32]));
    rig.run(stream, fill(b + 8, 0xabcd, 2, 2));
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

/// A read returns what the kernel before it has written.
pub fn a_read_waits_for_the_kernel_before_it(rig: Rig) {
    let stream = rig.stream(0x100, false);
    let a = rig.alloc(64);
    rig.slow_store(stream, a, 77);
    assert_eq!(rig.word(stream, a), 77);
}

/// The null stream synchronizes with blocking streams in both directions.
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

/// A non-blocking stream runs beside the null stream.
pub fn a_non_blocking_stream_does_not_wait_for_the_null_stream(rig: Rig) {
    let stream = rig.stream(0x100, true);
    let a = rig.alloc(64);
    rig.kernel(0, 4, 1, arguments(a, &[]));
    assert!(!rig.device.query(Scope::Stream(0)).unwrap());
    rig.run(stream, fill(a, 1, 4, 1));
    rig.wait(Scope::Stream(0)).expect("the kernel saw the store of the other stream and ended");
}

/// A stream stops at a host function until the caller completes it.
pub fn a_stream_waits_for_its_host_function(rig: Rig) {
    let stream = rig.stream(0x100, true);
    let a = rig.alloc(64);
    rig.slow_store(stream, a, 1);
    rig.run(stream, Command::HostFunction { token: 0xf00d });
    rig.run(stream, fill(a, 2, 4, 1));
    assert_eq!(rig.note(), Note::HostFunction(0xf00d));
    let other = rig.stream(0x101, true);
    assert_eq!(rig.word(other, a), 1, "the stream has not continued");
    assert!(!rig.device.query(Scope::Stream(stream)).unwrap());
    rig.device.host_function_done(0xf00d).unwrap();
    assert_eq!(rig.word(stream, a), 2);
    assert!(rig.device.host_function_done(0xf00d).is_err());
}

/// Direct writes are possible on idle streams only.
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
        rig.run(stream, Command::write_flat(a, 21i32.to_le_bytes().to_vec()));
    }
    rig.kernel(stream, 1, 1, arguments(a, &[1]));
    assert_eq!(rig.word(stream, a), 22);
    assert_eq!(rig.device.direct(stream, 0x10, 4, &mut |_| true), None, "a bad address is not written");
}

/// Waiting for idle work completes on the calling thread.
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

/// Many launches on several streams all run.
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
