//! Zeroed, aligned buffers with a stable address, which a dispatch passes to its waves.
//!
//! Small blocks are cached per thread for the next dispatch. The system allocator does not cache aligned blocks, and searching
//! for one took longer than a short kernel.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::RefCell;

use crate::memory::{Access, Range};

/// Size of a cached block; the arguments of nearly every kernel fit.
const KEPT_BYTES: usize = 1024;
/// Maximum number of blocks that a thread caches.
const KEPT: usize = 8;

thread_local! {
    static BLOCKS: RefCell<Blocks> = const { RefCell::new(Blocks(Vec::new())) };
}

/// Unused blocks of [`KEPT_BYTES`].
struct Blocks(Vec<*mut u8>);

impl Drop for Blocks {
    fn drop(&mut self) {
        for start in self.0.drain(..) {
            // SAFETY: all cached blocks have this layout, and nothing else refers to them.
            unsafe { dealloc(start, Buffer::layout(KEPT_BYTES)) };
        }
    }
}

/// Takes a block from this thread's cache.
fn kept() -> Option<*mut u8> {
    BLOCKS.try_with(|blocks| blocks.borrow_mut().0.pop()).ok().flatten()
}

/// Puts a block of [`KEPT_BYTES`] into the cache. Returns false if the cache is full or the thread is exiting.
fn keep(start: *mut u8) -> bool {
    let take = |blocks: &RefCell<Blocks>| {
        let blocks = &mut blocks.borrow_mut().0;
        let room = blocks.len() < KEPT;
        if room {
            blocks.push(start);
        }
        room
    };
    BLOCKS.try_with(take).unwrap_or(false)
}

/// An owned block of bytes with the alignment of device memory.
#[derive(Debug)]
pub(crate) struct Buffer {
    start: *mut u8,
    len: usize,
}

// SAFETY: the block is plain memory, owned by the buffer.
unsafe impl Send for Buffer {}
// SAFETY: shared references only yield the address; the dispatch is responsible for synchronising accesses through it.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Stricter than any access needs. Page alignment would cost each launch more than its arguments do.
    const ALIGN: usize = 256;

    /// Allocates `len` zeroed bytes; a length of zero allocates nothing.
    pub fn zeroed(len: usize) -> Buffer {
        if len == 0 {
            return Buffer { start: Buffer::ALIGN as *mut u8, len };
        }
        if len <= KEPT_BYTES
            && let Some(start) = kept()
        {
            // SAFETY: a block of `KEPT_BYTES`, which from now on belongs to this buffer alone.
            unsafe { start.write_bytes(0, len) };
            return Buffer { start, len };
        }
        let layout = Buffer::layout(len);
        // SAFETY: the size of the layout is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        Buffer { start, len }
    }

    /// Small blocks all have the same size, so that they are interchangeable.
    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len.max(KEPT_BYTES), Buffer::ALIGN)
            .expect("buffer sizes are bounded by the dispatch limits")
    }

    pub fn address(&self) -> u64 {
        self.start as u64
    }

    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.start
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn range(&self, access: Access) -> Range {
        Range { start: self.address(), end: self.address() + self.len as u64, access }
    }

    /// Copies `bytes` to `offset`. Bytes that do not fit are a caller's bug and are cut off.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        let room = self.len.saturating_sub(offset).min(bytes.len());
        // SAFETY: `room` bytes at `offset` are inside the block, to which `self` has exclusive access here.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.wrapping_add(offset), room) };
    }

    /// Reads the dword at `offset`; zero past the end.
    pub fn read(&self, offset: usize) -> u32 {
        if offset + 4 > self.len {
            return 0;
        }
        // SAFETY: the dword is inside the block.
        unsafe { self.start.add(offset).cast::<u32>().read_unaligned() }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.len > 0 && !(self.len <= KEPT_BYTES && keep(self.start)) {
            // SAFETY: allocated in `zeroed` with the same layout.
            unsafe { dealloc(self.start, Buffer::layout(self.len)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_used_again_is_zeroed_again() {
        for len in [KEPT_BYTES, 64, KEPT_BYTES, KEPT_BYTES + 4] {
            let mut buffers: Vec<Buffer> = (0..2 * KEPT).map(|_| Buffer::zeroed(len)).collect();
            for buffer in &mut buffers {
                assert_eq!(buffer.address() % Buffer::ALIGN as u64, 0);
                assert!((0..len).step_by(4).all(|offset| buffer.read(offset) == 0));
                buffer.write(0, &vec![0xff; len]);
            }
        }
    }

    #[test]
    fn a_block_of_another_thread_is_freed_or_kept() {
        let buffers: Vec<Buffer> = (0..2 * KEPT).map(|_| Buffer::zeroed(100)).collect();
        std::thread::spawn(move || drop(buffers)).join().unwrap();
        assert_eq!(Buffer::zeroed(100).read(96), 0);
    }
}
