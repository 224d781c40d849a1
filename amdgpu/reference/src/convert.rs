//! Reference implementation of conversions between types.

use crate::exact::{F16, F32, F64, Format, NEAREST, Number, Unit, ZERO_WARD};
use crate::float::exponent;
use crate::lane::Lane;

pub fn convert(name: &str, lane: &Lane) -> Option<u64> {
    let [a, b, c] = lane.s;
    let rest = name.strip_prefix("v_")?;
    let unit = |format| lane.unit(format);
    let to_integer =
        |format: Format, low: i64, high: i64| unit(format).read(a).to_integer(low.into(), high.into()) as u64;
    let from_integer = |out: Format, value: i128| unit(out).write(Number::integer(value));
    let norm = |format: Format, value: u64, signed: bool| {
        let scale = if signed { 32767 } else { 65535 };
        fraction(&unit(format), value, scale, signed)
    };
    let pair = |low: u64, high: u64| low & 0xffff | (high & 0xffff) << 16;
    let i16_of = |value: u64| i128::from(value as i16);
    Some(match rest {
        "cvt_f32_i32" => from_integer(F32, (a as i32).into()),
        "cvt_f32_u32" => from_integer(F32, (a as u32).into()),
        "cvt_f64_i32" => from_integer(F64, (a as i32).into()),
        "cvt_f64_u32" => from_integer(F64, (a as u32).into()),
        "cvt_f16_u16" => from_integer(F16, (a as u16).into()),
        "cvt_f16_i16" => from_integer(F16, i16_of(a)),
        "cvt_f32_ubyte0" => from_integer(F32, (a & 0xff).into()),
        "cvt_f32_ubyte1" => from_integer(F32, (a >> 8 & 0xff).into()),
        "cvt_f32_ubyte2" => from_integer(F32, (a >> 16 & 0xff).into()),
        "cvt_f32_ubyte3" => from_integer(F32, (a >> 24 & 0xff).into()),
        "cvt_off_f32_i4" => unit(F32).write(Number::integer(((a << 60) as i64 >> 60).into()).scaled(-4)),
        "cvt_i32_f32" => to_integer(F32, i32::MIN.into(), i32::MAX.into()) & 0xffff_ffff,
        "cvt_u32_f32" => to_integer(F32, 0, u32::MAX.into()),
        "cvt_i32_f64" => to_integer(F64, i32::MIN.into(), i32::MAX.into()) & 0xffff_ffff,
        "cvt_u32_f64" => to_integer(F64, 0, u32::MAX.into()),
        "cvt_i16_f16" => to_integer(F16, i16::MIN.into(), i16::MAX.into()) & 0xffff,
        "cvt_u16_f16" => to_integer(F16, 0, u16::MAX.into()),
        "cvt_rpi_i32_f32" => {
            let half = Number::integer(1).scaled(-1).bits(F32, NEAREST);
            let sum = unit(F32).nearest().add(a, half);
            floor(Number::of(F32, sum))
        }
        "cvt_flr_i32_f32" => floor(unit(F32).read(a)),
        // Conversions to or from doubles use the rounding mode of doubles.
        "cvt_f32_f64" => Unit { round: unit(F64).round, ..unit(F32) }.write(unit(F64).read(a)),
        "cvt_f64_f32" => unit(F64).write(unit(F32).read(a)),
        "cvt_f16_f32" => unit(F16).write(unit(F32).read(a)),
        "cvt_f32_f16" => unit(F32).write(unit(F16).read(a)),
        "cvt_norm_i16_f16" => norm(F16, a, true),
        "cvt_norm_u16_f16" => norm(F16, a, false),
        "cvt_pknorm_i16_f32" => pair(norm(F32, a, true), norm(F32, b, true)),
        "cvt_pknorm_u16_f32" => pair(norm(F32, a, false), norm(F32, b, false)),
        "cvt_pknorm_i16_f16" => pair(norm(F16, a, true), norm(F16, b, true)),
        "cvt_pknorm_u16_f16" => pair(norm(F16, a, false), norm(F16, b, false)),
        "cvt_pkrtz_f16_f32" => {
            let half = |value: u64| Unit { round: ZERO_WARD, ..unit(F16) }.write(unit(F32).read(value));
            pair(half(a), half(b))
        }
        "cvt_pk_u16_u32" => pair(a.min(0xffff), b.min(0xffff)),
        "cvt_pk_i16_i32" => {
            let clamped = |value: u64| i64::from(value as i32).clamp(-0x8000, 0x7fff) as u64;
            pair(clamped(a), clamped(b))
        }
        "cvt_pk_u8_f32" | "cvt_pkaccum_u8_f32" => {
            let byte = to_integer(F32, 0, 255);
            let shift = 8 * (b & 3);
            c & !(0xff << shift) | byte << shift
        }
        "cvt_f32_fp8" => small_float(a as u8, 3, 8),
        "cvt_f32_bf8" => small_float(a as u8, 2, 16),
        "cvt_pk_f32_fp8" => small_float(a as u8, 3, 8) | small_float((a >> 8) as u8, 3, 8) << 32,
        "cvt_pk_f32_bf8" => small_float(a as u8, 2, 16) | small_float((a >> 8) as u8, 2, 16) << 32,
        "cvt_pk_fp8_f32" => to_small(lane, a, 3, 8) | to_small(lane, b, 3, 8) << 8,
        "cvt_pk_bf8_f32" => to_small(lane, a, 2, 16) | to_small(lane, b, 2, 16) << 8,
        "frexp_exp_i32_f32" => exponent(unit(F32).read(a)) as u32 as u64,
        "frexp_exp_i32_f64" => exponent(unit(F64).read(a)) as u32 as u64,
        "frexp_exp_i16_f16" => exponent(unit(F16).read(a)) as u64 & 0xffff,
        _ => return None,
    })
}

