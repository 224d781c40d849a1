//! Conversions between types.

use isa::Op;

use super::lane::Lane;
use super::scale;
use crate::Value;
use crate::form::{Compare, Float, FloatType, NumberType, Rounding};

use NumberType::{Bf8, F8, F16, F32, F64, I16, I32, U16, U32};

/// The result of a conversion.
pub fn lift(l: &Lane<'_, '_>) -> Option<Value> {
    let [a, b, c] = l.s;
    let single = |value: Value| l.read(FloatType::F32, value);
    let half = |value: Value| l.read(FloatType::F16, value);
    let wide = |value: Value| l.read(FloatType::F64, value);
    let exact =
        |from: NumberType, to: NumberType, value: Value| l.convert(from, to, Rounding::Nearest, value);
    let truncated =
        |from: NumberType, to: NumberType, value: Value| l.convert(from, to, Rounding::Zero, value);
    let byte = |n: u8| exact(U32, F32, l.extract(a, 8 * n, 8));
    Some(match l.op {
        Op::v_cvt_f32_i32 => l.convert(I32, F32, l.rounding(FloatType::F32), a),
        Op::v_cvt_f32_u32 => l.convert(U32, F32, l.rounding(FloatType::F32), a),
        Op::v_cvt_f64_i32 => exact(I32, F64, a),
        Op::v_cvt_f64_u32 => exact(U32, F64, a),
        Op::v_cvt_f16_u16 => {
            l.write_half(l.convert(U16, F16, l.rounding(FloatType::F16), l.unsigned(a)), &[])
        }
        Op::v_cvt_f16_i16 => l.write_half(l.convert(I16, F16, l.rounding(FloatType::F16), l.signed(a)), &[]),
        Op::v_cvt_f32_ubyte0 => byte(0),
        Op::v_cvt_f32_ubyte1 => byte(1),
        Op::v_cvt_f32_ubyte2 => byte(2),
        Op::v_cvt_f32_ubyte3 => byte(3),
        Op::v_cvt_off_f32_i4 => {
            let number = exact(I32, F32, l.extract_signed(a, 0, 4));
            l.exact(Float::Multiply, FloatType::F32, &[number, l.word(0.0625_f32.to_bits())])
        }
        Op::v_cvt_i32_f32 => truncated(F32, I32, single(a)),
        Op::v_cvt_u32_f32 => truncated(F32, U32, single(a)),
        Op::v_cvt_i32_f64 => truncated(F64, I32, wide(a)),
        Op::v_cvt_u32_f64 => truncated(F64, U32, wide(a)),
        Op::v_cvt_i16_f16 => l.unsigned(truncated(F16, I16, half(a))),
        Op::v_cvt_u16_f16 => truncated(F16, U16, half(a)),
        Op::v_cvt_rpi_i32_f32 => {
            let sum = l.exact(Float::Add, FloatType::F32, &[single(a), l.word(0.5_f32.to_bits())]);
            l.convert(F32, I32, Rounding::Down, sum)
        }
        Op::v_cvt_flr_i32_f32 => l.convert(F32, I32, Rounding::Down, single(a)),
        // Conversions from doubles use the rounding mode of doubles.
        Op::v_cvt_f32_f64 => {
            l.write(FloatType::F32, l.convert(F64, F32, l.rounding(FloatType::F64), wide(a)))
        }
        Op::v_cvt_f64_f32 => l.write(FloatType::F64, exact(F32, F64, single(a))),
        Op::v_cvt_f16_f32 => {
            let a = single(a);
            l.write_half(l.convert(F32, F16, l.rounding(FloatType::F16), a), &[(FloatType::F32, a)])
        }
        Op::v_cvt_f32_f16 => l.write(FloatType::F32, exact(F16, F32, half(a))),
        Op::v_cvt_norm_i16_f16 => l.unsigned(signed_norm(l, exact(F16, F32, half(a)))),
        Op::v_cvt_norm_u16_f16 => unsigned_norm(l, exact(F16, F32, half(a))),
        Op::v_cvt_pknorm_i16_f32 => l.pair(signed_norm(l, single(a)), signed_norm(l, single(b))),
        Op::v_cvt_pknorm_u16_f32 => l.pair(unsigned_norm(l, single(a)), unsigned_norm(l, single(b))),
        Op::v_cvt_pknorm_i16_f16 => {
            let norm = |value: Value| signed_norm(l, exact(F16, F32, half(value)));
            l.pair(norm(a), norm(b))
        }
        Op::v_cvt_pknorm_u16_f16 => {
            let norm = |value: Value| unsigned_norm(l, exact(F16, F32, half(value)));
            l.pair(norm(a), norm(b))
        }
        Op::v_cvt_pkrtz_f16_f32 => {
            let half = |value: Value| l.write(FloatType::F16, truncated(F32, F16, single(value)));
            l.pair(half(a), half(b))
        }
        Op::v_cvt_pk_u8_f32 | Op::v_cvt_pkaccum_u8_f32 => {
            let byte = l.minimum(truncated(F32, U32, single(a)), l.word(255), false);
            // Shifts are modulo 32.
            let place = l.up(b, 3);
            let rest = l.and(c, l.not(l.shl(l.word(0xff), place)));
            l.or(rest, l.shl(byte, place))
        }

        Op::v_cvt_f32_fp8 => exact(F8, F32, l.extract(a, 0, 8)),
        Op::v_cvt_f32_bf8 => l.write(FloatType::F32, exact(Bf8, F32, l.extract(a, 0, 8))),
        Op::v_cvt_pk_f32_fp8 => {
            l.pack(exact(F8, F32, l.extract(a, 0, 8)), exact(F8, F32, l.extract(a, 8, 8)))
        }
        Op::v_cvt_pk_f32_bf8 => {
            l.pack(exact(Bf8, F32, l.extract(a, 0, 8)), exact(Bf8, F32, l.extract(a, 8, 8)))
        }
        Op::v_cvt_pk_fp8_f32 => l.or(small(l, F8, single(a)), l.up(small(l, F8, single(b)), 8)),
        Op::v_cvt_pk_bf8_f32 => l.or(small(l, Bf8, single(a)), l.up(small(l, Bf8, single(b)), 8)),
        Op::v_cvt_sr_fp8_f32 => small(l, F8, noisy(l, single(a), b, 20, 8)),
        Op::v_cvt_sr_bf8_f32 => small(l, Bf8, noisy(l, single(a), b, 21, 16)),

        Op::v_frexp_exp_i32_f32 => scale::exponent(l, FloatType::F32, single(a)),
        Op::v_frexp_exp_i32_f64 => scale::exponent(l, FloatType::F64, wide(a)),
        Op::v_frexp_exp_i16_f16 => scale::exponent(l, FloatType::F16, half(a)),
        _ => return None,
    })
}

