//! 8-bit floats of gfx942: fp8 (4 exponent bits, bias 8) and bf8 (5 exponent bits, bias 16).
//!
//! Neither format has infinities or a negative zero; 0x80 is the only NaN.

/// Converts an fp8 to f32.
#[inline(always)]
pub fn fp8_to_f32(bits: u8) -> f32 {
    to_f32::<3, 8>(bits)
}

/// Converts a bf8 to f32.
#[inline(always)]
pub fn bf8_to_f32(bits: u8) -> f32 {
    to_f32::<2, 16>(bits)
}

/// Converts to the nearest fp8, ties to even. Overflow gives NaN, or the largest number if `saturate`.
#[inline(always)]
pub fn f32_to_fp8(value: f32, saturate: bool) -> u8 {
    from_f32::<3, 8>(value, saturate)
}

/// Like [`f32_to_fp8`], but to bf8.
#[inline(always)]
pub fn f32_to_bf8(value: f32, saturate: bool) -> u8 {
    from_f32::<2, 16>(value, saturate)
}

/// Converts to fp8 with stochastic rounding: `random` decides whether the truncated part rounds up.
#[inline(always)]
pub fn f32_to_fp8_stochastic(value: f32, random: u32, saturate: bool) -> u8 {
    stochastic::<3, 8>(value, random, saturate)
}

/// Like [`f32_to_fp8_stochastic`], but to bf8.
#[inline(always)]
pub fn f32_to_bf8_stochastic(value: f32, random: u32, saturate: bool) -> u8 {
    stochastic::<2, 16>(value, random, saturate)
}

#[inline(always)]
fn to_f32<const MANTISSA: u32, const BIAS: u32>(bits: u8) -> f32 {
    let bits = u32::from(bits);
    let magnitude = bits & 0x7f;
    let normal = (magnitude << (23 - MANTISSA)) + ((127 - BIAS) << 23);
    // Subnormals are multiples of the smallest one.
    let small = (magnitude as i32 as f32 * f32::from_bits((127 + 1 - BIAS - MANTISSA) << 23)).to_bits();
    let value = if magnitude < 1 << MANTISSA { small } else { normal };
    f32::from_bits(if bits == 0x80 { 0x7fc0_0000 } else { value | (bits & 0x80) << 24 })
}

/// Encodes an f32, rounded to nearest, ties to even.
#[inline(always)]
fn from_f32<const MANTISSA: u32, const BIAS: u32>(value: f32, saturate: bool) -> u8 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let cut = 23 - MANTISSA;
    // Normal range.
    let rebased = magnitude.wrapping_sub((127 - BIAS) << 23);
    let half = (1 << (cut - 1)) - 1;
    let normal = rebased.wrapping_add(half).wrapping_add(rebased >> cut & 1) >> cut;
    // Subnormal range: adding this power of two aligns the format's last bit with the last bit of the sum, so the addition
    // rounds.
    let align = f32::from_bits((127 + 23 - MANTISSA + 1 - BIAS) << 23);
    let small = (f32::from_bits(magnitude) + align).to_bits().wrapping_sub(align.to_bits());
    let code = if magnitude < (127 - BIAS + 1) << 23 { small } else { normal };
    let sign = bits >> 24 & 0x80;
    if magnitude > 0x7f80_0000 {
        0x80
    } else if code > 0x7f || magnitude >= 0x7f80_0000 {
        if saturate && magnitude < 0x7f80_0000 { (sign | 0x7f) as u8 } else { 0x80 }
    } else if code == 0 {
        0
    } else {
        (sign | code) as u8
    }
}

/// Adds random bits below the last bit of the result, then truncates.
#[inline(always)]
fn stochastic<const MANTISSA: u32, const BIAS: u32>(value: f32, random: u32, saturate: bool) -> u8 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let cut = 23 - MANTISSA;
    if magnitude >= 0x7f80_0000 {
        return from_f32::<MANTISSA, BIAS>(value, saturate);
    }
    let added = magnitude + (random >> (32 - cut));
    // Subnormal results have a larger ULP; they are rounded to nearest instead.
    let cut_off = if magnitude < (127 - BIAS + 1) << 23 { magnitude } else { added & !((1 << cut) - 1) };
    from_f32::<MANTISSA, BIAS>(f32::from_bits(cut_off | bits & 0x8000_0000), saturate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(bits: u8, mantissa: i32, bias: i32) -> f64 {
        let (exponent, fraction) =
            (i32::from(bits & 0x7f) >> mantissa, i32::from(bits) & ((1 << mantissa) - 1));
        let sign = if bits & 0x80 != 0 { -1.0 } else { 1.0 };
        let scale = f64::from(1 << mantissa);
        match (bits, exponent) {
            (0x80, _) => f64::NAN,
            (_, 0) => sign * f64::from(fraction) / scale * 2_f64.powi(1 - bias),
            _ => sign * (1.0 + f64::from(fraction) / scale) * 2_f64.powi(exponent - bias),
        }
    }

    #[test]
    fn every_code_has_its_value_and_comes_back() {
        for code in 0..=255 {
            let fp8 = f64::from(fp8_to_f32(code));
            let bf8 = f64::from(bf8_to_f32(code));
            assert!(fp8 == reference(code, 3, 8) || code == 0x80 && fp8.is_nan(), "{code:#x}");
            assert!(bf8 == reference(code, 2, 16) || code == 0x80 && bf8.is_nan(), "{code:#x}");
            assert_eq!(f32_to_fp8(fp8_to_f32(code), false), code);
            assert_eq!(f32_to_bf8(bf8_to_f32(code), false), code);
        }
    }

    #[test]
    fn values_between_codes_round_to_the_nearest_even_code() {
        for code in 0..0x7f_u8 {
            for (to_f32, from_f32) in [
                (fp8_to_f32 as fn(u8) -> f32, f32_to_fp8 as fn(f32, bool) -> u8),
                (bf8_to_f32 as fn(u8) -> f32, f32_to_bf8 as fn(f32, bool) -> u8),
            ] {
                let (low, high) = (f64::from(to_f32(code)), f64::from(to_f32(code + 1)));
                let middle = ((low + high) / 2.0) as f32;
                assert_eq!(from_f32(middle, false), if code & 1 == 0 { code } else { code + 1 });
                assert_eq!(from_f32(f32::from_bits(middle.to_bits() - 1), false), code);
                assert_eq!(from_f32(f32::from_bits(middle.to_bits() + 1), false), code + 1);
            }
        }
    }

    #[test]
    fn overflow_is_nan_or_the_largest_number() {
        assert_eq!(f32_to_fp8(1e9, false), 0x80);
        assert_eq!(f32_to_fp8(1e9, true), 0x7f);
        assert_eq!(f32_to_bf8(-1e9, true), 0xff);
        assert_eq!(f32_to_fp8(f32::INFINITY, true), 0x80);
        assert_eq!(f32_to_fp8(f32::NAN, true), 0x80);
        assert_eq!(f32_to_fp8(-0.0, false), 0);
    }

    #[test]
    fn stochastic_rounding_goes_up_only_with_enough_random_bits() {
        let quarter_way = 1.0 + 0.125 / 4.0;
        assert_eq!(f32_to_fp8_stochastic(quarter_way, 0, false), f32_to_fp8(1.0, false));
        assert_eq!(f32_to_fp8_stochastic(quarter_way, 0x7fff_ffff, false), f32_to_fp8(1.0, false));
        assert_eq!(f32_to_fp8_stochastic(quarter_way, 0xffff_ffff, false), f32_to_fp8(1.125, false));
    }
}
