//! Kernel descriptors: the 64 bytes that tell the hardware how to start a wave.
//!
//! Register counts are decoded with the granules of gfx90a and gfx942 (eight VGPRs, four registers for the accumulation offset).
//! Other processors have other granules; for them the raw words are kept.

/// A decoded kernel descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// LDS bytes of statically sized arrays.
    pub group_segment_size: u32,
    /// Scratch bytes per lane.
    pub private_segment_size: u32,
    /// Size of the kernel argument block in bytes.
    pub kernarg_size: u32,
    /// Offset of the code, relative to the descriptor.
    pub entry_offset: i64,
    /// `COMPUTE_PGM_RSRC1` as stored.
    pub rsrc1: u32,
    /// `COMPUTE_PGM_RSRC2` as stored.
    pub rsrc2: u32,
    /// `COMPUTE_PGM_RSRC3` as stored.
    pub rsrc3: u32,
    /// Kernel code properties as stored.
    pub properties: u16,

    /// VGPRs per lane, including accumulation registers.
    pub vgpr_count: u32,
    /// SGPRs in units of the hardware's granule, as stored.
    pub sgpr_granule: u32,
    /// Index of the first accumulation register among the VGPRs.
    pub accum_offset: u32,
    /// Waves of one workgroup may run on different compute units.
    pub tg_split: bool,

    /// Initial rounding mode for single precision (0 nearest even, 1 up, 2 down, 3 towards zero).
    pub round_f32: u8,
    /// Initial rounding mode for half and double precision.
    pub round_f16_f64: u8,
    /// Initial denormal mode for single precision (bit 0: inputs kept, bit 1: outputs kept).
    pub denorm_f32: u8,
    /// Initial denormal mode for half and double precision.
    pub denorm_f16_f64: u8,
    /// Clamp turns NaN into zero.
    pub dx10_clamp: bool,
    /// IEEE handling of signalling NaNs.
    pub ieee_mode: bool,
    /// Half-precision overflow clamps instead of producing infinity.
    pub fp16_overflow: bool,

    /// The wave uses scratch memory.
    pub private_segment: bool,
    /// Number of SGPRs initialised before the wave starts.
    pub user_sgpr_count: u32,
    /// The x component of the workgroup ID follows the user SGPRs.
    pub workgroup_id_x: bool,
    /// The y component of the workgroup ID follows.
    pub workgroup_id_y: bool,
    /// The z component of the workgroup ID follows.
    pub workgroup_id_z: bool,
    /// Workgroup information follows.
    pub workgroup_info: bool,
    /// Dimensions of the work-item ID that is passed in VGPRs: 1, 2 or 3.
    pub workitem_id_dims: u8,
    /// Exceptions that start the trap handler: the seven bits of `rsrc2` from bit 24.
    pub exceptions: u8,

    /// User SGPRs hold the scratch buffer resource (4 registers).
    pub private_segment_buffer: bool,
    /// User SGPRs hold the dispatch packet's address (2).
    pub dispatch_ptr: bool,
    /// User SGPRs hold the queue's address (2).
    pub queue_ptr: bool,
    /// User SGPRs hold the kernel argument block's address (2).
    pub kernarg_ptr: bool,
    /// User SGPRs hold the dispatch id (2).
    pub dispatch_id: bool,
    /// User SGPRs hold the flat scratch initial value (2).
    pub flat_scratch_init: bool,
    /// User SGPRs hold the scratch size per lane (1).
    pub private_segment_size_sgpr: bool,
    /// 32 lanes per wave instead of 64.
    pub wave32: bool,
    /// The compiler could not determine the stack size.
    pub dynamic_stack: bool,

    /// Number of kernel argument dwords preloaded into user SGPRs.
    pub kernarg_preload_length: u32,
    /// First preloaded dword.
    pub kernarg_preload_offset: u32,
}

impl Descriptor {
    /// Size of a descriptor in bytes.
    pub const SIZE: usize = 64;

