//! Heap for device-side `malloc`: a range of device memory outside the arena, from which kernels get pages.
//!
//! Its size is fixed when the first kernel needs it, because kernels ask while they run, and the driver may wait for them when it
//! maps memory.

use std::collections::BTreeMap;

use backend::DeviceError;
use emulator::Pages;
use emulator::heap::{BLOCK_BYTES, PAGE, SLAB};
use parking_lot::Mutex;

/// Size of the heap if the program has set no limit.
pub(crate) const DEFAULT_BYTES: u64 = 256 << 20;

/// The heap of one device.
pub(crate) struct Heap {
    /// Address of the metadata, which the device library keeps.
    pub(crate) block: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Free ranges: start and size.
    free: BTreeMap<u64, u64>,
    /// Allocations: start and size.
    taken: BTreeMap<u64, u64>,
}

impl Heap {
    /// A heap over zeroed memory: its metadata, then pages.
    pub(crate) fn new(start: u64, bytes: u64) -> Result<Heap, DeviceError> {
        let mut state = State { free: BTreeMap::from([(start, bytes)]), taken: BTreeMap::new() };
        let block = state.allocate(BLOCK_BYTES);
        let block = block.ok_or_else(|| DeviceError::out_of_memory("the device heap is too small"))?;
        Ok(Heap { block, state: Mutex::new(state) })
    }
}

impl Pages for Heap {
    fn allocate(&self, bytes: u64) -> Option<u64> {
        self.state.lock().allocate(bytes)
    }

    fn free(&self, address: u64) -> bool {
        address != self.block && self.state.lock().free(address)
    }
}

impl State {
    fn allocate(&mut self, bytes: u64) -> Option<u64> {
        let bytes = bytes.checked_next_multiple_of(PAGE).filter(|bytes| *bytes > 0)?;
        let align = if bytes >= SLAB { SLAB } else { PAGE };
        let fits = |(start, size): (&u64, &u64)| {
            let at = start.next_multiple_of(align);
            (at + bytes <= start + size).then_some((*start, *size, at))
        };
        let (start, size, at) = self.free.iter().find_map(fits)?;
        self.free.remove(&start);
        if at > start {
            self.free.insert(start, at - start);
        }
        if at + bytes < start + size {
            self.free.insert(at + bytes, start + size - at - bytes);
        }
        self.taken.insert(at, bytes);
        Some(at)
    }

    fn free(&mut self, address: u64) -> bool {
        let Some(mut bytes) = self.taken.remove(&address) else { return false };
        let mut start = address;
        if let Some(after) = self.free.remove(&(start + bytes)) {
            bytes += after;
        }
        if let Some((before, size)) = self.free.range(..start).next_back().map(|(at, size)| (*at, *size))
            && before + size == start
        {
            start = before;
            bytes += size;
        }
        self.free.insert(start, bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_aligned_disjoint_and_reusable() {
        let start = 0x7000_0000_1000;
        let heap = Heap::new(start, 64 << 20).unwrap();
        let sizes = [1, PAGE, SLAB, 5 * SLAB + 1, 100, 3 * PAGE, SLAB - PAGE];
        let pieces: Vec<(u64, u64)> =
            sizes.iter().map(|size| (heap.allocate(*size).unwrap(), *size)).collect();
        for (at, size) in &pieces {
            assert!(at.is_multiple_of(if *size >= SLAB { SLAB } else { PAGE }), "{size} at {at:#x}");
            assert!(*at >= start && at + size <= start + (64 << 20));
            let apart =
                |(other, bytes): &(u64, u64)| other == at || other + bytes <= *at || at + size <= *other;
            assert!(pieces.iter().all(apart));
        }
        assert!(heap.allocate(60 << 20).is_none() && heap.allocate(u64::MAX).is_none());
        assert!(heap.allocate(0).is_none() && !heap.free(heap.block) && !heap.free(1));
        assert!(pieces.iter().all(|(at, _)| heap.free(*at)));
        assert!(!heap.free(pieces[0].0), "freed twice");
        assert!(heap.allocate(60 << 20).is_some(), "the freed pages are one range again");
    }
}
