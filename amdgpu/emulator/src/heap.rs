//! Memory that kernels allocate. The heap itself is code of the device library; here is what it needs of a device: one zeroed
//! block to keep its books in, and pages when it runs out of them.
//!
//! All bits zero is the state the library expects at first, whatever its version, so nothing of its layout is known here and
//! no pages are handed out in advance. Code objects before version 5 keep their books in a variable of the module and only ask
//! for pages.

use std::fmt;
use std::sync::Arc;

/// Bytes of the block that hidden arguments point to, as AMD's runtime has it.
pub const BLOCK_BYTES: u64 = 128 << 10;
/// The library asks for slabs of this size and finds a slab's head by clearing the low bits of a block's address. What is no
/// smaller must be aligned to it; anything else to [`PAGE`].
pub const SLAB: u64 = 2 << 20;
/// The library tells a whole allocation from a block of a slab by its low bits, which must be zero.
pub const PAGE: u64 = 4096;

/// Who gives the heap of a device its memory. Called by waves, from several threads at once.
pub trait Pages: Send + Sync {
    /// Memory that kernels may touch from now on, aligned as [`SLAB`] and [`PAGE`] say; `None` when there is no more.
    fn allocate(&self, bytes: u64) -> Option<u64>;
    /// Takes an allocation back; says whether there was one.
    fn free(&self, address: u64) -> bool;
}

/// The heap of a dispatch.
#[derive(Clone)]
pub struct Heap {
    /// Address of [`BLOCK_BYTES`] bytes that kernels may touch, zeroed before the first dispatch that got it.
    pub block: u64,
    pub pages: Arc<dyn Pages>,
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Heap({:#x})", self.block)
    }
}