/// A number in [-1, 1] as a signed fraction of 32767; the conversion saturates at -32768.
fn signed_norm(l: &Lane<'_, '_>, a: Value) -> Value {
    let product = l.exact(Float::Multiply, FloatType::F32, &[a, l.word(32767.0_f32.to_bits())]);
    let number = l.convert(F32, I16, Rounding::Nearest, product);
    l.maximum(number, l.word(-32767_i32 as u32), true)
}

/// A number in [0, 1] as a fraction of 65535.
fn unsigned_norm(l: &Lane<'_, '_>, a: Value) -> Value {
    let product = l.exact(Float::Multiply, FloatType::F32, &[a, l.word(65535.0_f32.to_bits())]);
    l.convert(F32, U16, Rounding::Nearest, product)
}

/// An 8-bit float. MODE may replace an overflow by the largest number; infinities and NaNs stay NaNs.
fn small(l: &Lane<'_, '_>, to: NumberType, a: Value) -> Value {
    let mut value = a;
    if l.mode.fp16_ovfl {
        let largest: f32 = if to == F8 { 240.0 } else { 57344.0 };
        let constant = |value: f32| l.word(value.to_bits());
        let least = l.exact(Float::Maximum, FloatType::F32, &[a, constant(-largest)]);
        let clamped = l.exact(Float::Minimum, FloatType::F32, &[least, constant(largest)]);
        let finite = l.less(l.mask(a, 0x7fff_ffff), l.word(0x7f80_0000));
        value = l.select(finite, clamped, a);
    }
    l.convert(F32, to, Rounding::Nearest, value)
}

/// A number to which random bits are added below the last of the `24 - cut` bits of the result, and what is below is cut off.
/// Numbers that become denormals, infinities and NaNs stay.
fn noisy(l: &Lane<'_, '_>, a: Value, random: Value, cut: u32, bias: u32) -> Value {
    let magnitude = l.mask(a, 0x7fff_ffff);
    let sum = l.add(magnitude, l.down(random, 32 - cut));
    let kept = l.mask(sum, !0 << cut);
    let (least, infinity) = ((128 - bias) << 23, 0x7f80_0000);
    let changes = l.compare(Compare::LessUnsigned, l.sub(magnitude, l.word(least)), l.word(infinity - least));
    l.select(changes, l.or(kept, l.mask(a, 0x8000_0000)), a)
}
