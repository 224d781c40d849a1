//! Simpler equals of operations: constants, identities, and what follows from how masks are made.

mod bits;
mod carry;
mod constant;
mod mask;

use crate::builder::Builder;
use crate::form::*;

/// A value that equals the operation's result, if there is a simpler one than the operation itself.
pub fn simplify(b: &mut Builder<'_>, operation: &Operation, operands: &[Value], kind: Kind) -> Option<Value> {
    if let Some(bits) = constant::evaluate(b.function, operation, operands) {
        return Some(b.constant(kind, bits));
    }
    match *operation {
        Operation::Unary(Unary::Not) => invert(b, operands[0]),
        Operation::Binary(op) => binary(b, op, operands[0], operands[1], kind),
        Operation::Compare(op) => compare(b, op, operands[0], operands[1]),
        Operation::Select => select(b, operands[0], operands[1], operands[2], kind),
        Operation::Pack => pack(b.function, operands[0], operands[1]),
        Operation::Low | Operation::High => half(b, operation, operands[0]),
        Operation::Extract { signed, offset, width } => bits::extract(b, operands[0], offset, width, signed),
        Operation::FunnelShift => match b.function.constant(operands[2]).map(|amount| amount & 31) {
            Some(0) => Some(operands[1]),
            _ => None,
        },
        Operation::Ballot
        | Operation::MaskOf
        | Operation::AnyLane
        | Operation::ReadLane
        | Operation::ReadFirstLane
        | Operation::Shuffle => mask::simplify(b, operation, operands),
        _ => None,
    }
}

/// The operands, if a value is the result of a given operation.
pub(super) fn operands_of<'a>(
    function: &'a Function,
    value: Value,
    operation: &Operation,
) -> Option<&'a [Value]> {
    let definition = function.definition(value);
    (definition.operation == *operation).then_some(&definition.operands[..])
}

/// The operands of an operation with two.
fn pair_of(function: &Function, value: Value, op: Binary) -> Option<(Value, Value)> {
    let operands = operands_of(function, value, &Operation::Binary(op))?;
    Some((operands[0], operands[1]))
}

/// The operand of a `Not`.
fn inverted(function: &Function, value: Value) -> Option<Value> {
    operands_of(function, value, &Operation::Unary(Unary::Not)).map(|operands| operands[0])
}

fn invert(b: &mut Builder<'_>, a: Value) -> Option<Value> {
    if let Some(inner) = inverted(b.function, a) {
        return Some(inner);
    }
    let definition = b.function.definition(a);
    let (x, y) = match definition.operands[..] {
        [x, y] => (x, y),
        _ => return None,
    };
    match definition.operation {
        Operation::Compare(Compare::Equal) => Some(b.compare(Compare::NotEqual, x, y)),
        Operation::Compare(Compare::NotEqual) => Some(b.compare(Compare::Equal, x, y)),
        Operation::Compare(Compare::LessUnsigned) => Some(b.compare(Compare::LessEqualUnsigned, y, x)),
        Operation::Compare(Compare::LessEqualUnsigned) => Some(b.compare(Compare::LessUnsigned, y, x)),
        Operation::Compare(Compare::LessSigned) => Some(b.compare(Compare::LessEqualSigned, y, x)),
        Operation::Compare(Compare::LessEqualSigned) => Some(b.compare(Compare::LessSigned, y, x)),
        _ => None,
    }
}

/// All bits of a kind.
fn ones(kind: Kind) -> u64 {
    match kind {
        Kind::Bit => 1,
        Kind::Word => 0xffff_ffff,
        Kind::Double => u64::MAX,
    }
}

