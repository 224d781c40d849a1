//! Result modifiers of floats: output scaling and clamp.

use isa::{DataType, Element, Mode, Op};

use super::lane::{Lane, direction};
use crate::form::{Float, FloatCompare, FloatType};
use crate::{Builder, Value};

/// Applies output scaling (`omod`: 1 twice, 2 four times, 3 half) and the clamp to 0..=1 to every float of a result. Integers stay.
/// The machine ignores output scaling in IEEE mode and where MODE keeps denormal results.
pub fn finish(b: &mut Builder<'_>, op: Op, value: Value, omod: u8, clamp: bool, mode: &Mode) -> Value {
    let data_type = op.encoding().dst;
    let of = match (data_type.element(), data_type.element_bits()) {
        (Element::Float, 16) => FloatType::F16,
        (Element::Float, 32) => FloatType::F32,
        (Element::Float, 64) => FloatType::F64,
        _ => return value,
    };
    let l = Lane::new(b, op, [value; 3], None, *mode, false);
    let scales = omod & 3 != 0 && !mode.ieee && l.flushes(of).1;
    if !scales && !clamp {
        return value;
    }
    let one = |value: Value| {
        let value = if scales { scaled(&l, of, value, omod) } else { value };
        if clamp { clamped(&l, of, value) } else { value }
    };
    match data_type {
        DataType::F16x2 => l.pair(one(value), one(l.extract(value, 16, 16))),
        DataType::F32x2 => l.pack(one(l.low(value)), one(l.high(value))),
        _ => one(value),
    }
}

/// Output scaling flushes denormals and loses the sign of zero.
fn scaled(l: &Lane<'_, '_>, of: FloatType, value: Value, omod: u8) -> Value {
    // Two, four and a half, by their place among the powers of two.
    let factor = match (of, omod & 3) {
        (FloatType::F16, 1) => 0x4000,
        (FloatType::F16, 2) => 0x4400,
        (FloatType::F16, _) => 0x3800,
        (FloatType::F32, 1) => 0x4000_0000,
        (FloatType::F32, 2) => 0x4080_0000,
        (FloatType::F32, _) => 0x3f00_0000,
        (FloatType::F64, 1) => 0x4000_0000_0000_0000,
        (FloatType::F64, 2) => 0x4010_0000_0000_0000,
        (FloatType::F64, _) => 0x3fe0_0000_0000_0000,
    };
    let field = if of == FloatType::F32 { l.mode.round_f32 } else { l.mode.round_f64 };
    let mut product = l.float(Float::Multiply, of, direction(field), &[value, l.bits(of, factor)]);
    let exponent = match of {
        FloatType::F16 => 0x7c00,
        FloatType::F32 => 0x7f80_0000,
        FloatType::F64 => 0x7ff << 52,
    };
    if of == FloatType::F16 && l.mode.fp16_ovfl {
        let infinite = |value: Value| l.equal(l.mask(value, 0x7fff), 0x7c00);
        let overflow = l.and(infinite(product), l.not(infinite(value)));
        product = l.select(overflow, l.sub(product, l.word(1)), product);
    }
    let small = l.equal(l.and(product, l.bits(of, exponent)), 0);
    l.select(small, l.bits(of, 0), product)
}

fn clamped(l: &Lane<'_, '_>, of: FloatType, value: Value) -> Value {
    let one = match of {
        FloatType::F16 => 0x3c00,
        FloatType::F32 => 0x3f80_0000,
        FloatType::F64 => 0x3ff0_0000_0000_0000,
    };
    let least = l.exact(Float::Maximum, of, &[value, l.bits(of, 0)]);
    let clamped = l.exact(Float::Minimum, of, &[least, l.bits(of, one)]);
    if l.mode.dx10_clamp {
        return clamped;
    }
    l.select(l.float_compare(FloatCompare::Unordered, of, value, value), value, clamped)
}
