//! Conversions between number types.

use isa_reference::exact::{self, Format, Number};

use super::float::direction;
use super::half::{from_brain, from_half, to_brain, to_half};
use crate::form::{NumberType, Rounding};

/// bfloat16.
const BRAIN: Format = Format { bits: 16, fraction: 7 };

/// The converted number; `None` for conversions that do not exist (to an 8-bit float from a double, or in a given direction).
pub fn convert(from: NumberType, to: NumberType, rounding: Rounding, a: u64) -> Option<u64> {
    use NumberType::{Bf8, Bf16, F8, F16, F32, F64, I16, I32, U16, U32};
    let source = match from {
        U16 => return integer((a as u16).into(), to, rounding),
        I16 => return integer((a as i16).into(), to, rounding),
        U32 => return integer((a as u32).into(), to, rounding),
        I32 => return integer((a as i32).into(), to, rounding),
        F16 => from_half(a).into(),
        F32 => f64::from(quiet(f32::from_bits(a as u32))),
        F64 => f64::from_bits(a),
        Bf16 => from_brain(a).into(),
        F8 => from_small(a as u8, 3, 8).into(),
        Bf8 => from_small(a as u8, 2, 16).into(),
    };
    let single = source as f32;
    let narrow = from != F64;
    let nearest = rounding == Rounding::Nearest || source.is_nan();
    Some(match to {
        U16 | I16 | U32 | I32 => saturated(source, to, rounding),
        F64 if source.is_nan() => source.to_bits() | exact::F64.quiet(),
        F64 => source.to_bits(),
        // Wider than the source, so that nothing is rounded.
        F32 if nearest || narrow => single.to_bits().into(),
        F16 if nearest && narrow => to_half(single),
        F16 if source.is_nan() => to_half(single),
        Bf16 if nearest && narrow => to_brain(single),
        Bf16 if source.is_nan() => to_brain(single),
        F32 => rounded(source, exact::F32, rounding),
        F16 => rounded(source, exact::F16, rounding),
        Bf16 => rounded(source, BRAIN, rounding),
        F8 if narrow && rounding == Rounding::Nearest => to_small(single, 3, 8),
        Bf8 if narrow && rounding == Rounding::Nearest => to_small(single, 2, 16),
        F8 | Bf8 => return None,
    })
}

fn quiet(value: f32) -> f32 {
    if value.is_nan() { f32::from_bits(value.to_bits() | 0x40_0000) } else { value }
}

fn rounded(source: f64, format: Format, rounding: Rounding) -> u64 {
    Number::of(exact::F64, source.to_bits()).bits(format, direction(rounding))
}

/// An integer of at most 32 bits, which a double represents exactly.
fn integer(value: i64, to: NumberType, rounding: Rounding) -> Option<u64> {
    convert(NumberType::F64, to, rounding, (value as f64).to_bits())
}

/// The integer in a word, clamped to the range of the type; NaN becomes 0.
fn saturated(source: f64, to: NumberType, rounding: Rounding) -> u64 {
    let whole = match rounding {
        Rounding::Nearest => source.round_ties_even(),
        Rounding::Up => source.ceil(),
        Rounding::Down => source.floor(),
        Rounding::Zero => source,
    };
    let value = match to {
        NumberType::U16 => i64::from(whole as u16),
        NumberType::I16 => i64::from(whole as i16),
        NumberType::U32 => i64::from(whole as u32),
        _ => i64::from(whole as i32),
    };
    value as u64 & 0xffff_ffff
}

/// Value of an 8-bit float without infinities, whose only NaN is 0x80.
fn from_small(bits: u8, fraction: u32, bias: i32) -> f32 {
    if bits == 0x80 {
        return f32::NAN;
    }
    let (field, rest) = (i32::from(bits & 0x7f) >> fraction, i32::from(bits) & ((1 << fraction) - 1));
    let mantissa = if field == 0 { rest } else { rest | 1 << fraction };
    let scale = field.max(1) - bias - fraction as i32;
    let magnitude = mantissa as f32 * f32::from_bits(((scale + 127) as u32) << 23);
    if bits & 0x80 != 0 { -magnitude } else { magnitude }
}

/// The nearest 8-bit float, ties to even. What is too large becomes NaN.
fn to_small(value: f32, fraction: u32, bias: u32) -> u64 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let cut = 23 - fraction;
    let code = if magnitude < (127 - bias + 1) << 23 {
        // Adding this power of two aligns the last bit of the result with the last bit of the sum.
        let align = f32::from_bits((127 + cut + 1 - bias) << 23);
        (f32::from_bits(magnitude) + align).to_bits() - align.to_bits()
    } else {
        let rebased = magnitude - ((127 - bias) << 23);
        (rebased + ((1 << (cut - 1)) - 1) + (rebased >> cut & 1)) >> cut
    };
    match code {
        0 => 0,
        0x80.. => 0x80,
        _ => u64::from(bits >> 24 & 0x80 | code),
    }
}
