//! Memory for a ring buffer, mapped twice so that no frame is split at its end.

use std::io;

use crate::os::double_mapping;

/// Memory mapped twice in succession, so that a range that wraps around is contiguous.
#[derive(Debug)]
pub struct DoubleMapping {
    base: *mut u8,
    bytes: usize,
}

impl DoubleMapping {
    /// Maps `bytes` bytes, a multiple of the system's granularity (64 KiB at most) and a power of two.
    pub fn new(bytes: usize) -> io::Result<DoubleMapping> {
        double_mapping::map(bytes).map(|base| DoubleMapping { base, bytes })
    }

    /// Size of one of the two mappings.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of a position, counted without wrapping.
    ///
    /// # Safety
    /// At most `bytes` bytes from the returned address on may be accessed.
    #[inline]
    pub unsafe fn at(&self, position: u64) -> *mut u8 {
        // SAFETY: the offset is below `bytes`, and twice as many are mapped.
        unsafe { self.base.add(position as usize & (self.bytes - 1)) }
    }
}

impl Drop for DoubleMapping {
    fn drop(&mut self) {
        // SAFETY: this object owns the mapping, and nothing refers to it any more.
        unsafe { double_mapping::unmap(self.base, self.bytes) };
    }
}
