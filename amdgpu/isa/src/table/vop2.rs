//! VOP2: vector operations with two sources, in 32-bit, 64-bit (0x100 +), SDWA and DPP forms.

#[rustfmt::skip]
macro_rules! vop2 {
    ($next:ident $($rest:tt)*) => { $next! { $($rest)* [Vop2 {
    // 90a  942  mnemonic         dst   sources       flags
       0x00 0x00 v_cndmask_b32    B32   [B32 B32 B64] {MODS CARRY_IN SDWA DPP HOT}
       0x01 0x01 v_add_f32        F32   [F32 F32]     {MODS CLAMP OMOD SDWA DPP ROUNDS HOT}
       0x02 0x02 v_sub_f32        F32   [F32 F32]     {MODS CLAMP OMOD SDWA DPP ROUNDS HOT}
       0x03 0x03 v_subrev_f32     F32   [F32 F32]     {MODS CLAMP OMOD SDWA DPP ROUNDS}
       0x04 0x04 v_fmac_f64       F64   [F64 F64]     {MODS CLAMP OMOD DPP ROUNDS}
       0x05 0x05 v_mul_f32        F32   [F32 F32]     {MODS CLAMP OMOD SDWA DPP ROUNDS HOT}
       0x06 0x06 v_mul_i32_i24    I32   [I32 I32]     {CLAMP SDWA DPP SATURATES}
       0x07 0x07 v_mul_hi_i32_i24 I32   [I32 I32]     {SDWA DPP}
       0x08 0x08 v_mul_u32_u24    U32   [U32 U32]     {CLAMP SDWA DPP SATURATES}
       0x09 0x09 v_mul_hi_u32_u24 U32   [U32 U32]     {SDWA DPP}
       0x0a 0x0a v_min_f32        F32   [F32 F32]     {MODS CLAMP OMOD SDWA DPP}
       0x0b 0x0b v_max_f32        F32   [F32 F32]     {MODS CLAMP OMOD SDWA DPP}
       0x0c 0x0c v_min_i32        I32   [I32 I32]     {SDWA DPP}
       0x0d 0x0d v_max_i32        I32   [I32 I32]     {SDWA DPP}
       0x0e 0x0e v_min_u32        U32   [U32 U32]     {SDWA DPP}
       0x0f 0x0f v_max_u32        U32   [U32 U32]     {SDWA DPP}
       0x10 0x10 v_lshrrev_b32    U32   [U32 U32]     {SDWA DPP HOT}
       0x11 0x11 v_ashrrev_i32    I32   [U32 I32]     {SDWA DPP HOT}
       0x12 0x12 v_lshlrev_b32    U32   [U32 U32]     {SDWA DPP HOT}
       0x13 0x13 v_and_b32        U32   [U32 U32]     {SDWA DPP HOT}
       0x14 0x14 v_or_b32         U32   [U32 U32]     {SDWA DPP HOT}
       0x15 0x15 v_xor_b32        U32   [U32 U32]     {SDWA DPP HOT}
       0x16 -    v_mac_f32        F32   [F32 F32]     {MODS CLAMP OMOD DPP ROUNDS}
       0x17 -    v_madmk_f32      F32   [F32 F32 F32] {LITERAL_MIDDLE NO_E64 NO_SUFFIX ROUNDS}
       -    0x17 v_fmamk_f32      F32   [F32 F32 F32] {LITERAL_MIDDLE NO_E64 NO_SUFFIX ROUNDS HOT}
       0x18 -    v_madak_f32      F32   [F32 F32 F32] {LITERAL_LAST NO_E64 NO_SUFFIX ROUNDS}
       -    0x18 v_fmaak_f32      F32   [F32 F32 F32] {LITERAL_LAST NO_E64 NO_SUFFIX ROUNDS HOT}
       0x19 0x19 v_add_co_u32     U32   [U32 U32]     {CLAMP CARRY_OUT SDWA DPP SATURATES HOT}
       0x1a 0x1a v_sub_co_u32     U32   [U32 U32]     {CLAMP CARRY_OUT SDWA DPP SATURATES HOT}
       0x1b 0x1b v_subrev_co_u32  U32   [U32 U32]     {CLAMP CARRY_OUT SDWA DPP SATURATES HOT}
       0x1c 0x1c v_addc_co_u32    U32   [U32 U32 B64] {CLAMP CARRY_OUT CARRY_IN SDWA DPP SATURATES HOT}
       0x1d 0x1d v_subb_co_u32    U32   [U32 U32 B64] {CLAMP CARRY_OUT CARRY_IN SDWA DPP SATURATES HOT}
       0x1e 0x1e v_subbrev_co_u32 U32   [U32 U32 B64] {CLAMP CARRY_OUT CARRY_IN SDWA DPP SATURATES HOT}
       0x1f 0x1f v_add_f16        F16   [F16 F16]     {MODS CLAMP OMOD SDWA DPP ROUNDS}
       0x20 0x20 v_sub_f16        F16   [F16 F16]     {MODS CLAMP OMOD SDWA DPP ROUNDS}
       0x21 0x21 v_subrev_f16     F16   [F16 F16]     {MODS CLAMP OMOD SDWA DPP ROUNDS}
       0x22 0x22 v_mul_f16        F16   [F16 F16]     {MODS CLAMP OMOD SDWA DPP ROUNDS}
       0x23 0x23 v_mac_f16        F16   [F16 F16]     {MODS CLAMP OMOD DPP ROUNDS}
       0x24 0x24 v_madmk_f16      F16   [F16 F16 F16] {LITERAL_MIDDLE NO_E64 NO_SUFFIX ROUNDS}
       0x25 0x25 v_madak_f16      F16   [F16 F16 F16] {LITERAL_LAST NO_E64 NO_SUFFIX ROUNDS}
       0x26 0x26 v_add_u16        U16   [U16 U16]     {CLAMP SDWA DPP SATURATES}
       0x27 0x27 v_sub_u16        U16   [U16 U16]     {CLAMP SDWA DPP SATURATES}
       0x28 0x28 v_subrev_u16     U16   [U16 U16]     {CLAMP SDWA DPP SATURATES}
       0x29 0x29 v_mul_lo_u16     U16   [U16 U16]     {SDWA DPP}
       0x2a 0x2a v_lshlrev_b16    B16   [U16 B16]     {SDWA DPP}
       0x2b 0x2b v_lshrrev_b16    B16   [U16 B16]     {SDWA DPP}
       0x2c 0x2c v_ashrrev_i16    I16   [U16 I16]     {SDWA DPP}
       0x2d 0x2d v_max_f16        F16   [F16 F16]     {MODS CLAMP OMOD SDWA DPP}
       0x2e 0x2e v_min_f16        F16   [F16 F16]     {MODS CLAMP OMOD SDWA DPP}
       0x2f 0x2f v_max_u16        U16   [U16 U16]     {SDWA DPP}
       0x30 0x30 v_max_i16        I16   [I16 I16]     {SDWA DPP}
       0x31 0x31 v_min_u16        U16   [U16 U16]     {SDWA DPP}
       0x32 0x32 v_min_i16        I16   [I16 I16]     {SDWA DPP}
       0x33 0x33 v_ldexp_f16      F16   [F16 I16]     {MODS CLAMP OMOD SDWA DPP ROUNDS}
       0x34 0x34 v_add_u32        U32   [U32 U32]     {CLAMP SDWA DPP SATURATES HOT}
       0x35 0x35 v_sub_u32        U32   [U32 U32]     {CLAMP SDWA DPP SATURATES HOT}
       0x36 0x36 v_subrev_u32     U32   [U32 U32]     {CLAMP SDWA DPP SATURATES}
       0x37 0x37 v_dot2c_f32_f16  F32   [F16x2 F16x2] {MODS CLAMP OMOD DPP}
       0x38 0x38 v_dot2c_i32_i16  I32   [I16x2 I16x2] {MODS_IGNORED CLAMP DPP SATURATES}
       0x39 0x39 v_dot4c_i32_i8   I32   [I8x4 I8x4]   {MODS_IGNORED CLAMP DPP SATURATES}
       0x3a 0x3a v_dot8c_i32_i4   I32   [I4x8 I4x8]   {MODS_IGNORED CLAMP DPP SATURATES}
       0x3b 0x3b v_fmac_f32       F32   [F32 F32]     {MODS CLAMP OMOD DPP ROUNDS HOT}
       0x3c 0x3c v_pk_fmac_f16    F16x2 [F16x2 F16x2] {NO_E64 ROUNDS}
       0x3d 0x3d v_xnor_b32       U32   [U32 U32]     {SDWA DPP}
    }] } };
}
