//! Tests of memory: allocation, release, and access that is not ordered with streams.

use std::time::{Duration, Instant};

use backend::{MemoryKind, Scope};
use hip_api::types::{hipErrorInvalidValue, hipErrorOutOfMemory};

use crate::rig::{PATIENCE, Rig, arguments, copy, fill};

/// Queued work may still use memory that was freed after it.
pub fn a_freed_range_stays_until_its_work_has_ended(rig: Rig) {
    let stream = rig.stream(0x100, true);
    let (a, b) = (rig.alloc(64), rig.alloc(64));
    let before = rig.device.memory(0).unwrap().used;
    rig.slow_store(stream, a, 8);
    rig.run(stream, copy(b, a, 4));
    rig.device.unmap(a).unwrap();
    let late = rig.device.enqueue(stream, 9, fill(a, 1, 4, 1));
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

/// Memory mapped at a freed address is not written by earlier work.
pub fn an_address_can_be_used_again_after_it_was_freed(rig: Rig) {
    let stream = rig.stream(0x100, true);
    let a = rig.alloc(4096);
    for round in 1..20 {
        rig.slow_store(stream, a, round);
        rig.device.unmap(a).unwrap();
        rig.device.map(0, MemoryKind::Device, a, 4096).unwrap();
        // The earlier kernel must not write to the new allocation.
        rig.run(0, fill(a, 0, 4, 4));
        assert_eq!(rig.word(0, a), 0, "round {round}");
    }
}

/// An allocation above the free memory fails and changes nothing.
pub fn memory_beyond_the_quota_is_refused(rig: Rig) {
    let before = rig.device.memory(0).unwrap();
    let address = rig.next.get();
    // Other processes may use the device as well, so its free memory may change at any time.
    let too_much = before.total - before.used + 1;
    let error = rig.device.map(0, MemoryKind::Device, address, too_much).unwrap_err();
    assert_eq!(error.code, hipErrorOutOfMemory);
    let after = rig.device.memory(0).unwrap();
    assert_eq!((after.used, after.total), (before.used, before.total), "nothing changed");
}

/// Unordered access does not wait for a blocked stream.
pub fn an_unordered_write_waits_for_no_stream_and_the_next_kernel_sees_it(rig: Rig) {
    let stream = rig.stream(0x100, false);
    let a = rig.alloc(4096);
    rig.hold(stream);
    rig.kernel(stream, 1, 64, arguments(a, &[64]));
    rig.device
        .write_unordered(a + 4, &41i32.to_le_bytes())
        .expect("an unordered write does not wait for a blocked stream");
    let mut seen = Vec::new();
    rig.device.read_unordered(a, 12, &mut |bytes| seen.extend_from_slice(bytes)).expect("readable");
    assert_eq!(seen, [[0; 4], 41i32.to_le_bytes(), [0; 4]].concat());
    rig.release();
    assert_eq!(rig.word(stream, a + 4), 42);
    assert_eq!(rig.word(stream, a + 8), 1);
    assert_eq!(rig.device.write_unordered(a + (1 << 30), &[1]).unwrap_err().code, hipErrorInvalidValue);
}

/// Runs shorter and longer than a back end may treat alike, with nothing else to do and behind a blocked stream.
pub fn runs_written_unordered_change_only_their_bytes(rig: Rig) {
    const BYTES: usize = 256 << 10;
    let stream = rig.stream(0x100, false);
    let a = rig.alloc(BYTES as u64);
    let mut wanted = vec![0u8; BYTES];
    for round in 0..2usize {
        if round == 1 {
            rig.hold(stream);
        }
        let mut runs = Vec::new();
        let mut at = 1 + round;
        while at + 3000 < BYTES {
            let length = if runs.len() % 40 == 7 { 2000 } else { 1 + runs.len() % 9 };
            runs.push((at, vec![(runs.len() % 250 + 1 + round) as u8; length]));
            at += length + 1 + runs.len() % 60;
        }
        for (at, bytes) in &runs {
            wanted[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        let runs: Vec<(u64, &[u8])> = runs.iter().map(|(at, bytes)| (a + *at as u64, &bytes[..])).collect();
        rig.device.write_runs_unordered(&runs).expect("all of it is memory");
        let mut seen = Vec::new();
        rig.device.read_unordered(a, BYTES as u64, &mut |it| seen.extend_from_slice(it)).expect("readable");
        assert!(seen == wanted, "round {round}: {:?}", seen.iter().zip(&wanted).position(|(a, b)| a != b));
    }
    rig.release();
    let beyond = rig.device.write_runs_unordered(&[(a, &[1]), (a + (1 << 30), &[1])]);
    assert_eq!(beyond.unwrap_err().code, hipErrorInvalidValue);
    rig.device.write_runs_unordered(&[]).expect("nothing to do");
}

/// Host ranges are mapped only where the process has nothing mapped.
pub fn memory_is_never_put_where_something_lies(rig: Rig) {
    let ours = vec![7u8; 10_000];
    assert!(rig.device.map_host_range(0, ours.as_ptr() as u64, 10_000).is_err());
    assert!(ours.iter().all(|byte| *byte == 7));
    let a = rig.alloc(4096);
    assert!(rig.device.map_host_range(0, a + 8192, 16).is_err(), "host ranges lie outside the arena");
    assert!(rig.device.map_host_range(0, 16, 16).is_err());
    assert!(rig.device.map_host_range(99, 1 << 40, 16).is_err());
}
