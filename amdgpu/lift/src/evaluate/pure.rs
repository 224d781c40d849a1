//! Pure operations that work lane by lane: the result of one lane.

mod approximate;
mod convert;
mod division;
mod float;
mod half;

use crate::form::{Binary, Compare, FloatType, Kind, Operation, Unary};

/// Result of a pure, lane-local operation; `None` for the other operations. `kind` is the kind of the first operand (of the result,
/// if there is none). Operands and result are in the low bits; the bits above are zero.
pub fn evaluate_pure(operation: &Operation, kind: Kind, operands: &[u64]) -> Option<u64> {
    let mut padded = [0; 4];
    padded.iter_mut().zip(operands).for_each(|(to, from)| *to = *from);
    let [a, b, c, d] = padded;
    Some(match *operation {
        Operation::Constant(bits) => bits & mask(kind),
        Operation::Unary(operation) => unary(operation, kind, a),
        Operation::Binary(operation) => binary(operation, kind, a, b) & mask(kind),
        Operation::Compare(compare) => compared(compare, kind, a, b).into(),
        Operation::Select => {
            if a & 1 == 1 {
                b
            } else {
                c
            }
        }
        Operation::Pack => low(a) | b << 32,
        Operation::Low => low(a),
        Operation::High => a >> 32,
        Operation::Extract { signed, offset, width } => {
            let up = 32 - u32::from(width);
            let field = (a as u32) << (up - u32::from(offset));
            low(if signed { ((field as i32) >> up) as u64 } else { (field >> up).into() })
        }
        Operation::MultiplyWide { signed: false } => low(a) * low(b),
        Operation::MultiplyWide { signed: true } => (i64::from(a as i32) * i64::from(b as i32)) as u64,
        Operation::FunnelShift => low((a << 32 | low(b)) >> (c & 31)),
        Operation::Bytes(choice) => {
            let all = low(a) | b << 32;
            let byte = |n: usize| (all >> (8 * u32::from(choice[n] & 7)) & 0xff) << (8 * n);
            byte(0) | byte(1) | byte(2) | byte(3)
        }
        Operation::Dot4 { signed_a, signed_b } => {
            let byte = |value: u64, n: u32, signed: bool| {
                let byte = (value >> (8 * n)) as u8;
                if signed { i64::from(byte as i8) } else { i64::from(byte) }
            };
            let sum: i64 = (0..4).map(|n| byte(a, n, signed_a) * byte(b, n, signed_b)).sum();
            low((sum + c as i64) as u64)
        }
        Operation::Float(operation, of, rounding) => float::arithmetic(operation, of, rounding, [a, b, c]),
        Operation::FloatCompare(compare, of) => float::compare(compare, of, a, b).into(),
        Operation::Approximate(function, of) => approximate::approximate(function, of, a),
        Operation::Convert { from, to, rounding } => return convert::convert(from, to, rounding, a),
        Operation::Division(step, of, rounding) => return division::step(step, of, rounding, [a, b, c, d]),
        _ => return None,
    })
}

/// Whether the bits are a signalling NaN.
pub(crate) fn is_signalling(of: FloatType, bits: u64) -> bool {
    float::format(of).is_signalling(bits)
}

fn low(value: u64) -> u64 {
    value & 0xffff_ffff
}

fn mask(kind: Kind) -> u64 {
    match kind {
        Kind::Bit => 1,
        Kind::Word => 0xffff_ffff,
        Kind::Double => u64::MAX,
    }
}

/// The number that the bits are as a signed integer.
fn signed(kind: Kind, value: u64) -> i64 {
    match kind {
        Kind::Bit => -((value & 1) as i64),
        Kind::Word => i64::from(value as i32),
        Kind::Double => value as i64,
    }
}

fn unary(operation: Unary, kind: Kind, a: u64) -> u64 {
    let size = match kind {
        Kind::Bit => 1,
        Kind::Word => 32,
        Kind::Double => 64,
    };
    match operation {
        Unary::Not => !a & mask(kind),
        Unary::Popcount => a.count_ones().into(),
        Unary::LeadingZeros => u64::from(a.leading_zeros()) - (64 - size),
        Unary::TrailingZeros => u64::from(a.trailing_zeros()).min(size),
        Unary::ReverseBits => a.reverse_bits() >> (64 - size),
    }
}

fn binary(operation: Binary, kind: Kind, a: u64, b: u64) -> u64 {
    let size = if kind == Kind::Double { 64 } else { 32 };
    let amount = (b & (size - 1)) as u32;
    let (x, y) = (signed(kind, a), signed(kind, b));
    match operation {
        Binary::Add => a.wrapping_add(b),
        Binary::Subtract => a.wrapping_sub(b),
        Binary::Multiply => a.wrapping_mul(b),
        Binary::MultiplyHighUnsigned => low(a).wrapping_mul(low(b)) >> 32,
        Binary::MultiplyHighSigned => (i64::from(a as i32).wrapping_mul(i64::from(b as i32)) >> 32) as u64,
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::ShiftLeft => a << amount,
        Binary::ShiftRight => a >> amount,
        Binary::ShiftRightSigned => (x >> amount) as u64,
        Binary::MinimumUnsigned => a.min(b),
        Binary::MaximumUnsigned => a.max(b),
        Binary::MinimumSigned => x.min(y) as u64,
        Binary::MaximumSigned => x.max(y) as u64,
    }
}

fn compared(compare: Compare, kind: Kind, a: u64, b: u64) -> bool {
    let (x, y) = (signed(kind, a), signed(kind, b));
    match compare {
        Compare::Equal => a == b,
        Compare::NotEqual => a != b,
        Compare::LessUnsigned => a < b,
        Compare::LessEqualUnsigned => a <= b,
        Compare::LessSigned => x < y,
        Compare::LessEqualSigned => x <= y,
    }
}

#[cfg(test)]
mod tests;
