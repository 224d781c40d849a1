//! VOP3: vector operations that exist only in the 64-bit form.

#[rustfmt::skip]
macro_rules! vop3 {
    ($next:ident $($rest:tt)*) => { $next! { $($rest)* [Vop3 {
    // 90a   942   mnemonic               dst   sources           flags
       0x1c0 -     v_mad_legacy_f32       F32   [F32 F32 F32]     {MODS CLAMP OMOD ROUNDS}
       0x1c1 -     v_mad_f32              F32   [F32 F32 F32]     {MODS CLAMP OMOD ROUNDS}
       0x1c2 0x1c2 v_mad_i32_i24          I32   [I32 I32 I32]     {CLAMP SATURATES}
       0x1c3 0x1c3 v_mad_u32_u24          U32   [U32 U32 U32]     {CLAMP SATURATES}
       0x1c4 0x1c4 v_cubeid_f32           F32   [F32 F32 F32]     {MODS CLAMP OMOD}
       0x1c5 0x1c5 v_cubesc_f32           F32   [F32 F32 F32]     {MODS CLAMP OMOD}
       0x1c6 0x1c6 v_cubetc_f32           F32   [F32 F32 F32]     {MODS CLAMP OMOD}
       0x1c7 0x1c7 v_cubema_f32           F32   [F32 F32 F32]     {MODS CLAMP OMOD ROUNDS}
       0x1c8 0x1c8 v_bfe_u32              U32   [U32 U32 U32]     {}
       0x1c9 0x1c9 v_bfe_i32              I32   [I32 U32 U32]     {}
       0x1ca 0x1ca v_bfi_b32              U32   [U32 U32 U32]     {}
       0x1cb 0x1cb v_fma_f32              F32   [F32 F32 F32]     {MODS CLAMP OMOD ROUNDS HOT}
       0x1cc 0x1cc v_fma_f64              F64   [F64 F64 F64]     {MODS CLAMP OMOD ROUNDS}
       0x1cd 0x1cd v_lerp_u8              U32   [B32 B32 B32]     {}
       0x1ce 0x1ce v_alignbit_b32         U32   [U32 U32 U32]     {}
       0x1cf 0x1cf v_alignbyte_b32        U32   [U32 U32 U32]     {}
       0x1d0 0x1d0 v_min3_f32             F32   [F32 F32 F32]     {MODS CLAMP OMOD}
       0x1d1 0x1d1 v_min3_i32             I32   [I32 I32 I32]     {}
       0x1d2 0x1d2 v_min3_u32             U32   [U32 U32 U32]     {}
       0x1d3 0x1d3 v_max3_f32             F32   [F32 F32 F32]     {MODS CLAMP OMOD}
       0x1d4 0x1d4 v_max3_i32             I32   [I32 I32 I32]     {}
       0x1d5 0x1d5 v_max3_u32             U32   [U32 U32 U32]     {}
       0x1d6 0x1d6 v_med3_f32             F32   [F32 F32 F32]     {MODS CLAMP OMOD}
       0x1d7 0x1d7 v_med3_i32             I32   [I32 I32 I32]     {}
       0x1d8 0x1d8 v_med3_u32             U32   [U32 U32 U32]     {}
       0x1d9 0x1d9 v_sad_u8               U32   [U8x4 U8x4 U32]   {CLAMP SATURATES}
       0x1da 0x1da v_sad_hi_u8            U32   [U8x4 U8x4 U32]   {CLAMP SATURATES}
       0x1db 0x1db v_sad_u16              U32   [U16x2 U16x2 U32] {CLAMP SATURATES}
       0x1dc 0x1dc v_sad_u32              U32   [U32 U32 U32]     {CLAMP SATURATES}
       0x1dd 0x1dd v_cvt_pk_u8_f32        U8x4  [F32 U32 U8x4]    {MODS CLAMP}
       0x1de 0x1de v_div_fixup_f32        F32   [F32 F32 F32]     {MODS CLAMP OMOD POLE}
       0x1df 0x1df v_div_fixup_f64        F64   [F64 F64 F64]     {MODS CLAMP OMOD POLE}
       0x1e0 0x1e0 v_div_scale_f32        F32   [F32 F32 F32]     {NEG CLAMP OMOD CARRY_OUT}
       0x1e1 0x1e1 v_div_scale_f64        F64   [F64 F64 F64]     {NEG CLAMP OMOD CARRY_OUT}
       0x1e2 0x1e2 v_div_fmas_f32         F32   [F32 F32 F32]     {MODS CLAMP OMOD ROUNDS}
       0x1e3 0x1e3 v_div_fmas_f64         F64   [F64 F64 F64]     {MODS CLAMP OMOD ROUNDS}
       0x1e4 0x1e4 v_msad_u8              U32   [B32 B32 B32]     {CLAMP SATURATES}
       0x1e5 0x1e5 v_qsad_pk_u16_u8       B64   [B64 B32 B64]     {CLAMP SATURATES}
       0x1e6 0x1e6 v_mqsad_pk_u16_u8      B64   [B64 B32 B64]     {CLAMP SATURATES}
       0x1e7 0x1e7 v_mqsad_u32_u8         B128  [B64 B32 B128]    {CLAMP SATURATES}
       0x1e8 0x1e8 v_mad_u64_u32          U64   [U32 U32 U64]     {CLAMP CARRY_OUT SATURATES}
       0x1e9 0x1e9 v_mad_i64_i32          I64   [I32 I32 I64]     {CLAMP CARRY_OUT SATURATES}
       0x1ea 0x1ea v_mad_legacy_f16       F16   [F16 F16 F16]     {MODS CLAMP OMOD ROUNDS}
       0x1eb 0x1eb v_mad_legacy_u16       U16   [U16 U16 U16]     {CLAMP SATURATES}
       0x1ec 0x1ec v_mad_legacy_i16       I16   [I16 I16 I16]     {CLAMP SATURATES}
       0x1ed 0x1ed v_perm_b32             B32   [B32 B32 B32]     {}
       0x1ee 0x1ee v_fma_legacy_f16       F16   [F16 F16 F16]     {MODS CLAMP OMOD ROUNDS}
       0x1ef 0x1ef v_div_fixup_legacy_f16 F16   [F16 F16 F16]     {MODS CLAMP OMOD POLE}
       0x1f0 0x1f0 v_cvt_pkaccum_u8_f32   U8x4  [F32 U32]         {MODS CLAMP}
       0x1f1 0x1f1 v_mad_u32_u16          U32   [U16 U16 U32]     {OPSEL MODS_IGNORED CLAMP SATURATES}
       0x1f2 0x1f2 v_mad_i32_i16          I32   [I16 I16 I32]     {OPSEL MODS_IGNORED CLAMP SATURATES}
       0x1f3 0x1f3 v_xad_u32              U32   [U32 U32 U32]     {}
       0x1f4 0x1f4 v_min3_f16             F16   [F16 F16 F16]     {OPSEL MODS CLAMP OMOD}
       0x1f5 0x1f5 v_min3_i16             I16   [I16 I16 I16]     {OPSEL MODS_IGNORED CLAMP}
       0x1f6 0x1f6 v_min3_u16             U16   [U16 U16 U16]     {OPSEL MODS_IGNORED CLAMP}
       0x1f7 0x1f7 v_max3_f16             F16   [F16 F16 F16]     {OPSEL MODS CLAMP OMOD}
       0x1f8 0x1f8 v_max3_i16             I16   [I16 I16 I16]     {OPSEL MODS_IGNORED CLAMP}
       0x1f9 0x1f9 v_max3_u16             U16   [U16 U16 U16]     {OPSEL MODS_IGNORED CLAMP}
       0x1fa 0x1fa v_med3_f16             F16   [F16 F16 F16]     {OPSEL MODS CLAMP OMOD}
       0x1fb 0x1fb v_med3_i16             I16   [I16 I16 I16]     {OPSEL MODS_IGNORED CLAMP}
       0x1fc 0x1fc v_med3_u16             U16   [U16 U16 U16]     {OPSEL MODS_IGNORED CLAMP}
       0x1fd 0x1fd v_lshl_add_u32         U32   [U32 U32 U32]     {HOT}
       0x1fe 0x1fe v_add_lshl_u32         U32   [U32 U32 U32]     {HOT}
       0x1ff 0x1ff v_add3_u32             U32   [U32 U32 U32]     {HOT}
       0x200 0x200 v_lshl_or_b32          U32   [U32 U32 U32]     {HOT}
       0x201 0x201 v_and_or_b32           U32   [U32 U32 U32]     {HOT}
       0x202 0x202 v_or3_b32              U32   [U32 U32 U32]     {}
       0x203 0x203 v_mad_f16              F16   [F16 F16 F16]     {OPSEL MODS CLAMP OMOD ROUNDS}
       0x204 0x204 v_mad_u16              U16   [U16 U16 U16]     {OPSEL MODS_IGNORED CLAMP SATURATES}
       0x205 0x205 v_mad_i16              I16   [I16 I16 I16]     {OPSEL MODS_IGNORED CLAMP SATURATES}
       0x206 0x206 v_fma_f16              F16   [F16 F16 F16]     {OPSEL MODS CLAMP OMOD ROUNDS}
       0x207 0x207 v_div_fixup_f16        F16   [F16 F16 F16]     {OPSEL MODS CLAMP OMOD POLE}
       -     0x208 v_lshl_add_u64         U64   [U64 U32 U64]     {}
       0x280 0x280 v_add_f64              F64   [F64 F64]         {MODS CLAMP OMOD ROUNDS}
       0x281 0x281 v_mul_f64              F64   [F64 F64]         {MODS CLAMP OMOD ROUNDS}
       0x282 0x282 v_min_f64              F64   [F64 F64]         {MODS CLAMP OMOD}
       0x283 0x283 v_max_f64              F64   [F64 F64]         {MODS CLAMP OMOD}
       0x284 0x284 v_ldexp_f64            F64   [F64 I32]         {MODS CLAMP OMOD ROUNDS}
       0x285 0x285 v_mul_lo_u32           U32   [U32 U32]         {}
       0x286 0x286 v_mul_hi_u32           U32   [U32 U32]         {}
       0x287 0x287 v_mul_hi_i32           I32   [I32 I32]         {}
       0x288 0x288 v_ldexp_f32            F32   [F32 I32]         {MODS CLAMP OMOD ROUNDS}
       0x289 0x289 v_readlane_b32         B32   [B32 B32]         {SGPR_DST LANE CROSS_LANE}
       0x28a 0x28a v_writelane_b32        B32   [B32 B32]         {LANE CROSS_LANE}
       0x28b 0x28b v_bcnt_u32_b32         U32   [U32 U32]         {}
       0x28c 0x28c v_mbcnt_lo_u32_b32     U32   [U32 U32]         {}
       0x28d 0x28d v_mbcnt_hi_u32_b32     U32   [U32 U32]         {}
       0x28f 0x28f v_lshlrev_b64          U64   [U32 U64]         {}
       0x290 0x290 v_lshrrev_b64          U64   [U32 U64]         {}
       0x291 0x291 v_ashrrev_i64          I64   [U32 I64]         {}
       0x292 0x292 v_trig_preop_f64       F64   [F64 I32]         {MODS CLAMP OMOD}
       0x293 0x293 v_bfm_b32              U32   [U32 U32]         {}
       0x294 0x294 v_cvt_pknorm_i16_f32   I16x2 [F32 F32]         {MODS CLAMP}
       0x295 0x295 v_cvt_pknorm_u16_f32   U16x2 [F32 F32]         {MODS CLAMP}
       0x296 0x296 v_cvt_pkrtz_f16_f32    F16x2 [F32 F32]         {MODS CLAMP OMOD}
       0x297 0x297 v_cvt_pk_u16_u32       U16x2 [U32 U32]         {}
       0x298 0x298 v_cvt_pk_i16_i32       I16x2 [I32 I32]         {}
       0x299 0x299 v_cvt_pknorm_i16_f16   I16x2 [F16 F16]         {OPSEL MODS CLAMP}
       0x29a 0x29a v_cvt_pknorm_u16_f16   U16x2 [F16 F16]         {OPSEL MODS CLAMP}
       0x29c 0x29c v_add_i32              I32   [I32 I32]         {CLAMP SATURATES HOT}
       0x29d 0x29d v_sub_i32              I32   [I32 I32]         {CLAMP SATURATES HOT}
       0x29e 0x29e v_add_i16              I16   [I16 I16]         {OPSEL MODS_IGNORED CLAMP SATURATES}
       0x29f 0x29f v_sub_i16              I16   [I16 I16]         {OPSEL MODS_IGNORED CLAMP SATURATES}
       0x2a0 0x2a0 v_pack_b32_f16         B32   [F16 F16]         {OPSEL MODS CLAMP}
       0x2a1 0x2a1 v_mul_legacy_f32       F32   [F32 F32]         {MODS CLAMP OMOD ROUNDS}
       -     0x2a2 v_cvt_pk_fp8_f32       B32   [F32 F32]         {OPSEL MODS}
       -     0x2a3 v_cvt_pk_bf8_f32       B32   [F32 F32]         {OPSEL MODS}
       -     0x2a4 v_cvt_sr_fp8_f32       B32   [F32 U32]         {OPSEL MODS0 OPSEL3}
       -     0x2a5 v_cvt_sr_bf8_f32       B32   [F32 U32]         {OPSEL MODS0 OPSEL3}
    }] } };
}
