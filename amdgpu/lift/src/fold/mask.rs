//! Masks: boolean algebra, and the change between masks and numbers.

use super::{inverted, operands_of, pair_of};
use crate::builder::Builder;
use crate::form::*;

/// Absorption and complements. Called with the operands in both orders.
pub fn logic(b: &mut Builder<'_>, op: Binary, x: Value, y: Value) -> Option<Value> {
    let f = &*b.function;
    if inverted(f, x) == Some(y) {
        return Some(b.bit(op != Binary::And));
    }
    let has = |of: Option<(Value, Value)>, part: Value| {
        let (first, second) = of?;
        if first == part {
            Some(second)
        } else if second == part {
            Some(first)
        } else {
            None
        }
    };
    let (and, or) = (pair_of(f, x, Binary::And), pair_of(f, x, Binary::Or));
    match op {
        Binary::And => {
            if has(and, y).is_some() {
                return Some(x);
            }
            if has(or, y).is_some() {
                return Some(y);
            }
            // x & !y, where x is a part of y's complement.
            if let Some(part) = inverted(f, y) {
                if has(and, part).is_some() {
                    return Some(b.bit(false));
                }
                // (part | rest) & !part
                if let Some(rest) = has(or, part) {
                    return Some(b.and(rest, y));
                }
                // (p & q) & !(p & q') has p's lanes where q' is clear.
                if let Some((p, q)) = pair_of(f, part, Binary::And) {
                    if p == x {
                        let other = b.not(q);
                        return Some(b.and(x, other));
                    }
                    if q == x {
                        let other = b.not(p);
                        return Some(b.and(x, other));
                    }
                }
            }
            None
        }
        Binary::Or => {
            if has(or, y).is_some() {
                return Some(x);
            }
            if has(and, y).is_some() {
                return Some(y);
            }
            // (e & v) | (e & !v)
            let (p, q) = and?;
            let other = pair_of(f, y, Binary::And);
            for (common, rest) in [(p, q), (q, p)] {
                if let Some(second) = has(other, common)
                    && (inverted(f, second) == Some(rest) || inverted(f, rest) == Some(second))
                {
                    return Some(common);
                }
            }
            // x & !y | y
            for (kept, dropped) in [(p, q), (q, p)] {
                if inverted(f, dropped) == Some(y) {
                    return Some(b.or(kept, y));
                }
            }
            None
        }
        Binary::Xor => {
            // (y & rest) ^ y
            if let Some(rest) = has(and, y) {
                let other = b.not(rest);
                return Some(b.and(y, other));
            }
            None
        }
        _ => None,
    }
}

/// Operations between masks, numbers and lanes.
pub fn simplify(b: &mut Builder<'_>, operation: &Operation, operands: &[Value]) -> Option<Value> {
    let f = &*b.function;
    let a = operands[0];
    let definition = f.definition(a);
    let uniform = f.shape(a) == Shape::Uniform;
    match operation {
        Operation::Ballot => match definition.operation {
            Operation::MaskOf => Some(definition.operands[0]),
            Operation::Constant(bit) => Some(b.double(0_u64.wrapping_sub(bit))),
            _ if uniform => {
                let (all, none) = (b.double(u64::MAX), b.double(0));
                Some(b.select(a, all, none))
            }
            _ => None,
        },
        Operation::MaskOf => match definition.operation {
            Operation::Ballot => Some(definition.operands[0]),
            Operation::Constant(0) => Some(b.bit(false)),
            Operation::Constant(u64::MAX) => Some(b.bit(true)),
            Operation::Select => {
                let [condition, x, y] = definition.operands[..] else { return None };
                let (x, y) = (b.mask_of(x), b.mask_of(y));
                Some(b.select(condition, x, y))
            }
            Operation::Unary(Unary::Not) => {
                let inner = definition.operands[0];
                let inner = b.mask_of(inner);
                Some(b.not(inner))
            }
            _ => None,
        },
        Operation::AnyLane => match definition.operation {
            Operation::MaskOf => {
                let number = definition.operands[0];
                Some(b.nonzero(number))
            }
            _ if uniform => Some(a),
            _ => None,
        },
        Operation::ReadLane if uniform => Some(a),
        Operation::ReadLane => {
            // A lane that was written before.
            let wanted = f.constant(operands[1])? & 63;
            let [condition, written, old] = operands_of(f, a, &Operation::Select)?[..] else { return None };
            let compared = operands_of(f, condition, &Operation::Compare(Compare::Equal))?;
            let (lane, number) = (compared[0], f.constant(compared[1])?);
            if f.definition(lane).operation != Operation::Input(Input::LaneNumber) {
                return None;
            }
            let index = operands[1];
            let from = if number == wanted { written } else { old };
            Some(b.across(Operation::ReadLane, &[from, index], (Kind::Word, Shape::Uniform)))
        }
        Operation::ReadFirstLane if uniform => Some(a),
        Operation::ReadFirstLane => match f.constant(operands[1]) {
            Some(_) => {
                let lane = b.word(0);
                Some(b.across(Operation::ReadLane, &[a, lane], (Kind::Word, Shape::Uniform)))
            }
            None => None,
        },
        Operation::Shuffle if uniform => Some(a),
        _ => None,
    }
}
