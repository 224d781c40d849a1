//! SOPC: scalar comparisons; the result is SCC.

#[rustfmt::skip]
macro_rules! sopc {
    ($next:ident $($rest:tt)*) => { $next! { $($rest)* [Sopc {
    // 90a  942  mnemonic         dst sources   flags
       0x00 0x00 s_cmp_eq_i32     _   [I32 I32] {}
       0x01 0x01 s_cmp_lg_i32     _   [I32 I32] {}
       0x02 0x02 s_cmp_gt_i32     _   [I32 I32] {}
       0x03 0x03 s_cmp_ge_i32     _   [I32 I32] {}
       0x04 0x04 s_cmp_lt_i32     _   [I32 I32] {}
       0x05 0x05 s_cmp_le_i32     _   [I32 I32] {}
       0x06 0x06 s_cmp_eq_u32     _   [U32 U32] {}
       0x07 0x07 s_cmp_lg_u32     _   [U32 U32] {}
       0x08 0x08 s_cmp_gt_u32     _   [U32 U32] {}
       0x09 0x09 s_cmp_ge_u32     _   [U32 U32] {}
       0x0a 0x0a s_cmp_lt_u32     _   [U32 U32] {}
       0x0b 0x0b s_cmp_le_u32     _   [U32 U32] {}
       0x0c 0x0c s_bitcmp0_b32    _   [U32 U32] {}
       0x0d 0x0d s_bitcmp1_b32    _   [U32 U32] {}
       0x0e 0x0e s_bitcmp0_b64    _   [U64 U32] {}
       0x0f 0x0f s_bitcmp1_b64    _   [U64 U32] {}
       0x10 0x10 s_setvskip       _   [U32 U32] {}
       0x11 0x11 s_set_gpr_idx_on _   [U32]     {GPR_IDX}
       0x12 0x12 s_cmp_eq_u64     _   [U64 U64] {}
       0x13 0x13 s_cmp_lg_u64     _   [U64 U64] {}
    }] } };
}
