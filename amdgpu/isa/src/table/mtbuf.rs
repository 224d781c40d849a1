//! MTBUF: typed buffers. Sources are address, data, resource and scalar offset.

#[rustfmt::skip]
macro_rules! mtbuf {
    ($next:ident $($rest:tt)*) => { $next! { $($rest)* [Mtbuf {
    // 90a  942  mnemonic                      dst  sources             flags
       0x00 0x00 tbuffer_load_format_x         B32  [U32 _ B128 U32]    {}
       0x01 0x01 tbuffer_load_format_xy        B64  [U32 _ B128 U32]    {}
       0x02 0x02 tbuffer_load_format_xyz       B96  [U32 _ B128 U32]    {}
       0x03 0x03 tbuffer_load_format_xyzw      B128 [U32 _ B128 U32]    {}
       0x04 0x04 tbuffer_store_format_x        _    [U32 B32 B128 U32]  {STORE}
       0x05 0x05 tbuffer_store_format_xy       _    [U32 B64 B128 U32]  {STORE}
       0x06 0x06 tbuffer_store_format_xyz      _    [U32 B96 B128 U32]  {STORE}
       0x07 0x07 tbuffer_store_format_xyzw     _    [U32 B128 B128 U32] {STORE}
       0x08 0x08 tbuffer_load_format_d16_x     B32  [U32 _ B128 U32]    {}
       0x09 0x09 tbuffer_load_format_d16_xy    B32  [U32 _ B128 U32]    {}
       0x0a 0x0a tbuffer_load_format_d16_xyz   B64  [U32 _ B128 U32]    {}
       0x0b 0x0b tbuffer_load_format_d16_xyzw  B64  [U32 _ B128 U32]    {}
       0x0c 0x0c tbuffer_store_format_d16_x    _    [U32 B32 B128 U32]  {STORE}
       0x0d 0x0d tbuffer_store_format_d16_xy   _    [U32 B32 B128 U32]  {STORE}
       0x0e 0x0e tbuffer_store_format_d16_xyz  _    [U32 B64 B128 U32]  {STORE}
       0x0f 0x0f tbuffer_store_format_d16_xyzw _    [U32 B64 B128 U32]  {STORE}
    }] } };
}
