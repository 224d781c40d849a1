//! Floating-point functions that are not a single vector instruction on the host: half precision, and the GPU's transcendental
//! operations.
//!
//! All functions are branch-free so that loops over lanes vectorise. They use no fused operations where the base level would call
//! a library, and give identical bits at every level. exp2, log2, sin and cos are computed in f64 and rounded once: the error is
//! below 0.51 ULP, where the hardware specifies 1 ULP.

/// Converts the f16 in the low half of a dword to f32, in 32-bit arithmetic, which vectorises best.
#[inline(always)]
pub fn half_to_f32(bits: u32) -> f32 {
    let magnitude = bits & 0x7fff;
    let normal = (magnitude << 13).wrapping_add(112 << 23);
    // A subnormal f16 is a multiple of 2^-24. (Multiplying its shifted bits would also work, but subnormal operands are slow on
    // the host.)
    let small = (magnitude as i32 as f32 * f32::from_bits(103 << 23)).to_bits();
    let value = if magnitude < 0x400 { small } else { normal };
    let value = if magnitude >= 0x7c00 { normal.wrapping_add(112 << 23) } else { value };
    f32::from_bits(value | (bits & 0x8000) << 16)
}

/// Converts to the nearest f16, ties to even; NaNs are quieted and keep the upper bits of their payload.
#[inline(always)]
pub fn f32_to_half(value: f32) -> u32 {
    let bits = value.to_bits();
    let sign = bits >> 16 & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    // Normal range: rebase the exponent, add half an ULP minus one plus the odd bit (ties to even), truncate.
    let rebased = magnitude.wrapping_sub(112 << 23);
    let normal = rebased.wrapping_add(0xfff).wrapping_add(rebased >> 13 & 1) >> 13;
    // Subnormal range: adding 0.5 aligns the last bit of the f16 with the last bit of the sum, so the addition does the rounding.
    let small = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5_f32.to_bits());
    let nan = 0x7e00 | magnitude >> 13 & 0x3ff;
    let rounded = if magnitude < 0x3880_0000 { small } else { normal };
    let rounded = if magnitude >= 0x4780_0000 { 0x7c00 } else { rounded };
    let rounded = if magnitude > 0x7f80_0000 { nan } else { rounded };
    sign | rounded
}

/// Converts to f16, rounding towards zero.
#[inline(always)]
pub fn f32_to_f16_toward_zero(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    let normal = (magnitude.wrapping_sub(112 << 23) >> 13) as u16;
    // A subnormal f16 is a multiple of 2^-24; the product is exact, the conversion truncates.
    let small = (f32::from_bits(magnitude) * 16_777_216.0) as u16;
    let rounded = if magnitude > 0x7f80_0000 {
        0x7e00 | (magnitude >> 13 & 0x3ff) as u16
    } else if magnitude == 0x7f80_0000 {
        0x7c00
    } else if magnitude >= 0x4780_0000 {
        0x7bff
    } else if magnitude < 0x3880_0000 {
        small
    } else {
        normal
    };
    sign | rounded
}

/// Converts to f16 with a directed rounding, encoded as in MODE: 1 up, 2 down, 3 towards zero.
pub fn to_half(value: f64, rounding: u8) -> u32 {
    let magnitude = value.abs();
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    if value.is_nan() {
        return 0x7e00;
    }
    let below = if magnitude.is_infinite() {
        return sign | 0x7c00;
    } else if magnitude >= 65504.0 {
        0x7bff
    } else if magnitude < 6.103_515_625e-5 {
        // A subnormal f16 is a multiple of 2^-24.
        (magnitude * 16_777_216.0) as u32
    } else {
        (magnitude.to_bits() >> 42) as u32 - ((1023 - 15) << 10)
    };
    let exact = f64::from(half_to_f32(below)) == magnitude;
    let away = !exact && if sign == 0 { rounding == 1 } else { rounding == 2 };
    sign | (below + u32::from(away))
}

/// Converts to an integer: truncates towards zero, saturates, maps NaN to 0.
///
/// Equivalent to `as i32`, which the compiler does not vectorise.
#[inline(always)]
pub fn f32_to_i32(x: f32) -> i32 {
    let safe = if (-2_147_483_648.0..2_147_483_648.0).contains(&x) { x } else { 0.0 };
    // SAFETY: the value is in range.
    let value = unsafe { safe.to_int_unchecked::<i32>() };
    let value = if x >= 2_147_483_648.0 { i32::MAX } else { value };
    if x < -2_147_483_648.0 { i32::MIN } else { value }
}

