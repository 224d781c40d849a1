//! VOP3P: packed operations, mixed-precision FMA and the matrix unit.

#[rustfmt::skip]
macro_rules! vop3p {
    ($next:ident $($rest:tt)*) => { $next! { $($rest)* [Vop3p {
    // 90a  942  mnemonic                      dst    sources                flags
       0x00 0x00 v_pk_mad_i16                  I16x2  [I16x2 I16x2 I16x2]    {SATURATES}
       0x01 0x01 v_pk_mul_lo_u16               U16x2  [U16x2 U16x2]          {}
       0x02 0x02 v_pk_add_i16                  I16x2  [I16x2 I16x2]          {SATURATES}
       0x03 0x03 v_pk_sub_i16                  I16x2  [I16x2 I16x2]          {SATURATES}
       0x04 0x04 v_pk_lshlrev_b16              B16x2  [U16x2 B16x2]          {}
       0x05 0x05 v_pk_lshrrev_b16              B16x2  [U16x2 B16x2]          {}
       0x06 0x06 v_pk_ashrrev_i16              I16x2  [U16x2 I16x2]          {}
       0x07 0x07 v_pk_max_i16                  I16x2  [I16x2 I16x2]          {}
       0x08 0x08 v_pk_min_i16                  I16x2  [I16x2 I16x2]          {}
       0x09 0x09 v_pk_mad_u16                  U16x2  [U16x2 U16x2 U16x2]    {SATURATES}
       0x0a 0x0a v_pk_add_u16                  U16x2  [U16x2 U16x2]          {SATURATES}
       0x0b 0x0b v_pk_sub_u16                  U16x2  [U16x2 U16x2]          {SATURATES}
       0x0c 0x0c v_pk_max_u16                  U16x2  [U16x2 U16x2]          {}
       0x0d 0x0d v_pk_min_u16                  U16x2  [U16x2 U16x2]          {}
       0x0e 0x0e v_pk_fma_f16                  F16x2  [F16x2 F16x2 F16x2]    {ROUNDS}
       0x0f 0x0f v_pk_add_f16                  F16x2  [F16x2 F16x2]          {ROUNDS}
       0x10 0x10 v_pk_mul_f16                  F16x2  [F16x2 F16x2]          {ROUNDS}
       0x11 0x11 v_pk_min_f16                  F16x2  [F16x2 F16x2]          {}
       0x12 0x12 v_pk_max_f16                  F16x2  [F16x2 F16x2]          {}
       0x20 0x20 v_fma_mix_f32                 F32    [F16 F16 F16]          {MIX ROUNDS}
       0x21 0x21 v_fma_mixlo_f16               F16    [F16 F16 F16]          {MIX ROUNDS}
       0x22 0x22 v_fma_mixhi_f16               F16    [F16 F16 F16]          {MIX ROUNDS}
       0x23 0x23 v_dot2_f32_f16                F32    [F16x2 F16x2 F32]      {}
       0x26 0x26 v_dot2_i32_i16                I32    [I16x2 I16x2 I32]      {SATURATES}
       0x27 0x27 v_dot2_u32_u16                U32    [U16x2 U16x2 U32]      {SATURATES}
       0x28 0x28 v_dot4_i32_i8                 I32    [I8x4 I8x4 I32]        {SATURATES}
       0x29 0x29 v_dot4_u32_u8                 U32    [U8x4 U8x4 U32]        {SATURATES}
       0x2a 0x2a v_dot8_i32_i4                 I32    [I4x8 I4x8 I32]        {SATURATES}
       0x2b 0x2b v_dot8_u32_u4                 U32    [U4x8 U4x8 U32]        {SATURATES}
       0x30 0x30 v_pk_fma_f32                  F32x2  [F32x2 F32x2 F32x2]    {ROUNDS}
       0x31 0x31 v_pk_mul_f32                  F32x2  [F32x2 F32x2]          {ROUNDS}
       0x32 0x32 v_pk_add_f32                  F32x2  [F32x2 F32x2]          {ROUNDS}
       0x33 0x33 v_pk_mov_b32                  B32x2  [B32x2 B32x2]          {}
       -    0x3e v_mfma_f32_16x16x8_xf32       F32x4  [XF32x2 XF32x2 F32x4]  {MFMA}
       -    0x3f v_mfma_f32_32x32x4_xf32       F32x16 [XF32x2 XF32x2 F32x16] {MFMA}
       0x40 -    v_mfma_f32_32x32x1f32         F32x32 [F32 F32 F32x32]       {MFMA}
       -    0x40 v_mfma_f32_32x32x1_2b_f32     F32x32 [F32 F32 F32x32]       {MFMA}
       0x41 -    v_mfma_f32_16x16x1f32         F32x16 [F32 F32 F32x16]       {MFMA}
       -    0x41 v_mfma_f32_16x16x1_4b_f32     F32x16 [F32 F32 F32x16]       {MFMA}
       0x42 -    v_mfma_f32_4x4x1f32           F32x4  [F32 F32 F32x4]        {MFMA}
       -    0x42 v_mfma_f32_4x4x1_16b_f32      F32x4  [F32 F32 F32x4]        {MFMA}
       0x44 -    v_mfma_f32_32x32x2f32         F32x16 [F32 F32 F32x16]       {MFMA}
       -    0x44 v_mfma_f32_32x32x2_f32        F32x16 [F32 F32 F32x16]       {MFMA}
       0x45 -    v_mfma_f32_16x16x4f32         F32x4  [F32 F32 F32x4]        {MFMA}
       -    0x45 v_mfma_f32_16x16x4_f32        F32x4  [F32 F32 F32x4]        {MFMA}
       0x48 -    v_mfma_f32_32x32x4f16         F32x32 [F16x4 F16x4 F32x32]   {MFMA}
       -    0x48 v_mfma_f32_32x32x4_2b_f16     F32x32 [F16x4 F16x4 F32x32]   {MFMA}
       0x49 -    v_mfma_f32_16x16x4f16         F32x16 [F16x4 F16x4 F32x16]   {MFMA}
       -    0x49 v_mfma_f32_16x16x4_4b_f16     F32x16 [F16x4 F16x4 F32x16]   {MFMA}
       0x4a -    v_mfma_f32_4x4x4f16           F32x4  [F16x4 F16x4 F32x4]    {MFMA}
       -    0x4a v_mfma_f32_4x4x4_16b_f16      F32x4  [F16x4 F16x4 F32x4]    {MFMA}
       0x4c -    v_mfma_f32_32x32x8f16         F32x16 [F16x4 F16x4 F32x16]   {MFMA}
       -    0x4c v_mfma_f32_32x32x8_f16        F32x16 [F16x4 F16x4 F32x16]   {MFMA}
       0x4d -    v_mfma_f32_16x16x16f16        F32x4  [F16x4 F16x4 F32x4]    {MFMA}
       -    0x4d v_mfma_f32_16x16x16_f16       F32x4  [F16x4 F16x4 F32x4]    {MFMA}
       0x50 -    v_mfma_i32_32x32x4i8          I32x32 [I8x4 I8x4 I32x32]     {MFMA}
       -    0x50 v_mfma_i32_32x32x4_2b_i8      I32x32 [I8x4 I8x4 I32x32]     {MFMA}
       0x51 -    v_mfma_i32_16x16x4i8          I32x16 [I8x4 I8x4 I32x16]     {MFMA}
       -    0x51 v_mfma_i32_16x16x4_4b_i8      I32x16 [I8x4 I8x4 I32x16]     {MFMA}
       0x52 -    v_mfma_i32_4x4x4i8            I32x4  [I8x4 I8x4 I32x4]      {MFMA}
       -    0x52 v_mfma_i32_4x4x4_16b_i8       I32x4  [I8x4 I8x4 I32x4]      {MFMA}
       0x54 -    v_mfma_i32_32x32x8i8          I32x16 [I8x4 I8x4 I32x16]     {MFMA}
       0x55 -    v_mfma_i32_16x16x16i8         I32x4  [I8x4 I8x4 I32x4]      {MFMA}
       -    0x56 v_mfma_i32_32x32x16_i8        I32x16 [I8x8 I8x8 I32x16]     {MFMA}
       -    0x57 v_mfma_i32_16x16x32_i8        I32x4  [I8x8 I8x8 I32x4]      {MFMA}
       0x58 0x58 v_accvgpr_read_b32            B32    [B32]                  {ACCVGPR VGPR_ONLY HOT}
       0x59 0x59 v_accvgpr_write_b32           B32    [B32]                  {ACCVGPR HOT}
       -    0x5d v_mfma_f32_32x32x4_2b_bf16    F32x32 [BF16x4 BF16x4 F32x32] {MFMA}
       -    0x5e v_mfma_f32_16x16x4_4b_bf16    F32x16 [BF16x4 BF16x4 F32x16] {MFMA}
       -    0x5f v_mfma_f32_4x4x4_16b_bf16     F32x4  [BF16x4 BF16x4 F32x4]  {MFMA}
       -    0x60 v_mfma_f32_32x32x8_bf16       F32x16 [BF16x4 BF16x4 F32x16] {MFMA}
       -    0x61 v_mfma_f32_16x16x16_bf16      F32x4  [BF16x4 BF16x4 F32x4]  {MFMA}
       -    0x62 v_smfmac_f32_16x16x32_f16     F32x4  [F16x4 F16x8 B32]      {SMFMAC}
       0x63 -    v_mfma_f32_32x32x4bf16_1k     F32x32 [BF16x4 BF16x4 F32x32] {MFMA}
       0x64 -    v_mfma_f32_16x16x4bf16_1k     F32x16 [BF16x4 BF16x4 F32x16] {MFMA}
       -    0x64 v_smfmac_f32_32x32x16_f16     F32x16 [F16x4 F16x8 B32]      {SMFMAC}
       0x65 -    v_mfma_f32_4x4x4bf16_1k       F32x4  [BF16x4 BF16x4 F32x4]  {MFMA}
       0x66 -    v_mfma_f32_32x32x8bf16_1k     F32x16 [BF16x4 BF16x4 F32x16] {MFMA}
       -    0x66 v_smfmac_f32_16x16x32_bf16    F32x4  [BF16x4 BF16x8 B32]    {SMFMAC}
       0x67 -    v_mfma_f32_16x16x16bf16_1k    F32x4  [BF16x4 BF16x4 F32x4]  {MFMA}
       0x68 -    v_mfma_f32_32x32x2bf16        F32x32 [BF16x2 BF16x2 F32x32] {MFMA}
       -    0x68 v_smfmac_f32_32x32x16_bf16    F32x16 [BF16x4 BF16x8 B32]    {SMFMAC}
       0x69 -    v_mfma_f32_16x16x2bf16        F32x16 [BF16x2 BF16x2 F32x16] {MFMA}
       -    0x6a v_smfmac_i32_16x16x64_i8      I32x4  [I8x8 I8x16 B32]       {SMFMAC}
       0x6b -    v_mfma_f32_4x4x2bf16          F32x4  [BF16x2 BF16x2 F32x4]  {MFMA}
       0x6c -    v_mfma_f32_32x32x4bf16        F32x16 [BF16x2 BF16x2 F32x16] {MFMA}
       -    0x6c v_smfmac_i32_32x32x32_i8      I32x16 [I8x8 I8x16 B32]       {SMFMAC}
       0x6d -    v_mfma_f32_16x16x8bf16        F32x4  [BF16x2 BF16x2 F32x4]  {MFMA}
       0x6e -    v_mfma_f64_16x16x4f64         F64x4  [F64 F64 F64x4]        {MFMA F64}
       -    0x6e v_mfma_f64_16x16x4_f64        F64x4  [F64 F64 F64x4]        {MFMA F64}
       0x6f -    v_mfma_f64_4x4x4f64           F64    [F64 F64 F64]          {MFMA F64}
       -    0x6f v_mfma_f64_4x4x4_4b_f64       F64    [F64 F64 F64]          {MFMA F64}
       -    0x70 v_mfma_f32_16x16x32_bf8_bf8   F32x4  [BF8x8 BF8x8 F32x4]    {MFMA}
       -    0x71 v_mfma_f32_16x16x32_bf8_fp8   F32x4  [BF8x8 FP8x8 F32x4]    {MFMA}
       -    0x72 v_mfma_f32_16x16x32_fp8_bf8   F32x4  [FP8x8 BF8x8 F32x4]    {MFMA}
       -    0x73 v_mfma_f32_16x16x32_fp8_fp8   F32x4  [FP8x8 FP8x8 F32x4]    {MFMA}
       -    0x74 v_mfma_f32_32x32x16_bf8_bf8   F32x16 [BF8x8 BF8x8 F32x16]   {MFMA}
       -    0x75 v_mfma_f32_32x32x16_bf8_fp8   F32x16 [BF8x8 FP8x8 F32x16]   {MFMA}
       -    0x76 v_mfma_f32_32x32x16_fp8_bf8   F32x16 [FP8x8 BF8x8 F32x16]   {MFMA}
       -    0x77 v_mfma_f32_32x32x16_fp8_fp8   F32x16 [FP8x8 FP8x8 F32x16]   {MFMA}
       -    0x78 v_smfmac_f32_16x16x64_bf8_bf8 F32x4  [BF8x8 BF8x16 B32]     {SMFMAC}
       -    0x79 v_smfmac_f32_16x16x64_bf8_fp8 F32x4  [BF8x8 FP8x16 B32]     {SMFMAC}
       -    0x7a v_smfmac_f32_16x16x64_fp8_bf8 F32x4  [FP8x8 BF8x16 B32]     {SMFMAC}
       -    0x7b v_smfmac_f32_16x16x64_fp8_fp8 F32x4  [FP8x8 FP8x16 B32]     {SMFMAC}
       -    0x7c v_smfmac_f32_32x32x32_bf8_bf8 F32x16 [BF8x8 BF8x16 B32]     {SMFMAC}
       -    0x7d v_smfmac_f32_32x32x32_bf8_fp8 F32x16 [BF8x8 FP8x16 B32]     {SMFMAC}
       -    0x7e v_smfmac_f32_32x32x32_fp8_bf8 F32x16 [FP8x8 BF8x16 B32]     {SMFMAC}
       -    0x7f v_smfmac_f32_32x32x32_fp8_fp8 F32x16 [FP8x8 FP8x16 B32]     {SMFMAC}
    }] } };
}