fn floor(number: Number) -> u64 {
    number.rounded(crate::exact::DOWN).to_integer(i32::MIN.into(), i32::MAX.into()) as u64 & 0xffff_ffff
}

/// Multiplies a value in [-1, 1] or [0, 1] by `scale`, in single precision, and rounds to the nearest integer.
fn fraction(unit: &Unit, bits: u64, scale: i128, signed: bool) -> u64 {
    let number = unit.read(bits);
    let one = Number::integer(1);
    let above = number.compare(one).is_none_or(|order| order.is_gt());
    let low = if signed { one.negated() } else { Number::integer(0) };
    let below = number.compare(low).is_none_or(|order| order.is_lt());
    let product = match (number, above, below) {
        (Number::Nan, ..) => return 0,
        (_, true, _) => Number::integer(scale),
        (_, _, true) => low.times(Number::integer(scale)),
        _ => Number::of(F32, number.times(Number::integer(scale)).bits(F32, NEAREST)),
    };
    product.rounded(NEAREST).to_integer(-0x8000, 0xffff) as u64 & 0xffff
}

/// Value of an 8-bit float without infinities, whose only NaN is 0x80.
fn small_number(bits: u8, fraction: i32, bias: i32) -> Number {
    if bits == 0x80 {
        return Number::Nan;
    }
    let (field, rest) = (i32::from(bits & 0x7f) >> fraction, u128::from(bits) & ((1 << fraction) - 1));
    let mantissa = if field == 0 { rest } else { rest | 1 << fraction };
    let exponent = field.max(1) - bias - fraction;
    Number::Finite { negative: bits & 0x80 != 0, mantissa, exponent, sticky: false }
}

fn small_float(bits: u8, fraction: i32, bias: i32) -> u64 {
    small_number(bits, fraction, bias).bits(F32, NEAREST)
}

/// Nearest 8-bit float, found by exhaustive search; ties go to the even code.
fn to_small(lane: &Lane, bits: u64, fraction: i32, bias: i32) -> u64 {
    let number = lane.unit(F32).read(bits);
    let saturates = lane.mode.fp16_ovfl;
    let magnitude = match number {
        Number::Nan | Number::Infinite { .. } => return 0x80,
        number => number.magnitude(),
    };
    let distance = |code: u64| {
        let candidate = if code == 0x80 {
            // The hypothetical value after the largest one, to which numbers that are too large round.
            small_number(0x7f, fraction, bias).plus(step(fraction, bias), NEAREST)
        } else {
            small_number(code as u8, fraction, bias)
        };
        magnitude.plus(candidate.negated(), NEAREST).magnitude()
    };
    let nearest = (0..=0x80_u64)
        .min_by(|x, y| distance(*x).compare(distance(*y)).expect("no NaN").then((x & 1).cmp(&(y & 1))))
        .expect("codes");
    let sign = if number.is_negative() { 0x80 } else { 0 };
    match nearest {
        0x80 if saturates => sign | 0x7f,
        0x80 => 0x80,
        0 => 0,
        code => sign | code,
    }
}

/// Distance between the two largest numbers.
fn step(fraction: i32, bias: i32) -> Number {
    let (last, before) = (small_number(0x7f, fraction, bias), small_number(0x7e, fraction, bias));
    last.plus(before.negated(), NEAREST)
}