/// Like [`f32_to_i32`], but to an unsigned integer.
#[inline(always)]
pub fn f32_to_u32(x: f32) -> u32 {
    let safe = if x > 0.0 && x < 4_294_967_296.0 { x } else { 0.0 };
    let high = safe >= 2_147_483_648.0;
    let low = if high { safe - 2_147_483_648.0 } else { safe };
    // SAFETY: the value is in range.
    let value = unsafe { low.to_int_unchecked::<i32>() } as u32 ^ if high { 1 << 31 } else { 0 };
    if x >= 4_294_967_296.0 { u32::MAX } else { value }
}

/// Like [`f32_to_i32`], but from f64.
#[inline(always)]
pub fn f64_to_i32(x: f64) -> i32 {
    let safe = if x > -2_147_483_649.0 && x < 2_147_483_648.0 { x } else { 0.0 };
    // SAFETY: the value is in range.
    let value = unsafe { safe.to_int_unchecked::<i32>() };
    let value = if x >= 2_147_483_648.0 { i32::MAX } else { value };
    if x <= -2_147_483_649.0 { i32::MIN } else { value }
}

/// Like [`f32_to_u32`], but from f64.
#[inline(always)]
pub fn f64_to_u32(x: f64) -> u32 {
    let safe = if x > 0.0 && x < 4_294_967_296.0 { x } else { 0.0 };
    let high = safe >= 2_147_483_648.0;
    let low = if high { safe - 2_147_483_648.0 } else { safe };
    // SAFETY: the value is in range.
    let value = unsafe { low.to_int_unchecked::<i32>() } as u32 ^ if high { 1 << 31 } else { 0 };
    if x >= 4_294_967_296.0 { u32::MAX } else { value }
}

/// Computes `a * b + c` for f16 operands such that converting the result to f16 rounds only once.
///
/// The product of two f16 values is exact in f32. The sum is rounded to odd, which preserves the information that the second
/// rounding needs.
#[inline(always)]
pub fn fma_f16(a: f32, b: f32, c: f32) -> f32 {
    let product = a * b;
    let sum = product + c;
    let part = sum - product;
    let error = (product - (sum - part)) + (c - part);
    let bits = sum.to_bits();
    let toward_zero = u32::from((error.to_bits() ^ bits) >> 31 == 1);
    let odd = bits.wrapping_sub(toward_zero) | 1;
    let inexact = error != 0.0 && error.abs() < f32::INFINITY;
    f32::from_bits(if inexact { odd } else { bits })
}

/// Flushes a subnormal value to zero, keeping its sign.
#[inline(always)]
pub fn flush(value: f32) -> f32 {
    let bits = value.to_bits();
    f32::from_bits(if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits })
}

/// `v_mad_f32` on gfx90a: rounds twice, and flushes subnormal inputs, products and results.
#[inline(always)]
pub fn mad_f32(a: f32, b: f32, c: f32) -> f32 {
    flush(flush(flush(a) * flush(b)) + flush(c))
}

/// Maps a float to an integer with the same ordering; -0 sorts below +0.
#[inline(always)]
fn order_f32(value: f32) -> i32 {
    let bits = value.to_bits() as i32;
    bits ^ (bits >> 31 & i32::MAX)
}

/// Applies the NaN rules of min and max: a number is preferred over a NaN, but in IEEE mode a signalling NaN is returned,
/// quieted.
#[inline(always)]
fn number_f32(a: f32, b: f32, pick: f32, ieee: bool) -> f32 {
    const QUIET: u32 = 0x0040_0000;
    let signals = |value: f32| value.is_nan() && value.to_bits() & QUIET == 0;
    let pick = if b.is_nan() { a } else { pick };
    let pick = if a.is_nan() { b } else { pick };
    let pick = if ieee && signals(b) { f32::from_bits(b.to_bits() | QUIET) } else { pick };
    if ieee && signals(a) { f32::from_bits(a.to_bits() | QUIET) } else { pick }
}

#[inline(always)]
pub fn min_f32(a: f32, b: f32, ieee: bool) -> f32 {
    number_f32(a, b, if order_f32(a) <= order_f32(b) { a } else { b }, ieee)
}

#[inline(always)]
pub fn max_f32(a: f32, b: f32, ieee: bool) -> f32 {
    number_f32(a, b, if order_f32(a) >= order_f32(b) { a } else { b }, ieee)
}

