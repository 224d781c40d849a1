//! Comparisons: `v_cmp_*` and `v_cmpx_*`.

use super::Outcome;
use super::lane::Lane;
use crate::Value;
use crate::form::{Compare, FloatCompare, FloatType, Kind};

/// The bit of a comparison. Mnemonics are regular: a condition and a type.
pub fn lift(l: &Lane<'_, '_>) -> Option<Outcome> {
    let name = l.op.name();
    let rest = name.strip_prefix("v_cmp_").or_else(|| name.strip_prefix("v_cmpx_"))?;
    let (condition, data_type) = rest.rsplit_once('_')?;
    let [a, b, _] = l.s;
    Some(Outcome::mask(match (condition, data_type) {
        ("f", _) => l.bit(false),
        ("t" | "tru", _) => l.bit(true),
        ("class", "f16") => class(l, FloatType::F16, a, b),
        ("class", "f32") => class(l, FloatType::F32, a, b),
        ("class", "f64") => class(l, FloatType::F64, a, b),
        (_, "f16") => float(l, condition, FloatType::F16, a, b)?,
        (_, "f32") => float(l, condition, FloatType::F32, a, b)?,
        (_, "f64") => float(l, condition, FloatType::F64, a, b)?,
        (_, "i16") => integer(l, condition, true, l.signed(a), l.signed(b))?,
        (_, "u16") => integer(l, condition, false, l.unsigned(a), l.unsigned(b))?,
        (_, "i32" | "i64") => integer(l, condition, true, a, b)?,
        (_, "u32" | "u64") => integer(l, condition, false, a, b)?,
        _ => return None,
    }))
}

fn integer(l: &Lane<'_, '_>, condition: &str, signed: bool, a: Value, b: Value) -> Option<Value> {
    let (less, less_equal) = match signed {
        true => (Compare::LessSigned, Compare::LessEqualSigned),
        false => (Compare::LessUnsigned, Compare::LessEqualUnsigned),
    };
    Some(match condition {
        "lt" => l.compare(less, a, b),
        "eq" => l.compare(Compare::Equal, a, b),
        "le" => l.compare(less_equal, a, b),
        "gt" => l.compare(less, b, a),
        "ne" => l.compare(Compare::NotEqual, a, b),
        "ge" => l.compare(less_equal, b, a),
        _ => return None,
    })
}

fn float(l: &Lane<'_, '_>, condition: &str, of: FloatType, a: Value, b: Value) -> Option<Value> {
    let (a, b) = (l.read(of, a), l.read(of, b));
    let compare = |compare: FloatCompare, a: Value, b: Value| l.float_compare(compare, of, a, b);
    let differ = || l.and(compare(FloatCompare::Ordered, a, b), compare(FloatCompare::NotEqual, a, b));
    Some(match condition {
        "lt" => compare(FloatCompare::Less, a, b),
        "eq" => compare(FloatCompare::Equal, a, b),
        "le" => compare(FloatCompare::LessEqual, a, b),
        "gt" => compare(FloatCompare::Less, b, a),
        "lg" => differ(),
        "ge" => compare(FloatCompare::LessEqual, b, a),
        "o" => compare(FloatCompare::Ordered, a, b),
        "u" => compare(FloatCompare::Unordered, a, b),
        "nge" => l.not(compare(FloatCompare::LessEqual, b, a)),
        "nlg" => l.not(differ()),
        "ngt" => l.not(compare(FloatCompare::Less, b, a)),
        "nle" => l.not(compare(FloatCompare::LessEqual, a, b)),
        "neq" => compare(FloatCompare::NotEqual, a, b),
        "nlt" => l.not(compare(FloatCompare::Less, a, b)),
        _ => return None,
    })
}

/// Sign bit, infinity, quiet bit and smallest normal number of a type.
fn layout(of: FloatType) -> (u64, u64, u64, u64) {
    match of {
        FloatType::F16 => (1 << 15, 0x7c00, 1 << 9, 1 << 10),
        FloatType::F32 => (1 << 31, 0x7f80_0000, 1 << 22, 1 << 23),
        FloatType::F64 => (1 << 63, 0x7ff << 52, 1 << 51, 1 << 52),
    }
}

/// `v_cmp_class`: whether the float belongs to one of the classes of a mask: 0 signalling NaN, 1 quiet NaN, 2 to 5 negative infinity,
/// normal, denormal, zero, 6 to 9 the positive ones in reverse order. MODE does not matter.
fn class(l: &Lane<'_, '_>, of: FloatType, a: Value, wanted: Value) -> Value {
    let (sign, infinity, quiet, normal) = layout(of);
    let magnitude = l.and(a, l.like(a, sign - 1));
    let negative = l.compare(Compare::NotEqual, l.and(a, l.like(a, sign)), l.like(a, 0));
    if let Some(wanted) = l.constant(wanted) {
        // Ranges of magnitudes: zero, denormal, normal, infinite, signalling, quiet.
        let limits = [0, 1, normal, infinity, infinity + 1, infinity | quiet, sign];
        let set = |bits: [u32; 4]| {
            let finite = bits.iter().zip(0..).map(|(bit, n)| (wanted >> bit & 1) << n).sum::<u64>();
            finite | (wanted & 1) << 4 | (wanted >> 1 & 1) << 5
        };
        let (positive, negated) = (set([6, 7, 8, 9]), set([5, 4, 3, 2]));
        let upper = member(l, magnitude, positive, limits);
        if positive == negated {
            return upper;
        }
        return l.select(negative, member(l, magnitude, negated, limits), upper);
    }
    // One test for each class; a mask that turns out to be constant later leaves only those that it asks for.
    let bit = |n: u32| l.compare(Compare::NotEqual, l.mask(wanted, 1 << n), l.word(0));
    let below = |limit: u64| l.less(magnitude, l.like(a, limit));
    let inside = |low: u64, high: u64| l.and(l.not(below(low)), below(high));
    let signed = |positive: u32, negated: u32| l.select(negative, bit(negated), bit(positive));
    [
        (l.equal(magnitude, 0), signed(6, 5)),
        (inside(1, normal), signed(7, 4)),
        (inside(normal, infinity), signed(8, 3)),
        (l.equal(magnitude, infinity), signed(9, 2)),
        (inside(infinity + 1, infinity | quiet), bit(0)),
        (l.not(below(infinity | quiet)), bit(1)),
    ]
    .into_iter()
    .fold(l.bit(false), |any, (test, asked)| l.or(any, l.and(test, asked)))
}

/// Whether a magnitude is in one of the ranges whose bits are set; each run of adjacent ranges is one comparison.
fn member(l: &Lane<'_, '_>, magnitude: Value, set: u64, limits: [u64; 7]) -> Value {
    let mut result = None;
    let mut first = 0;
    while first < 6 {
        let mut last = first;
        while last < 6 && set >> last & 1 == 1 {
            last += 1;
        }
        if last > first {
            let (low, high) = (limits[first], limits[last]);
            let size = l.like(magnitude, high - low);
            let inside = match (low, high - low) {
                (_, 1) => l.equal(magnitude, low),
                (0, _) if last == 6 => l.bit(true),
                (0, _) => l.less(magnitude, size),
                _ if last == 6 => l.compare(Compare::LessEqualUnsigned, l.like(magnitude, low), magnitude),
                _ => l.less(l.sub(magnitude, l.like(magnitude, low)), size),
            };
            result = Some(result.map_or(inside, |before| l.or(before, inside)));
        }
        first = last.max(first + 1);
    }
    debug_assert!(l.kind(magnitude) != Kind::Bit);
    result.unwrap_or_else(|| l.bit(false))
}
