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
    // The carry of a sum of doubles belongs to a third word.
    if f.kind(compared[0]) != Kind::Word {
        return None;
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::{Bytes, Fragment, run_fragment};

    /// `third + 1` if the sum of two doubles carries, as counters of more than 64 bits do it.
    #[test]
    fn the_carry_of_a_sum_of_doubles_is_not_that_of_its_low_words() {
        let mut function = Function { name: "k".into(), ..Function::default() };
        let block = function.add_block(0);
        let mut b = Builder { function: &mut function, block, address: 0 };
        let mut word = |number| b.input(Input::Register(Register::Vector(number)));
        let words = [word(0), word(1), word(2), word(3), word(4)];
        let (x, y) = (b.pack(words[0], words[1]), b.pack(words[2], words[3]));
        let sum = b.binary(Binary::Add, x, y);
        let carry = b.compare(Compare::LessUnsigned, sum, x);
        let (one, zero) = (b.word(1), b.word(0));
        let bit = b.select(carry, one, zero);
        let third = b.binary(Binary::Add, words[4], bit);
        b.append(Operation::Observe(Register::Vector(5)), &[third], &[]);
        crate::verify(&function).unwrap();

        for (x, y) in [(u64::MAX, 1), (0xffff_ffff, 1), (u64::MAX, u64::MAX), (0, 0), (5 << 32, 3 << 32)] {
            let words = [x as u32, (x >> 32) as u32, y as u32, (y >> 32) as u32, 7];
            let read = |register: Register, _: usize| match register {
                Register::Vector(number) => words[usize::from(number)].into(),
                _ => 0,
            };
            let (mut local, mut private, mut memory) = (Vec::new(), vec![Vec::new(); 64], Bytes::default());
            let fragment =
                Fragment { register: &read, local: &mut local, private: &mut private, memory: &mut memory };
            let (observed, _) = run_fragment(&function, fragment, 1000).unwrap();
            let wanted = 7 + u64::from(x.checked_add(y).is_none());
            assert_eq!(observed[0].1[0], wanted, "{x:#x} + {y:#x}");
        }
    }
}
