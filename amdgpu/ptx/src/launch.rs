//! The launch contract: how the launched PTX gets its grid, its kernel arguments and its LDS.
//!
//! **Grid.** The grid and the block are one-dimensional. The grid has one block per workgroup: `gridDim.x` is the product of the
//! numbers of workgroups, x fastest (limit 2^31 - 1). The block has [`threads`] threads. Every workgroup is whole: the grid is
//! a multiple of the workgroup in each dimension. A launch that is not must be refused by the caller.
//!
//! **Parameters.** Two, both by value:
//!
//! 1. the kernel argument block: [`crate::Translation::kernarg_bytes`] bytes, aligned to 16. Kernels read it in parameter
//!    space, or through a generic address of it; it is never written.
//! 2. the launch block: [`LAUNCH_BYTES`] bytes, aligned to 16. The first 64 are the dispatch packet in AMD's layout (the kernel
//!    reads the sizes of the workgroup and of the grid there); the others have the offsets of the constants below.
//!
//! **LDS.** All LDS is dynamic shared memory: the launch gives static and dynamic LDS of the kernel together, also if that is
//! 0. More than 48 KiB need `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`. Accesses beyond the launched size read 0 and
//! write nothing.
//!
//! **Scratch** is the local memory of the threads; the driver sizes it from the module.
//!
//! **Addresses.** Flat addresses whose upper word is [`SHARED_APERTURE`] are LDS, those with [`PRIVATE_APERTURE`] scratch. Both
//! are above every address of device memory.
//!
//! **Fragments**: functions with `Input::Register` and `Observe` read and write a register file in memory, see
//! [`REGISTERS_AT`]. Only tests have them.

use crate::Mode;

/// Bytes of the second parameter.
pub const LAUNCH_BYTES: u32 = 128;

/// Offset of the queue descriptor's address, 8 bytes.
pub const QUEUE_POINTER_AT: u32 = 64;

/// Offset of the number of the dispatch, 8 bytes.
pub const DISPATCH_ID_AT: u32 = 72;

/// Offset of the numbers of workgroups in x and y, 4 bytes each.
pub const GROUPS_AT: u32 = 80;

/// Offset of the number of the first workgroup, 4 bytes: it is added to `%ctaid.x`. 0, unless a large grid is launched in parts.
pub const FIRST_GROUP_AT: u32 = 88;

/// Offset of the address of 16 zeroed bytes of device memory, 8 bytes; for functions that synchronise the grid, which must be
/// launched as cooperative kernels. 0 otherwise.
pub const GRID_BARRIER_AT: u32 = 96;

/// Offset of the address of the register file of a fragment, 8 bytes: for each wave of the grid [`REGISTER_BYTES`] bytes. See
/// [`scalar_at`], [`vector_at`] and [`SCC_AT`].
pub const REGISTERS_AT: u32 = 104;

/// Bytes of a wave's register file: 128 scalar words, SCC, and 512 vector registers.
pub const REGISTER_BYTES: u32 = 1024 + 512 * 256;

/// Offset of SCC in the register file, a word that is 0 or 1.
pub const SCC_AT: u32 = 512;

/// Offset of a scalar register's word in the register file.
pub fn scalar_at(number: u8) -> u32 {
    4 * u32::from(number & 127)
}

/// Offset of a vector register in the register file: 64 words, one for each lane.
pub fn vector_at(number: u16) -> u32 {
    1024 + 256 * u32::from(number & 511)
}

/// Upper word of flat addresses that mean LDS.
pub const SHARED_APERTURE: u32 = 0x0001_0000;

/// Upper word of flat addresses that mean scratch.
pub const PRIVATE_APERTURE: u32 = 0x0002_0000;

/// Threads of a block for a workgroup of `items` work-items.
pub fn threads(mode: Mode, items: u32) -> u32 {
    match mode {
        Mode::Pair => items.div_ceil(64) * 32,
        Mode::Lane => items,
    }
}
