//! Table of the host address ranges that kernels may access.
//!
//! A device pointer is a host pointer. [`Memory`] is a sorted table of permitted ranges; it neither owns nor maps memory. Every
//! access is checked against it through a small per-wave cache of recently hit ranges, so the table itself is read rarely.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

/// Access that a kernel has to a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Kernels may read and write.
    ReadWrite,
    /// Kernels may only read.
    ReadOnly,
}

/// A range of addresses that a kernel may access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First address.
    pub start: u64,
    /// First address past the range.
    pub end: u64,
    /// What kernels may do there.
    pub access: Access,
}

impl Range {
    /// A range that contains no address.
    pub const EMPTY: Range = Range { start: u64::MAX, end: 0, access: Access::ReadOnly };

    /// Whether `start..end` lies within the range and may be read, or written if `write`.
    #[inline(always)]
    pub fn covers(&self, start: u64, end: u64, write: bool) -> bool {
        start >= self.start && end <= self.end && (!write || self.access == Access::ReadWrite)
    }
}

/// Error of adding a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The range is empty or wraps around.
    #[error("range {start:#x}+{len:#x} is empty or wraps around")]
    BadRange {
        /// First address of the range.
        start: u64,
        /// Size of the range in bytes.
        len: u64,
    },
    /// The range overlaps another one.
    #[error("range {start:#x}+{len:#x} overlaps a registered range")]
    Overlap {
        /// First address of the range.
        start: u64,
        /// Size of the range in bytes.
        len: u64,
    },
}

/// Table of permitted ranges, shared by all dispatches of a context.
#[derive(Debug, Default)]
pub struct Memory {
    generation: AtomicU64,
    /// Ordered by start address.
    ranges: RwLock<BTreeMap<u64, Range>>,
}

