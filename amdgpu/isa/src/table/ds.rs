//! DS: local and global data share. Sources are address, data 0 and data 1.

#[rustfmt::skip]
macro_rules! ds {
    ($next:ident $($rest:tt)*) => { $next! { $($rest)* [Ds {
    // 90a  942  mnemonic                dst    sources       flags
       0x00 0x00 ds_add_u32              _      [U32 U32]     {ATOMIC}
       0x01 0x01 ds_sub_u32              _      [U32 U32]     {ATOMIC}
       0x02 0x02 ds_rsub_u32             _      [U32 U32]     {ATOMIC}
       0x03 0x03 ds_inc_u32              _      [U32 U32]     {ATOMIC}
       0x04 0x04 ds_dec_u32              _      [U32 U32]     {ATOMIC}
       0x05 0x05 ds_min_i32              _      [U32 I32]     {ATOMIC}
       0x06 0x06 ds_max_i32              _      [U32 I32]     {ATOMIC}
       0x07 0x07 ds_min_u32              _      [U32 U32]     {ATOMIC}
       0x08 0x08 ds_max_u32              _      [U32 U32]     {ATOMIC}
       0x09 0x09 ds_and_b32              _      [U32 B32]     {ATOMIC}
       0x0a 0x0a ds_or_b32               _      [U32 B32]     {ATOMIC}
       0x0b 0x0b ds_xor_b32              _      [U32 B32]     {ATOMIC}
       0x0c 0x0c ds_mskor_b32            _      [U32 B32 B32] {ATOMIC}
       0x0d 0x0d ds_write_b32            _      [U32 B32]     {STORE}
       0x0e 0x0e ds_write2_b32           _      [U32 B32 B32] {OFFSET2 STORE}
       0x0f 0x0f ds_write2st64_b32       _      [U32 B32 B32] {OFFSET2 STORE STRIDE64}
       0x10 0x10 ds_cmpst_b32            _      [U32 B32 B32] {ATOMIC}
       0x11 0x11 ds_cmpst_f32            _      [U32 F32 F32] {ATOMIC}
       0x12 0x12 ds_min_f32              _      [U32 F32]     {ATOMIC}
       0x13 0x13 ds_max_f32              _      [U32 F32]     {ATOMIC}
       0x14 0x14 ds_nop                  _      []            {NO_OPERANDS}
       0x15 0x15 ds_add_f32              _      [U32 F32]     {ATOMIC}
       -    0x17 ds_pk_add_f16           _      [U32 F16x2]   {ATOMIC}
       -    0x18 ds_pk_add_bf16          _      [U32 BF16x2]  {ATOMIC}
       0x1d 0x1d ds_write_addtid_b32     _      [_ B32]       {STORE}
       0x1e 0x1e ds_write_b8             _      [U32 B32]     {STORE BYTE}
       0x1f 0x1f ds_write_b16            _      [U32 B32]     {STORE SHORT}
       0x20 0x20 ds_add_rtn_u32          U32    [U32 U32]     {ATOMIC}
       0x21 0x21 ds_sub_rtn_u32          U32    [U32 U32]     {ATOMIC}
       0x22 0x22 ds_rsub_rtn_u32         U32    [U32 U32]     {ATOMIC}
       0x23 0x23 ds_inc_rtn_u32          U32    [U32 U32]     {ATOMIC}
       0x24 0x24 ds_dec_rtn_u32          U32    [U32 U32]     {ATOMIC}
       0x25 0x25 ds_min_rtn_i32          I32    [U32 I32]     {ATOMIC}
       0x26 0x26 ds_max_rtn_i32          I32    [U32 I32]     {ATOMIC}
       0x27 0x27 ds_min_rtn_u32          U32    [U32 U32]     {ATOMIC}
       0x28 0x28 ds_max_rtn_u32          U32    [U32 U32]     {ATOMIC}
       0x29 0x29 ds_and_rtn_b32          B32    [U32 B32]     {ATOMIC}
       0x2a 0x2a ds_or_rtn_b32           B32    [U32 B32]     {ATOMIC}
       0x2b 0x2b ds_xor_rtn_b32          B32    [U32 B32]     {ATOMIC}
       0x2c 0x2c ds_mskor_rtn_b32        B32    [U32 B32 B32] {ATOMIC}
       0x2d 0x2d ds_wrxchg_rtn_b32       B32    [U32 B32]     {ATOMIC}
       0x2e 0x2e ds_wrxchg2_rtn_b32      B64    [U32 B32 B32] {OFFSET2 ATOMIC}
       0x2f 0x2f ds_wrxchg2st64_rtn_b32  B64    [U32 B32 B32] {OFFSET2 ATOMIC STRIDE64}
       0x30 0x30 ds_cmpst_rtn_b32        B32    [U32 B32 B32] {ATOMIC}
       0x31 0x31 ds_cmpst_rtn_f32        F32    [U32 F32 F32] {ATOMIC}
       0x32 0x32 ds_min_rtn_f32          F32    [U32 F32]     {ATOMIC}
       0x33 0x33 ds_max_rtn_f32          F32    [U32 F32]     {ATOMIC}
       0x34 0x34 ds_wrap_rtn_b32         B32    [U32 B32 B32] {ATOMIC}
       0x35 0x35 ds_add_rtn_f32          F32    [U32 F32]     {ATOMIC}
       0x36 0x36 ds_read_b32             B32    [U32]         {}
       0x37 0x37 ds_read2_b32            B64    [U32]         {OFFSET2}
       0x38 0x38 ds_read2st64_b32        B64    [U32]         {OFFSET2 STRIDE64}
       0x39 0x39 ds_read_i8              I32    [U32]         {BYTE}
       0x3a 0x3a ds_read_u8              U32    [U32]         {BYTE}
       0x3b 0x3b ds_read_i16             I32    [U32]         {SHORT}
       0x3c 0x3c ds_read_u16             U32    [U32]         {SHORT}
       0x3d 0x3d ds_swizzle_b32          B32    [U32]         {SWIZZLE CROSS_LANE}
       0x3e 0x3e ds_permute_b32          B32    [U32 B32]     {NO_GDS CROSS_LANE}
       0x3f 0x3f ds_bpermute_b32         B32    [U32 B32]     {NO_GDS CROSS_LANE}
       0x40 0x40 ds_add_u64              _      [U32 U64]     {ATOMIC}
       0x41 0x41 ds_sub_u64              _      [U32 U64]     {ATOMIC}
       0x42 0x42 ds_rsub_u64             _      [U32 U64]     {ATOMIC}
       0x43 0x43 ds_inc_u64              _      [U32 U64]     {ATOMIC}
       0x44 0x44 ds_dec_u64              _      [U32 U64]     {ATOMIC}
       0x45 0x45 ds_min_i64              _      [U32 I64]     {ATOMIC}
       0x46 0x46 ds_max_i64              _      [U32 I64]     {ATOMIC}
       0x47 0x47 ds_min_u64              _      [U32 U64]     {ATOMIC}
       0x48 0x48 ds_max_u64              _      [U32 U64]     {ATOMIC}
       0x49 0x49 ds_and_b64              _      [U32 B64]     {ATOMIC}
       0x4a 0x4a ds_or_b64               _      [U32 B64]     {ATOMIC}
       0x4b 0x4b ds_xor_b64              _      [U32 B64]     {ATOMIC}
       0x4c 0x4c ds_mskor_b64            _      [U32 B64 B64] {ATOMIC}
       0x4d 0x4d ds_write_b64            _      [U32 B64]     {STORE}
       0x4e 0x4e ds_write2_b64           _      [U32 B64 B64] {OFFSET2 STORE}
       0x4f 0x4f ds_write2st64_b64       _      [U32 B64 B64] {OFFSET2 STORE STRIDE64}
       0x50 0x50 ds_cmpst_b64            _      [U32 B64 B64] {ATOMIC}
       0x51 0x51 ds_cmpst_f64            _      [U32 F64 F64] {ATOMIC}
       0x52 0x52 ds_min_f64              _      [U32 F64]     {ATOMIC}
       0x53 0x53 ds_max_f64              _      [U32 F64]     {ATOMIC}
       0x54 0x54 ds_write_b8_d16_hi      _      [U32 B32]     {STORE BYTE}
       0x55 0x55 ds_write_b16_d16_hi     _      [U32 B32]     {STORE SHORT}
       0x56 0x56 ds_read_u8_d16          U32    [U32]         {BYTE}
       0x57 0x57 ds_read_u8_d16_hi       U32    [U32]         {BYTE}
       0x58 0x58 ds_read_i8_d16          I32    [U32]         {BYTE}
       0x59 0x59 ds_read_i8_d16_hi       I32    [U32]         {BYTE}
       0x5a 0x5a ds_read_u16_d16         U32    [U32]         {SHORT}
       0x5b 0x5b ds_read_u16_d16_hi      U32    [U32]         {SHORT}
       0x5c 0x5c ds_add_f64              _      [U32 F64]     {ATOMIC}
       0x60 0x60 ds_add_rtn_u64          U64    [U32 U64]     {ATOMIC}
       0x61 0x61 ds_sub_rtn_u64          U64    [U32 U64]     {ATOMIC}
       0x62 0x62 ds_rsub_rtn_u64         U64    [U32 U64]     {ATOMIC}
       0x63 0x63 ds_inc_rtn_u64          U64    [U32 U64]     {ATOMIC}
       0x64 0x64 ds_dec_rtn_u64          U64    [U32 U64]     {ATOMIC}
       0x65 0x65 ds_min_rtn_i64          I64    [U32 I64]     {ATOMIC}
       0x66 0x66 ds_max_rtn_i64          I64    [U32 I64]     {ATOMIC}
       0x67 0x67 ds_min_rtn_u64          U64    [U32 U64]     {ATOMIC}
       0x68 0x68 ds_max_rtn_u64          U64    [U32 U64]     {ATOMIC}
       0x69 0x69 ds_and_rtn_b64          B64    [U32 B64]     {ATOMIC}
       0x6a 0x6a ds_or_rtn_b64           B64    [U32 B64]     {ATOMIC}
       0x6b 0x6b ds_xor_rtn_b64          B64    [U32 B64]     {ATOMIC}
       0x6c 0x6c ds_mskor_rtn_b64        B64    [U32 B64 B64] {ATOMIC}
       0x6d 0x6d ds_wrxchg_rtn_b64       B64    [U32 B64]     {ATOMIC}
       0x6e 0x6e ds_wrxchg2_rtn_b64      B128   [U32 B64 B64] {OFFSET2 ATOMIC}
       0x6f 0x6f ds_wrxchg2st64_rtn_b64  B128   [U32 B64 B64] {OFFSET2 ATOMIC STRIDE64}
       0x70 0x70 ds_cmpst_rtn_b64        B64    [U32 B64 B64] {ATOMIC}
       0x71 0x71 ds_cmpst_rtn_f64        F64    [U32 F64 F64] {ATOMIC}
       0x72 0x72 ds_min_rtn_f64          F64    [U32 F64]     {ATOMIC}
       0x73 0x73 ds_max_rtn_f64          F64    [U32 F64]     {ATOMIC}
       0x76 0x76 ds_read_b64             B64    [U32]         {}
       0x77 0x77 ds_read2_b64            B128   [U32]         {OFFSET2}
       0x78 0x78 ds_read2st64_b64        B128   [U32]         {OFFSET2 STRIDE64}
       0x7c 0x7c ds_add_rtn_f64          F64    [U32 F64]     {ATOMIC}
       0x7e 0x7e ds_condxchg32_rtn_b64   B64    [U32 B64]     {ATOMIC}
       0x98 0x98 ds_gws_sema_release_all _      []            {GDS_ONLY}
       0x99 0x99 ds_gws_init             _      [B32]         {GDS_ONLY}
       0x9a 0x9a ds_gws_sema_v           _      []            {GDS_ONLY}
       0x9b 0x9b ds_gws_sema_br          _      [B32]         {GDS_ONLY}
       0x9c 0x9c ds_gws_sema_p           _      []            {GDS_ONLY}
       0x9d 0x9d ds_gws_barrier          _      [B32]         {GDS_ONLY}
       0xb6 0xb6 ds_read_addtid_b32      B32    []            {}
       -    0xb7 ds_pk_add_rtn_f16       F16x2  [U32 F16x2]   {ATOMIC}
       -    0xb8 ds_pk_add_rtn_bf16      BF16x2 [U32 BF16x2]  {ATOMIC}
       0xbd 0xbd ds_consume              B32    []            {ATOMIC}
       0xbe 0xbe ds_append               B32    []            {ATOMIC}
       0xde 0xde ds_write_b96            _      [U32 B96]     {STORE}
       0xdf 0xdf ds_write_b128           _      [U32 B128]    {STORE}
       0xfe 0xfe ds_read_b96             B96    [U32]         {}
       0xff 0xff ds_read_b128            B128   [U32]         {}
    }] } };
}
