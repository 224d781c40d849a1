//! Heap for device-side `malloc`: a separate address range outside the session's arena, because the client assigns the arena's
//! addresses. Counts against the device's quota, and against `hipLimitMallocHeapSize` once a program has set it.
//!
//! Allocations of kernels in code objects before version 5 are freed with their module, because the module holds the heap's
//! metadata. All others belong to the device and are freed when it is reset or the session ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use backend::{DeviceError, HeapRecord, ModuleId, PieceRecord};
use emulator::heap::{BLOCK_BYTES, PAGE, SLAB};
use emulator::{Access, Heap, Pages};
use parking_lot::Mutex;

use crate::memory::Memory;

/// Size of the reserved address range as a multiple of the device's quota. More than 1 because of fragmentation.
const ROOM: u64 = 4;
/// Maximum size of the reserved address range.
const MAX_ROOM: u64 = 1 << 40;
/// Pages are made accessible in steps of this size.
const STEP: u64 = 64 << 20;

/// Addresses tried first for heaps: away from programs, libraries and stacks, so that they are also free in the process to which a
/// session migrates. They lie between the addresses that clients try for arenas.
fn places() -> impl Iterator<Item = u64> {
    (0..32).map(|at| 0x2400_0000_0000 + (at / 4) * 0x0800_0000_0000 + (at % 4) * MAX_ROOM)
}

/// The heap of one device. Addresses are reserved when a kernel first needs them.
#[derive(Debug)]
pub(crate) struct DeviceHeap {
    device: u32,
    quota: u64,
    memory: Arc<Memory>,
    /// Limit in bytes that the program has set; `u64::MAX` for none.
    limit: AtomicU64,
    state: Mutex<Option<Region>>,
}

impl DeviceHeap {
    pub(crate) fn new(device: u32, quota: u64, memory: Arc<Memory>) -> DeviceHeap {
        DeviceHeap { device, quota, memory, limit: AtomicU64::new(u64::MAX), state: Mutex::new(None) }
    }

