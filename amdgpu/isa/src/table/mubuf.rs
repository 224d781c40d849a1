//! MUBUF: untyped buffers. Sources are address, data, resource and scalar offset.

#[rustfmt::skip]
macro_rules! mubuf {
    ($next:ident $($rest:tt)*) => { $next! { $($rest)* [Mubuf {
    // 90a  942  mnemonic                     dst   sources              flags
       0x00 0x00 buffer_load_format_x         B32   [U32 _ B128 U32]     {LDS_OK}
       0x01 0x01 buffer_load_format_xy        B64   [U32 _ B128 U32]     {}
       0x02 0x02 buffer_load_format_xyz       B96   [U32 _ B128 U32]     {}
       0x03 0x03 buffer_load_format_xyzw      B128  [U32 _ B128 U32]     {}
       0x04 0x04 buffer_store_format_x        _     [U32 B32 B128 U32]   {STORE}
       0x05 0x05 buffer_store_format_xy       _     [U32 B64 B128 U32]   {STORE}
       0x06 0x06 buffer_store_format_xyz      _     [U32 B96 B128 U32]   {STORE}
       0x07 0x07 buffer_store_format_xyzw     _     [U32 B128 B128 U32]  {STORE}
       0x08 0x08 buffer_load_format_d16_x     B32   [U32 _ B128 U32]     {}
       0x09 0x09 buffer_load_format_d16_xy    B32   [U32 _ B128 U32]     {}
       0x0a 0x0a buffer_load_format_d16_xyz   B64   [U32 _ B128 U32]     {}
       0x0b 0x0b buffer_load_format_d16_xyzw  B64   [U32 _ B128 U32]     {}
       0x0c 0x0c buffer_store_format_d16_x    _     [U32 B32 B128 U32]   {STORE}
       0x0d 0x0d buffer_store_format_d16_xy   _     [U32 B32 B128 U32]   {STORE}
       0x0e 0x0e buffer_store_format_d16_xyz  _     [U32 B64 B128 U32]   {STORE}
       0x0f 0x0f buffer_store_format_d16_xyzw _     [U32 B64 B128 U32]   {STORE}
       0x10 0x10 buffer_load_ubyte            B32   [U32 _ B128 U32]     {LDS_OK BYTE}
       0x11 0x11 buffer_load_sbyte            B32   [U32 _ B128 U32]     {LDS_OK BYTE}
       0x12 0x12 buffer_load_ushort           B32   [U32 _ B128 U32]     {LDS_OK SHORT}
       0x13 0x13 buffer_load_sshort           B32   [U32 _ B128 U32]     {LDS_OK SHORT}
       0x14 0x14 buffer_load_dword            B32   [U32 _ B128 U32]     {LDS_OK}
       0x15 0x15 buffer_load_dwordx2          B64   [U32 _ B128 U32]     {}
       0x16 0x16 buffer_load_dwordx3          B96   [U32 _ B128 U32]     {}
       0x17 0x17 buffer_load_dwordx4          B128  [U32 _ B128 U32]     {}
       0x18 0x18 buffer_store_byte            _     [U32 B32 B128 U32]   {STORE BYTE}
       0x19 0x19 buffer_store_byte_d16_hi     _     [U32 B32 B128 U32]   {STORE BYTE}
       0x1a 0x1a buffer_store_short           _     [U32 B32 B128 U32]   {STORE SHORT}
       0x1b 0x1b buffer_store_short_d16_hi    _     [U32 B32 B128 U32]   {STORE SHORT}
       0x1c 0x1c buffer_store_dword           _     [U32 B32 B128 U32]   {STORE}
       0x1d 0x1d buffer_store_dwordx2         _     [U32 B64 B128 U32]   {STORE}
       0x1e 0x1e buffer_store_dwordx3         _     [U32 B96 B128 U32]   {STORE}
       0x1f 0x1f buffer_store_dwordx4         _     [U32 B128 B128 U32]  {STORE}
       0x20 0x20 buffer_load_ubyte_d16        B32   [U32 _ B128 U32]     {BYTE}
       0x21 0x21 buffer_load_ubyte_d16_hi     B32   [U32 _ B128 U32]     {BYTE}
       0x22 0x22 buffer_load_sbyte_d16        B32   [U32 _ B128 U32]     {BYTE}
       0x23 0x23 buffer_load_sbyte_d16_hi     B32   [U32 _ B128 U32]     {BYTE}
       0x24 0x24 buffer_load_short_d16        B32   [U32 _ B128 U32]     {SHORT}
       0x25 0x25 buffer_load_short_d16_hi     B32   [U32 _ B128 U32]     {SHORT}
       0x26 0x26 buffer_load_format_d16_hi_x  B32   [U32 _ B128 U32]     {}
       0x27 0x27 buffer_store_format_d16_hi_x _     [U32 B32 B128 U32]   {STORE}
       0x28 0x28 buffer_wbl2                  _     []                   {NO_OPERANDS CACHE_BITS}
       0x29 -    buffer_invl2                 _     []                   {NO_OPERANDS}
       -    0x29 buffer_inv                   _     []                   {NO_OPERANDS CACHE_BITS}
       0x3d 0x3d buffer_store_lds_dword       _     [_ _ B128 U32]       {LDS_ONLY STORE}
       0x3e 0x3e buffer_wbinvl1               _     []                   {NO_OPERANDS}
       0x3f 0x3f buffer_wbinvl1_vol           _     []                   {NO_OPERANDS}
       0x40 0x40 buffer_atomic_swap           B32   [U32 B32 B128 U32]   {ATOMIC}
       0x41 0x41 buffer_atomic_cmpswap        B32   [U32 B64 B128 U32]   {ATOMIC COMPARE}
       0x42 0x42 buffer_atomic_add            U32   [U32 U32 B128 U32]   {ATOMIC}
       0x43 0x43 buffer_atomic_sub            U32   [U32 U32 B128 U32]   {ATOMIC}
       0x44 0x44 buffer_atomic_smin           I32   [U32 I32 B128 U32]   {ATOMIC}
       0x45 0x45 buffer_atomic_umin           U32   [U32 U32 B128 U32]   {ATOMIC}
       0x46 0x46 buffer_atomic_smax           I32   [U32 I32 B128 U32]   {ATOMIC}
       0x47 0x47 buffer_atomic_umax           U32   [U32 U32 B128 U32]   {ATOMIC}
       0x48 0x48 buffer_atomic_and            B32   [U32 B32 B128 U32]   {ATOMIC}
       0x49 0x49 buffer_atomic_or             B32   [U32 B32 B128 U32]   {ATOMIC}
       0x4a 0x4a buffer_atomic_xor            B32   [U32 B32 B128 U32]   {ATOMIC}
       0x4b 0x4b buffer_atomic_inc            U32   [U32 U32 B128 U32]   {ATOMIC}
       0x4c 0x4c buffer_atomic_dec            U32   [U32 U32 B128 U32]   {ATOMIC}
       0x4d 0x4d buffer_atomic_add_f32        F32   [U32 F32 B128 U32]   {ATOMIC NO_SCC_90A}
       0x4e 0x4e buffer_atomic_pk_add_f16     F16x2 [U32 F16x2 B128 U32] {ATOMIC NO_SCC_90A}
       0x4f 0x4f buffer_atomic_add_f64        F64   [U32 F64 B128 U32]   {ATOMIC NO_SCC_90A}
       0x50 0x50 buffer_atomic_min_f64        F64   [U32 F64 B128 U32]   {ATOMIC NO_SCC_90A}
       0x51 0x51 buffer_atomic_max_f64        F64   [U32 F64 B128 U32]   {ATOMIC NO_SCC_90A}
       0x60 0x60 buffer_atomic_swap_x2        B64   [U32 B64 B128 U32]   {ATOMIC}
       0x61 0x61 buffer_atomic_cmpswap_x2     B64   [U32 B128 B128 U32]  {ATOMIC COMPARE}
       0x62 0x62 buffer_atomic_add_x2         U64   [U32 U64 B128 U32]   {ATOMIC}
       0x63 0x63 buffer_atomic_sub_x2         U64   [U32 U64 B128 U32]   {ATOMIC}
       0x64 0x64 buffer_atomic_smin_x2        I64   [U32 I64 B128 U32]   {ATOMIC}
       0x65 0x65 buffer_atomic_umin_x2        U64   [U32 U64 B128 U32]   {ATOMIC}
       0x66 0x66 buffer_atomic_smax_x2        I64   [U32 I64 B128 U32]   {ATOMIC}
       0x67 0x67 buffer_atomic_umax_x2        U64   [U32 U64 B128 U32]   {ATOMIC}
       0x68 0x68 buffer_atomic_and_x2         B64   [U32 B64 B128 U32]   {ATOMIC}
       0x69 0x69 buffer_atomic_or_x2          B64   [U32 B64 B128 U32]   {ATOMIC}
       0x6a 0x6a buffer_atomic_xor_x2         B64   [U32 B64 B128 U32]   {ATOMIC}
       0x6b 0x6b buffer_atomic_inc_x2         U64   [U32 U64 B128 U32]   {ATOMIC}
       0x6c 0x6c buffer_atomic_dec_x2         U64   [U32 U64 B128 U32]   {ATOMIC}
    }] } };
}