/// Maps a float to an integer with the same ordering; -0 sorts below +0.
#[inline(always)]
fn order_f64(value: f64) -> i64 {
    let bits = value.to_bits() as i64;
    bits ^ (bits >> 63 & i64::MAX)
}

/// Applies the NaN rules of min and max: a number is preferred over a NaN, but in IEEE mode a signalling NaN is returned,
/// quieted.
#[inline(always)]
fn number_f64(a: f64, b: f64, pick: f64, ieee: bool) -> f64 {
    const QUIET: u64 = 0x0008_0000_0000_0000;
    let signals = |value: f64| value.is_nan() && value.to_bits() & QUIET == 0;
    let pick = if b.is_nan() { a } else { pick };
    let pick = if a.is_nan() { b } else { pick };
    let pick = if ieee && signals(b) { f64::from_bits(b.to_bits() | QUIET) } else { pick };
    if ieee && signals(a) { f64::from_bits(a.to_bits() | QUIET) } else { pick }
}

#[inline(always)]
pub fn min_f64(a: f64, b: f64, ieee: bool) -> f64 {
    number_f64(a, b, if order_f64(a) <= order_f64(b) { a } else { b }, ieee)
}

#[inline(always)]
pub fn max_f64(a: f64, b: f64, ieee: bool) -> f64 {
    number_f64(a, b, if order_f64(a) >= order_f64(b) { a } else { b }, ieee)
}

/// Median of three; if any operand is a NaN, the minimum.
#[inline(always)]
pub fn med3_f32(a: f32, b: f32, c: f32, ieee: bool) -> f32 {
    let middle = max_f32(min_f32(a, b, ieee), min_f32(max_f32(a, b, ieee), c, ieee), ieee);
    let smallest = min_f32(min_f32(a, b, ieee), c, ieee);
    if a.is_nan() || b.is_nan() || c.is_nan() { smallest } else { middle }
}

/// 2^n for n in the range of f64's normal exponents.
#[inline(always)]
fn power_of_two(n: i32) -> f64 {
    f64::from_bits(((n + 1023) as i64 as u64) << 52)
}

/// 2^x.
#[inline(always)]
pub fn exp2_f32(x: f32) -> f32 {
    // ln(2)^k / k!
    const C: [f64; 11] = [
        1.0,
        std::f64::consts::LN_2,
        0.240_226_506_959_100_7,
        0.055_504_108_664_821_58,
        0.009_618_129_107_628_477,
        0.001_333_355_814_642_844_3,
        0.000_154_035_303_933_816_1,
        1.525_273_380_405_984e-5,
        1.321_548_679_014_431e-6,
        1.017_808_600_923_97e-7,
        7.054_911_620_801_123e-9,
    ];
    // Beyond these bounds every result is infinity or zero; a NaN fails both comparisons and passes through.
    let x = if x > 200.0 { 200.0 } else { x };
    let x = f64::from(if x < -200.0 { -200.0 } else { x });
    let whole = nearest(x);
    let t = x - whole;
    let mut p = C[10];
    for k in (0..10).rev() {
        p = p * t + C[k];
    }
    (p * power_of_two(whole as i32)) as f32
}

/// Rounds `x` to an integer, for |x| below 2^51, without the rounding instruction that the base level lacks.
#[inline(always)]
fn nearest(x: f64) -> f64 {
    const MAGIC: f64 = 6_755_399_441_055_744.0;
    (x + MAGIC) - MAGIC
}

/// The base-two logarithm.
#[inline(always)]
pub fn log2_f32(x: f32) -> f32 {
    // Every nonzero finite f32 is a normal f64, so the exponent field is valid.
    let wide = f64::from(x);
    let bits = wide.to_bits();
    // Splits at sqrt(1/2): the mantissa is in [sqrt(1/2), sqrt(2)).
    let shifted = bits.wrapping_sub(0x3fe6_a09e_667f_3bcd);
    let exponent = (shifted as i64 >> 52) as i32;
    let mantissa = f64::from_bits(bits.wrapping_sub((exponent as i64 as u64) << 52));
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let z = s * s;
    // 2/ln(2) * (s + s^3/3 + s^5/5 + ...)
    const SCALE: f64 = 2.885_390_081_777_926_8;
    let series = 1.0
        + z * (1.0 / 3.0
            + z * (1.0 / 5.0
                + z * (1.0 / 7.0
                    + z * (1.0 / 9.0 + z * (1.0 / 11.0 + z * (1.0 / 13.0 + z * (1.0 / 15.0 + z / 17.0)))))));
    let value = (f64::from(exponent) + s * SCALE * series) as f32;
    if x == 0.0 {
        f32::NEG_INFINITY
    } else if x < 0.0 || x.is_nan() {
        f32::NAN
    } else if x == f32::INFINITY {
        x
    } else {
        value
    }
}

