//! Float arithmetic: the host's where it rounds to nearest, exact numbers otherwise.

use isa_reference::exact::{self, Format, Number};

use super::half::{from_half, to_half};
use crate::form::{Float, FloatCompare, FloatType, Rounding};

/// Format of a type.
pub fn format(of: FloatType) -> Format {
    match of {
        FloatType::F16 => exact::F16,
        FloatType::F32 => exact::F32,
        FloatType::F64 => exact::F64,
    }
}

/// Code of a direction in [`exact`], the one of the MODE register.
pub fn direction(rounding: Rounding) -> u8 {
    rounding as u8
}

pub fn arithmetic(operation: Float, of: FloatType, rounding: Rounding, operands: [u64; 3]) -> u64 {
    let format = format(of);
    let operands = operands.map(|bits| bits & (u64::MAX >> (64 - format.bits)));
    let [a, b, _] = operands;
    match operation {
        Float::Negate => return a ^ format.sign(),
        Float::Absolute => return a & !format.sign(),
        Float::Flush => return if format.is_subnormal(a) { a & format.sign() } else { a },
        Float::Quiet => return if format.is_nan(a) { a | format.quiet() } else { a },
        Float::Minimum | Float::Maximum => {
            if let Some(number) = extreme(format, operation == Float::Maximum, a, b) {
                return number;
            }
        }
        _ => {}
    }
    let count = match operation {
        Float::Integral | Float::SquareRoot => 1,
        Float::MultiplyAdd => 3,
        _ => 2,
    };
    if let Some(nan) = operands[..count].iter().find(|bits| format.is_nan(**bits)) {
        return nan | format.quiet();
    }
    let result = if rounding == Rounding::Nearest || operation == Float::Integral {
        nearest(operation, of, rounding, operands)
    } else {
        directed(operation, format, direction(rounding), operands)
    };
    // The payload of a NaN that no operand brought: that of an x86 host.
    if format.is_nan(result) { format.nan() | format.sign() } else { result }
}

/// Whether a comparison holds.
pub fn compare(compare: FloatCompare, of: FloatType, a: u64, b: u64) -> bool {
    let (x, y) = match of {
        FloatType::F16 => (from_half(a).into(), from_half(b).into()),
        FloatType::F32 => (f32::from_bits(a as u32).into(), f32::from_bits(b as u32).into()),
        FloatType::F64 => (f64::from_bits(a), f64::from_bits(b)),
    };
    match compare {
        FloatCompare::Less => x < y,
        FloatCompare::LessEqual => x <= y,
        FloatCompare::Equal => x == y,
        FloatCompare::NotEqual => x != y,
        FloatCompare::Ordered => !x.is_nan() && !y.is_nan(),
        FloatCompare::Unordered => x.is_nan() || y.is_nan(),
    }
}

/// The smaller or larger number; `None` if both are NaN.
fn extreme(format: Format, larger: bool, a: u64, b: u64) -> Option<u64> {
    // Unsigned integers in the order of the floats, with -0 below +0.
    let key = |bits: u64| {
        if bits & format.sign() != 0 { bits ^ (u64::MAX >> (64 - format.bits)) } else { bits | format.sign() }
    };
    match (format.is_nan(a), format.is_nan(b)) {
        (true, true) => None,
        (true, false) => Some(b),
        (false, true) => Some(a),
        (false, false) => Some(if (key(a) < key(b)) == larger { b } else { a }),
    }
}

macro_rules! host {
    ($operation:expr, $rounding:expr, $a:expr, $b:expr, $c:expr) => {
        match $operation {
            Float::Add => $a + $b,
            Float::Multiply => $a * $b,
            Float::MultiplyAdd => $a.mul_add($b, $c),
            Float::SquareRoot => $a.sqrt(),
            Float::Divide => $a / $b,
            Float::Integral => match $rounding {
                Rounding::Nearest => $a.round_ties_even(),
                Rounding::Up => $a.ceil(),
                Rounding::Down => $a.floor(),
                Rounding::Zero => $a.trunc(),
            },
            Float::Negate
            | Float::Absolute
            | Float::Minimum
            | Float::Maximum
            | Float::Flush
            | Float::Quiet => $a,
        }
    };
}

fn nearest(operation: Float, of: FloatType, rounding: Rounding, operands: [u64; 3]) -> u64 {
    match of {
        FloatType::F32 => {
            let [a, b, c] = operands.map(|bits| f32::from_bits(bits as u32));
            host!(operation, rounding, a, b, c).to_bits().into()
        }
        FloatType::F64 => {
            let [a, b, c] = operands.map(f64::from_bits);
            host!(operation, rounding, a, b, c).to_bits()
        }
        FloatType::F16 => {
            let [a, b, c] = operands.map(from_half);
            if operation == Float::MultiplyAdd {
                // The product is exact. The sum is exact, or so far from a tie of the result that the second rounding is right.
                let sum = f64::from(a) * f64::from(b) + f64::from(c);
                return Number::of(exact::F64, sum.to_bits()).bits(exact::F16, exact::NEAREST);
            }
            // An f32 has enough bits (2 * 11 + 2) that rounding twice is like rounding once.
            to_half(host!(operation, rounding, a, b, c))
        }
    }
}

fn directed(operation: Float, format: Format, round: u8, operands: [u64; 3]) -> u64 {
    let [a, b, c] = operands.map(|bits| Number::of(format, bits));
    let number = match operation {
        Float::Add => a.plus(b, round),
        Float::Multiply => a.times(b),
        Float::MultiplyAdd => a.times(b).plus(c, round),
        Float::SquareRoot => a.square_root(),
        Float::Divide => quotient(a, b),
        _ => return operands[0],
    };
    number.bits(format, round)
}

/// The quotient, with enough bits to round it once.
fn quotient(a: Number, b: Number) -> Number {
    let negative = a.is_negative() != b.is_negative();
    match (a, b) {
        (
            Number::Finite { mantissa: numerator @ 1.., exponent: x, .. },
            Number::Finite { mantissa: denominator @ 1.., exponent: y, .. },
        ) => {
            let up = numerator.leading_zeros();
            let numerator = numerator << up;
            Number::Finite {
                negative,
                mantissa: numerator / denominator,
                exponent: x - y - up as i32,
                sticky: !numerator.is_multiple_of(denominator),
            }
        }
        // With a zero or an infinity the reciprocal is exact.
        _ => match (b.reciprocal(), b.is_zero() && !a.is_zero()) {
            (_, true) if a != Number::Nan => Number::Infinite { negative },
            (reciprocal @ Number::Finite { sticky: false, .. }, _) => a.times(reciprocal),
            _ if matches!(a, Number::Infinite { .. }) => Number::Infinite { negative },
            _ if a.is_zero() && !b.is_zero() && b != Number::Nan => {
                Number::Finite { negative, mantissa: 0, exponent: 0, sticky: false }
            }
            _ => Number::Nan,
        },
    }
}