    /// Limits the bytes that kernels may allocate. Zero removes the limit, so that only the device's memory bounds them.
    pub(crate) fn set_limit(&self, bytes: u64) {
        let limit = if bytes == 0 { u64::MAX } else { bytes.saturating_add(SLAB - 1) / SLAB * SLAB };
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// The heap for kernels that use the device's heap. `None` if there is not enough memory for its metadata.
    pub(crate) fn of_device(self: &Arc<DeviceHeap>) -> Option<Heap> {
        let mut state = self.state.lock();
        let region = reserved(&mut state, self.quota)?;
        if region.block == 0 {
            region.block = self.place(region, BLOCK_BYTES, None)?;
        }
        Some(Heap { block: region.block, pages: Arc::new(Share { heap: Arc::clone(self), owner: None }) })
    }

    /// The heap for kernels whose heap metadata is a variable of their module.
    pub(crate) fn of_module(self: &Arc<DeviceHeap>, module: ModuleId) -> Heap {
        Heap { block: 0, pages: Arc::new(Share { heap: Arc::clone(self), owner: Some(module) }) }
    }

    /// Frees the allocations of a module that was unloaded. None of its kernels may be running.
    pub(crate) fn release(&self, module: ModuleId) {
        if let Some(region) = &mut *self.state.lock() {
            let own = |piece: &Piece| piece.owner == Some(module);
            let gone: Vec<u64> =
                region.pieces.iter().filter(|(_, piece)| own(piece)).map(|(at, _)| *at).collect();
            for address in gone {
                region.held -= self.take_back(region, address).map_or(0, |piece| piece.bytes);
            }
        }
    }

    /// Frees everything. No kernel of the device may be running.
    pub(crate) fn clear(&self) {
        if let Some(mut region) = self.state.lock().take() {
            let all: Vec<u64> = region.pieces.keys().copied().collect();
            for address in all {
                self.take_back(&mut region, address);
            }
        }
    }

    /// The heap's allocations, if there is a heap, and the limit that the program has set.
    pub(crate) fn capture(&self) -> (Option<HeapRecord>, Option<u64>) {
        let limit = Some(self.limit.load(Ordering::Relaxed)).filter(|limit| *limit != u64::MAX);
        let state = self.state.lock();
        let record = state.as_ref().map(|region| HeapRecord {
            device: self.device,
            base: region.base,
            bytes: region.bytes,
            block: region.block,
            pieces: region
                .pieces
                .iter()
                .map(|(address, it)| PieceRecord { address: *address, bytes: it.bytes, owner: it.owner })
                .collect(),
        });
        (record, limit)
    }

    /// Recreates the recorded allocations at the same addresses.
    pub(crate) fn restore(&self, record: &HeapRecord) -> Result<(), DeviceError> {
        let refused = |why: &str| {
            let text =
                format!("cannot restore the heap of device {} at {:#x}: {why}", self.device, record.base);
            DeviceError::out_of_memory(text)
        };
        let mut state = self.state.lock();
        if state.is_some() {
            return Err(refused("the device already has a heap"));
        }
        if record.bytes == 0 || record.bytes > MAX_ROOM || !record.bytes.is_multiple_of(STEP) {
            return Err(refused("invalid heap size"));
        }
        let taken = || DeviceError::address_taken(refused("the addresses are in use").text);
        let mut region = Region::at(record.base, record.bytes).ok_or_else(taken)?;
        for it in &record.pieces {
            let whole = it.bytes > 0 && it.bytes.is_multiple_of(PAGE) && it.address.is_multiple_of(PAGE);
            if !whole || !region.is_free(it.address, it.bytes) {
                return Err(refused("invalid list of allocations"));
            }
            self.give_out(&mut region, it.address, it.bytes, it.owner)
                .ok_or_else(|| refused("not enough memory"))?;
            if it.address != record.block {
                region.held += it.bytes;
            }
        }
        if record.block != 0 && region.pieces.get(&record.block).is_none_or(|it| it.bytes < BLOCK_BYTES) {
            return Err(refused("the heap metadata is missing"));
        }
        region.block = record.block;
        *state = Some(region);
        Ok(())
    }

    /// The size of the allocation that starts at `address`.
    pub(crate) fn piece(&self, address: u64) -> Option<u64> {
        let state = self.state.lock();
        state.as_ref().and_then(|region| region.pieces.get(&address)).map(|piece| piece.bytes)
    }

    /// Bytes that kernels have allocated, without the heap's metadata.
    #[cfg(test)]
    fn held(&self) -> u64 {
        self.state.lock().as_ref().map_or(0, |region| region.held)
    }

    fn place(&self, region: &mut Region, bytes: u64, owner: Option<ModuleId>) -> Option<u64> {
        let bytes = bytes.checked_next_multiple_of(PAGE).filter(|bytes| *bytes > 0)?;
        let address = region.find(bytes, if bytes >= SLAB { SLAB } else { PAGE })?;
        self.give_out(region, address, bytes, owner)
    }

    /// Allocates a free range.
    fn give_out(
        &self,
        region: &mut Region,
        address: u64,
        bytes: u64,
        owner: Option<ModuleId>,
    ) -> Option<u64> {
        if !self.memory.take(self.device, bytes) {
            return None;
        }
        if !region.commit(address + bytes) || self.memory.allow(address, bytes, Access::ReadWrite).is_err() {
            self.memory.give(self.device, bytes);
            return None;
        }
        region.cut(address, bytes);
        region.pieces.insert(address, Piece { bytes, owner });
        Some(address)
    }

    fn take_back(&self, region: &mut Region, address: u64) -> Option<Piece> {
        let piece = region.pieces.remove(&address)?;
        self.memory.forbid(address);
        // The pages go back to the system and read as zero when they are allocated again.
        // SAFETY: the piece belongs to this heap, and kernels may no longer access it. A kernel that does so anyway (use after free)
        // reads zeros.
        unsafe { libc::madvise(address as *mut libc::c_void, piece.bytes as usize, libc::MADV_DONTNEED) };
        region.release_range(address, piece.bytes);
        self.memory.give(self.device, piece.bytes);
        Some(piece)
    }
}

fn reserved(state: &mut Option<Region>, quota: u64) -> Option<&mut Region> {
    if state.is_none() {
        *state = Region::reserve(quota);
    }
    state.as_mut()
}

/// Page allocator of one owner (a module or the device) on the heap.
struct Share {
    heap: Arc<DeviceHeap>,
    owner: Option<ModuleId>,
}

impl Pages for Share {
    fn allocate(&self, bytes: u64) -> Option<u64> {
        let mut state = self.heap.state.lock();
        let region = reserved(&mut state, self.heap.quota)?;
        let span = bytes.checked_next_multiple_of(PAGE)?;
        let held = region.held.checked_add(span)?;
        if held > self.heap.limit.load(Ordering::Relaxed) {
            return None;
        }
        let address = self.heap.place(region, bytes, self.owner)?;
        region.held = held;
        Some(address)
    }