/// sin(2 pi x) and cos(2 pi x).
#[inline(always)]
fn sin_cos_turns(x: f32) -> (f64, f64) {
    const TURN: f64 = std::f64::consts::TAU;
    // Every f32 of 2^24 or more is a whole number of turns.
    let x = if x.abs() < 16_777_216.0 { f64::from(x) } else { f64::from(x * 0.0) };
    let turn = x - nearest(x);
    let quarters = nearest(turn * 4.0);
    let angle = (turn - quarters * 0.25) * TURN;
    let z = angle * angle;
    let sin = angle
        * (1.0
            + z * (-1.0 / 6.0
                + z * (1.0 / 120.0
                    + z * (-1.0 / 5040.0
                        + z * (1.0 / 362_880.0 + z * (-1.0 / 39_916_800.0 + z / 6_227_020_800.0))))));
    let cos = 1.0
        + z * (-0.5
            + z * (1.0 / 24.0
                + z * (-1.0 / 720.0 + z * (1.0 / 40_320.0 + z * (-1.0 / 3_628_800.0 + z / 479_001_600.0)))));
    let quadrant = quarters as i32 & 3;
    let (s, c) = if quadrant & 1 == 1 { (cos, sin) } else { (sin, cos) };
    let s = if quadrant & 2 == 2 { -s } else { s };
    let c = if quadrant == 1 || quadrant == 2 { -c } else { c };
    (s, c)
}

/// sin(2 pi x).
#[inline(always)]
pub fn sin_turns(x: f32) -> f32 {
    let sin = sin_cos_turns(x).0 as f32;
    if x == 0.0 { x } else { sin }
}

/// cos(2 pi x).
#[inline(always)]
pub fn cos_turns(x: f32) -> f32 {
    sin_cos_turns(x).1 as f32
}

/// 1 / sqrt(x), within 1 ULP: two correctly rounded steps.
#[inline(always)]
pub fn rsq_f32(x: f32) -> f32 {
    1.0 / x.sqrt()
}

/// x - floor(x), clamped to the largest f32 below one.
#[inline(always)]
pub fn fract_f32(x: f32) -> f32 {
    const BELOW_ONE: f32 = f32::from_bits(0x3f7f_ffff);
    let fract = x - x.floor();
    if fract > BELOW_ONE { BELOW_ONE } else { fract }
}

#[inline(always)]
pub fn fract_f64(x: f64) -> f64 {
    const BELOW_ONE: f64 = f64::from_bits(0x3fef_ffff_ffff_ffff);
    let fract = x - x.floor();
    if fract > BELOW_ONE { BELOW_ONE } else { fract }
}

/// x * 2^n, rounded once.
#[inline(always)]
pub fn ldexp_f32(x: f32, n: i32) -> f32 {
    // Every f32 scaled by one of these powers is a normal f64; exponents beyond +-400 give the same result.
    let n = n.clamp(-400, 400);
    (f64::from(x) * power_of_two(n)) as f32
}

/// x * 2^n, rounded once.
#[inline(always)]
pub fn ldexp_f64(x: f64, n: i32) -> f64 {
    let subnormal = x.abs() < f64::MIN_POSITIVE;
    let (normal, n) =
        if subnormal { (x * power_of_two(54), n.clamp(-4400, 4400) - 54) } else { (x, n.clamp(-4400, 4400)) };
    let bits = normal.to_bits();
    let fraction = bits & 0x800f_ffff_ffff_ffff;
    let exponent = (bits >> 52 & 0x7ff) as i32 + n;
    // Overflows according to the current rounding mode.
    let infinite = f64::from_bits(fraction | 2046 << 52) * 2.0;
    let in_range = f64::from_bits(fraction | (exponent.clamp(1, 2046) as u64) << 52);
    // A subnormal result is first computed as a normal number, 2^64 times larger; scaling it down is the only operation that
    // rounds.
    let high = f64::from_bits(fraction | ((exponent.clamp(-63, 0) + 64) as u64) << 52);
    let small = high * power_of_two(-64);
    if x == 0.0 || !x.is_finite() {
        x
    } else if exponent > 2046 {
        infinite
    } else if exponent > 0 {
        in_range
    } else {
        small
    }
}

