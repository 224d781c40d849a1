//! The device memory pool: blocks in a fixed set of sizes, cached for reuse when freed.
//!
//! All work goes through one stream, so a freed block can be reused at once: the previous owner has already queued all of its
//! work. Small blocks that are freed between an allocation and the next run are nevertheless reused only after that run. So the
//! blocks of a step depend only on what was free when it began, not on the timing of frees during it. A repeated step then gets
//! the same addresses again every second time, which is what replaying launches as graphs needs.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::sync::Arc;

use hip_api::types::{hipErrorNotSupported, hipErrorOutOfMemory};
use parking_lot::Mutex;
use tensor_core::device::Memory;
use tensor_core::error::DeviceError;

use crate::stream::Stream;

/// The smallest block size, in bytes.
const SMALLEST: usize = 512;
/// The most bytes of free blocks that are kept.
const KEPT: usize = 4 << 30;
/// Larger blocks are reused at once.
const PATIENT: usize = 1 << 20;
/// The most blocks that wait for the next run before reuse.
const WAITING: usize = 256;

/// Allocation counters, in bytes and calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStatistics {
    /// Bytes that tensors hold now.
    pub total_allocated: usize,
    /// The most bytes that tensors have held at a time.
    pub peak_allocated: usize,
    /// Bytes freed by tensors and kept for reuse.
    pub kept: usize,
    /// Blocks handed out.
    pub allocations: u64,
    /// Blocks returned.
    pub deallocations: u64,
    /// Allocations served from free blocks.
    pub cache_hits: u64,
    /// Allocations that needed the runtime.
    pub cache_misses: u64,
}

/// The memory pool of one device.
#[derive(Debug)]
pub struct MemoryPool {
    stream: Arc<Stream>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Free blocks by size. The lowest address is given out first, so that repeated work gets the same addresses.
    free: BTreeMap<usize, BTreeSet<u64>>,
    /// Sizes and addresses of blocks that become free after the next run.
    waiting: Vec<(usize, u64)>,
    /// Whether a block was allocated since the last run.
    preparing: bool,
    statistics: MemoryStatistics,
}

/// A block of a pool, returned to it on drop.
#[derive(Debug)]
pub(crate) struct Block {
    pool: Arc<MemoryPool>,
    pub address: u64,
    bytes: usize,
}

impl Memory for Block {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.pool.give_back(self.address, rounded(self.bytes));
    }
}

/// Returns the device address of memory; `None` for memory of other devices.
pub(crate) fn address_of(memory: &dyn Memory) -> Option<u64> {
    if let Some(Imaginary(address)) = memory.as_any().downcast_ref() {
        return Some(*address);
    }
    memory.as_any().downcast_ref::<Block>().map(|block| block.address)
}

/// An address without memory, for planning steps.
#[derive(Debug)]
pub(crate) struct Imaginary(pub u64);

