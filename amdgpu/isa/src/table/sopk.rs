//! SOPK: scalar operations with a 16-bit immediate.

#[rustfmt::skip]
macro_rules! sopk {
    ($next:ident $($rest:tt)*) => { $next! { $($rest)* [Sopk {
    // 90a  942  mnemonic           dst sources flags
       0x00 0x00 s_movk_i32         I32 []      {}
       0x01 0x01 s_cmovk_i32        I32 []      {}
       0x02 0x02 s_cmpk_eq_i32      I32 []      {}
       0x03 0x03 s_cmpk_lg_i32      I32 []      {}
       0x04 0x04 s_cmpk_gt_i32      I32 []      {}
       0x05 0x05 s_cmpk_ge_i32      I32 []      {}
       0x06 0x06 s_cmpk_lt_i32      I32 []      {}
       0x07 0x07 s_cmpk_le_i32      I32 []      {}
       0x08 0x08 s_cmpk_eq_u32      U32 []      {}
       0x09 0x09 s_cmpk_lg_u32      U32 []      {}
       0x0a 0x0a s_cmpk_gt_u32      U32 []      {}
       0x0b 0x0b s_cmpk_ge_u32      U32 []      {}
       0x0c 0x0c s_cmpk_lt_u32      U32 []      {}
       0x0d 0x0d s_cmpk_le_u32      U32 []      {}
       0x0e 0x0e s_addk_i32         I32 []      {}
       0x0f 0x0f s_mulk_i32         I32 []      {}
       0x10 0x10 s_cbranch_i_fork   B64 []      {BRANCH WRITES_EXEC}
       0x11 0x11 s_getreg_b32       B32 []      {HWREG}
       0x12 0x12 s_setreg_b32       B32 []      {HWREG STORE}
       0x14 0x14 s_setreg_imm32_b32 _   [B32]   {HWREG LITERAL_LAST}
       0x15 0x15 s_call_b64         B64 []      {BRANCH}
    }] } };
}
