//! Bits that a value may have set, and what follows for masks and fields.

use super::pair_of;
use crate::builder::Builder;
use crate::form::*;

/// Bits that may be set in a value; the others are zero.
pub fn possible_bits(function: &Function, value: Value) -> u64 {
    bits(function, value, 6)
}

fn all(kind: Kind) -> u64 {
    match kind {
        Kind::Bit => 1,
        Kind::Word => 0xffff_ffff,
        Kind::Double => u64::MAX,
    }
}

/// All bits up to the highest set one.
fn below(bits: u64) -> u64 {
    if bits == 0 { 0 } else { u64::MAX >> bits.leading_zeros() }
}

fn bits(function: &Function, value: Value, depth: u32) -> u64 {
    let kind = function.kind(value);
    let definition = function.definition(value);
    if let Operation::Constant(bits) = definition.operation {
        return bits;
    }
    if depth == 0 {
        return all(kind);
    }
    let of = |n: usize| bits(function, definition.operands[n], depth - 1);
    let constant = |n: usize| function.constant(definition.operands[n]);
    let size = if kind == Kind::Double { 64 } else { 32 };
    all(kind)
        & match definition.operation {
            Operation::Input(Input::WorkitemId(_)) => 0x3ff,
            Operation::Input(Input::LaneNumber) => 0x3f,
            // The argument block is aligned to 16 bytes.
            Operation::Input(Input::KernargPointer) => !0xf,
            Operation::Binary(Binary::And) => of(0) & of(1),
            Operation::Binary(Binary::Or | Binary::Xor) => of(0) | of(1),
            Operation::Binary(Binary::Add) => {
                let (a, b) = (of(0), of(1));
                let low = a.trailing_zeros().min(b.trailing_zeros()).min(63);
                below(below(a).saturating_add(below(b))) & (u64::MAX << low)
            }
            Operation::Binary(Binary::ShiftLeft) => match constant(1) {
                Some(amount) => of(0) << (amount % size),
                None => u64::MAX,
            },
            Operation::Binary(Binary::ShiftRight) => match constant(1) {
                Some(amount) => of(0) >> (amount % size),
                None => below(of(0)),
            },
            Operation::Binary(Binary::Multiply) => {
                let (a, b) = (of(0), of(1));
                let low = (a.trailing_zeros() + b.trailing_zeros()).min(63);
                below(below(a).saturating_mul(below(b))) & (u64::MAX << low)
            }
            Operation::Select => of(1) | of(2),
            Operation::Extract { signed: false, offset, width } => {
                of(0) >> offset & (0xffff_ffff >> (32 - u32::from(width)))
            }
            Operation::Pack => of(0) | of(1) << 32,
            Operation::Low => of(0),
            Operation::High => of(0) >> 32,
            Operation::Unary(Unary::Popcount | Unary::LeadingZeros | Unary::TrailingZeros) => 0x7f,
            Operation::Load(Access { bytes: 1, signed: false, .. }) => 0xff,
            Operation::Load(Access { bytes: 2, signed: false, .. }) => 0xffff,
            _ => u64::MAX,
        }
}

/// `x & y` where a constant `y` keeps all of `x`, or only one side of a sum of disjoint parts.
pub fn and(b: &mut Builder<'_>, x: Value, y: Value) -> Option<Value> {
    let f = &*b.function;
    let kept = f.constant(y)?;
    let possible = possible_bits(f, x);
    if possible & !kept == 0 {
        return Some(x);
    }
    if possible & kept == 0 {
        return Some(b.constant(f.kind(x), 0));
    }
    if let Some((p, q)) = pair_of(f, x, Binary::Or) {
        if possible_bits(f, q) & kept == 0 {
            return Some(b.and(p, y));
        }
        if possible_bits(f, p) & kept == 0 {
            return Some(b.and(q, y));
        }
    }
    if let Some((p, q)) = pair_of(f, x, Binary::And) {
        let first = f.constant(q)?;
        let both = b.constant(f.kind(x), first & kept);
        return Some(b.and(p, both));
    }
    None
}

/// A field of a word.
pub fn extract(b: &mut Builder<'_>, word: Value, offset: u8, width: u8, signed: bool) -> Option<Value> {
    if width == 32 {
        return Some(word);
    }
    let f = &*b.function;
    let field = (0xffff_ffff_u64 >> (32 - u32::from(width))) << offset;
    let possible = possible_bits(f, word);
    if possible & field == 0 {
        return Some(b.word(0));
    }
    if let Some((p, q)) = pair_of(f, word, Binary::Or) {
        if possible_bits(f, q) & field == 0 {
            return Some(b.extract(p, offset, width, signed));
        }
        if possible_bits(f, p) & field == 0 {
            return Some(b.extract(q, offset, width, signed));
        }
    }
    let sign = 1_u64 << (offset + width - 1);
    if signed && possible & sign == 0 {
        return Some(b.extract(word, offset, width, false));
    }
    if signed {
        return None;
    }
    if possible & !field == 0 {
        let amount = b.word(offset.into());
        return Some(b.binary(Binary::ShiftRight, word, amount));
    }
    // A field of a shifted word is a field of the word.
    let (inner, amount) = pair_of(f, word, Binary::ShiftLeft)?;
    let amount = (f.constant(amount)? % 32) as u8;
    (amount <= offset).then(|| b.extract(inner, offset - amount, width, false))
}
