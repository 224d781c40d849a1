//! Two sides with a twin each end up with the same bytes, with tracked pages and with full comparison.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mirror::{BODY_BYTES, Tracker, Twin};
use proptest::prelude::*;
use wire::delta::Changes;

const AT: u64 = 0x2000_0000_0000;

/// Memory of one side, in a separate mapping.
struct Memory {
    start: *mut u8,
    bytes: usize,
}

impl Memory {
    fn new(bytes: usize) -> Memory {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh anonymous mapping affects no existing memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Memory { start: start.cast(), bytes }
    }

    #[allow(
        clippy::mut_from_ref,
        reason = "the tests write memory that a twin reads, never at the same time"
    )]
    fn slice(&self) -> &mut [u8] {
        // SAFETY: the mapping is ours; the tests hold no slice while the twin accesses the memory.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) }
    }

    fn twin(&self, tracker: Option<&Arc<Tracker>>) -> Twin {
        // SAFETY: the memory outlives the twin in every test.
        unsafe { Twin::new(self.start, self.bytes, tracker) }.unwrap()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

/// Without a tracker, and with one if the kernel supports it.
fn trackers() -> Vec<Option<Arc<Tracker>>> {
    let mut all = vec![None];
    match Tracker::open() {
        Ok(tracker) => all.push(Some(Arc::new(tracker))),
        Err(error) => eprintln!("testing without page tracking, which this kernel lacks: {error}"),
    }
    all
}

fn send(twin: &mut Twin) -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    twin.begin();
    loop {
        let mut body = Vec::new();
        let more = twin.collect(AT, &mut body, &mut |_| ());
        assert!(body.len() < 2 * BODY_BYTES);
        bodies.push(body);
        if !more {
            return bodies;
        }
    }
}

fn receive(twin: &mut Twin, bodies: &[Vec<u8>]) {
    for change in bodies.iter().flat_map(|body| Changes::new(body)) {
        let change = change.unwrap();
        change.for_each(|at, bytes| twin.accept((change.address - AT) as usize + at, bytes));
    }
}

fn sent_bytes(bodies: &[Vec<u8>]) -> usize {
    bodies.iter().map(Vec::len).sum()
}

#[test]
fn what_a_system_call_writes_into_watched_memory_is_found() {
    for tracker in trackers() {
        let (ours, theirs) = (Memory::new(1 << 20), Memory::new(1 << 20));
        let (mut twin, mut other) = (ours.twin(tracker.as_ref()), theirs.twin(tracker.as_ref()));
        assert_eq!(twin.is_watched(), tracker.is_some());
        assert_eq!(sent_bytes(&send(&mut twin)), 0, "fresh memory is zero on both sides");
        let (mut near, mut far) = UnixStream::pair().unwrap();
        near.write_all(&[7; 6000]).unwrap();
        far.read_exact(&mut ours.slice()[300_000..306_000]).unwrap();
        let bodies = send(&mut twin);
        assert!((6000..6200).contains(&sent_bytes(&bodies)));
        receive(&mut other, &bodies);
        assert!(ours.slice() == theirs.slice());
        assert_eq!(sent_bytes(&send(&mut other)), 0, "what was received is not sent back");
        near.write_all(&theirs.slice()[300_000..306_000]).unwrap();
        let mut again = [0; 6000];
        far.read_exact(&mut again).unwrap();
        assert_eq!(again, [7; 6000]);
    }
}

#[test]
fn bytes_written_meanwhile_stay_and_their_neighbours_arrive() {
    for tracker in trackers() {
        let (ours, theirs) = (Memory::new(1 << 18), Memory::new(1 << 18));
        let (mut twin, mut other) = (ours.twin(tracker.as_ref()), theirs.twin(tracker.as_ref()));
        theirs.slice()[100..200].fill(1);
        let theirs_first = send(&mut other);
        ours.slice()[150..160].fill(9);
        receive(&mut twin, &theirs_first);
        assert!(ours.slice()[100..150].iter().all(|byte| *byte == 1));
        assert!(ours.slice()[150..160].iter().all(|byte| *byte == 9));
        receive(&mut other, &send(&mut twin));
        assert!(ours.slice() == theirs.slice());
    }
}

#[test]
fn memory_that_is_only_shown_is_compared_piece_by_piece() {
    // SAFETY: nothing is accessed through a twin without memory.
    let mut twin = unsafe { Twin::new(std::ptr::null_mut(), 10_000, None) }.unwrap();
    let theirs = Memory::new(10_000);
    let mut other = theirs.twin(None);
    let mut gpu = vec![0u8; 10_000];
    for (at, value) in [(0, 1), (4095, 2), (4096, 3), (9999, 4)] {
        gpu[at] = value;
        twin.agree(5000, &[7]);
        gpu[5000] = 7;
        let mut body = Vec::new();
        for (index, piece) in gpu.chunks(4096).enumerate() {
            twin.compare_shown(index * 4096, piece, AT, &mut body);
        }
        assert!(!body.is_empty() && body.len() < 40, "one byte changed, and agreed bytes are not sent");
        receive(&mut other, &[body]);
        assert_eq!(theirs.slice()[at], value);
    }
    assert_eq!(theirs.slice()[5000], 0);
}

#[test]
fn nothing_that_another_thread_writes_is_lost() {
    for tracker in trackers() {
        let (ours, theirs) = (Memory::new(1 << 19), Memory::new(1 << 19));
        let (mut twin, mut other) = (ours.twin(tracker.as_ref()), theirs.twin(tracker.as_ref()));
        let done = AtomicBool::new(false);
        let start = ours.start as usize;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 0..200_000usize {
                    let at = turn.wrapping_mul(7919) % (1 << 19);
                    // SAFETY: inside the memory, which outlives the scope; the twin tolerates concurrent writes.
                    unsafe { ((start + at) as *mut u8).write_volatile(turn as u8 | 1) };
                }
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                receive(&mut other, &send(&mut twin));
            }
        });
        receive(&mut other, &send(&mut twin));
        assert!(ours.slice() == theirs.slice());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn both_sides_agree_after_any_writes_to_different_bytes(
        pages in 1usize..80,
        turns in prop::collection::vec(
            prop::collection::vec((any::<prop::sample::Index>(), 1usize..9000, any::<u8>(), any::<bool>()), 0..6),
            1..6,
        ),
    ) {
        for tracker in trackers() {
            let bytes = pages * 4096 - 5;
            let (ours, theirs) = (Memory::new(bytes), Memory::new(bytes));
            let (mut twin, mut other) = (ours.twin(tracker.as_ref()), theirs.twin(tracker.as_ref()));
            for writes in &turns {
                let mut wanted = ours.slice().to_vec();
                let mut taken = vec![None; bytes];
                for (at, length, value, host) in writes {
                    let at = at.index(bytes);
                    for at in at..bytes.min(at + length) {
                        // Only one side writes a byte in each turn.
                        if *taken[at].get_or_insert(*host) == *host {
                            if *host { ours.slice()[at] = *value } else { theirs.slice()[at] = *value }
                            wanted[at] = *value;
                        }
                    }
                }
                let to_them = send(&mut twin);
                receive(&mut other, &to_them);
                let to_us = send(&mut other);
                receive(&mut twin, &to_us);
                prop_assert!(ours.slice() == &wanted[..] && theirs.slice() == &wanted[..]);
            }
        }
    }
}
