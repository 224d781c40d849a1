//! The block size with the highest occupancy. The occupancy itself is computed by [`Kernel::occupancy`], for the board as well.

use code_object::Kernel;

const WAVE: u32 = 64;

/// The block size with the most resident waves, and the grid that fills the device with it.
pub fn best_block(
    kernel: &Kernel,
    dynamic_lds: impl Fn(u32) -> u64,
    limit: u32,
    lds_per_unit: u64,
    units: u32,
) -> (u32, u32) {
    let most = kernel.max_flat_workgroup_size.min(1024).min(if limit == 0 { u32::MAX } else { limit });
    let mut best = (WAVE.min(most.max(1)), 0, 0);
    for block in (1..=most / WAVE).rev().map(|waves| waves * WAVE) {
        let groups = kernel.occupancy(block, dynamic_lds(block), lds_per_unit).groups;
        if groups * block > best.2 {
            best = (block, groups, groups * block);
        }
    }
    (best.0, best.1.max(1) * units)
}
