//! Allocates device addresses inside the range the worker announced.
//!
//! The client chooses the address of an allocation, so hipMalloc needs no round trip. New addresses are preferred over
//! freed ones: a pointer used after hipFree then hits unmapped memory on the device instead of another allocation's data.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

/// Allocations start on this boundary; the worker maps whole pages.
pub const GRANULE: u64 = 4096;
/// Large allocations start on this boundary (the worker may use huge pages there).
const LARGE: u64 = 2 << 20;
/// How many freed ranges are kept in quarantine before they may be reused.
const QUARANTINE: usize = 4096;

/// Allocates addresses from one range, independent of what is mapped there.
#[derive(Debug)]
pub struct Arena {
    next: u64,
    end: u64,
    /// Freed ranges, by start; adjacent ones are merged.
    free: BTreeMap<u64, u64>,
    quarantine: VecDeque<(u64, u64)>,
}

impl Arena {
    /// An arena of `bytes` bytes of addresses from `base` on.
    pub fn new(base: u64, bytes: u64) -> Arena {
        Arena { next: base, end: base + bytes, free: BTreeMap::new(), quarantine: VecDeque::new() }
    }

    /// Allocates `bytes` bytes of addresses, followed by an unmapped guard granule; `None` when the range is exhausted.
    pub fn take(&mut self, bytes: u64) -> Option<u64> {
        let span = span_of(bytes)?;
        let align = if bytes >= LARGE { LARGE } else { GRANULE };
        let start = self.next.checked_next_multiple_of(align)?;
        if let Some(end) = start.checked_add(span).filter(|end| *end <= self.end) {
            if start > self.next {
                self.insert_free(self.next, start - self.next);
            }
            self.next = end;
            return Some(start);
        }
        self.take_freed(span, align).or_else(|| {
            while let Some((start, bytes)) = self.quarantine.pop_front() {
                self.insert_free(start, bytes);
            }
            self.take_freed(span, align)
        })
    }

    /// Frees what `take(bytes)` returned.
    pub fn give_back(&mut self, start: u64, bytes: u64) {
        let Some(span) = span_of(bytes) else { return };
        self.quarantine.push_back((start, span));
        if self.quarantine.len() > QUARANTINE
            && let Some((start, span)) = self.quarantine.pop_front()
        {
            self.insert_free(start, span);
        }
    }

    fn take_freed(&mut self, span: u64, align: u64) -> Option<u64> {
        let (hole, hole_bytes, start) = self.free.iter().find_map(|(&hole, &hole_bytes)| {
            let start = hole.checked_next_multiple_of(align)?;
            (start - hole + span <= hole_bytes).then_some((hole, hole_bytes, start))
        })?;
        self.free.remove(&hole);
        if start > hole {
            self.free.insert(hole, start - hole);
        }
        let end = start + span;
        if hole + hole_bytes > end {
            self.free.insert(end, hole + hole_bytes - end);
        }
        Some(start)
    }

    fn insert_free(&mut self, mut start: u64, mut bytes: u64) {
        if let Some((&before, &before_bytes)) = self.free.range(..start).next_back()
            && before + before_bytes == start
        {
            self.free.remove(&before);
            start = before;
            bytes += before_bytes;
        }
        if let Some((&after, &after_bytes)) =
            self.free.range((Bound::Excluded(start), Bound::Unbounded)).next()
            && start + bytes == after
        {
            self.free.remove(&after);
            bytes += after_bytes;
        }
        self.free.insert(start, bytes);
    }
}

/// What an allocation is charged against a device's memory: whole granules, as the worker counts.
pub fn charge(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(GRANULE).unwrap_or(u64::MAX)
}

/// Address space of an allocation: whole granules, plus a guard granule that is never mapped, so that an overrun faults.
fn span_of(bytes: u64) -> Option<u64> {
    bytes.max(1).checked_next_multiple_of(GRANULE)?.checked_add(GRANULE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x2000_0000_0000;

    #[test]
    fn live_ranges_never_touch_each_other() {
        let mut arena = Arena::new(BASE, 64 << 20);
        let mut live: Vec<(u64, u64)> = Vec::new();
        let mut seed = 12345u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            if seed >> 63 == 0 && !live.is_empty() {
                let (start, bytes) = live.swap_remove((seed >> 20) as usize % live.len());
                arena.give_back(start, bytes);
            } else {
                let bytes = 1 + (seed >> 30) % 100_000;
                if let Some(start) = arena.take(bytes) {
                    for (other, other_bytes) in &live {
                        assert!(start + bytes < *other || other + other_bytes < start, "ranges touch");
                    }
                    assert!(start >= BASE && start + bytes < BASE + (64 << 20));
                    assert_eq!(start % GRANULE, 0);
                    live.push((start, bytes));
                }
            }
        }
    }

    #[test]
    fn a_full_arena_is_refused_and_usable_again_after_frees() {
        let mut arena = Arena::new(BASE, 16 << 20);
        let mut taken = Vec::new();
        while let Some(start) = arena.take(1 << 20) {
            taken.push(start);
        }
        assert!(taken.len() >= 14);
        assert!(arena.take(u64::MAX).is_none());
        for start in taken {
            arena.give_back(start, 1 << 20);
        }
        assert!(arena.take(10 << 20).is_some());
    }

    #[test]
    fn a_freed_address_is_not_handed_out_at_once() {
        let mut arena = Arena::new(BASE, 1 << 30);
        let first = arena.take(100).unwrap();
        arena.give_back(first, 100);
        assert_ne!(arena.take(100).unwrap(), first);
    }
}
