//! SOP2: scalar operations with two sources.

#[rustfmt::skip]
macro_rules! sop2 {
    ($next:ident $($rest:tt)*) => { $next! { $($rest)* [Sop2 {
    // 90a  942  mnemonic          dst sources   flags
       0x00 0x00 s_add_u32         U32 [U32 U32] {}
       0x01 0x01 s_sub_u32         U32 [U32 U32] {}
       0x02 0x02 s_add_i32         I32 [I32 I32] {}
       0x03 0x03 s_sub_i32         I32 [I32 I32] {}
       0x04 0x04 s_addc_u32        U32 [U32 U32] {}
       0x05 0x05 s_subb_u32        U32 [U32 U32] {}
       0x06 0x06 s_min_i32         I32 [I32 I32] {}
       0x07 0x07 s_min_u32         U32 [U32 U32] {}
       0x08 0x08 s_max_i32         I32 [I32 I32] {}
       0x09 0x09 s_max_u32         U32 [U32 U32] {}
       0x0a 0x0a s_cselect_b32     B32 [B32 B32] {}
       0x0b 0x0b s_cselect_b64     B64 [B64 B64] {}
       0x0c 0x0c s_and_b32         U32 [U32 U32] {}
       0x0d 0x0d s_and_b64         U64 [U64 U64] {}
       0x0e 0x0e s_or_b32          U32 [U32 U32] {}
       0x0f 0x0f s_or_b64          U64 [U64 U64] {}
       0x10 0x10 s_xor_b32         U32 [U32 U32] {}
       0x11 0x11 s_xor_b64         U64 [U64 U64] {}
       0x12 0x12 s_andn2_b32       U32 [U32 U32] {}
       0x13 0x13 s_andn2_b64       U64 [U64 U64] {}
       0x14 0x14 s_orn2_b32        U32 [U32 U32] {}
       0x15 0x15 s_orn2_b64        U64 [U64 U64] {}
       0x16 0x16 s_nand_b32        U32 [U32 U32] {}
       0x17 0x17 s_nand_b64        U64 [U64 U64] {}
       0x18 0x18 s_nor_b32         U32 [U32 U32] {}
       0x19 0x19 s_nor_b64         U64 [U64 U64] {}
       0x1a 0x1a s_xnor_b32        U32 [U32 U32] {}
       0x1b 0x1b s_xnor_b64        U64 [U64 U64] {}
       0x1c 0x1c s_lshl_b32        U32 [U32 U32] {}
       0x1d 0x1d s_lshl_b64        U64 [U64 U32] {}
       0x1e 0x1e s_lshr_b32        U32 [U32 U32] {}
       0x1f 0x1f s_lshr_b64        U64 [U64 U32] {}
       0x20 0x20 s_ashr_i32        I32 [I32 U32] {}
       0x21 0x21 s_ashr_i64        I64 [I64 U32] {}
       0x22 0x22 s_bfm_b32         U32 [U32 U32] {}
       0x23 0x23 s_bfm_b64         U64 [U32 U32] {}
       0x24 0x24 s_mul_i32         I32 [I32 I32] {}
       0x25 0x25 s_bfe_u32         U32 [U32 U32] {}
       0x26 0x26 s_bfe_i32         I32 [I32 U32] {}
       0x27 0x27 s_bfe_u64         U64 [U64 U32] {}
       0x28 0x28 s_bfe_i64         I64 [I64 U32] {}
       0x29 0x29 s_cbranch_g_fork  _   [B64 B64] {WRITES_EXEC}
       0x2a 0x2a s_absdiff_i32     I32 [I32 I32] {}
       0x2b 0x2b s_rfe_restore_b64 _   [B64 B32] {}
       0x2c 0x2c s_mul_hi_u32      U32 [U32 U32] {}
       0x2d 0x2d s_mul_hi_i32      I32 [I32 I32] {}
       0x2e 0x2e s_lshl1_add_u32   U32 [U32 U32] {}
       0x2f 0x2f s_lshl2_add_u32   U32 [U32 U32] {}
       0x30 0x30 s_lshl3_add_u32   U32 [U32 U32] {}
       0x31 0x31 s_lshl4_add_u32   U32 [U32 U32] {}
       0x32 0x32 s_pack_ll_b32_b16 B32 [B32 B32] {}
       0x33 0x33 s_pack_lh_b32_b16 B32 [B32 B32] {}
       0x34 0x34 s_pack_hh_b32_b16 B32 [B32 B32] {}
    }] } };
}
