//! One lane's sources and results, and the operations that several kinds of instructions share.

use isa::Mode;

use crate::exact::{F16, F32, F64, Format, Number, Unit, ZERO};

/// One lane's sources, with modifiers applied.
#[derive(Debug)]
pub struct Lane<'a> {
    /// The MODE register.
    pub mode: &'a Mode,
    /// Sources, each of its exact size.
    pub s: [u64; 3],
    /// Carry-in, or the condition of v_cndmask.
    pub carry: bool,
    /// Number of the lane.
    pub number: usize,
    /// The clamp bit.
    pub clamp: bool,
}

/// Result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A value for the destination.
    Value(u64),
    /// The lane's bit of the mask destination.
    Mask(bool),
    /// Both.
    Both(u64, bool),
}

impl Lane<'_> {
    /// The floating-point unit of a format in this MODE.
    pub fn unit(&self, format: Format) -> Unit {
        Unit::of(format, self.mode)
    }

    /// Exact integer result in `bits` bits: saturated if the clamp bit is set, else wrapped.
    pub fn wrap(&self, value: i128, bits: u32, signed: bool) -> u64 {
        let (low, high) =
            if signed { (-(1_i128 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
        let value = if self.clamp { value.clamp(low, high) } else { value };
        value as u64 & (u64::MAX >> (64 - bits))
    }
}

/// Splits a mnemonic into its stem and the format that it ends with.
pub fn split(name: &str) -> Option<(&str, Format)> {
    let (stem, suffix) = name.strip_prefix("v_")?.rsplit_once('_')?;
    let format = match suffix {
        "f16" => F16,
        "f32" => F32,
        "f64" => F64,
        _ => return None,
    };
    Some((stem, format))
}

/// The operations of `v_fma_mix`, whose sources have been converted to f32.
pub fn mix(lane: &Lane, format: Format) -> u64 {
    let wide = lane.unit(F32);
    let [a, b, c] = lane.s.map(|source| wide.read(source));
    let sum = a.times(b).plus(c, wide.round);
    if format == F32 {
        return wide.write(sum);
    }
    // Rounded to f32 first, then to a half; an overflow of f32 is also an overflow of the half.
    let rounded = Number::of(F32, sum.bits(F32, wide.round));
    lane.unit(format).write(if matches!(rounded, Number::Infinite { .. }) { sum } else { rounded })
}

/// Sum of two products of halves, rounded after each step.
pub fn dot2(lane: &Lane) -> u64 {
    let unit = lane.unit(F32).nearest().flushing();
    let half = |source: u64, n: u32| Number::of(F16, source >> (16 * n) & 0xffff);
    let [a, b, c] = lane.s;
    let mut sum = unit.flushed(c);
    for n in 0..2 {
        let product = half(a, n).times(half(b, n));
        sum = Unit { flush_out: n == 1, ..unit }.write(product.plus(Number::of(F32, sum), unit.round));
    }
    sum
}

pub fn is_zero(number: Number) -> bool {
    number == ZERO || number.is_zero()
}
