//! Functions that hardware approximates, computed like the software GPU does: in f64, rounded once.

use super::half::{from_half, to_half};
use crate::form::{Approximate, FloatType};

pub fn approximate(function: Approximate, of: FloatType, a: u64) -> u64 {
    match of {
        FloatType::F16 => to_half(single(function, from_half(a))),
        FloatType::F32 => single(function, f32::from_bits(a as u32)).to_bits().into(),
        FloatType::F64 => double(function, f64::from_bits(a)).to_bits(),
    }
}

fn single(function: Approximate, x: f32) -> f32 {
    match function {
        Approximate::Reciprocal => 1.0 / x,
        Approximate::ReciprocalSquareRoot => 1.0 / x.sqrt(),
        Approximate::SquareRoot => x.sqrt(),
        Approximate::Exponential => exponential(x),
        Approximate::Logarithm => logarithm(x),
        Approximate::Sine if x == 0.0 => x,
        Approximate::Sine => sine_and_cosine(x).0 as f32,
        Approximate::Cosine => sine_and_cosine(x).1 as f32,
    }
}

/// The machine has only the first three for doubles.
fn double(function: Approximate, x: f64) -> f64 {
    match function {
        Approximate::Reciprocal => 1.0 / x,
        Approximate::ReciprocalSquareRoot => 1.0 / x.sqrt(),
        Approximate::SquareRoot => x.sqrt(),
        Approximate::Exponential => x.exp2(),
        Approximate::Logarithm => x.log2(),
        Approximate::Sine => (x * std::f64::consts::TAU).sin(),
        Approximate::Cosine => (x * std::f64::consts::TAU).cos(),
    }
}

/// Rounds to an integer, for |x| below 2^51.
fn nearest(x: f64) -> f64 {
    const MAGIC: f64 = 6_755_399_441_055_744.0;
    (x + MAGIC) - MAGIC
}

/// 2^x by the Taylor series of the fraction.
fn exponential(x: f32) -> f32 {
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
    let fraction = x - whole;
    let sum = C.iter().rev().skip(1).fold(C[10], |sum, term| sum * fraction + term);
    (sum * f64::from_bits(((whole as i32 + 1023) as u64) << 52)) as f32
}

/// The base-two logarithm by the series of the inverse hyperbolic tangent.
fn logarithm(x: f32) -> f32 {
    const SCALE: f64 = 2.885_390_081_777_926_8;
    if x == 0.0 {
        return f32::NEG_INFINITY;
    }
    if x < 0.0 || x.is_nan() {
        return f32::NAN;
    }
    if x == f32::INFINITY {
        return x;
    }
    // Every nonzero finite f32 is a normal f64. The mantissa is in [sqrt(1/2), sqrt(2)).
    let bits = f64::from(x).to_bits();
    let exponent = (bits.wrapping_sub(0x3fe6_a09e_667f_3bcd) as i64 >> 52) as i32;
    let mantissa = f64::from_bits(bits.wrapping_sub((i64::from(exponent) as u64) << 52));
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let z = s * s;
    let series = 1.0
        + z * (1.0 / 3.0
            + z * (1.0 / 5.0
                + z * (1.0 / 7.0
                    + z * (1.0 / 9.0 + z * (1.0 / 11.0 + z * (1.0 / 13.0 + z * (1.0 / 15.0 + z / 17.0)))))));
    (f64::from(exponent) + s * SCALE * series) as f32
}

/// sin(2 pi x) and cos(2 pi x), reduced to an eighth of a turn.
fn sine_and_cosine(x: f32) -> (f64, f64) {
    // Every f32 of 2^24 or more is a whole number of turns.
    let x = if x.abs() < 16_777_216.0 { f64::from(x) } else { f64::from(x * 0.0) };
    let turn = x - nearest(x);
    let quarters = nearest(turn * 4.0);
    let angle = (turn - quarters * 0.25) * std::f64::consts::TAU;
    let z = angle * angle;
    let sine = angle
        * (1.0
            + z * (-1.0 / 6.0
                + z * (1.0 / 120.0
                    + z * (-1.0 / 5040.0
                        + z * (1.0 / 362_880.0 + z * (-1.0 / 39_916_800.0 + z / 6_227_020_800.0))))));
    let cosine = 1.0
        + z * (-0.5
            + z * (1.0 / 24.0
                + z * (-1.0 / 720.0 + z * (1.0 / 40_320.0 + z * (-1.0 / 3_628_800.0 + z / 479_001_600.0)))));
    let quadrant = quarters as i32 & 3;
    let (s, c) = if quadrant & 1 == 1 { (cosine, sine) } else { (sine, cosine) };
    (if quadrant & 2 == 2 { -s } else { s }, if quadrant == 1 || quadrant == 2 { -c } else { c })
}