/// Mantissa in [0.5, 1) with the sign of `x`; zeros, infinities and NaNs unchanged.
#[inline(always)]
pub fn frexp_mantissa_f32(x: f32) -> f32 {
    let scaled = if x.abs() < f32::MIN_POSITIVE { x * 16_777_216.0 } else { x };
    let bits = scaled.to_bits();
    if x == 0.0 || !x.is_finite() { x } else { f32::from_bits(bits & 0x807f_ffff | 0x3f00_0000) }
}

/// Exponent that belongs to [`frexp_mantissa_f32`]; 0 for zeros, infinities and NaNs.
#[inline(always)]
pub fn frexp_exponent_f32(x: f32) -> i32 {
    let subnormal = x.abs() < f32::MIN_POSITIVE;
    let scaled = if subnormal { x * 16_777_216.0 } else { x };
    let exponent = (scaled.to_bits() >> 23 & 0xff) as i32 - 126 - if subnormal { 24 } else { 0 };
    if x == 0.0 || !x.is_finite() { 0 } else { exponent }
}

#[inline(always)]
pub fn frexp_mantissa_f64(x: f64) -> f64 {
    let scaled = if x.abs() < f64::MIN_POSITIVE { x * 18_014_398_509_481_984.0 } else { x };
    let bits = scaled.to_bits();
    let mantissa = f64::from_bits(bits & 0x800f_ffff_ffff_ffff | 0x3fe0_0000_0000_0000);
    if x == 0.0 || !x.is_finite() { x } else { mantissa }
}

#[inline(always)]
pub fn frexp_exponent_f64(x: f64) -> i32 {
    let subnormal = x.abs() < f64::MIN_POSITIVE;
    let scaled = if subnormal { x * 18_014_398_509_481_984.0 } else { x };
    let exponent = (scaled.to_bits() >> 52 & 0x7ff) as i32 - 1022 - if subnormal { 54 } else { 0 };
    if x == 0.0 || !x.is_finite() { 0 } else { exponent }
}

/// 2/pi, most significant bit first.
const TWO_OVER_PI: [u64; 20] = [
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
    0xf0cf_bc20_9af4_361d,
];

/// `v_trig_preop_f64`: 53 bits of 2/pi starting at bit `53 * segment` (later for a large `x`) as an f64, for argument reduction.
#[inline(always)]
pub fn trig_preop_f64(x: f64, segment: u32) -> f64 {
    let exponent = (x.to_bits() >> 52 & 0x7ff) as i32;
    let mut shift = (segment & 31) as i32 * 53;
    if exponent > 1077 {
        shift += exponent - 1077;
    }
    let mut bits = 0;
    if (0..=1201 - 53).contains(&shift) {
        let (word, offset) = (shift as usize / 64, shift as u32 % 64);
        let window = u128::from(TWO_OVER_PI[word]) << 64 | u128::from(TWO_OVER_PI[word + 1]);
        bits = (window << offset >> 75) as u64;
    } else if shift < 1201 {
        let (word, offset) = (shift as usize / 64, shift as u32 % 64);
        let window = u128::from(TWO_OVER_PI[word]) << 64 | u128::from(TWO_OVER_PI[word + 1]);
        // The hardware's constant has 1201 bits; all bits after them are zero.
        bits = (window << offset >> 75) as u64 & (!0 << (shift + 53 - 1201));
    }
    let mut scale = -53 - shift;
    if exponent >= 1968 {
        scale += 128;
    }
    ldexp_f64(bits as f64, scale)
}

/// Converts the low and the high f16 of a dword to f32.
#[inline(always)]
fn halves(value: u32) -> (f32, f32) {
    (half_to_f32(value), half_to_f32(value >> 16))
}

/// Sum of two products of halves and `c`.
#[inline(always)]
pub fn dot2_f32_f16(a: u32, b: u32, c: f32) -> f32 {
    let ((a0, a1), (b0, b1)) = (halves(a), halves(b));
    // Products of f16 values are exact in f32. The hardware flushes subnormal f32 here regardless of MODE.
    flush(a1 * b1 + (a0 * b0 + flush(c)))
}

/// `v_mad_f16`: the product is rounded to f16 before the addition.
#[inline(always)]
pub fn mad_f16(a: f32, b: f32, c: f32) -> f32 {
    half_to_f32(f32_to_half(a * b)) + c
}
