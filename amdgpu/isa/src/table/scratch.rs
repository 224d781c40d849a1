//! SCRATCH: private memory. Sources are address and data.

#[rustfmt::skip]
macro_rules! scratch {
    ($next:ident $($rest:tt)*) => { $next! { $($rest)* [Scratch {
    // 90a  942  mnemonic                   dst  sources    flags
       0x10 0x10 scratch_load_ubyte         B32  [U32]      {LDS_90A BYTE}
       0x11 0x11 scratch_load_sbyte         B32  [U32]      {LDS_90A BYTE}
       0x12 0x12 scratch_load_ushort        B32  [U32]      {LDS_90A SHORT}
       0x13 0x13 scratch_load_sshort        B32  [U32]      {LDS_90A SHORT}
       0x14 0x14 scratch_load_dword         B32  [U32]      {LDS_90A}
       0x15 0x15 scratch_load_dwordx2       B64  [U32]      {}
       0x16 0x16 scratch_load_dwordx3       B96  [U32]      {}
       0x17 0x17 scratch_load_dwordx4       B128 [U32]      {}
       0x18 0x18 scratch_store_byte         _    [U32 B32]  {STORE BYTE}
       0x19 0x19 scratch_store_byte_d16_hi  _    [U32 B32]  {STORE BYTE}
       0x1a 0x1a scratch_store_short        _    [U32 B32]  {STORE SHORT}
       0x1b 0x1b scratch_store_short_d16_hi _    [U32 B32]  {STORE SHORT}
       0x1c 0x1c scratch_store_dword        _    [U32 B32]  {STORE}
       0x1d 0x1d scratch_store_dwordx2      _    [U32 B64]  {STORE}
       0x1e 0x1e scratch_store_dwordx3      _    [U32 B96]  {STORE}
       0x1f 0x1f scratch_store_dwordx4      _    [U32 B128] {STORE}
       0x20 0x20 scratch_load_ubyte_d16     B32  [U32]      {BYTE}
       0x21 0x21 scratch_load_ubyte_d16_hi  B32  [U32]      {BYTE}
       0x22 0x22 scratch_load_sbyte_d16     B32  [U32]      {BYTE}
       0x23 0x23 scratch_load_sbyte_d16_hi  B32  [U32]      {BYTE}
       0x24 0x24 scratch_load_short_d16     B32  [U32]      {SHORT}
       0x25 0x25 scratch_load_short_d16_hi  B32  [U32]      {SHORT}
       -    0x26 scratch_load_lds_ubyte     _    [U32]      {LDS_LOAD BYTE}
       -    0x27 scratch_load_lds_sbyte     _    [U32]      {LDS_LOAD BYTE}
       -    0x28 scratch_load_lds_ushort    _    [U32]      {LDS_LOAD SHORT}
       -    0x29 scratch_load_lds_sshort    _    [U32]      {LDS_LOAD SHORT}
       -    0x2a scratch_load_lds_dword     _    [U32]      {LDS_LOAD}
    }] } };
}
