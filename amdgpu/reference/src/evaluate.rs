//! Result of a vector instruction for one lane, by name.

use isa::Op;

use crate::convert;
use crate::exact::{F16, F32, F64, Format};
use crate::float::float;
use crate::integer::integer;
use crate::lane::{Lane, Outcome, split};

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
