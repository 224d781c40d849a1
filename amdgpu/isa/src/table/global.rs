//! GLOBAL: global memory. Sources are address and data; the address is 32 bits when a scalar base is given.

#[rustfmt::skip]
macro_rules! global {
    ($next:ident $($rest:tt)*) => { $next! { $($rest)* [Global {
    // 90a  942  mnemonic                  dst    sources      flags
       0x10 0x10 global_load_ubyte         B32    [U64]        {LDS_90A BYTE}
       0x11 0x11 global_load_sbyte         B32    [U64]        {LDS_90A BYTE}
       0x12 0x12 global_load_ushort        B32    [U64]        {LDS_90A SHORT}
       0x13 0x13 global_load_sshort        B32    [U64]        {LDS_90A SHORT}
       0x14 0x14 global_load_dword         B32    [U64]        {LDS_90A}
       0x15 0x15 global_load_dwordx2       B64    [U64]        {}
       0x16 0x16 global_load_dwordx3       B96    [U64]        {}
       0x17 0x17 global_load_dwordx4       B128   [U64]        {}
       0x18 0x18 global_store_byte         _      [U64 B32]    {STORE BYTE}
       0x19 0x19 global_store_byte_d16_hi  _      [U64 B32]    {STORE BYTE}
       0x1a 0x1a global_store_short        _      [U64 B32]    {STORE SHORT}
       0x1b 0x1b global_store_short_d16_hi _      [U64 B32]    {STORE SHORT}
       0x1c 0x1c global_store_dword        _      [U64 B32]    {STORE}
       0x1d 0x1d global_store_dwordx2      _      [U64 B64]    {STORE}
       0x1e 0x1e global_store_dwordx3      _      [U64 B96]    {STORE}
       0x1f 0x1f global_store_dwordx4      _      [U64 B128]   {STORE}
       0x20 0x20 global_load_ubyte_d16     B32    [U64]        {BYTE}
       0x21 0x21 global_load_ubyte_d16_hi  B32    [U64]        {BYTE}
       0x22 0x22 global_load_sbyte_d16     B32    [U64]        {BYTE}
       0x23 0x23 global_load_sbyte_d16_hi  B32    [U64]        {BYTE}
       0x24 0x24 global_load_short_d16     B32    [U64]        {SHORT}
       0x25 0x25 global_load_short_d16_hi  B32    [U64]        {SHORT}
       -    0x26 global_load_lds_ubyte     _      [U64]        {LDS_LOAD BYTE}
       -    0x27 global_load_lds_sbyte     _      [U64]        {LDS_LOAD BYTE}
       -    0x28 global_load_lds_ushort    _      [U64]        {LDS_LOAD SHORT}
       -    0x29 global_load_lds_sshort    _      [U64]        {LDS_LOAD SHORT}
       -    0x2a global_load_lds_dword     _      [U64]        {LDS_LOAD}
       0x40 0x40 global_atomic_swap        B32    [U64 B32]    {ATOMIC}
       0x41 0x41 global_atomic_cmpswap     B32    [U64 B64]    {ATOMIC COMPARE}
       0x42 0x42 global_atomic_add         U32    [U64 U32]    {ATOMIC}
       0x43 0x43 global_atomic_sub         U32    [U64 U32]    {ATOMIC}
       0x44 0x44 global_atomic_smin        I32    [U64 I32]    {ATOMIC}
       0x45 0x45 global_atomic_umin        U32    [U64 U32]    {ATOMIC}
       0x46 0x46 global_atomic_smax        I32    [U64 I32]    {ATOMIC}
       0x47 0x47 global_atomic_umax        U32    [U64 U32]    {ATOMIC}
       0x48 0x48 global_atomic_and         B32    [U64 B32]    {ATOMIC}
       0x49 0x49 global_atomic_or          B32    [U64 B32]    {ATOMIC}
       0x4a 0x4a global_atomic_xor         B32    [U64 B32]    {ATOMIC}
       0x4b 0x4b global_atomic_inc         U32    [U64 U32]    {ATOMIC}
       0x4c 0x4c global_atomic_dec         U32    [U64 U32]    {ATOMIC}
       0x4d 0x4d global_atomic_add_f32     F32    [U64 F32]    {ATOMIC NO_SCC_90A}
       0x4e 0x4e global_atomic_pk_add_f16  F16x2  [U64 F16x2]  {ATOMIC NO_SCC_90A}
       0x4f 0x4f global_atomic_add_f64     F64    [U64 F64]    {ATOMIC NO_SCC_90A}
       0x50 0x50 global_atomic_min_f64     F64    [U64 F64]    {ATOMIC NO_SCC_90A}
       0x51 0x51 global_atomic_max_f64     F64    [U64 F64]    {ATOMIC NO_SCC_90A}
       -    0x52 global_atomic_pk_add_bf16 BF16x2 [U64 BF16x2] {ATOMIC}
       0x60 0x60 global_atomic_swap_x2     B64    [U64 B64]    {ATOMIC}
       0x61 0x61 global_atomic_cmpswap_x2  B64    [U64 B128]   {ATOMIC COMPARE}
       0x62 0x62 global_atomic_add_x2      U64    [U64 U64]    {ATOMIC}
       0x63 0x63 global_atomic_sub_x2      U64    [U64 U64]    {ATOMIC}
       0x64 0x64 global_atomic_smin_x2     I64    [U64 I64]    {ATOMIC}
       0x65 0x65 global_atomic_umin_x2     U64    [U64 U64]    {ATOMIC}
       0x66 0x66 global_atomic_smax_x2     I64    [U64 I64]    {ATOMIC}
       0x67 0x67 global_atomic_umax_x2     U64    [U64 U64]    {ATOMIC}
       0x68 0x68 global_atomic_and_x2      B64    [U64 B64]    {ATOMIC}
       0x69 0x69 global_atomic_or_x2       B64    [U64 B64]    {ATOMIC}
       0x6a 0x6a global_atomic_xor_x2      B64    [U64 B64]    {ATOMIC}
       0x6b 0x6b global_atomic_inc_x2      U64    [U64 U64]    {ATOMIC}
       0x6c 0x6c global_atomic_dec_x2      U64    [U64 U64]    {ATOMIC}
    }] } };
}
