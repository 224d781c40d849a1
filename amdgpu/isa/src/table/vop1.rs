//! VOP1: vector operations with one source, in 32-bit, 64-bit (0x140 +), SDWA and DPP forms.

#[rustfmt::skip]
macro_rules! vop1 {
    ($next:ident $($rest:tt)*) => { $next! { $($rest)* [Vop1 {
    // 90a  942  mnemonic                   dst   sources flags
       0x00 0x00 v_nop                      _     []      {}
       0x01 0x01 v_mov_b32                  B32   [B32]   {SDWA DPP HOT}
       0x02 0x02 v_readfirstlane_b32        B32   [B32]   {NO_E64 NO_SUFFIX SGPR_DST VGPR_ONLY CROSS_LANE}
       0x03 0x03 v_cvt_i32_f64              I32   [F64]   {MODS CLAMP OMOD DPP}
       0x04 0x04 v_cvt_f64_i32              F64   [I32]   {CLAMP OMOD DPP}
       0x05 0x05 v_cvt_f32_i32              F32   [I32]   {CLAMP OMOD SDWA DPP ROUNDS}
       0x06 0x06 v_cvt_f32_u32              F32   [U32]   {CLAMP OMOD SDWA DPP ROUNDS}
       0x07 0x07 v_cvt_u32_f32              U32   [F32]   {MODS CLAMP OMOD SDWA DPP}
       0x08 0x08 v_cvt_i32_f32              I32   [F32]   {MODS CLAMP OMOD SDWA DPP}
       0x0a 0x0a v_cvt_f16_f32              F16   [F32]   {MODS CLAMP OMOD SDWA DPP ROUNDS}
       0x0b 0x0b v_cvt_f32_f16              F32   [F16]   {MODS CLAMP OMOD SDWA DPP}
       0x0c 0x0c v_cvt_rpi_i32_f32          I32   [F32]   {MODS CLAMP SDWA DPP}
       0x0d 0x0d v_cvt_flr_i32_f32          I32   [F32]   {MODS CLAMP SDWA DPP}
       0x0e 0x0e v_cvt_off_f32_i4           F32   [I32]   {CLAMP OMOD SDWA DPP}
       0x0f 0x0f v_cvt_f32_f64              F32   [F64]   {MODS CLAMP OMOD DPP ROUNDS}
       0x10 0x10 v_cvt_f64_f32              F64   [F32]   {MODS CLAMP OMOD DPP}
       0x11 0x11 v_cvt_f32_ubyte0           F32   [U32]   {CLAMP OMOD SDWA DPP}
       0x12 0x12 v_cvt_f32_ubyte1           F32   [U32]   {CLAMP OMOD SDWA DPP}
       0x13 0x13 v_cvt_f32_ubyte2           F32   [U32]   {CLAMP OMOD SDWA DPP}
       0x14 0x14 v_cvt_f32_ubyte3           F32   [U32]   {CLAMP OMOD SDWA DPP}
       0x15 0x15 v_cvt_u32_f64              U32   [F64]   {MODS CLAMP OMOD DPP}
       0x16 0x16 v_cvt_f64_u32              F64   [U32]   {CLAMP OMOD DPP}
       0x17 0x17 v_trunc_f64                F64   [F64]   {MODS CLAMP OMOD DPP}
       0x18 0x18 v_ceil_f64                 F64   [F64]   {MODS CLAMP OMOD DPP}
       0x19 0x19 v_rndne_f64                F64   [F64]   {MODS CLAMP OMOD DPP}
       0x1a 0x1a v_floor_f64                F64   [F64]   {MODS CLAMP OMOD DPP}
       0x1b 0x1b v_fract_f32                F32   [F32]   {MODS CLAMP OMOD SDWA DPP ROUNDS}
       0x1c 0x1c v_trunc_f32                F32   [F32]   {MODS CLAMP OMOD SDWA DPP}
       0x1d 0x1d v_ceil_f32                 F32   [F32]   {MODS CLAMP OMOD SDWA DPP}
       0x1e 0x1e v_rndne_f32                F32   [F32]   {MODS CLAMP OMOD SDWA DPP}
       0x1f 0x1f v_floor_f32                F32   [F32]   {MODS CLAMP OMOD SDWA DPP}
       0x20 0x20 v_exp_f32                  F32   [F32]   {MODS CLAMP OMOD SDWA DPP}
       0x21 0x21 v_log_f32                  F32   [F32]   {MODS CLAMP OMOD SDWA DPP POLE}
       0x22 0x22 v_rcp_f32                  F32   [F32]   {MODS CLAMP OMOD SDWA DPP POLE}
       0x23 0x23 v_rcp_iflag_f32            F32   [F32]   {MODS CLAMP OMOD SDWA DPP POLE}
       0x24 0x24 v_rsq_f32                  F32   [F32]   {MODS CLAMP OMOD SDWA DPP POLE}
       0x25 0x25 v_rcp_f64                  F64   [F64]   {MODS CLAMP OMOD DPP POLE}
       0x26 0x26 v_rsq_f64                  F64   [F64]   {MODS CLAMP OMOD DPP POLE}
       0x27 0x27 v_sqrt_f32                 F32   [F32]   {MODS CLAMP OMOD SDWA DPP ROUNDS}
       0x28 0x28 v_sqrt_f64                 F64   [F64]   {MODS CLAMP OMOD DPP ROUNDS}
       0x29 0x29 v_sin_f32                  F32   [F32]   {MODS CLAMP OMOD SDWA DPP}
       0x2a 0x2a v_cos_f32                  F32   [F32]   {MODS CLAMP OMOD SDWA DPP}
       0x2b 0x2b v_not_b32                  B32   [B32]   {SDWA DPP}
       0x2c 0x2c v_bfrev_b32                B32   [B32]   {SDWA DPP}
       0x2d 0x2d v_ffbh_u32                 I32   [U32]   {SDWA DPP}
       0x2e 0x2e v_ffbl_b32                 I32   [U32]   {SDWA DPP}
       0x2f 0x2f v_ffbh_i32                 I32   [I32]   {SDWA DPP}
       0x30 0x30 v_frexp_exp_i32_f64        I32   [F64]   {MODS CLAMP OMOD DPP}
       0x31 0x31 v_frexp_mant_f64           F64   [F64]   {MODS CLAMP OMOD DPP}
       0x32 0x32 v_fract_f64                F64   [F64]   {MODS CLAMP OMOD DPP ROUNDS}
       0x33 0x33 v_frexp_exp_i32_f32        I32   [F32]   {MODS CLAMP SDWA DPP}
       0x34 0x34 v_frexp_mant_f32           F32   [F32]   {MODS CLAMP OMOD SDWA DPP}
       0x35 0x35 v_clrexcp                  _     []      {}
       0x37 0x37 v_screen_partition_4se_b32 B32   [B32]   {SDWA DPP}
       -    0x38 v_mov_b64                  B64   [B64]   {DPP}
       0x39 0x39 v_cvt_f16_u16              F16   [U16]   {CLAMP OMOD SDWA DPP ROUNDS}
       0x3a 0x3a v_cvt_f16_i16              F16   [I16]   {CLAMP OMOD SDWA DPP ROUNDS}
       0x3b 0x3b v_cvt_u16_f16              U16   [F16]   {MODS CLAMP OMOD SDWA DPP}
       0x3c 0x3c v_cvt_i16_f16              I16   [F16]   {MODS CLAMP OMOD SDWA DPP}
       0x3d 0x3d v_rcp_f16                  F16   [F16]   {MODS CLAMP OMOD SDWA DPP POLE}
       0x3e 0x3e v_sqrt_f16                 F16   [F16]   {MODS CLAMP OMOD SDWA DPP}
       0x3f 0x3f v_rsq_f16                  F16   [F16]   {MODS CLAMP OMOD SDWA DPP POLE}
       0x40 0x40 v_log_f16                  F16   [F16]   {MODS CLAMP OMOD SDWA DPP POLE}
       0x41 0x41 v_exp_f16                  F16   [F16]   {MODS CLAMP OMOD SDWA DPP}
       0x42 0x42 v_frexp_mant_f16           F16   [F16]   {MODS CLAMP OMOD SDWA DPP}
       0x43 0x43 v_frexp_exp_i16_f16        I16   [F16]   {MODS CLAMP OMOD SDWA DPP}
       0x44 0x44 v_floor_f16                F16   [F16]   {MODS CLAMP OMOD SDWA DPP}
       0x45 0x45 v_ceil_f16                 F16   [F16]   {MODS CLAMP OMOD SDWA DPP}
       0x46 0x46 v_trunc_f16                F16   [F16]   {MODS CLAMP OMOD SDWA DPP}
       0x47 0x47 v_rndne_f16                F16   [F16]   {MODS CLAMP OMOD SDWA DPP}
       0x48 0x48 v_fract_f16                F16   [F16]   {MODS CLAMP OMOD SDWA DPP ROUNDS}
       0x49 0x49 v_sin_f16                  F16   [F16]   {MODS CLAMP OMOD SDWA DPP}
       0x4a 0x4a v_cos_f16                  F16   [F16]   {MODS CLAMP OMOD SDWA DPP}
       0x4b 0x4b v_exp_legacy_f32           F32   [F32]   {MODS CLAMP OMOD SDWA DPP}
       0x4c 0x4c v_log_legacy_f32           F32   [F32]   {MODS CLAMP OMOD SDWA DPP POLE}
       0x4d 0x4d v_cvt_norm_i16_f16         I16   [F16]   {MODS CLAMP OMOD SDWA DPP}
       0x4e 0x4e v_cvt_norm_u16_f16         U16   [F16]   {MODS CLAMP OMOD SDWA DPP}
       0x4f 0x4f v_sat_pk_u8_i16            B32   [I16x2] {SDWA DPP}
       0x51 0x51 v_swap_b32                 B32   [B32]   {NO_E64 NO_SUFFIX VGPR_ONLY}
       0x52 0x52 v_accvgpr_mov_b32          B32   [B32]   {NO_E64 NO_SUFFIX ACCVGPR HOT}
       -    0x54 v_cvt_f32_fp8              F32   [B32]   {CLAMP OMOD SDWA SDWA_WHOLE_DST DPP}
       -    0x55 v_cvt_f32_bf8              F32   [B32]   {CLAMP OMOD SDWA SDWA_WHOLE_DST DPP}
       -    0x56 v_cvt_pk_f32_fp8           F32x2 [B32]   {CLAMP OMOD SDWA SDWA_WHOLE_DST DPP}
       -    0x57 v_cvt_pk_f32_bf8           F32x2 [B32]   {CLAMP OMOD SDWA SDWA_WHOLE_DST DPP}
    }] } };
}
