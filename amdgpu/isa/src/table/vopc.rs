//! VOPC: vector comparisons, in 32-bit, 64-bit and SDWA forms. The result is a lane mask.

#[rustfmt::skip]
macro_rules! vopc {
    ($next:ident $($rest:tt)*) => { $next! { $($rest)* [Vopc {
    // 90a  942  mnemonic         dst sources   flags
       0x10 0x10 v_cmp_class_f32  _   [F32 U32] {MODS0 SDWA}
       0x11 0x11 v_cmpx_class_f32 _   [F32 U32] {MODS0 SDWA WRITES_EXEC}
       0x12 0x12 v_cmp_class_f64  _   [F64 U32] {MODS0}
       0x13 0x13 v_cmpx_class_f64 _   [F64 U32] {MODS0 WRITES_EXEC}
       0x14 0x14 v_cmp_class_f16  _   [F16 U32] {MODS0 SDWA}
       0x15 0x15 v_cmpx_class_f16 _   [F16 U32] {MODS0 SDWA WRITES_EXEC}
       0x20 0x20 v_cmp_f_f16      _   [F16 F16] {MODS CLAMP SDWA}
       0x21 0x21 v_cmp_lt_f16     _   [F16 F16] {MODS CLAMP SDWA}
       0x22 0x22 v_cmp_eq_f16     _   [F16 F16] {MODS CLAMP SDWA}
       0x23 0x23 v_cmp_le_f16     _   [F16 F16] {MODS CLAMP SDWA}
       0x24 0x24 v_cmp_gt_f16     _   [F16 F16] {MODS CLAMP SDWA}
       0x25 0x25 v_cmp_lg_f16     _   [F16 F16] {MODS CLAMP SDWA}
       0x26 0x26 v_cmp_ge_f16     _   [F16 F16] {MODS CLAMP SDWA}
       0x27 0x27 v_cmp_o_f16      _   [F16 F16] {MODS CLAMP SDWA}
       0x28 0x28 v_cmp_u_f16      _   [F16 F16] {MODS CLAMP SDWA}
       0x29 0x29 v_cmp_nge_f16    _   [F16 F16] {MODS CLAMP SDWA}
       0x2a 0x2a v_cmp_nlg_f16    _   [F16 F16] {MODS CLAMP SDWA}
       0x2b 0x2b v_cmp_ngt_f16    _   [F16 F16] {MODS CLAMP SDWA}
       0x2c 0x2c v_cmp_nle_f16    _   [F16 F16] {MODS CLAMP SDWA}
       0x2d 0x2d v_cmp_neq_f16    _   [F16 F16] {MODS CLAMP SDWA}
       0x2e 0x2e v_cmp_nlt_f16    _   [F16 F16] {MODS CLAMP SDWA}
       0x2f 0x2f v_cmp_tru_f16    _   [F16 F16] {MODS CLAMP SDWA}
       0x30 0x30 v_cmpx_f_f16     _   [F16 F16] {MODS CLAMP SDWA WRITES_EXEC}
       0x31 0x31 v_cmpx_lt_f16    _   [F16 F16] {MODS CLAMP SDWA WRITES_EXEC}
       0x32 0x32 v_cmpx_eq_f16    _   [F16 F16] {MODS CLAMP SDWA WRITES_EXEC}
       0x33 0x33 v_cmpx_le_f16    _   [F16 F16] {MODS CLAMP SDWA WRITES_EXEC}
       0x34 0x34 v_cmpx_gt_f16    _   [F16 F16] {MODS CLAMP SDWA WRITES_EXEC}
       0x35 0x35 v_cmpx_lg_f16    _   [F16 F16] {MODS CLAMP SDWA WRITES_EXEC}
       0x36 0x36 v_cmpx_ge_f16    _   [F16 F16] {MODS CLAMP SDWA WRITES_EXEC}
       0x37 0x37 v_cmpx_o_f16     _   [F16 F16] {MODS CLAMP SDWA WRITES_EXEC}
       0x38 0x38 v_cmpx_u_f16     _   [F16 F16] {MODS CLAMP SDWA WRITES_EXEC}
       0x39 0x39 v_cmpx_nge_f16   _   [F16 F16] {MODS CLAMP SDWA WRITES_EXEC}
       0x3a 0x3a v_cmpx_nlg_f16   _   [F16 F16] {MODS CLAMP SDWA WRITES_EXEC}
       0x3b 0x3b v_cmpx_ngt_f16   _   [F16 F16] {MODS CLAMP SDWA WRITES_EXEC}
       0x3c 0x3c v_cmpx_nle_f16   _   [F16 F16] {MODS CLAMP SDWA WRITES_EXEC}
       0x3d 0x3d v_cmpx_neq_f16   _   [F16 F16] {MODS CLAMP SDWA WRITES_EXEC}
       0x3e 0x3e v_cmpx_nlt_f16   _   [F16 F16] {MODS CLAMP SDWA WRITES_EXEC}
       0x3f 0x3f v_cmpx_tru_f16   _   [F16 F16] {MODS CLAMP SDWA WRITES_EXEC}
       0x40 0x40 v_cmp_f_f32      _   [F32 F32] {MODS CLAMP SDWA}
       0x41 0x41 v_cmp_lt_f32     _   [F32 F32] {MODS CLAMP SDWA}
       0x42 0x42 v_cmp_eq_f32     _   [F32 F32] {MODS CLAMP SDWA}
       0x43 0x43 v_cmp_le_f32     _   [F32 F32] {MODS CLAMP SDWA}
       0x44 0x44 v_cmp_gt_f32     _   [F32 F32] {MODS CLAMP SDWA}
       0x45 0x45 v_cmp_lg_f32     _   [F32 F32] {MODS CLAMP SDWA}
       0x46 0x46 v_cmp_ge_f32     _   [F32 F32] {MODS CLAMP SDWA}
       0x47 0x47 v_cmp_o_f32      _   [F32 F32] {MODS CLAMP SDWA}
       0x48 0x48 v_cmp_u_f32      _   [F32 F32] {MODS CLAMP SDWA}
       0x49 0x49 v_cmp_nge_f32    _   [F32 F32] {MODS CLAMP SDWA}
       0x4a 0x4a v_cmp_nlg_f32    _   [F32 F32] {MODS CLAMP SDWA}
       0x4b 0x4b v_cmp_ngt_f32    _   [F32 F32] {MODS CLAMP SDWA}
       0x4c 0x4c v_cmp_nle_f32    _   [F32 F32] {MODS CLAMP SDWA}
       0x4d 0x4d v_cmp_neq_f32    _   [F32 F32] {MODS CLAMP SDWA}
       0x4e 0x4e v_cmp_nlt_f32    _   [F32 F32] {MODS CLAMP SDWA}
       0x4f 0x4f v_cmp_tru_f32    _   [F32 F32] {MODS CLAMP SDWA}
       0x50 0x50 v_cmpx_f_f32     _   [F32 F32] {MODS CLAMP SDWA WRITES_EXEC}
       0x51 0x51 v_cmpx_lt_f32    _   [F32 F32] {MODS CLAMP SDWA WRITES_EXEC}
       0x52 0x52 v_cmpx_eq_f32    _   [F32 F32] {MODS CLAMP SDWA WRITES_EXEC}
       0x53 0x53 v_cmpx_le_f32    _   [F32 F32] {MODS CLAMP SDWA WRITES_EXEC}
       0x54 0x54 v_cmpx_gt_f32    _   [F32 F32] {MODS CLAMP SDWA WRITES_EXEC}
       0x55 0x55 v_cmpx_lg_f32    _   [F32 F32] {MODS CLAMP SDWA WRITES_EXEC}
       0x56 0x56 v_cmpx_ge_f32    _   [F32 F32] {MODS CLAMP SDWA WRITES_EXEC}
       0x57 0x57 v_cmpx_o_f32     _   [F32 F32] {MODS CLAMP SDWA WRITES_EXEC}
       0x58 0x58 v_cmpx_u_f32     _   [F32 F32] {MODS CLAMP SDWA WRITES_EXEC}
       0x59 0x59 v_cmpx_nge_f32   _   [F32 F32] {MODS CLAMP SDWA WRITES_EXEC}
       0x5a 0x5a v_cmpx_nlg_f32   _   [F32 F32] {MODS CLAMP SDWA WRITES_EXEC}
       0x5b 0x5b v_cmpx_ngt_f32   _   [F32 F32] {MODS CLAMP SDWA WRITES_EXEC}
       0x5c 0x5c v_cmpx_nle_f32   _   [F32 F32] {MODS CLAMP SDWA WRITES_EXEC}
       0x5d 0x5d v_cmpx_neq_f32   _   [F32 F32] {MODS CLAMP SDWA WRITES_EXEC}
       0x5e 0x5e v_cmpx_nlt_f32   _   [F32 F32] {MODS CLAMP SDWA WRITES_EXEC}
       0x5f 0x5f v_cmpx_tru_f32   _   [F32 F32] {MODS CLAMP SDWA WRITES_EXEC}
       0x60 0x60 v_cmp_f_f64      _   [F64 F64] {MODS CLAMP}
       0x61 0x61 v_cmp_lt_f64     _   [F64 F64] {MODS CLAMP}
       0x62 0x62 v_cmp_eq_f64     _   [F64 F64] {MODS CLAMP}
       0x63 0x63 v_cmp_le_f64     _   [F64 F64] {MODS CLAMP}
       0x64 0x64 v_cmp_gt_f64     _   [F64 F64] {MODS CLAMP}
       0x65 0x65 v_cmp_lg_f64     _   [F64 F64] {MODS CLAMP}
       0x66 0x66 v_cmp_ge_f64     _   [F64 F64] {MODS CLAMP}
       0x67 0x67 v_cmp_o_f64      _   [F64 F64] {MODS CLAMP}
       0x68 0x68 v_cmp_u_f64      _   [F64 F64] {MODS CLAMP}
       0x69 0x69 v_cmp_nge_f64    _   [F64 F64] {MODS CLAMP}
       0x6a 0x6a v_cmp_nlg_f64    _   [F64 F64] {MODS CLAMP}
       0x6b 0x6b v_cmp_ngt_f64    _   [F64 F64] {MODS CLAMP}
       0x6c 0x6c v_cmp_nle_f64    _   [F64 F64] {MODS CLAMP}
       0x6d 0x6d v_cmp_neq_f64    _   [F64 F64] {MODS CLAMP}
       0x6e 0x6e v_cmp_nlt_f64    _   [F64 F64] {MODS CLAMP}
       0x6f 0x6f v_cmp_tru_f64    _   [F64 F64] {MODS CLAMP}
       0x70 0x70 v_cmpx_f_f64     _   [F64 F64] {MODS CLAMP WRITES_EXEC}
       0x71 0x71 v_cmpx_lt_f64    _   [F64 F64] {MODS CLAMP WRITES_EXEC}
       0x72 0x72 v_cmpx_eq_f64    _   [F64 F64] {MODS CLAMP WRITES_EXEC}
       0x73 0x73 v_cmpx_le_f64    _   [F64 F64] {MODS CLAMP WRITES_EXEC}
       0x74 0x74 v_cmpx_gt_f64    _   [F64 F64] {MODS CLAMP WRITES_EXEC}
       0x75 0x75 v_cmpx_lg_f64    _   [F64 F64] {MODS CLAMP WRITES_EXEC}
       0x76 0x76 v_cmpx_ge_f64    _   [F64 F64] {MODS CLAMP WRITES_EXEC}
       0x77 0x77 v_cmpx_o_f64     _   [F64 F64] {MODS CLAMP WRITES_EXEC}
       0x78 0x78 v_cmpx_u_f64     _   [F64 F64] {MODS CLAMP WRITES_EXEC}
       0x79 0x79 v_cmpx_nge_f64   _   [F64 F64] {MODS CLAMP WRITES_EXEC}
       0x7a 0x7a v_cmpx_nlg_f64   _   [F64 F64] {MODS CLAMP WRITES_EXEC}
       0x7b 0x7b v_cmpx_ngt_f64   _   [F64 F64] {MODS CLAMP WRITES_EXEC}
       0x7c 0x7c v_cmpx_nle_f64   _   [F64 F64] {MODS CLAMP WRITES_EXEC}
       0x7d 0x7d v_cmpx_neq_f64   _   [F64 F64] {MODS CLAMP WRITES_EXEC}
       0x7e 0x7e v_cmpx_nlt_f64   _   [F64 F64] {MODS CLAMP WRITES_EXEC}
       0x7f 0x7f v_cmpx_tru_f64   _   [F64 F64] {MODS CLAMP WRITES_EXEC}
       0xa0 0xa0 v_cmp_f_i16      _   [I16 I16] {SDWA}
       0xa1 0xa1 v_cmp_lt_i16     _   [I16 I16] {SDWA}
       0xa2 0xa2 v_cmp_eq_i16     _   [I16 I16] {SDWA}
       0xa3 0xa3 v_cmp_le_i16     _   [I16 I16] {SDWA}
       0xa4 0xa4 v_cmp_gt_i16     _   [I16 I16] {SDWA}
       0xa5 0xa5 v_cmp_ne_i16     _   [I16 I16] {SDWA}
       0xa6 0xa6 v_cmp_ge_i16     _   [I16 I16] {SDWA}
       0xa7 0xa7 v_cmp_t_i16      _   [I16 I16] {SDWA}
       0xa8 0xa8 v_cmp_f_u16      _   [U16 U16] {SDWA}
       0xa9 0xa9 v_cmp_lt_u16     _   [U16 U16] {SDWA}
       0xaa 0xaa v_cmp_eq_u16     _   [U16 U16] {SDWA}
       0xab 0xab v_cmp_le_u16     _   [U16 U16] {SDWA}
       0xac 0xac v_cmp_gt_u16     _   [U16 U16] {SDWA}
       0xad 0xad v_cmp_ne_u16     _   [U16 U16] {SDWA}
       0xae 0xae v_cmp_ge_u16     _   [U16 U16] {SDWA}
       0xaf 0xaf v_cmp_t_u16      _   [U16 U16] {SDWA}
       0xb0 0xb0 v_cmpx_f_i16     _   [I16 I16] {SDWA WRITES_EXEC}
       0xb1 0xb1 v_cmpx_lt_i16    _   [I16 I16] {SDWA WRITES_EXEC}
       0xb2 0xb2 v_cmpx_eq_i16    _   [I16 I16] {SDWA WRITES_EXEC}
       0xb3 0xb3 v_cmpx_le_i16    _   [I16 I16] {SDWA WRITES_EXEC}
       0xb4 0xb4 v_cmpx_gt_i16    _   [I16 I16] {SDWA WRITES_EXEC}
       0xb5 0xb5 v_cmpx_ne_i16    _   [I16 I16] {SDWA WRITES_EXEC}
       0xb6 0xb6 v_cmpx_ge_i16    _   [I16 I16] {SDWA WRITES_EXEC}
       0xb7 0xb7 v_cmpx_t_i16     _   [I16 I16] {SDWA WRITES_EXEC}
       0xb8 0xb8 v_cmpx_f_u16     _   [U16 U16] {SDWA WRITES_EXEC}
       0xb9 0xb9 v_cmpx_lt_u16    _   [U16 U16] {SDWA WRITES_EXEC}
       0xba 0xba v_cmpx_eq_u16    _   [U16 U16] {SDWA WRITES_EXEC}
       0xbb 0xbb v_cmpx_le_u16    _   [U16 U16] {SDWA WRITES_EXEC}
       0xbc 0xbc v_cmpx_gt_u16    _   [U16 U16] {SDWA WRITES_EXEC}
       0xbd 0xbd v_cmpx_ne_u16    _   [U16 U16] {SDWA WRITES_EXEC}
       0xbe 0xbe v_cmpx_ge_u16    _   [U16 U16] {SDWA WRITES_EXEC}
       0xbf 0xbf v_cmpx_t_u16     _   [U16 U16] {SDWA WRITES_EXEC}
       0xc0 0xc0 v_cmp_f_i32      _   [I32 I32] {SDWA}
       0xc1 0xc1 v_cmp_lt_i32     _   [I32 I32] {SDWA HOT}
       0xc2 0xc2 v_cmp_eq_i32     _   [I32 I32] {SDWA HOT}
       0xc3 0xc3 v_cmp_le_i32     _   [I32 I32] {SDWA HOT}
       0xc4 0xc4 v_cmp_gt_i32     _   [I32 I32] {SDWA HOT}
       0xc5 0xc5 v_cmp_ne_i32     _   [I32 I32] {SDWA HOT}
       0xc6 0xc6 v_cmp_ge_i32     _   [I32 I32] {SDWA HOT}
       0xc7 0xc7 v_cmp_t_i32      _   [I32 I32] {SDWA}
       0xc8 0xc8 v_cmp_f_u32      _   [U32 U32] {SDWA}
       0xc9 0xc9 v_cmp_lt_u32     _   [U32 U32] {SDWA HOT}
       0xca 0xca v_cmp_eq_u32     _   [U32 U32] {SDWA HOT}
       0xcb 0xcb v_cmp_le_u32     _   [U32 U32] {SDWA HOT}
       0xcc 0xcc v_cmp_gt_u32     _   [U32 U32] {SDWA HOT}
       0xcd 0xcd v_cmp_ne_u32     _   [U32 U32] {SDWA HOT}
       0xce 0xce v_cmp_ge_u32     _   [U32 U32] {SDWA HOT}
       0xcf 0xcf v_cmp_t_u32      _   [U32 U32] {SDWA}
       0xd0 0xd0 v_cmpx_f_i32     _   [I32 I32] {SDWA WRITES_EXEC}
       0xd1 0xd1 v_cmpx_lt_i32    _   [I32 I32] {SDWA WRITES_EXEC}
       0xd2 0xd2 v_cmpx_eq_i32    _   [I32 I32] {SDWA WRITES_EXEC}
       0xd3 0xd3 v_cmpx_le_i32    _   [I32 I32] {SDWA WRITES_EXEC}
       0xd4 0xd4 v_cmpx_gt_i32    _   [I32 I32] {SDWA WRITES_EXEC}
       0xd5 0xd5 v_cmpx_ne_i32    _   [I32 I32] {SDWA WRITES_EXEC}
       0xd6 0xd6 v_cmpx_ge_i32    _   [I32 I32] {SDWA WRITES_EXEC}
       0xd7 0xd7 v_cmpx_t_i32     _   [I32 I32] {SDWA WRITES_EXEC}
       0xd8 0xd8 v_cmpx_f_u32     _   [U32 U32] {SDWA WRITES_EXEC}
       0xd9 0xd9 v_cmpx_lt_u32    _   [U32 U32] {SDWA WRITES_EXEC}
       0xda 0xda v_cmpx_eq_u32    _   [U32 U32] {SDWA WRITES_EXEC}
       0xdb 0xdb v_cmpx_le_u32    _   [U32 U32] {SDWA WRITES_EXEC}
       0xdc 0xdc v_cmpx_gt_u32    _   [U32 U32] {SDWA WRITES_EXEC}
       0xdd 0xdd v_cmpx_ne_u32    _   [U32 U32] {SDWA WRITES_EXEC}
       0xde 0xde v_cmpx_ge_u32    _   [U32 U32] {SDWA WRITES_EXEC}
       0xdf 0xdf v_cmpx_t_u32     _   [U32 U32] {SDWA WRITES_EXEC}
       0xe0 0xe0 v_cmp_f_i64      _   [I64 I64] {}
       0xe1 0xe1 v_cmp_lt_i64     _   [I64 I64] {}
       0xe2 0xe2 v_cmp_eq_i64     _   [I64 I64] {}
       0xe3 0xe3 v_cmp_le_i64     _   [I64 I64] {}
       0xe4 0xe4 v_cmp_gt_i64     _   [I64 I64] {}
       0xe5 0xe5 v_cmp_ne_i64     _   [I64 I64] {}
       0xe6 0xe6 v_cmp_ge_i64     _   [I64 I64] {}
       0xe7 0xe7 v_cmp_t_i64      _   [I64 I64] {}
       0xe8 0xe8 v_cmp_f_u64      _   [U64 U64] {}
       0xe9 0xe9 v_cmp_lt_u64     _   [U64 U64] {}
       0xea 0xea v_cmp_eq_u64     _   [U64 U64] {}
       0xeb 0xeb v_cmp_le_u64     _   [U64 U64] {}
       0xec 0xec v_cmp_gt_u64     _   [U64 U64] {}
       0xed 0xed v_cmp_ne_u64     _   [U64 U64] {}
       0xee 0xee v_cmp_ge_u64     _   [U64 U64] {}
       0xef 0xef v_cmp_t_u64      _   [U64 U64] {}
       0xf0 0xf0 v_cmpx_f_i64     _   [I64 I64] {WRITES_EXEC}
       0xf1 0xf1 v_cmpx_lt_i64    _   [I64 I64] {WRITES_EXEC}
       0xf2 0xf2 v_cmpx_eq_i64    _   [I64 I64] {WRITES_EXEC}
       0xf3 0xf3 v_cmpx_le_i64    _   [I64 I64] {WRITES_EXEC}
       0xf4 0xf4 v_cmpx_gt_i64    _   [I64 I64] {WRITES_EXEC}
       0xf5 0xf5 v_cmpx_ne_i64    _   [I64 I64] {WRITES_EXEC}
       0xf6 0xf6 v_cmpx_ge_i64    _   [I64 I64] {WRITES_EXEC}
       0xf7 0xf7 v_cmpx_t_i64     _   [I64 I64] {WRITES_EXEC}
       0xf8 0xf8 v_cmpx_f_u64     _   [U64 U64] {WRITES_EXEC}
       0xf9 0xf9 v_cmpx_lt_u64    _   [U64 U64] {WRITES_EXEC}
       0xfa 0xfa v_cmpx_eq_u64    _   [U64 U64] {WRITES_EXEC}
       0xfb 0xfb v_cmpx_le_u64    _   [U64 U64] {WRITES_EXEC}
       0xfc 0xfc v_cmpx_gt_u64    _   [U64 U64] {WRITES_EXEC}
       0xfd 0xfd v_cmpx_ne_u64    _   [U64 U64] {WRITES_EXEC}
       0xfe 0xfe v_cmpx_ge_u64    _   [U64 U64] {WRITES_EXEC}
       0xff 0xff v_cmpx_t_u64     _   [U64 U64] {WRITES_EXEC}
    }] } };
}
