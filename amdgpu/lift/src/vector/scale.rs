//! Powers of two: `v_ldexp`, `v_frexp` and `v_trig_preop_f64`.

use super::lane::Lane;
use crate::Value;
use crate::form::{Float, FloatType, NumberType, Rounding};

use FloatType::{F16, F32, F64};

/// `a * 2^power`, rounded once.
pub fn by_power(l: &Lane<'_, '_>, of: FloatType, rounding: Rounding, a: Value, power: Value) -> Value {
    if of == F16 {
        // Exact in f32 for every result within the range of f16.
        let power = l.clamped(l.signed(power), -64, 64);
        let wide = l.convert(NumberType::F16, NumberType::F32, Rounding::Nearest, a);
        let product = l.exact(Float::Multiply, F32, &[wide, power_of_two(l, F32, power)]);
        return l.convert(NumberType::F32, NumberType::F16, rounding, product);
    }
    let (least, most) = if of == F32 { (-126, 127) } else { (-1022, 1023) };
    if let Some(power) = l.constant(power)
        && (least..=most).contains(&(power as i32))
    {
        let factor = power_of_two(l, of, l.word(power as u32));
        return l.float(Float::Multiply, of, rounding, &[a, factor]);
    }
    // Three factors reach from the smallest to the largest number. The outermost power comes last: where an earlier product is
    // denormal, and so rounded, the whole one is far below the smallest denormal, and the rounding does not matter.
    let last = l.clamped(power, least, most);
    // The difference may wrap only where the clamp of the rest is the same with a smaller power.
    let rest = l.sub(l.clamped(power, 4 * least, 4 * most), last);
    let middle = l.clamped(rest, least, most);
    let first = l.clamped(l.sub(rest, middle), least, most);
    [first, middle, last].into_iter().fold(a, |product, power| {
        l.float(Float::Multiply, of, rounding, &[product, power_of_two(l, of, power)])
    })
}

/// `2^power`, for a power in the range of normal numbers.
fn power_of_two(l: &Lane<'_, '_>, of: FloatType, power: Value) -> Value {
    if let Some(power) = l.constant(power) {
        let power = i64::from(power as i32);
        return match of {
            F64 => l.double(((power + 1023) as u64) << 52),
            _ => l.word(((power + 127) as u32) << 23),
        };
    }
    match of {
        F64 => l.pack(l.word(0), l.up(l.add(power, l.word(1023)), 20)),
        _ => l.up(l.add(power, l.word(127)), 23),
    }
}

/// The number as a normal one: denormals are scaled up. The bit says whether that happened.
fn normalised(l: &Lane<'_, '_>, of: FloatType, a: Value) -> (Value, Value) {
    let (magnitude, normal, factor) = match of {
        F64 => (l.mask(l.high(a), 0x7fff_ffff), 1 << 20, l.double((1023 + 54) << 52)),
        _ => (l.mask(a, 0x7fff_ffff), 1 << 23, l.word((127 + 24) << 23)),
    };
    let small = l.less(magnitude, l.word(normal));
    (l.select(small, l.exact(Float::Multiply, of, &[a, factor]), a), small)
}

/// Whether a number is zero, infinite or NaN, and so has neither mantissa nor exponent.
fn is_special(l: &Lane<'_, '_>, of: FloatType, a: Value) -> Value {
    let (magnitude, finite) = match of {
        F64 => (l.and(a, l.double(u64::MAX >> 1)), l.double((0x7ff << 52) - 1)),
        _ => (l.mask(a, 0x7fff_ffff), l.word(0x7f7f_ffff)),
    };
    l.not(l.less(l.sub(magnitude, l.like(a, 1)), finite))
}

