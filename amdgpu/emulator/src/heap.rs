//! Device heap (`malloc` in kernels). The allocator is code of the device library; it needs from the device one zeroed block for
//! its metadata, and pages when it runs out of them.
//!
//! Every version of the library expects all-zero metadata at first, so this module does not depend on the layout and hands out no
//! pages in advance. Code objects before version 5 keep the metadata in a variable of the module and only request pages.

use std::fmt;
use std::sync::Arc;

/// Size of the metadata block that a hidden argument points to; the same as in AMD's runtime.
pub const BLOCK_BYTES: u64 = 128 << 10;
/// Slab size of the device library. It finds the header of a slab by clearing the low bits of a block's address, so allocations
/// of at least this size must be aligned to it. Smaller ones are aligned to [`PAGE`].
pub const SLAB: u64 = 2 << 20;
/// Alignment of smaller allocations. The library distinguishes a whole allocation from a block of a slab by zero low bits.
pub const PAGE: u64 = 4096;

/// Provider of memory for a device's heap. Waves call it from several threads at once.
pub trait Pages: Send + Sync {
    /// Allocates memory that kernels may access, aligned to [`SLAB`] or [`PAGE`]. `None` means out of memory.
    fn allocate(&self, bytes: u64) -> Option<u64>;
    /// Frees an allocation. Returns false if `address` is not an allocation.
    fn free(&self, address: u64) -> bool;
}

/// The heap of a dispatch.
#[derive(Clone)]
pub struct Heap {
    /// Address of [`BLOCK_BYTES`] bytes that kernels may access, zeroed before the first dispatch that uses them.
    pub block: u64,
    /// Source of further pages.
    pub pages: Arc<dyn Pages>,
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Heap({:#x})", self.block)
    }
}
