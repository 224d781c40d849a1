//! SMEM: scalar memory. The first source is the base; `dst` is the data, for stores and atomics as well.

#[rustfmt::skip]
macro_rules! smem {
    ($next:ident $($rest:tt)*) => { $next! { $($rest)* [Smem {
    // 90a  942  mnemonic                   dst  sources flags
       0x00 0x00 s_load_dword               B32  [B64]   {}
       0x01 0x01 s_load_dwordx2             B64  [B64]   {}
       0x02 0x02 s_load_dwordx4             B128 [B64]   {}
       0x03 0x03 s_load_dwordx8             B256 [B64]   {}
       0x04 0x04 s_load_dwordx16            B512 [B64]   {}
       0x05 0x05 s_scratch_load_dword       B32  [B64]   {SCRATCH}
       0x06 0x06 s_scratch_load_dwordx2     B64  [B64]   {SCRATCH}
       0x07 0x07 s_scratch_load_dwordx4     B128 [B64]   {SCRATCH}
       0x08 0x08 s_buffer_load_dword        B32  [B128]  {}
       0x09 0x09 s_buffer_load_dwordx2      B64  [B128]  {}
       0x0a 0x0a s_buffer_load_dwordx4      B128 [B128]  {}
       0x0b 0x0b s_buffer_load_dwordx8      B256 [B128]  {}
       0x0c 0x0c s_buffer_load_dwordx16     B512 [B128]  {}
       0x10 0x10 s_store_dword              B32  [B64]   {STORE}
       0x11 0x11 s_store_dwordx2            B64  [B64]   {STORE}
       0x12 0x12 s_store_dwordx4            B128 [B64]   {STORE}
       0x15 0x15 s_scratch_store_dword      B32  [B64]   {STORE SCRATCH}
       0x16 0x16 s_scratch_store_dwordx2    B64  [B64]   {STORE SCRATCH}
       0x17 0x17 s_scratch_store_dwordx4    B128 [B64]   {STORE SCRATCH}
       0x18 0x18 s_buffer_store_dword       B32  [B128]  {STORE}
       0x19 0x19 s_buffer_store_dwordx2     B64  [B128]  {STORE}
       0x1a 0x1a s_buffer_store_dwordx4     B128 [B128]  {STORE}
       0x20 0x20 s_dcache_inv               _    []      {}
       0x21 0x21 s_dcache_wb                _    []      {}
       0x22 0x22 s_dcache_inv_vol           _    []      {}
       0x23 0x23 s_dcache_wb_vol            _    []      {}
       0x24 0x24 s_memtime                  U64  []      {}
       0x25 0x25 s_memrealtime              U64  []      {}
       0x26 0x26 s_atc_probe                _    [B64]   {PROBE}
       0x27 0x27 s_atc_probe_buffer         _    [B128]  {PROBE}
       0x28 0x28 s_dcache_discard           _    [B64]   {}
       0x29 0x29 s_dcache_discard_x2        _    [B64]   {}
       0x40 0x40 s_buffer_atomic_swap       B32  [B128]  {ATOMIC}
       0x41 0x41 s_buffer_atomic_cmpswap    B64  [B128]  {ATOMIC COMPARE}
       0x42 0x42 s_buffer_atomic_add        B32  [B128]  {ATOMIC}
       0x43 0x43 s_buffer_atomic_sub        B32  [B128]  {ATOMIC}
       0x44 0x44 s_buffer_atomic_smin       B32  [B128]  {ATOMIC}
       0x45 0x45 s_buffer_atomic_umin       B32  [B128]  {ATOMIC}
       0x46 0x46 s_buffer_atomic_smax       B32  [B128]  {ATOMIC}
       0x47 0x47 s_buffer_atomic_umax       B32  [B128]  {ATOMIC}
       0x48 0x48 s_buffer_atomic_and        B32  [B128]  {ATOMIC}
       0x49 0x49 s_buffer_atomic_or         B32  [B128]  {ATOMIC}
       0x4a 0x4a s_buffer_atomic_xor        B32  [B128]  {ATOMIC}
       0x4b 0x4b s_buffer_atomic_inc        B32  [B128]  {ATOMIC}
       0x4c 0x4c s_buffer_atomic_dec        B32  [B128]  {ATOMIC}
       0x60 0x60 s_buffer_atomic_swap_x2    B64  [B128]  {ATOMIC}
       0x61 0x61 s_buffer_atomic_cmpswap_x2 B128 [B128]  {ATOMIC COMPARE}
       0x62 0x62 s_buffer_atomic_add_x2     B64  [B128]  {ATOMIC}
       0x63 0x63 s_buffer_atomic_sub_x2     B64  [B128]  {ATOMIC}
       0x64 0x64 s_buffer_atomic_smin_x2    B64  [B128]  {ATOMIC}
       0x65 0x65 s_buffer_atomic_umin_x2    B64  [B128]  {ATOMIC}
       0x66 0x66 s_buffer_atomic_smax_x2    B64  [B128]  {ATOMIC}
       0x67 0x67 s_buffer_atomic_umax_x2    B64  [B128]  {ATOMIC}
       0x68 0x68 s_buffer_atomic_and_x2     B64  [B128]  {ATOMIC}
       0x69 0x69 s_buffer_atomic_or_x2      B64  [B128]  {ATOMIC}
       0x6a 0x6a s_buffer_atomic_xor_x2     B64  [B128]  {ATOMIC}
       0x6b 0x6b s_buffer_atomic_inc_x2     B64  [B128]  {ATOMIC}
       0x6c 0x6c s_buffer_atomic_dec_x2     B64  [B128]  {ATOMIC}
       0x80 0x80 s_atomic_swap              B32  [B64]   {ATOMIC}
       0x81 0x81 s_atomic_cmpswap           B64  [B64]   {ATOMIC COMPARE}
       0x82 0x82 s_atomic_add               B32  [B64]   {ATOMIC}
       0x83 0x83 s_atomic_sub               B32  [B64]   {ATOMIC}
       0x84 0x84 s_atomic_smin              B32  [B64]   {ATOMIC}
       0x85 0x85 s_atomic_umin              B32  [B64]   {ATOMIC}
       0x86 0x86 s_atomic_smax              B32  [B64]   {ATOMIC}
       0x87 0x87 s_atomic_umax              B32  [B64]   {ATOMIC}
       0x88 0x88 s_atomic_and               B32  [B64]   {ATOMIC}
       0x89 0x89 s_atomic_or                B32  [B64]   {ATOMIC}
       0x8a 0x8a s_atomic_xor               B32  [B64]   {ATOMIC}
       0x8b 0x8b s_atomic_inc               B32  [B64]   {ATOMIC}
       0x8c 0x8c s_atomic_dec               B32  [B64]   {ATOMIC}
       0xa0 0xa0 s_atomic_swap_x2           B64  [B64]   {ATOMIC}
       0xa1 0xa1 s_atomic_cmpswap_x2        B128 [B64]   {ATOMIC COMPARE}
       0xa2 0xa2 s_atomic_add_x2            B64  [B64]   {ATOMIC}
       0xa3 0xa3 s_atomic_sub_x2            B64  [B64]   {ATOMIC}
       0xa4 0xa4 s_atomic_smin_x2           B64  [B64]   {ATOMIC}
       0xa5 0xa5 s_atomic_umin_x2           B64  [B64]   {ATOMIC}
       0xa6 0xa6 s_atomic_smax_x2           B64  [B64]   {ATOMIC}
       0xa7 0xa7 s_atomic_umax_x2           B64  [B64]   {ATOMIC}
       0xa8 0xa8 s_atomic_and_x2            B64  [B64]   {ATOMIC}
       0xa9 0xa9 s_atomic_or_x2             B64  [B64]   {ATOMIC}
       0xaa 0xaa s_atomic_xor_x2            B64  [B64]   {ATOMIC}
       0xab 0xab s_atomic_inc_x2            B64  [B64]   {ATOMIC}
       0xac 0xac s_atomic_dec_x2            B64  [B64]   {ATOMIC}
    }] } };
}