impl Memory for Imaginary {
    fn bytes(&self) -> usize {
        0
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl MemoryPool {
    pub(crate) fn new(stream: Arc<Stream>) -> Arc<MemoryPool> {
        Arc::new(MemoryPool { stream, state: Mutex::default() })
    }

    pub(crate) fn allocate(self: &Arc<Self>, bytes: usize) -> Result<Block, DeviceError> {
        let size = rounded(bytes);
        let address = match self.take(size) {
            Some(address) => address,
            None => self.fresh(bytes, size)?,
        };
        let mut state = self.state.lock();
        let it = &mut state.statistics;
        it.allocations += 1;
        it.total_allocated += size;
        it.peak_allocated = it.peak_allocated.max(it.total_allocated);
        Ok(Block { pool: self.clone(), address, bytes })
    }

    /// The counters.
    pub fn statistics(&self) -> MemoryStatistics {
        self.state.lock().statistics
    }

    /// Resets the counters; bytes held stay counted.
    pub fn reset_statistics(&self) {
        let it = &mut self.state.lock().statistics;
        let (total_allocated, kept) = (it.total_allocated, it.kept);
        *it = MemoryStatistics {
            total_allocated,
            peak_allocated: total_allocated,
            kept,
            ..MemoryStatistics::default()
        };
    }

    /// Returns cached blocks to the device.
    pub fn clear(&self) -> Result<(), DeviceError> {
        let blocks: Vec<u64> = {
            let mut state = self.state.lock();
            state.settle();
            state.statistics.kept = 0;
            std::mem::take(&mut state.free).into_values().flatten().collect()
        };
        self.stream.select()?;
        blocks.into_iter().try_for_each(|address| self.free(address))
    }

    /// Allocates blocks of these sizes in advance.
    pub fn warm_up(self: &Arc<Self>, sizes: &[usize]) -> Result<(), DeviceError> {
        let blocks: Result<Vec<Block>, DeviceError> =
            sizes.iter().map(|&bytes| self.allocate(bytes)).collect();
        blocks.map(drop)
    }

    /// Called after a run was submitted: blocks freed before become reusable.
    pub(crate) fn settle(&self) {
        self.state.lock().settle();
    }

    fn take(&self, size: usize) -> Option<u64> {
        let mut state = self.state.lock();
        state.preparing = true;
        let found = state.free.get_mut(&size).and_then(BTreeSet::pop_first);
        if found.is_some() {
            state.statistics.cache_hits += 1;
            state.statistics.kept -= size;
        } else {
            state.statistics.cache_misses += 1;
        }
        found
    }

    /// Allocates from the device; when it is out of memory, tries once more after releasing all cached blocks.
    fn fresh(&self, asked: usize, size: usize) -> Result<u64, DeviceError> {
        self.stream.select()?;
        match self.ask(size)? {
            Some(address) => return Ok(address),
            None => {
                self.stream.synchronize()?;
                self.clear()?;
                self.stream.synchronize()?;
            }
        }
        self.ask(size)?.ok_or_else(|| {
            let it = self.statistics();
            let held = format!(
                "tensors hold {} bytes (at most {} so far) and the cache is empty; free some tensors, or use smaller batches",
                it.total_allocated, it.peak_allocated
            );
            DeviceError::OutOfMemory { asked, held }
        })
    }

    /// Returns `None` if there is not enough memory.
    fn ask(&self, size: usize) -> Result<Option<u64>, DeviceError> {
        let (library, mut address) = (&self.stream.library, std::ptr::null_mut());
        let ordered = library.runtime.hipMallocAsync.zip(library.runtime.hipFreeAsync);
        let status = match ordered {
            // SAFETY: `address` is valid for the call, and the stream handle is this pool's.
            Some((allocate, _)) => unsafe { allocate(&mut address, size, self.stream.handle()) },
            None => {
                let plain = library.runtime.hipMalloc.ok_or_else(|| library.missing("hipMalloc"))?;
                // SAFETY: as above.
                unsafe { plain(&mut address, size) }
            }
        };
        if status == hipErrorOutOfMemory {
            self.stream.forget_error();
            return Ok(None);
        }
        if status == hipErrorNotSupported {
            return Err(DeviceError::Unavailable(
                "this device does not support stream-ordered allocation (hipMallocAsync)".to_owned(),
            ));
        }
        library.check("hipMallocAsync", status).map(|()| Some(address as u64))
    }

    fn free(&self, address: u64) -> Result<(), DeviceError> {
        let (library, address) = (&self.stream.library, address as *mut c_void);
        let ordered = library.runtime.hipMallocAsync.zip(library.runtime.hipFreeAsync);
        let (name, status) = match (ordered, library.runtime.hipFree) {
            // SAFETY: the address came from the same table's allocation and is not used any more.
            (Some((_, free)), _) => ("hipFreeAsync", unsafe { free(address, self.stream.handle()) }),
            // SAFETY: as above.
            (None, Some(free)) => ("hipFree", unsafe { free(address) }),
            (None, None) => return Err(library.missing("hipFree")),
        };
        library.check(name, status)
    }

    fn give_back(&self, address: u64, size: usize) {
        {
            let mut state = self.state.lock();
            state.statistics.deallocations += 1;
            state.statistics.total_allocated -= size;
            if state.statistics.kept + size <= KEPT {
                state.statistics.kept += size;
                if state.preparing && size <= PATIENT && state.waiting.len() < WAITING {
                    state.waiting.push((size, address));
                } else {
                    state.free.entry(size).or_default().insert(address);
                }
                return;
            }
        }
        if self.stream.select().is_ok() {
            // A failure is ignored: after a device loss the memory is gone anyway.
            let _ = self.free(address);
        }
    }
}

impl State {
    fn settle(&mut self) {
        self.preparing = false;
        for (size, address) in std::mem::take(&mut self.waiting) {
            self.free.entry(size).or_default().insert(address);
        }
    }
}

impl Drop for MemoryPool {
    fn drop(&mut self) {
        let _ = self.clear();
    }
}

/// Rounds up to eighths of powers of two, so that at most an eighth is wasted and sizes repeat.
fn rounded(bytes: usize) -> usize {
    let bytes = bytes.max(SMALLEST);
    let step = (bytes.next_power_of_two() / 16).max(SMALLEST);
    bytes.div_ceil(step) * step
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates the parameter addresses of a training step: each step computes new parameters from the old ones and from a batch
    /// that replaces the previous one.
    #[test]
    fn a_step_that_comes_again_comes_back_to_its_memory_after_two_turns() {
        let mut state = State::default();
        let mut next = 0;
        let mut allocate = |state: &mut State| {
            state.preparing = true;
            state.free.entry(512).or_default().pop_first().unwrap_or_else(|| {
                next += 1;
                next
            })
        };
        let give_back = |state: &mut State, address: u64| {
            if state.preparing {
                state.waiting.push((512, address));
            } else {
                state.free.entry(512).or_default().insert(address);
            }
        };
        let (mut batch, mut numbers) = ([0_u64; 2], [0_u64; 2]);
        let mut parameters = [0_u64; 5].map(|_| allocate(&mut state));
        let mut seen: Vec<Vec<u64>> = Vec::new();
        for turn in 0..40 {
            for one in batch.iter_mut().chain(&mut numbers) {
                let old = std::mem::replace(one, allocate(&mut state));
                if turn > 0 {
                    give_back(&mut state, old);
                }
            }
            let mut passing = Vec::new();
            let new = parameters.map(|_| {
                passing.push(allocate(&mut state));
                allocate(&mut state)
            });
            seen.push([&batch[..], &numbers, &passing, &new].concat());
            state.settle();
            passing.into_iter().chain(parameters).for_each(|address| give_back(&mut state, address));
            parameters = new;
        }
        assert_eq!(seen[30..36], seen[32..38]);
        assert!(next < 40, "{next} blocks for 19 that are there at a time");
    }

    #[test]
    fn sizes_are_rounded_up_by_an_eighth_at_most() {
        assert_eq!([0, 1, 512, 513, 1024, 4097].map(rounded), [512, 512, 512, 1024, 1024, 4608]);
        for bytes in (1..1_000_000).step_by(997).chain([1 << 30, (1 << 30) + 1, 3 << 33]) {
            let size = rounded(bytes);
            assert!(
                size >= bytes && (size <= 512 || size - bytes < SMALLEST.max(bytes / 8 + 1)),
                "{bytes} -> {size}"
            );
            assert_eq!(rounded(size), size);
        }
    }
}
