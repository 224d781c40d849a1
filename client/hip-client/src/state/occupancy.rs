//! Occupancy: how many workgroups of a kernel fit on a compute unit, computed from the code object's resource counts.

use code_object::Kernel;

/// Register file and wave limits of a CDNA2/CDNA3 compute unit.
const SIMDS: u32 = 4;
const WAVES_PER_SIMD: u32 = 8;
const VGPRS_PER_SIMD: u32 = 512;
const VGPR_GRANULE: u32 = 8;
const SGPRS_PER_SIMD: u32 = 800;
const SGPR_GRANULE: u32 = 16;
const LDS_GRANULE: u32 = 512;
const WAVE: u32 = 64;

/// Workgroups of `block` work-items, with `dynamic_lds` extra bytes, that are resident on one compute unit at once.
pub fn groups_per_compute_unit(kernel: &Kernel, block: u32, dynamic_lds: u64, lds_per_unit: u64) -> u32 {
    if block == 0 || block > kernel.max_flat_workgroup_size.max(1) {
        return 0;
    }
    let waves_per_group = block.div_ceil(WAVE);
    let by_registers = {
        let vgprs = kernel.vgpr_count.saturating_add(kernel.agpr_count).max(1).next_multiple_of(VGPR_GRANULE);
        let sgprs = kernel.sgpr_count.max(1).next_multiple_of(SGPR_GRANULE);
        let per_simd = (VGPRS_PER_SIMD / vgprs).min(SGPRS_PER_SIMD / sgprs).clamp(1, WAVES_PER_SIMD);
        per_simd * SIMDS / waves_per_group
    };
    let lds = u64::from(kernel.group_size).saturating_add(dynamic_lds);
    if lds > lds_per_unit {
        return 0;
    }
    let by_lds = match lds {
        0 => u32::MAX,
        lds => u32::try_from(lds_per_unit / lds.next_multiple_of(u64::from(LDS_GRANULE))).unwrap_or(u32::MAX),
    };
    by_registers.min(by_lds)
}

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
        let groups = groups_per_compute_unit(kernel, block, dynamic_lds(block), lds_per_unit);
        if groups * block > best.2 {
            best = (block, groups, groups * block);
        }
    }
    (best.0, best.1.max(1) * units)
}
