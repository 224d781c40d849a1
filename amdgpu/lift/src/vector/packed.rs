//! Packed floats: the same operation on both parts of the sources.

use isa::Op;

use super::float::single;
use super::lane::Lane;
use crate::Value;
use crate::form::FloatType;

/// The result of a packed operation, or of one that packs.
pub fn lift(l: &Lane<'_, '_>) -> Option<Value> {
    let [a, b, _] = l.s;
    let (stem, count) = match l.op {
        Op::v_pack_b32_f16 => return Some(l.pair(a, b)),
        Op::v_pk_fma_f16 | Op::v_pk_fmac_f16 => ("fma", 3),
        Op::v_pk_add_f16 => ("add", 2),
        Op::v_pk_mul_f16 => ("mul", 2),
        Op::v_pk_min_f16 => ("min", 2),
        Op::v_pk_max_f16 => ("max", 2),
        Op::v_pk_fma_f32 => return singles(l, "fma"),
        Op::v_pk_mul_f32 => return singles(l, "mul"),
        Op::v_pk_add_f32 => return singles(l, "add"),
        _ => return None,
    };
    let half = |sources: [Value; 3]| {
        let value = single(l, stem, FloatType::F16, sources)?;
        let sources = sources.map(|source| (FloatType::F16, source));
        Some(l.write_half(value, &sources[..count]))
    };
    let low = half(l.s)?;
    let high = half(upper(l))?;
    Some(l.pair(low, high))
}

/// High halves of the sources; equal sources have equal halves.
fn upper(l: &Lane<'_, '_>) -> [Value; 3] {
    let mut halves = l.s;
    for n in 0..3 {
        let same = (0..n).find(|before| l.s[*before] == l.s[n]);
        halves[n] = match same {
            Some(before) => halves[before],
            None => l.extract(l.s[n], 16, 16),
        };
    }
    halves
}

/// Both f32 of the pairs.
fn singles(l: &Lane<'_, '_>, stem: &str) -> Option<Value> {
    let part = |sources: [Value; 3]| Some(l.write(FloatType::F32, single(l, stem, FloatType::F32, sources)?));
    let low = part(l.s.map(|source| l.low(source)))?;
    let high = part(l.s.map(|source| l.high(source)))?;
    Some(l.pack(low, high))
}
