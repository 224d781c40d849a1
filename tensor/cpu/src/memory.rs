//! Buffers in main memory: aligned to cache lines, always initialised, and cached for reuse when freed, because fresh pages cost
//! more than most computations.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;
use tensor_core::device::{Buffer, Memory};
use tensor_core::error::DeviceError;

use crate::view::wrong;

/// Alignment of buffers, in bytes.
pub const ALIGNMENT: usize = 64;
/// The size in bytes from which huge pages are requested: TLB misses with small pages cost more than many steps.
#[cfg(target_os = "linux")]
const HUGE: usize = 4 << 20;
/// The most bytes of free buffers that are kept instead of returned to the system.
const KEPT: usize = 1 << 30;

/// Requests huge pages for untouched memory, if it is large enough.
pub fn ask_for_large_pages(start: *mut u8, size: usize) {
    #[cfg(target_os = "linux")]
    if size >= HUGE {
        let page = start.align_offset(4096);
        // SAFETY: the range is whole pages inside the allocation. This is only advice: it changes no content.
        unsafe { libc::madvise(start.wrapping_add(page).cast(), size - 4096, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, size);
}

/// One cache line. Scratch memory consists of these, so that it is aligned like buffers.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub struct Line {
    _words: [u64; 8],
}

/// The cache of free buffers.
#[derive(Debug, Default)]
pub struct BufferCache {
    free: Mutex<Free>,
}

#[derive(Debug, Default)]
struct Free {
    by_size: FxHashMap<usize, Vec<Block>>,
    bytes: usize,
}

/// An allocation: `start` is the aligned address inside it.
#[derive(Debug)]
struct Block {
    start: NonNull<u8>,
    given: NonNull<u8>,
    size: usize,
}

// SAFETY: a block is only an address range; the owner synchronises reads and writes.
unsafe impl Send for Block {}
// SAFETY: as above; no method accesses the memory through a shared reference.
unsafe impl Sync for Block {}

impl Block {
    fn layout(size: usize) -> Option<Layout> {
        // With the system's own alignment, zeroed memory consists of fresh pages instead of pages that are explicitly cleared.
        Layout::from_size_align(size.checked_add(ALIGNMENT)?, 16).ok()
    }

    fn new(size: usize) -> Option<Block> {
        let layout = Block::layout(size)?;
        // SAFETY: the size is not zero.
        let given = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let gap = given.as_ptr().align_offset(ALIGNMENT);
        // SAFETY: the gap is less than the alignment, which was added to the size.
        let start = unsafe { given.add(gap) };
        ask_for_large_pages(given.as_ptr(), size);
        Some(Block { start, given, size })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let layout = Block::layout(self.size).expect("the block was allocated with this layout");
        // SAFETY: allocated in `new` with the same layout, and dropped once.
        unsafe { dealloc(self.given.as_ptr(), layout) }
    }
}

/// A buffer of the CPU device.
#[derive(Debug)]
pub struct CpuMemory {
    block: Option<Block>,
    bytes: usize,
    cache: Arc<BufferCache>,
}

impl CpuMemory {
    pub fn allocate(cache: &Arc<BufferCache>, bytes: usize) -> Result<CpuMemory, DeviceError> {
        let refused = || DeviceError::OutOfMemory {
            asked: bytes,
            held: format!("{} bytes are kept for reuse", cache.kept()),
        };
        let size = class(bytes).ok_or_else(refused)?;
        let block = match cache.take(size) {
            Some(block) => block,
            None => Block::new(size)
                .or_else(|| {
                    cache.clear();
                    Block::new(size)
                })
                .ok_or_else(refused)?,
        };
        Ok(CpuMemory { block: Some(block), bytes, cache: cache.clone() })
    }

    pub fn start(&self) -> *mut u8 {
        self.block.as_ref().expect("only `drop` takes it").start.as_ptr()
    }
}

/// Returns the CPU memory of a buffer, or an error if it belongs to another device.
pub fn memory(buffer: &Buffer) -> Result<&CpuMemory, DeviceError> {
    buffer.as_any().downcast_ref().ok_or_else(|| wrong("a buffer of another device was given to the CPU"))
}

impl Drop for CpuMemory {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.cache.put(block);
        }
    }
}

impl Memory for CpuMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl BufferCache {
    pub fn kept(&self) -> usize {
        self.free.lock().map_or(0, |free| free.bytes)
    }

    fn take(&self, size: usize) -> Option<Block> {
        let mut free = self.free.lock().ok()?;
        let block = free.by_size.get_mut(&size)?.pop()?;
        free.bytes -= size;
        Some(block)
    }

    fn put(&self, block: Block) {
        let Ok(mut free) = self.free.lock() else { return };
        if free.bytes + block.size <= KEPT {
            free.bytes += block.size;
            free.by_size.entry(block.size).or_default().push(block);
        }
    }

    fn clear(&self) {
        if let Ok(mut free) = self.free.lock() {
            *free = Free::default();
        }
    }
}

/// Rounds sizes up to an eighth of a power of two, so that buffers can be reused.
fn class(bytes: usize) -> Option<usize> {
    let step = (bytes.max(1).checked_next_power_of_two()? / 8).max(ALIGNMENT);
    bytes.max(1).div_ceil(step).checked_mul(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_come_back() {
        let cache = Arc::new(BufferCache::default());
        for bytes in [0, 1, 63, 64, 65, 1000, 1 << 20] {
            let first = CpuMemory::allocate(&cache, bytes).unwrap();
            let start = first.start();
            assert_eq!(start as usize % ALIGNMENT, 0);
            assert_eq!(first.bytes(), bytes);
            drop(first);
            assert_eq!(CpuMemory::allocate(&cache, bytes).unwrap().start(), start);
        }
        assert!(cache.kept() > 1 << 20);
        cache.clear();
        assert_eq!(cache.kept(), 0);
    }

    #[test]
    fn too_much_memory_is_an_error() {
        let cache = Arc::new(BufferCache::default());
        for bytes in [usize::MAX, usize::MAX / 2, 1 << 60] {
            assert!(matches!(CpuMemory::allocate(&cache, bytes), Err(DeviceError::OutOfMemory { .. })));
        }
    }
}