fn binary(b: &mut Builder<'_>, op: Binary, x: Value, y: Value, kind: Kind) -> Option<Value> {
    let f = &*b.function;
    let (left, right) = (f.constant(x), f.constant(y));
    // Constants go to the right.
    let commutes = matches!(
        op,
        Binary::Add
            | Binary::Multiply
            | Binary::And
            | Binary::Or
            | Binary::Xor
            | Binary::MinimumUnsigned
            | Binary::MaximumUnsigned
            | Binary::MinimumSigned
            | Binary::MaximumSigned
            | Binary::MultiplyHighUnsigned
            | Binary::MultiplyHighSigned
    );
    if commutes && left.is_some() && right.is_none() {
        return Some(b.binary(op, y, x));
    }
    match (op, right) {
        (
            Binary::Add
            | Binary::Subtract
            | Binary::Or
            | Binary::Xor
            | Binary::ShiftLeft
            | Binary::ShiftRight
            | Binary::ShiftRightSigned,
            Some(0),
        ) => return Some(x),
        (
            Binary::And | Binary::Multiply | Binary::MultiplyHighUnsigned | Binary::MultiplyHighSigned,
            Some(0),
        ) => {
            return Some(b.constant(kind, 0));
        }
        (Binary::And, Some(bits)) if bits == ones(kind) => return Some(x),
        (Binary::Or, Some(bits)) if bits == ones(kind) => return Some(y),
        (Binary::Xor, Some(bits)) if bits == ones(kind) => return Some(b.not(x)),
        (Binary::Multiply, Some(1)) => return Some(x),
        (Binary::Multiply, Some(factor)) if factor.is_power_of_two() => {
            let amount = b.word(factor.trailing_zeros());
            return Some(b.binary(Binary::ShiftLeft, x, amount));
        }
        _ => {}
    }
    if x == y {
        match op {
            Binary::And
            | Binary::Or
            | Binary::MinimumUnsigned
            | Binary::MaximumUnsigned
            | Binary::MinimumSigned
            | Binary::MaximumSigned => return Some(x),
            Binary::Xor | Binary::Subtract => return Some(b.constant(kind, 0)),
            _ => {}
        }
    }
    match op {
        Binary::Add => add(b, x, y, kind),
        Binary::Subtract => {
            let amount = right?;
            let negative = b.constant(kind, amount.wrapping_neg());
            Some(b.binary(Binary::Add, x, negative))
        }
        Binary::And | Binary::Or | Binary::Xor if kind == Kind::Bit => {
            mask::logic(b, op, x, y).or_else(|| mask::logic(b, op, y, x))
        }
        Binary::And => bits::and(b, x, y),
        Binary::ShiftLeft | Binary::ShiftRight | Binary::ShiftRightSigned => shift(b, op, x, y, kind),
        _ => None,
    }
}

/// Sums of a constant are gathered, and the number of set bits below a lane is its number.
fn add(b: &mut Builder<'_>, x: Value, y: Value, kind: Kind) -> Option<Value> {
    if let Some(second) = b.function.constant(y) {
        let (inner, first) = pair_of(b.function, x, Binary::Add)?;
        let first = b.function.constant(first)?;
        let sum = b.constant(kind, first.wrapping_add(second));
        return Some(b.binary(Binary::Add, inner, sum));
    }
    let part = |value: Value| {
        let count = operands_of(b.function, value, &Operation::Unary(Unary::Popcount))?[0];
        let half = b.function.definition(count);
        let of = *half.operands.first()?;
        let is_below = b.function.definition(of).operation == Operation::Input(Input::LanesBelow);
        is_below.then(|| half.operation.clone())
    };
    match (part(x), part(y)) {
        (Some(Operation::Low), Some(Operation::High)) | (Some(Operation::High), Some(Operation::Low)) => {
            Some(b.input(Input::LaneNumber))
        }
        _ if kind == Kind::Word => carry::high(b, x, y),
        _ => None,
    }
}

/// Shifts of a shifted value by constants.
fn shift(b: &mut Builder<'_>, op: Binary, x: Value, y: Value, kind: Kind) -> Option<Value> {
    let size = if kind == Kind::Double { 64 } else { 32 };
    let second = b.function.constant(y)? % size;
    if second == 0 {
        return Some(x);
    }
    // A shift up and down again, of a value that loses nothing.
    if op == Binary::ShiftRight
        && let Some((inner, up)) = pair_of(b.function, x, Binary::ShiftLeft)
        && b.function.constant(up).is_some_and(|up| up % size == second)
        && bits::possible_bits(b.function, inner) & ones(kind) & !(ones(kind) >> second) == 0
    {
        return Some(inner);
    }
    let (inner, first) = pair_of(b.function, x, op)?;
    let sum = b.function.constant(first)? % size + second;
    match op {
        _ if sum < size => {
            let amount = b.word(sum as u32);
            Some(b.binary(op, inner, amount))
        }
        Binary::ShiftRightSigned => {
            let amount = b.word(size as u32 - 1);
            Some(b.binary(op, inner, amount))
        }
        _ => Some(b.constant(kind, 0)),
    }
}

