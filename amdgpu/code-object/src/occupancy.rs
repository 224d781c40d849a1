//! Occupancy: the workgroups of a kernel that are resident on one compute unit of CDNA2 or CDNA3 (gfx90a, gfx942) at once.
//!
//! The figures are those of AMD's runtime (`hipOccupancyMaxActiveBlocksPerMultiprocessor` in clr) and of LLVM's `AMDGPUBaseInfo`, plus
//! the granule of local memory, which the hardware applies and the runtime ignores.

use crate::Kernel;

/// Lanes of a wave.
const WAVE: u32 = 64;
const SIMDS: u32 = 4;
const WAVES_PER_SIMD: u32 = 8;
/// Registers of each lane. Accumulation registers are part of the same file.
const VGPRS_PER_SIMD: u32 = 512;
const VGPR_GRANULE: u32 = 8;
/// All gfx9 processors share 800 scalar registers between the waves of a SIMD. So more than 96 per wave leave room for seven waves.
const SGPRS_PER_SIMD: u32 = 800;
const SGPR_GRANULE: u32 = 16;
/// Local memory is allocated in blocks of 128 words.
const LDS_GRANULE: u64 = 512;

/// Resources of a kernel that limit its occupancy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Vector registers of a lane, with accumulation registers.
    pub vgprs: u32,
    /// Scalar registers of a wave.
    pub sgprs: u32,
    /// Local memory of a workgroup in bytes, static and dynamic.
    pub lds: u64,
}

/// What is resident on one compute unit at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Workgroups; 0 if not even one fits.
    pub groups: u32,
    /// Waves of a workgroup.
    pub waves_per_group: u32,
}

impl Occupancy {
    /// Returns the waves on each SIMD of the compute unit, on average. Waves start and end with their workgroup, so slots that are not
    /// enough for a whole workgroup stay empty.
    pub fn waves_per_simd(self) -> f64 {
        f64::from(self.groups * self.waves_per_group) / f64::from(SIMDS)
    }
}

impl Resources {
    /// Returns the occupancy with workgroups of `block` work-items, on compute units with this local memory.
    pub fn occupancy(self, block: u32, lds_per_unit: u64) -> Occupancy {
        let waves_per_group = block.div_ceil(WAVE);
        if waves_per_group == 0 || self.lds > lds_per_unit {
            return Occupancy { groups: 0, waves_per_group };
        }
        let by_vgprs = VGPRS_PER_SIMD / self.vgprs.max(1).next_multiple_of(VGPR_GRANULE);
        let by_sgprs = SGPRS_PER_SIMD / self.sgprs.max(1).next_multiple_of(SGPR_GRANULE);
        let waves = by_vgprs.min(by_sgprs).clamp(1, WAVES_PER_SIMD) * SIMDS;
        // A compute unit has 16 barriers, and workgroups of one wave need none. With at most 32 waves that is never the limit.
        let by_waves = waves / waves_per_group;
        let by_lds = match self.lds {
            0 => u32::MAX,
            lds => u32::try_from(lds_per_unit / lds.next_multiple_of(LDS_GRANULE)).unwrap_or(u32::MAX),
        };
        Occupancy { groups: by_waves.min(by_lds), waves_per_group }
    }
}

impl Kernel {
    /// Returns the occupancy with workgroups of `block` work-items that have `dynamic_lds` extra bytes of local memory each. None fits if
    /// the kernel was compiled for smaller workgroups.
    pub fn occupancy(&self, block: u32, dynamic_lds: u64, lds_per_unit: u64) -> Occupancy {
        if block > self.max_flat_workgroup_size.max(1) {
            return Occupancy { groups: 0, waves_per_group: block.div_ceil(WAVE) };
        }
        let lds = u64::from(self.group_size).saturating_add(dynamic_lds);
        Resources { vgprs: self.vgpr_count, sgprs: self.sgpr_count, lds }.occupancy(block, lds_per_unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: u64 = 64 << 10;

    #[test]
    fn whole_workgroups_are_counted() {
        // VGPRs with AGPRs, SGPRs, LDS, block; workgroups per compute unit, waves per SIMD.
        for (vgprs, sgprs, lds, block, groups, waves) in [
            (32, 20, 0, 256, 8, 8.0),
            (64, 20, 0, 256, 8, 8.0),
            (65, 20, 0, 256, 7, 7.0),
            // There are slots for seven waves per SIMD, but the second workgroup of 16 waves does not fit.
            (65, 20, 0, 1024, 1, 4.0),
            (72, 20, 0, 512, 3, 6.0),
            (128, 20, 0, 256, 4, 4.0),
            (512, 20, 0, 256, 1, 1.0),
            (128, 20, 0, 1024, 1, 4.0),
            // 28 slots hold five workgroups of five waves.
            (72, 20, 0, 320, 5, 6.25),
            // An incomplete wave takes a slot.
            (32, 20, 0, 65, 16, 8.0),
            (32, 20, 0, 1, 32, 8.0),
            (32, 96, 0, 256, 8, 8.0),
            (32, 102, 0, 256, 7, 7.0),
            (32, 20, 32 << 10, 256, 2, 2.0),
            (32, 20, 64 << 10, 64, 1, 0.25),
            // 16 blocks of 4000 bytes are allocated as 4096 bytes each.
            (32, 20, 4000, 64, 16, 4.0),
            (32, 20, 4097, 64, 14, 3.5),
            (32, 20, (64 << 10) + 1, 64, 0, 0.0),
        ] {
            let found = Resources { vgprs, sgprs, lds }.occupancy(block, UNIT);
            let expected = (groups, waves);
            assert_eq!((found.groups, found.waves_per_simd()), expected, "{vgprs} {sgprs} {lds} {block}");
        }
    }
}
