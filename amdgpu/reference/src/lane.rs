//! Reference implementation of vector operations for one lane, by name.

use isa::{Mode, Op};

use crate::convert;
use crate::exact::{F16, F32, F64, Format, Number, Unit, ZERO};
use crate::float::float;
use crate::integer::integer;

/// One lane's sources, with modifiers applied.
#[derive(Debug)]
pub struct Lane<'a> {
    pub mode: &'a Mode,
    pub s: [u64; 3],
    /// Carry-in, or the condition of v_cndmask.
    pub carry: bool,
    pub number: usize,
    pub clamp: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Value(u64),
    Mask(bool),
    Both(u64, bool),
}

impl Lane<'_> {
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

/// Result of an operation for a lane; `None` for operations without a reference implementation.
pub fn evaluate(op: Op, lane: &Lane) -> Option<Outcome> {
    let name = op.name();
    if let Some(compared) = compare(name, lane) {
        return Some(Outcome::Mask(compared));
    }
    if let Some(packed) = packed(name, lane) {
        return Some(Outcome::Value(packed));
    }
    convert::convert(name, lane)
        .or_else(|| split(name).and_then(|(stem, format)| float(stem, &lane.unit(format), lane)))
        .map(Outcome::Value)
        .or_else(|| integer(name, lane))
}

/// `v_cmp_*` and `v_cmpx_*`.
fn compare(name: &str, lane: &Lane) -> Option<bool> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let rest = name.strip_prefix("v_cmp_").or_else(|| name.strip_prefix("v_cmpx_"))?;
    let (condition, data_type) = rest.rsplit_once('_')?;
    let [a, b, _] = lane.s;
    if condition == "class" {
        let format = split(name)?.1;
        return Some(b >> class(format, a) & 1 == 1);
    }
    let sign_extended = |value: u64, bits: u32| (value << (64 - bits)) as i64 >> (64 - bits);
    let order = match data_type {
        "f16" => lane.unit(F16).compare(a & 0xffff, b & 0xffff),
        "f32" => lane.unit(F32).compare(a, b),
        "f64" => lane.unit(F64).compare(a, b),
        "i16" => Some(sign_extended(a, 16).cmp(&sign_extended(b, 16))),
        "i32" => Some(sign_extended(a, 32).cmp(&sign_extended(b, 32))),
        "i64" => Some((a as i64).cmp(&(b as i64))),
        "u16" => Some((a as u16).cmp(&(b as u16))),
        _ => Some(a.cmp(&b)),
    };
    Some(match condition {
        "f" => false,
        "lt" => order == Some(Less),
        "eq" => order == Some(Equal),
        "le" => matches!(order, Some(Less | Equal)),
        "gt" => order == Some(Greater),
        "lg" => matches!(order, Some(Less | Greater)),
        "ge" => matches!(order, Some(Greater | Equal)),
        "o" => order.is_some(),
        "u" => order.is_none(),
        "nge" => !matches!(order, Some(Greater | Equal)),
        "nlg" => !matches!(order, Some(Less | Greater)),
        "ngt" => order != Some(Greater),
        "nle" => !matches!(order, Some(Less | Equal)),
        "neq" | "ne" => order != Some(Equal),
        "nlt" => order != Some(Less),
        "tru" | "t" => true,
        _ => return None,
    })
}

/// 0 signalling NaN, 1 quiet NaN, 2..=5 negative infinity, normal, subnormal, zero, 6..=9 the positive ones in reverse order.
fn class(format: Format, bits: u64) -> u32 {
    let negative = bits & format.sign() != 0;
    let magnitude = bits & (format.sign() - 1);
    if format.is_nan(bits) {
        return u32::from(!format.is_signalling(bits));
    }
    let distance = if magnitude == format.infinity() {
        0
    } else if magnitude >= 1 << format.fraction {
        1
    } else if magnitude != 0 {
        2
    } else {
        3
    };
    if negative { 2 + distance } else { 9 - distance }
}

/// `v_pk_*`: the same operation on both parts of the sources.
fn packed(name: &str, lane: &Lane) -> Option<u64> {
    let single = name.strip_prefix("v_pk_")?;
    let part = |bits: u32, n: u32| Lane {
        s: lane.s.map(|source| source >> (bits * n) & (u64::MAX >> (64 - bits))),
        ..*lane
    };
    if let Some((stem, format)) = split(name) {
        let stem = stem.strip_prefix("pk_")?;
        let unit = lane.unit(format);
        let both = [0, 1].map(|n| float(stem, &unit, &part(format.bits, n)));
        return Some(both[0]? | both[1]? << format.bits);
    }
    if single == "mov_b32" {
        return None;
    }
    let both = [0, 1].map(|n| integer(&format!("v_{single}"), &part(16, n)));
    match both {
        [Some(Outcome::Value(low)), Some(Outcome::Value(high))] => Some(low & 0xffff | (high & 0xffff) << 16),
        _ => None,
    }
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