impl Memory {
    /// Creates an empty table.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Permits kernels to access `len` bytes at `start`.
    pub fn insert(&self, start: u64, len: u64, access: Access) -> Result<(), Error> {
        let end = start.checked_add(len).filter(|end| *end > start).ok_or(Error::BadRange { start, len })?;
        let mut ranges = self.ranges.write();
        // Ranges do not overlap, so only the last one that starts below the new end can conflict.
        if ranges.range(..end).next_back().is_some_and(|(_, range)| range.end > start) {
            return Err(Error::Overlap { start, len });
        }
        ranges.insert(start, Range { start, end, access });
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Removes the range that starts at `start`, and returns it if there was one.
    ///
    /// A running wave may still use the range until its quantum ends. Unmap the memory only after the dispatches that may access
    /// it have ended.
    pub fn remove(&self, start: u64) -> Option<Range> {
        let removed = self.ranges.write().remove(&start)?;
        self.generation.fetch_add(1, Ordering::Release);
        Some(removed)
    }

    /// Whether a kernel may access all of the `len` bytes at `start`.
    pub fn contains(&self, start: u64, len: u64, write: bool) -> bool {
        let Some(end) = start.checked_add(len) else { return false };
        self.find(start).is_some_and(|range| range.covers(start, end, write))
    }

    /// The range that contains `address`.
    pub fn find(&self, address: u64) -> Option<Range> {
        let ranges = self.ranges.read();
        let (_, range) = ranges.range(..=address).next_back()?;
        (address < range.end).then_some(*range)
    }

    /// The ranges that start in the `len` bytes at `start`.
    pub fn within(&self, start: u64, len: u64) -> Vec<Range> {
        let end = start.saturating_add(len);
        self.ranges.read().range(start..end).map(|(_, range)| *range).collect()
    }

    /// The last range that ends at or below `address`, and the first that starts above it.
    pub fn neighbours(&self, address: u64) -> (Option<Range>, Option<Range>) {
        let ranges = self.ranges.read();
        let below = ranges.range(..=address).next_back().map(|(_, range)| *range);
        let above = ranges.range(address..).find(|(start, _)| **start > address).map(|(_, range)| *range);
        (below.filter(|range| range.end <= address), above)
    }

    /// Generation counter, incremented with every change of the table.
    #[inline(always)]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

/// Direct-mapped cache of recently hit ranges: the last one of each instruction. A miss searches all entries before the table,
/// which is shared between threads. So a kernel reads the table about once per range it uses. Cleared when the table changes.
#[derive(Clone, Copy, Debug)]
pub struct RangeCache {
    /// The last range that each slot found.
    pub entries: [Range; RangeCache::SIZE],
    /// Generation of the memory table that the entries are from.
    pub generation: u64,
}

impl RangeCache {
    /// Number of slots.
    pub const SIZE: usize = 64;

    /// Cache slot of an instruction.
    #[inline(always)]
    pub fn slot(inst: u32) -> usize {
        inst as usize % RangeCache::SIZE
    }

    /// Searches all entries for a range that contains `address`.
    pub fn find(&self, address: u64) -> Option<Range> {
        self.entries.iter().find(|range| address >= range.start && address < range.end).copied()
    }

    /// Forgets all ranges; the next ones are from `generation` of the memory table.
    pub fn clear(&mut self, generation: u64) {
        self.entries = [Range::EMPTY; RangeCache::SIZE];
        self.generation = generation;
    }
}

impl Default for RangeCache {
    fn default() -> RangeCache {
        RangeCache { entries: [Range::EMPTY; RangeCache::SIZE], generation: u64::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_found_from_first_to_last_byte_only() {
        let memory = Memory::new();
        memory.insert(0x1000, 0x100, Access::ReadWrite).unwrap();
        memory.insert(0x1100, 0x10, Access::ReadOnly).unwrap();
        assert!(memory.contains(0x1000, 0x100, true));
        assert!(!memory.contains(0xfff, 1, false));
        assert!(!memory.contains(0x10ff, 2, false), "an access does not span two ranges");
        assert!(memory.contains(0x1100, 0x10, false));
        assert!(!memory.contains(0x1100, 1, true), "read-only memory is not written");
        assert!(!memory.contains(0x1110, 1, false));
        assert!(!memory.contains(u64::MAX, 2, false));
    }

    #[test]
    fn neighbours_are_the_ranges_around_an_address_that_is_in_none() {
        let memory = Memory::new();
        assert_eq!(memory.neighbours(0x1000), (None, None));
        memory.insert(0x1000, 0x100, Access::ReadWrite).unwrap();
        memory.insert(0x2000, 0x100, Access::ReadWrite).unwrap();
        let starts = |address| {
            let (below, above) = memory.neighbours(address);
            (below.map(|range| range.start), above.map(|range| range.start))
        };
        assert_eq!(starts(0xfff), (None, Some(0x1000)));
        assert_eq!(starts(0x1100), (Some(0x1000), Some(0x2000)), "the first byte behind a range");
        assert_eq!(starts(0x9000), (Some(0x2000), None));
        assert_eq!(starts(0x1000), (None, Some(0x2000)), "not the range that holds it");
    }

    #[test]
    fn overlapping_and_wrapping_ranges_are_refused() {
        let memory = Memory::new();
        memory.insert(0x1000, 0x100, Access::ReadWrite).unwrap();
        for (start, len) in [(0xff0, 0x11), (0x10ff, 1), (0x1000, 0x100), (0x800, 0x1000)] {
            assert_eq!(memory.insert(start, len, Access::ReadWrite), Err(Error::Overlap { start, len }));
        }
        assert!(matches!(memory.insert(u64::MAX, 2, Access::ReadWrite), Err(Error::BadRange { .. })));
        assert!(matches!(memory.insert(1, 0, Access::ReadWrite), Err(Error::BadRange { .. })));
    }

    #[test]
    fn removal_changes_the_generation_and_forbids_the_range() {
        let memory = Memory::new();
        memory.insert(0x1000, 0x100, Access::ReadWrite).unwrap();
        let before = memory.generation();
        assert!(memory.remove(0x1001).is_none());
        assert!(memory.remove(0x1000).is_some());
        assert_ne!(memory.generation(), before);
        assert!(!memory.contains(0x1000, 1, false));
    }
}
