//! Integer operations on constants.

use crate::form::*;

/// The result of an operation whose operands are constants.
pub fn evaluate(function: &Function, operation: &Operation, operands: &[Value]) -> Option<u64> {
    let of = |n: usize| function.constant(operands[n]);
    let kind = function.kind(*operands.first()?);
    match *operation {
        Operation::Unary(op) => Some(unary(op, kind, of(0)?)),
        Operation::Binary(op) => binary(op, kind, of(0)?, of(1)?),
        Operation::Compare(op) => Some(u64::from(compare(op, kind, of(0)?, of(1)?))),
        Operation::Pack => Some(of(0)? | of(1)? << 32),
        Operation::Low => Some(of(0)? & 0xffff_ffff),
        Operation::High => Some(of(0)? >> 32),
        Operation::MultiplyWide { signed: false } => Some(of(0)?.wrapping_mul(of(1)?)),
        Operation::MultiplyWide { signed: true } => {
            Some((of(0)? as i32 as i64).wrapping_mul(of(1)? as i32 as i64) as u64)
        }
        Operation::Extract { signed, offset, width } => {
            let top = (of(0)? as u32) << (32 - u32::from(offset) - u32::from(width));
            let down = 32 - u32::from(width);
            Some(u64::from(if signed { (top as i32 >> down) as u32 } else { top >> down }))
        }
        Operation::FunnelShift => {
            let double = of(0)? << 32 | of(1)?;
            Some(double >> (of(2)? & 31) & 0xffff_ffff)
        }
        _ => None,
    }
}

fn size(kind: Kind) -> u32 {
    match kind {
        Kind::Bit => 1,
        Kind::Word => 32,
        Kind::Double => 64,
    }
}

fn masked(kind: Kind, bits: u64) -> u64 {
    bits & u64::MAX >> (64 - size(kind))
}

fn signed(kind: Kind, bits: u64) -> i64 {
    let unused = 64 - size(kind);
    ((bits << unused) as i64) >> unused
}

fn unary(op: Unary, kind: Kind, a: u64) -> u64 {
    match op {
        Unary::Not => masked(kind, !a),
        Unary::Popcount => a.count_ones().into(),
        Unary::LeadingZeros => (a.leading_zeros() - (64 - size(kind))).into(),
        Unary::TrailingZeros => a.trailing_zeros().min(size(kind)).into(),
        Unary::ReverseBits => a.reverse_bits() >> (64 - size(kind)),
    }
}

fn binary(op: Binary, kind: Kind, a: u64, b: u64) -> Option<u64> {
    let amount = (b as u32) & (size(kind) - 1);
    let value = match op {
        Binary::Add => a.wrapping_add(b),
        Binary::Subtract => a.wrapping_sub(b),
        Binary::Multiply => a.wrapping_mul(b),
        Binary::MultiplyHighUnsigned if kind == Kind::Word => a.wrapping_mul(b) >> 32,
        Binary::MultiplyHighSigned if kind == Kind::Word => {
            (signed(kind, a).wrapping_mul(signed(kind, b)) >> 32) as u64
        }
        Binary::MultiplyHighUnsigned | Binary::MultiplyHighSigned => return None,
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::ShiftLeft => a << amount,
        Binary::ShiftRight => a >> amount,
        Binary::ShiftRightSigned => (signed(kind, a) >> amount) as u64,
        Binary::MinimumUnsigned => a.min(b),
        Binary::MaximumUnsigned => a.max(b),
        Binary::MinimumSigned => signed(kind, a).min(signed(kind, b)) as u64,
        Binary::MaximumSigned => signed(kind, a).max(signed(kind, b)) as u64,
    };
    Some(masked(kind, value))
}

/// An integer comparison.
pub fn compare(op: Compare, kind: Kind, a: u64, b: u64) -> bool {
    match op {
        Compare::Equal => a == b,
        Compare::NotEqual => a != b,
        Compare::LessUnsigned => a < b,
        Compare::LessEqualUnsigned => a <= b,
        Compare::LessSigned => signed(kind, a) < signed(kind, b),
        Compare::LessEqualSigned => signed(kind, a) <= signed(kind, b),
    }
}
