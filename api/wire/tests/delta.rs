//! Delta encoding: finds exactly the bytes that changed, and rejects malformed input.

use proptest::prelude::*;
use wire::delta::{Changes, diff};
use wire::exercise;

const AT: u64 = 0x2000_0000_1003;

/// Applies changes to memory located at `AT`; fails if one touches a byte that `may` does not allow.
fn apply(body: &[u8], memory: &mut [u8], may: impl Fn(usize) -> bool) {
    for change in Changes::new(body) {
        let change = change.expect("diff produced a malformed change");
        let base = (change.address - AT) as usize;
        assert!(base + change.span <= memory.len());
        change.for_each(|at, bytes| {
            assert!((base + at..base + at + bytes.len()).all(&may), "a byte that had not changed");
            memory[base + at..][..bytes.len()].copy_from_slice(bytes);
        });
    }
}

fn check(before: &[u8], after: &[u8]) -> usize {
    let (mut twin, mut body) = (before.to_vec(), Vec::new());
    diff(AT, after, &mut twin, &mut body);
    assert_eq!(twin, after, "the twin follows");
    let mut other = before.to_vec();
    apply(&body, &mut other, |at| before[at] != after[at]);
    assert_eq!(other, after);
    let length = body.len();
    diff(AT, after, &mut twin, &mut body);
    assert_eq!(body.len(), length, "there is nothing more to tell");
    length
}

#[test]
fn unchanged_memory_costs_nothing_and_a_changed_word_a_few_bytes() {
    let before = vec![7; 1 << 20];
    assert_eq!(check(&before, &before), 0);
    let mut after = before.clone();
    after[70_000..70_004].fill(9);
    assert!(check(&before, &after) <= 32);
}

#[test]
fn memory_that_changed_all_over_costs_hardly_more_than_itself() {
    let (before, after) = (vec![0; 1 << 20], vec![1; 1 << 20]);
    assert!(check(&before, &after) <= (1 << 20) * 1001 / 1000);
    // Small integers: three bytes of four stay zero.
    let integers: Vec<u8> = (0..1u32 << 18).flat_map(|i| (i % 200 + 1).to_le_bytes()).collect();
    assert!(check(&before, &integers) <= (1 << 20) * 2 / 5);
}

#[test]
fn the_ends_of_odd_ranges_are_seen() {
    for bytes in 1..40 {
        let before = vec![0; bytes];
        for at in 0..bytes {
            let mut after = before.clone();
            after[at] = 1;
            check(&before, &after);
        }
        check(&before, &vec![0xff; bytes]);
    }
}

#[test]
fn malformed_changes_are_refused() {
    let (mut twin, mut body) = (vec![0; 64], Vec::new());
    let mut now = twin.clone();
    now[3] = 1;
    now[20] = 2;
    diff(AT, &now, &mut twin, &mut body);
    assert_eq!(Changes::new(&body).filter(Result::is_ok).count(), 1);
    for length in 1..body.len() {
        assert!(Changes::new(&body[..length]).any(|change| change.is_err()), "{length} bytes of it");
    }
    for (at, value) in [(8, 0), (10, 0xff), (12, 0), (12, 99), (16, 0), (16, 0xff)] {
        let mut damaged = body.clone();
        damaged[at] = value;
        assert!(Changes::new(&damaged).any(|change| change.is_err()), "byte {at} is {value}");
    }
    let mut wraps = body.clone();
    wraps[..8].fill(0xff);
    assert!(Changes::new(&wraps).any(|change| change.is_err()));
}

proptest! {
    #[test]
    fn whatever_changed_arrives_and_nothing_else(
        before in prop::collection::vec(0u8..4, 0..700),
        writes in prop::collection::vec((any::<prop::sample::Index>(), 1usize..90, any::<u8>()), 0..20),
    ) {
        let mut after = before.clone();
        for (at, bytes, value) in writes {
            if !after.is_empty() {
                let at = at.index(after.len());
                let end = after.len().min(at + bytes);
                after[at..end].fill(value);
            }
        }
        check(&before, &after);
    }

    #[test]
    fn two_sides_that_change_different_bytes_end_up_with_both(
        before in prop::collection::vec(0u8..4, 1..300),
        host in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
        device in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
    ) {
        let (mut ours, mut theirs, mut wanted) = (before.clone(), before.clone(), before.clone());
        for (at, value) in &host {
            let at = at.index(before.len());
            ours[at] = *value;
            wanted[at] = *value;
        }
        for (at, value) in &device {
            let at = at.index(before.len());
            // Bytes that the host changed belong to the host alone.
            if ours[at] == before[at] {
                theirs[at] = *value;
                wanted[at] = *value;
            }
        }
        let (mut from_host, mut from_device) = (Vec::new(), Vec::new());
        diff(AT, &ours, &mut before.clone(), &mut from_host);
        diff(AT, &theirs, &mut before.clone(), &mut from_device);
        apply(&from_host, &mut theirs, |_| true);
        apply(&from_device, &mut ours, |_| true);
        prop_assert_eq!(&ours, &wanted);
        prop_assert_eq!(&theirs, &wanted);
    }

    #[test]
    fn hostile_changes_break_no_promise(
        head in prop::collection::vec(0u8..20, 16..60),
        bytes in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        exercise::changes(&[head, bytes].concat());
    }
}
