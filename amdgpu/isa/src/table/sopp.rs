//! SOPP: program control.

#[rustfmt::skip]
macro_rules! sopp {
    ($next:ident $($rest:tt)*) => { $next! { $($rest)* [Sopp {
    // 90a  942  mnemonic                   dst sources flags
       0x00 0x00 s_nop                      _   []      {}
       0x01 0x01 s_endpgm                   _   []      {OPTIONAL_IMM}
       0x02 0x02 s_branch                   _   []      {BRANCH}
       0x03 0x03 s_wakeup                   _   []      {NO_OPERANDS}
       0x04 0x04 s_cbranch_scc0             _   []      {BRANCH}
       0x05 0x05 s_cbranch_scc1             _   []      {BRANCH}
       0x06 0x06 s_cbranch_vccz             _   []      {BRANCH}
       0x07 0x07 s_cbranch_vccnz            _   []      {BRANCH}
       0x08 0x08 s_cbranch_execz            _   []      {BRANCH}
       0x09 0x09 s_cbranch_execnz           _   []      {BRANCH}
       0x0a 0x0a s_barrier                  _   []      {NO_OPERANDS}
       0x0b 0x0b s_setkill                  _   []      {}
       0x0c 0x0c s_waitcnt                  _   []      {WAITCNT}
       0x0d 0x0d s_sethalt                  _   []      {}
       0x0e 0x0e s_sleep                    _   []      {}
       0x0f 0x0f s_setprio                  _   []      {}
       0x10 0x10 s_sendmsg                  _   []      {SENDMSG}
       0x11 0x11 s_sendmsghalt              _   []      {SENDMSG}
       0x12 0x12 s_trap                     _   []      {}
       0x13 0x13 s_icache_inv               _   []      {NO_OPERANDS}
       0x14 0x14 s_incperflevel             _   []      {}
       0x15 0x15 s_decperflevel             _   []      {}
       0x16 0x16 s_ttracedata               _   []      {NO_OPERANDS}
       0x17 0x17 s_cbranch_cdbgsys          _   []      {BRANCH}
       0x18 0x18 s_cbranch_cdbguser         _   []      {BRANCH}
       0x19 0x19 s_cbranch_cdbgsys_or_user  _   []      {BRANCH}
       0x1a 0x1a s_cbranch_cdbgsys_and_user _   []      {BRANCH}
       0x1b 0x1b s_endpgm_saved             _   []      {NO_OPERANDS}
       0x1c 0x1c s_set_gpr_idx_off          _   []      {NO_OPERANDS}
       0x1d 0x1d s_set_gpr_idx_mode         _   []      {GPR_IDX}
       0x1e 0x1e s_endpgm_ordered_ps_done   _   []      {NO_OPERANDS}
    }] } };
}
