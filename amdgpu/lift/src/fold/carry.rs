//! Sums of doubles that the machine computes as words with a carry.

use super::{operands_of, pair_of};
use crate::builder::Builder;
use crate::form::*;

/// The bit, if a word is 1 where a bit is set, else 0.
fn bit_of(f: &Function, word: Value) -> Option<Value> {
    let operands = operands_of(f, word, &Operation::Select)?;
    (f.constant(operands[1]) == Some(1) && f.constant(operands[2]) == Some(0)).then_some(operands[0])
}

/// The low words of a sum whose carry a bit is.
fn carried(f: &Function, bit: Value) -> Option<(Value, Value)> {
    let compared = operands_of(f, bit, &Operation::Compare(Compare::LessUnsigned))?;
    let (x, y) = pair_of(f, compared[0], Binary::Add)?;
    (compared[1] == x || compared[1] == y).then_some((x, y))
}

/// `high + carry`, the high word of a sum: the high word of a double.
pub fn high(b: &mut Builder<'_>, x: Value, y: Value) -> Option<Value> {
    let f = &*b.function;
    let (rest, carry) = match (bit_of(f, x), bit_of(f, y)) {
        (_, Some(bit)) => (x, bit),
        (Some(bit), None) => (y, bit),
        (None, None) => return None,
    };
    let (mut low_a, mut low_b) = carried(f, carry)?;
    let (high_a, high_b) = match pair_of(f, rest, Binary::Add) {
        Some((high_a, high_b)) => (high_a, Some(high_b)),
        None => (rest, None),
    };
    // Any pairing gives the same sum; one whose parts are the words of a double is better.
    let fits = |low: Value, high: Value| {
        let (low, high) = (f.definition(low), f.definition(high));
        low.operation == Operation::Low && high.operation == Operation::High && low.operands == high.operands
    };
    let together = |low: Value, high: Value| {
        let home = |value: Value| f.values[value.0 as usize].instruction;
        fits(low, high) || home(low) == home(high)
    };
    let crossed = together(low_b, high_a) || high_b.is_some_and(|high_b| together(low_a, high_b));
    let constant_first = f.constant(low_a).is_some() && high_b.is_none();
    if (crossed && !together(low_a, high_a)) || constant_first {
        std::mem::swap(&mut low_a, &mut low_b);
    }
    let high_b = match high_b {
        Some(high_b) => high_b,
        None => b.word(0),
    };
    let first = b.pack(low_a, high_a);
    let second = b.pack(low_b, high_b);
    let sum = b.binary(Binary::Add, first, second);
    Some(b.high(sum))
}

/// `Pack(a + b, High(A + B))` where `a` and `b` are the low words of `A` and `B`.
pub fn pack(f: &Function, low: Value, high: Value) -> Option<Value> {
    let sum = operands_of(f, high, &Operation::High)?[0];
    let (first, second) = pair_of(f, sum, Binary::Add)?;
    let (x, y) = pair_of(f, low, Binary::Add)?;
    let is_low = |double: Value, word: Value| {
        let definition = f.definition(double);
        match definition.operation {
            Operation::Pack => definition.operands[0] == word,
            Operation::Constant(bits) => f.constant(word) == Some(bits & 0xffff_ffff),
            _ => operands_of(f, word, &Operation::Low).is_some_and(|operands| operands[0] == double),
        }
    };
    let whole = is_low(first, x) && is_low(second, y) || is_low(first, y) && is_low(second, x);
    whole.then_some(sum)
}
