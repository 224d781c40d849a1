//! Integer arithmetic that several formats share: 24-bit operands and dot products of packed fields.

/// Sign-extends the low 24 bits.
#[inline(always)]
pub fn sign_extend_24(value: u32) -> i32 {
    (value << 8) as i32 >> 8
}

/// Clamps to the range of i32.
#[inline(always)]
pub fn saturate_i32(value: i64) -> i32 {
    value.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}

/// Sum of two products of 16-bit fields and `c`, wrapping.
#[inline(always)]
pub fn dot2_i32_i16(a: u32, b: u32, c: i32) -> i32 {
    let low = i32::from(a as i16) * i32::from(b as i16);
    let high = (a as i32 >> 16) * (b as i32 >> 16);
    c.wrapping_add(low).wrapping_add(high)
}

/// Like [`dot2_i32_i16`], saturating.
#[inline(always)]
pub fn saturating_dot2_i32_i16(a: u32, b: u32, c: i32) -> i32 {
    let low = i64::from(a as i16) * i64::from(b as i16);
    let high = i64::from(a as i32 >> 16) * i64::from(b as i32 >> 16);
    saturate_i32(low + high + i64::from(c))
}

/// Sum of four products of signed bytes and `c`, wrapping.
#[inline(always)]
pub fn dot4_i32_i8(a: u32, b: u32, c: i32) -> i32 {
    let mut sum = c;
    for byte in 0..4 {
        let (x, y) = ((a << (24 - 8 * byte)) as i32 >> 24, (b << (24 - 8 * byte)) as i32 >> 24);
        sum = sum.wrapping_add(x * y);
    }
    sum
}

/// Sum of eight products of signed 4-bit fields and `c`, wrapping.
#[inline(always)]
pub fn dot8_i32_i4(a: u32, b: u32, c: i32) -> i32 {
    let mut sum = c;
    for nibble in 0..8 {
        let (x, y) = ((a << (28 - 4 * nibble)) as i32 >> 28, (b << (28 - 4 * nibble)) as i32 >> 28);
        sum = sum.wrapping_add(x * y);
    }
    sum
}

/// Sum of four products of bytes and `c`, wrapping.
#[inline(always)]
pub fn dot4_u32_u8(a: u32, b: u32, c: u32) -> u32 {
    let mut sum = c;
    for byte in 0..4 {
        sum = sum.wrapping_add((a >> (8 * byte) & 0xff) * (b >> (8 * byte) & 0xff));
    }
    sum
}

/// Sum of eight products of 4-bit fields and `c`, wrapping.
#[inline(always)]
pub fn dot8_u32_u4(a: u32, b: u32, c: u32) -> u32 {
    let mut sum = c;
    for nibble in 0..8 {
        sum = sum.wrapping_add((a >> (4 * nibble) & 15) * (b >> (4 * nibble) & 15));
    }
    sum
}