fn compare(b: &mut Builder<'_>, op: Compare, x: Value, y: Value) -> Option<Value> {
    if x == y {
        let equal = matches!(op, Compare::Equal | Compare::LessEqualUnsigned | Compare::LessEqualSigned);
        return Some(b.bit(equal));
    }
    let f = &*b.function;
    if f.constant(x).is_some() && f.constant(y).is_none() && matches!(op, Compare::Equal | Compare::NotEqual)
    {
        return Some(b.compare(op, y, x));
    }
    let bits = f.constant(y)?;
    let unsigned_zero = bits == 0 && op == Compare::LessUnsigned;
    if unsigned_zero {
        return Some(b.bit(false));
    }
    if f.kind(x) == Kind::Bit {
        return match (op, bits) {
            (Compare::Equal, 1) | (Compare::NotEqual, 0) => Some(x),
            (Compare::Equal, 0) | (Compare::NotEqual, 1) => Some(b.not(x)),
            _ => None,
        };
    }
    let definition = f.definition(x);
    match definition.operation {
        // A choice of two constants.
        Operation::Select => {
            let condition = definition.operands[0];
            let (chosen, other) = (f.constant(definition.operands[1])?, f.constant(definition.operands[2])?);
            let holds = |value: u64| constant::compare(op, f.kind(x), value, bits);
            match (holds(chosen), holds(other)) {
                (true, true) => Some(b.bit(true)),
                (false, false) => Some(b.bit(false)),
                (true, false) => Some(condition),
                (false, true) => Some(b.not(condition)),
            }
        }
        Operation::Ballot if bits == 0 => {
            let mask = definition.operands[0];
            match op {
                Compare::NotEqual => Some(b.any_lane(mask)),
                Compare::Equal => {
                    let any = b.any_lane(mask);
                    Some(b.not(any))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn select(b: &mut Builder<'_>, condition: Value, x: Value, y: Value, kind: Kind) -> Option<Value> {
    match b.function.constant(condition) {
        Some(0) => return Some(y),
        Some(_) => return Some(x),
        None if x == y => return Some(x),
        None => {}
    }
    if let Some(inner) = inverted(b.function, condition) {
        return Some(b.select(inner, y, x));
    }
    // What is loaded is 0 in lanes outside of the mask.
    if b.function.constant(y) == Some(0) {
        let definition = b.function.definition(x);
        let masked = matches!(definition.operation, Operation::Load(_) | Operation::Atomic(..));
        if masked && definition.operands[0] == condition {
            return Some(x);
        }
    }
    if kind == Kind::Bit {
        match (b.function.constant(x), b.function.constant(y)) {
            (Some(1), Some(0)) => return Some(condition),
            (Some(0), Some(1)) => return Some(b.not(condition)),
            (Some(1), _) => return Some(b.or(condition, y)),
            (_, Some(0)) => return Some(b.and(condition, x)),
            (Some(0), _) => {
                let other = b.not(condition);
                return Some(b.and(other, y));
            }
            (_, Some(1)) => {
                let other = b.not(condition);
                return Some(b.or(other, x));
            }
            _ => {}
        }
    }
    let same = |function: &Function, value: Value, part: usize| {
        let operands = operands_of(function, value, &Operation::Select)?;
        (operands[0] == condition).then(|| operands[part])
    };
    if let Some(inner) = same(b.function, x, 1) {
        return Some(b.select(condition, inner, y));
    }
    if let Some(inner) = same(b.function, y, 2) {
        return Some(b.select(condition, x, inner));
    }
    None
}

fn pack(f: &Function, low: Value, high: Value) -> Option<Value> {
    let (a, b) = (f.definition(low), f.definition(high));
    let whole = a.operation == Operation::Low && b.operation == Operation::High && a.operands == b.operands;
    if whole { Some(a.operands[0]) } else { carry::pack(f, low, high) }
}

fn half(b: &mut Builder<'_>, operation: &Operation, double: Value) -> Option<Value> {
    let definition = b.function.definition(double);
    let high = *operation == Operation::High;
    match definition.operation {
        Operation::Pack => Some(definition.operands[usize::from(high)]),
        // The halves of a choice between doubles that are pairs of words.
        Operation::Select if b.function.shape(definition.operands[0]) == Shape::Uniform => {
            let [condition, x, y] = definition.operands[..] else { return None };
            let simple = |value: Value| {
                matches!(b.function.definition(value).operation, Operation::Constant(_) | Operation::Pack)
            };
            if !simple(x) || !simple(y) {
                return None;
            }
            let (x, y) = if high { (b.high(x), b.high(y)) } else { (b.low(x), b.low(y)) };
            Some(b.select(condition, x, y))
        }
        _ => None,
    }
}