/// Mantissa in [0.5, 1), with the sign; zeros, infinities and NaNs stay.
pub fn mantissa(l: &Lane<'_, '_>, of: FloatType, a: Value) -> Value {
    if of == F16 {
        let wide = l.convert(NumberType::F16, NumberType::F32, Rounding::Nearest, a);
        return l.convert(NumberType::F32, NumberType::F16, Rounding::Nearest, mantissa(l, F32, wide));
    }
    let (normal, _) = normalised(l, of, a);
    let value = match of {
        F64 => {
            let high = l.or(l.mask(l.high(normal), 0x800f_ffff), l.word(0x3fe0_0000));
            l.pack(l.low(normal), high)
        }
        _ => l.or(l.mask(normal, 0x807f_ffff), l.word(0x3f00_0000)),
    };
    l.select(is_special(l, of, a), a, value)
}

/// Exponent that belongs to [`mantissa`]; 0 for zeros, infinities and NaNs.
pub fn exponent(l: &Lane<'_, '_>, of: FloatType, a: Value) -> Value {
    if of == F16 {
        let wide = l.convert(NumberType::F16, NumberType::F32, Rounding::Nearest, a);
        return l.unsigned(exponent(l, F32, wide));
    }
    let (normal, small) = normalised(l, of, a);
    let (field, bias, up) = match of {
        F64 => (l.extract(l.high(normal), 20, 11), 1022, 54),
        _ => (l.extract(normal, 23, 8), 126, 24),
    };
    let bias = l.select(small, l.word(bias + up), l.word(bias));
    l.select(is_special(l, of, a), l.word(0), l.sub(field, bias))
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

/// Bits of the constant that the machine has; all bits after them are zero.
const KNOWN_BITS: u32 = 1201;

/// `v_trig_preop_f64`: 53 bits of 2/pi starting at bit `53 * segment` (later for a large `x`), for the reduction of an angle.
pub fn trig_preop(l: &Lane<'_, '_>, x: Value, segment: Value) -> Value {
    let field = l.extract(l.high(x), 20, 11);
    let later = l.maximum(l.sub(field, l.word(1077)), l.word(0), true);
    let shift = l.add(l.mul(l.mask(segment, 31), l.word(53)), later);
    let word = l.minimum(l.down(shift, 6), l.word(18), false);
    let [first, second] = [word, l.add(word, l.word(1))].map(|word| table(l, word, &TWO_OVER_PI, 5));
    // 64 bits from the shift on: the second word is shifted in two steps, since a shift by 64 is one by 0.
    let rest = l.shr(l.down(second, 1), l.xor(l.mask(shift, 63), l.word(63)));
    let bits = l.down(l.or(l.shl(first, shift), rest), 11);
    // Past the last known bit.
    let beyond = l.sub(l.add(shift, l.word(53)), l.word(KNOWN_BITS));
    let known = l.and(bits, l.shl(l.double(u64::MAX), l.minimum(beyond, l.word(63), true)));
    let all = l.compare(crate::form::Compare::LessEqualSigned, beyond, l.word(0));
    let bits = l.select(all, bits, known);
    let bits = l.select(l.less(shift, l.word(KNOWN_BITS)), bits, l.double(0));
    // Both halves are exact, and so is their sum of 53 bits.
    let part = |word: Value| l.convert(NumberType::U32, NumberType::F64, Rounding::Nearest, word);
    let (low, high) = (part(l.low(bits)), part(l.high(bits)));
    let number = l.exact(Float::MultiplyAdd, F64, &[high, l.double(4_294_967_296.0_f64.to_bits()), low]);
    let huge = l.compare(crate::form::Compare::LessEqualUnsigned, l.word(1968), field);
    let power = l.sub(l.select(huge, l.word(128 - 53), l.word(0_u32.wrapping_sub(53))), shift);
    by_power(l, F64, Rounding::Nearest, number, power)
}

/// An element of a table: a tree of selects, one level for each bit of the index.
fn table(l: &Lane<'_, '_>, index: Value, values: &[u64], bits: u8) -> Value {
    match values {
        [] => l.double(0),
        [only] => l.double(*only),
        _ => {
            let half = 1_usize << (bits - 1);
            let (low, high) = values.split_at(half.min(values.len()));
            let upper = l.extract(index, bits - 1, 1);
            let upper = l.compare(crate::form::Compare::NotEqual, upper, l.word(0));
            l.select(upper, table(l, index, high, bits - 1), table(l, index, low, bits - 1))
        }
    }
}