    /// Decodes a descriptor. Every bit pattern is valid; reserved bits are ignored.
    pub fn parse(bytes: &[u8; Descriptor::SIZE]) -> Descriptor {
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let entry_offset = (u64::from(u32_at(16)) | u64::from(u32_at(20)) << 32) as i64;
        let (rsrc3, rsrc1, rsrc2) = (u32_at(44), u32_at(48), u32_at(52));
        let (properties, preload) = (u16_at(56), u16_at(58));
        let property = |bit: u32| properties >> bit & 1 != 0;
        Descriptor {
            group_segment_size: u32_at(0),
            private_segment_size: u32_at(4),
            kernarg_size: u32_at(8),
            entry_offset,
            rsrc1,
            rsrc2,
            rsrc3,
            properties,
            vgpr_count: (field(rsrc1, 0, 6) + 1) * 8,
            sgpr_granule: field(rsrc1, 6, 4),
            accum_offset: (field(rsrc3, 0, 6) + 1) * 4,
            tg_split: flag(rsrc3, 16),
            round_f32: field(rsrc1, 12, 2) as u8,
            round_f16_f64: field(rsrc1, 14, 2) as u8,
            denorm_f32: field(rsrc1, 16, 2) as u8,
            denorm_f16_f64: field(rsrc1, 18, 2) as u8,
            dx10_clamp: flag(rsrc1, 21),
            ieee_mode: flag(rsrc1, 23),
            fp16_overflow: flag(rsrc1, 26),
            private_segment: flag(rsrc2, 0),
            user_sgpr_count: field(rsrc2, 1, 5),
            workgroup_id_x: flag(rsrc2, 7),
            workgroup_id_y: flag(rsrc2, 8),
            workgroup_id_z: flag(rsrc2, 9),
            workgroup_info: flag(rsrc2, 10),
            // 3 is reserved; hardware treats it as 2.
            workitem_id_dims: field(rsrc2, 11, 2).min(2) as u8 + 1,
            exceptions: field(rsrc2, 24, 7) as u8,
            private_segment_buffer: property(0),
            dispatch_ptr: property(1),
            queue_ptr: property(2),
            kernarg_ptr: property(3),
            dispatch_id: property(4),
            flat_scratch_init: property(5),
            private_segment_size_sgpr: property(6),
            wave32: property(10),
            dynamic_stack: property(11),
            kernarg_preload_length: field(preload.into(), 0, 7),
            kernarg_preload_offset: field(preload.into(), 7, 9),
        }
    }

    /// Lanes per wave.
    pub fn wavefront_size(&self) -> u32 {
        if self.wave32 { 32 } else { 64 }
    }
}

fn field(word: u32, low: u32, bits: u32) -> u32 {
    word >> low & ((1 << bits) - 1)
}

fn flag(word: u32, bit: u32) -> bool {
    field(word, bit, 1) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_is_read_from_its_own_bits() {
        let mut bytes = [0u8; 64];
        bytes[0..4].copy_from_slice(&0x1000u32.to_le_bytes());
        bytes[4..8].copy_from_slice(&16u32.to_le_bytes());
        bytes[8..12].copy_from_slice(&280u32.to_le_bytes());
        bytes[16..24].copy_from_slice(&(-0x1240i64).to_le_bytes());
        bytes[44..48].copy_from_slice(&(0x1_0000u32 | 7).to_le_bytes());
        bytes[48..52].copy_from_slice(
            &(3u32 | 2 << 6 | 1 << 12 | 2 << 14 | 3 << 18 | 1 << 23 | 1 << 26).to_le_bytes(),
        );
        bytes[52..56].copy_from_slice(&(1u32 | 8 << 1 | 1 << 7 | 1 << 9 | 1 << 11 | 5 << 24).to_le_bytes());
        bytes[56..58].copy_from_slice(&(0x0029u16 | 1 << 11).to_le_bytes());
        bytes[58..60].copy_from_slice(&(14u16 | 3 << 7).to_le_bytes());
        let d = Descriptor::parse(&bytes);
        assert_eq!((d.group_segment_size, d.private_segment_size, d.kernarg_size), (0x1000, 16, 280));
        assert_eq!(d.entry_offset, -0x1240);
        assert_eq!((d.vgpr_count, d.sgpr_granule, d.accum_offset, d.tg_split), (32, 2, 32, true));
        assert_eq!((d.round_f32, d.round_f16_f64, d.denorm_f32, d.denorm_f16_f64), (1, 2, 0, 3));
        assert_eq!((d.dx10_clamp, d.ieee_mode, d.fp16_overflow), (false, true, true));
        assert_eq!((d.private_segment, d.user_sgpr_count), (true, 8));
        assert_eq!((d.workgroup_id_x, d.workgroup_id_y, d.workgroup_id_z), (true, false, true));
        assert_eq!((d.workgroup_info, d.workitem_id_dims, d.exceptions), (false, 2, 5));
        assert!(d.private_segment_buffer && d.kernarg_ptr && d.flat_scratch_init && d.dynamic_stack);
        assert!(!d.dispatch_ptr && !d.queue_ptr && !d.dispatch_id && !d.private_segment_size_sgpr);
        assert_eq!((d.wave32, d.wavefront_size()), (false, 64));
        assert_eq!((d.kernarg_preload_length, d.kernarg_preload_offset), (14, 3));
    }
}