    fn free(&self, address: u64) -> bool {
        let mut state = self.heap.state.lock();
        let Some(region) = state.as_mut().filter(|region| region.block != address) else { return false };
        let Some(piece) = self.heap.take_back(region, address) else { return false };
        region.held -= piece.bytes;
        true
    }
}

#[derive(Debug)]
struct Piece {
    bytes: u64,
    owner: Option<ModuleId>,
}

/// Reserved address range with its allocations and free ranges.
#[derive(Debug)]
struct Region {
    /// Start of the mapping.
    base: u64,
    bytes: u64,
    /// End of the accessible part.
    committed: u64,
    block: u64,
    held: u64,
    pieces: BTreeMap<u64, Piece>,
    /// Free ranges by start, with their ends; no two touch.
    holes: BTreeMap<u64, u64>,
}

impl Region {
    fn reserve(quota: u64) -> Option<Region> {
        let bytes = quota.saturating_mul(ROOM).clamp(STEP, MAX_ROOM).next_multiple_of(STEP);
        places().find_map(|base| Region::at(base, bytes)).or_else(|| Region::at(0, bytes))
    }

    /// Reserves addresses at `wanted`, if they are free; at any address if `wanted` is 0.
    fn at(wanted: u64, bytes: u64) -> Option<Region> {
        let fixed = if wanted == 0 { 0 } else { libc::MAP_FIXED_NOREPLACE };
        // SAFETY: a new anonymous mapping without access; MAP_FIXED_NOREPLACE protects existing mappings.
        let base = unsafe {
            libc::mmap(
                wanted as *mut libc::c_void,
                bytes as usize,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return None;
        }
        let base = base as u64;
        if wanted != 0 && base != wanted {
            // SAFETY: just mapped by an old kernel that ignores MAP_FIXED_NOREPLACE; no other code has the address.
            unsafe { libc::munmap(base as *mut libc::c_void, bytes as usize) };
            return None;
        }
        let holes = BTreeMap::from([(base, base + bytes)]);
        Some(Region { base, bytes, committed: base, block: 0, held: 0, pieces: BTreeMap::new(), holes })
    }

    /// Whether a whole range is free.
    fn is_free(&self, address: u64, bytes: u64) -> bool {
        let hole = self.holes.range(..=address).next_back();
        hole.is_some_and(|(_, hole)| address.checked_add(bytes).is_some_and(|end| end <= *hole))
    }

    /// The lowest free address with room for `bytes`.
    fn find(&self, bytes: u64, align: u64) -> Option<u64> {
        self.holes.iter().find_map(|(start, end)| {
            let address = start.checked_next_multiple_of(align)?;
            (address.checked_add(bytes)? <= *end).then_some(address)
        })
    }

    /// Makes everything below `end` accessible.
    fn commit(&mut self, end: u64) -> bool {
        if end <= self.committed {
            return true;
        }
        let end = end.next_multiple_of(STEP).min(self.base + self.bytes);
        // SAFETY: the pages are part of the reservation.
        let failed = unsafe {
            libc::mprotect(
                self.committed as *mut libc::c_void,
                (end - self.committed) as usize,
                libc::PROT_READ | libc::PROT_WRITE,
            )
        };
        if failed == 0 {
            self.committed = end;
        }
        failed == 0
    }

    /// Removes a range, found with [`Region::find`], from the free list.
    fn cut(&mut self, address: u64, bytes: u64) {
        let Some((start, end)) = self.holes.range(..=address).next_back().map(|(start, end)| (*start, *end))
        else {
            return;
        };
        self.holes.remove(&start);
        if start < address {
            self.holes.insert(start, address);
        }
        if address + bytes < end {
            self.holes.insert(address + bytes, end);
        }
    }

    /// Returns a range to the free list and merges it with adjacent holes.
    fn release_range(&mut self, address: u64, bytes: u64) {
        let (mut start, mut end) = (address, address + bytes);
        if let Some((before, _)) = self.holes.range(..start).next_back().filter(|(_, end)| **end == start) {
            start = *before;
        }
        if let Some(after) = self.holes.remove(&end) {
            end = after;
        }
        self.holes.insert(start, end);
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the region owns the mapping, and is dropped only while no kernel of the device runs.
        unsafe { libc::munmap(self.base as *mut libc::c_void, self.bytes as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn heap(quota: u64) -> (Arc<Memory>, Arc<DeviceHeap>) {
        let memory = Arc::new(Memory::new(None, vec![quota], vec![quota], None, None).unwrap());
        (Arc::clone(&memory), Arc::new(DeviceHeap::new(0, quota, memory)))
    }

    fn used(memory: &Memory) -> u64 {
        memory.usage(0).unwrap().used
    }

    #[test]
    fn pieces_are_zero_aligned_apart_and_known_to_kernels() {
        let (memory, heap) = heap(64 * MIB);
        let Heap { block, pages } = heap.of_device().unwrap();
        assert!(memory.table(0).contains(block, BLOCK_BYTES, true));
        let asked = [1, 5000, SLAB, PAGE, SLAB + 1, 100_000, SLAB];
        let got: Vec<u64> = asked.iter().map(|bytes| pages.allocate(*bytes).unwrap()).collect();
        for (bytes, address) in asked.iter().zip(&got) {
            let align = if *bytes >= SLAB { SLAB } else { PAGE };
            assert!(address.is_multiple_of(align), "{bytes} bytes at {address:#x}");
            assert!(memory.table(0).contains(*address, *bytes, true));
            // SAFETY: just allocated.
            let piece = unsafe { std::slice::from_raw_parts_mut(*address as *mut u8, *bytes as usize) };
            assert!(piece.iter().all(|byte| *byte == 0));
            piece.fill(9);
        }
        for (index, (bytes, address)) in asked.iter().zip(&got).enumerate() {
            let others = got.iter().enumerate().filter(|(other, _)| *other != index);
            assert!(others.into_iter().all(|(_, other)| *other < *address || *other >= address + bytes));
        }
        for address in &got {
            assert!(pages.free(*address) && !pages.free(*address));
            assert!(!memory.table(0).contains(*address, 1, false), "kernels cannot access freed memory");
        }
        assert_eq!((heap.held(), used(&memory)), (0, BLOCK_BYTES));
        let again = pages.allocate(SLAB).unwrap();
        // SAFETY: just allocated.
        assert_eq!(unsafe { *(again as *const u8) }, 0, "reallocated memory is zero");
        assert!(!pages.free(block), "a kernel cannot free the heap's metadata");
    }

    #[test]
    fn the_limit_and_the_devices_memory_bound_what_kernels_hold() {
        let (memory, heap) = heap(16 * MIB);
        let pages = heap.of_device().unwrap().pages;
        heap.set_limit(3 * MIB);
        let first = pages.allocate(SLAB).unwrap();
        assert!(pages.allocate(SLAB).is_some(), "the limit is rounded up to whole slabs");
        assert_eq!(pages.allocate(1), None);
        assert!(pages.free(first));
        assert!(pages.allocate(1).is_some());
        heap.set_limit(0);
        while pages.allocate(MIB).is_some() {}
        let left = memory.usage(0).unwrap().free;
        assert!(left < MIB, "{left} bytes are left");
        assert_eq!(pages.allocate(u64::MAX), None);
        assert_eq!(pages.allocate(0), None);
    }

    #[test]
    fn a_module_takes_its_own_allocations_with_it_and_a_reset_takes_all() {
        let (memory, heap) = heap(64 * MIB);
        let (device, module) = (heap.of_device().unwrap().pages, heap.of_module(7).pages);
        let kept = device.allocate(SLAB).unwrap();
        let gone = module.allocate(SLAB).unwrap();
        let freed = module.allocate(PAGE).unwrap();
        assert!(device.free(freed), "any kernel of the device may free");
        heap.release(7);
        assert!(memory.table(0).contains(kept, SLAB, true) && !memory.table(0).contains(gone, 1, true));
        heap.clear();
        assert!(!memory.table(0).contains(kept, 1, true));
        assert_eq!(used(&memory), 0);
        assert!(heap.of_device().is_some(), "the heap is recreated after a reset");
    }

    #[test]
    fn a_hundred_thousand_pieces_need_no_mapping_each() {
        let (_, heap) = heap(1 << 40);
        let pages = heap.of_device().unwrap().pages;
        let all: Vec<u64> = (0..100_000).map(|_| pages.allocate(PAGE).unwrap()).collect();
        for address in all.iter().step_by(2).chain(all.iter().skip(1).step_by(2)) {
            assert!(pages.free(*address));
        }
        let state = heap.state.lock();
        assert_eq!(state.as_ref().map(|region| region.holes.len()), Some(1), "adjacent holes are merged");
    }
}
