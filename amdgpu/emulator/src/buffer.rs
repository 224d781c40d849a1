//! Zeroed, aligned memory whose address does not change: what a dispatch hands to its waves.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

use crate::memory::{Access, Range};

/// An owned block of bytes, aligned as device memory is.
#[derive(Debug)]
pub(crate) struct Buffer {
    start: *mut u8,
    len: usize,
}

// SAFETY: the block is plain memory, owned by the buffer.
unsafe impl Send for Buffer {}
// SAFETY: shared references only give the address; who reads and writes it is the dispatch's business.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// More than any access asks for. Alignment to pages would cost each launch more than its arguments do.
    const ALIGN: usize = 256;

    /// `len` zeroed bytes; none are allocated for a length of zero.
    pub fn zeroed(len: usize) -> Buffer {
        if len == 0 {
            return Buffer { start: Buffer::ALIGN as *mut u8, len };
        }
        let layout = Buffer::layout(len);
        // SAFETY: the layout has a size above zero.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        Buffer { start, len }
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, Buffer::ALIGN).expect("buffer sizes are bounded by the dispatch limits")
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

    /// Copies `bytes` to `offset`; what does not fit is an error of the caller and is cut off.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        let room = self.len.saturating_sub(offset).min(bytes.len());
        // SAFETY: `room` bytes from `offset` are inside the block, which `self` owns exclusively here.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.wrapping_add(offset), room) };
    }

    /// The dword at `offset`; zero past the end.
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
        if self.len > 0 {
            // SAFETY: allocated in `zeroed` with the same layout.
            unsafe { dealloc(self.start, Buffer::layout(self.len)) };
        }
    }
}
