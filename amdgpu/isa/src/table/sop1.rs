//! SOP1: scalar operations with one source.

#[rustfmt::skip]
macro_rules! sop1 {
    ($next:ident $($rest:tt)*) => { $next! { $($rest)* [Sop1 {
    // 90a  942  mnemonic               dst sources flags
       0x00 0x00 s_mov_b32              B32 [B32]   {}
       0x01 0x01 s_mov_b64              B64 [B64]   {}
       0x02 0x02 s_cmov_b32             B32 [B32]   {}
       0x03 0x03 s_cmov_b64             B64 [B64]   {}
       0x04 0x04 s_not_b32              U32 [U32]   {}
       0x05 0x05 s_not_b64              U64 [U64]   {}
       0x06 0x06 s_wqm_b32              U32 [U32]   {}
       0x07 0x07 s_wqm_b64              U64 [U64]   {}
       0x08 0x08 s_brev_b32             U32 [U32]   {}
       0x09 0x09 s_brev_b64             U64 [U64]   {}
       0x0a 0x0a s_bcnt0_i32_b32        I32 [U32]   {}
       0x0b 0x0b s_bcnt0_i32_b64        I32 [U64]   {}
       0x0c 0x0c s_bcnt1_i32_b32        I32 [U32]   {}
       0x0d 0x0d s_bcnt1_i32_b64        I32 [U64]   {}
       0x0e 0x0e s_ff0_i32_b32          I32 [U32]   {}
       0x0f 0x0f s_ff0_i32_b64          I32 [U64]   {}
       0x10 0x10 s_ff1_i32_b32          I32 [U32]   {}
       0x11 0x11 s_ff1_i32_b64          I32 [U64]   {}
       0x12 0x12 s_flbit_i32_b32        I32 [U32]   {}
       0x13 0x13 s_flbit_i32_b64        I32 [U64]   {}
       0x14 0x14 s_flbit_i32            I32 [I32]   {}
       0x15 0x15 s_flbit_i32_i64        I32 [I64]   {}
       0x16 0x16 s_sext_i32_i8          I32 [I32]   {}
       0x17 0x17 s_sext_i32_i16         I32 [I32]   {}
       0x18 0x18 s_bitset0_b32          B32 [U32]   {}
       0x19 0x19 s_bitset0_b64          B64 [U32]   {}
       0x1a 0x1a s_bitset1_b32          B32 [U32]   {}
       0x1b 0x1b s_bitset1_b64          B64 [U32]   {}
       0x1c 0x1c s_getpc_b64            B64 []      {}
       0x1d 0x1d s_setpc_b64            _   [B64]   {SGPR_ONLY}
       0x1e 0x1e s_swappc_b64           B64 [B64]   {}
       0x1f 0x1f s_rfe_b64              _   [B64]   {SGPR_ONLY}
       0x20 0x20 s_and_saveexec_b64     U64 [U64]   {WRITES_EXEC}
       0x21 0x21 s_or_saveexec_b64      U64 [U64]   {WRITES_EXEC}
       0x22 0x22 s_xor_saveexec_b64     U64 [U64]   {WRITES_EXEC}
       0x23 0x23 s_andn2_saveexec_b64   U64 [U64]   {WRITES_EXEC}
       0x24 0x24 s_orn2_saveexec_b64    U64 [U64]   {WRITES_EXEC}
       0x25 0x25 s_nand_saveexec_b64    U64 [U64]   {WRITES_EXEC}
       0x26 0x26 s_nor_saveexec_b64     U64 [U64]   {WRITES_EXEC}
       0x27 0x27 s_xnor_saveexec_b64    U64 [U64]   {WRITES_EXEC}
       0x28 0x28 s_quadmask_b32         U32 [U32]   {}
       0x29 0x29 s_quadmask_b64         U64 [U64]   {}
       0x2a 0x2a s_movrels_b32          B32 [B32]   {SGPR_ONLY}
       0x2b 0x2b s_movrels_b64          B64 [B64]   {SGPR_ONLY}
       0x2c 0x2c s_movreld_b32          B32 [B32]   {}
       0x2d 0x2d s_movreld_b64          B64 [B64]   {}
       0x2e 0x2e s_cbranch_join         _   [B32]   {SGPR_ONLY WRITES_EXEC}
       0x30 0x30 s_abs_i32              I32 [I32]   {}
       0x32 0x32 s_set_gpr_idx_idx      _   [B32]   {}
       0x33 0x33 s_andn1_saveexec_b64   U64 [U64]   {WRITES_EXEC}
       0x34 0x34 s_orn1_saveexec_b64    U64 [U64]   {WRITES_EXEC}
       0x35 0x35 s_andn1_wrexec_b64     U64 [U64]   {WRITES_EXEC}
       0x36 0x36 s_andn2_wrexec_b64     U64 [U64]   {WRITES_EXEC}
       0x37 0x37 s_bitreplicate_b64_b32 U64 [U32]   {}
    }] } };
}
