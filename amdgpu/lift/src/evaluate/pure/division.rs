//! Steps of the division sequence, as the machine defines them.

use std::cmp::Ordering;

use super::float::{arithmetic, format};
use crate::form::{Division, Float, FloatType, Rounding};

/// Numbers that depend on the format.
struct Limits {
    /// Power of two that operands and quotients are scaled by.
    step: i64,
    /// Difference of exponents from which the quotient is near overflow.
    near_max: i64,
    /// Exponent field up to which a numerator is tiny.
    tiny: i64,
    /// Difference of exponents below which the quotient is zero.
    underflow: i64,
    /// Exponent field of 1.
    bias: i64,
}

const F32: Limits = Limits { step: 64, near_max: 96, tiny: 23, underflow: -150, bias: 127 };
const F64: Limits = Limits { step: 128, near_max: 768, tiny: 53, underflow: -1075, bias: 1023 };

/// Floats of one format, as bits.
struct Floats {
    of: FloatType,
    rounding: Rounding,
    limits: Limits,
}

/// Result of a step; `None` for f16, which has no division sequence.
pub fn step(step: Division, of: FloatType, rounding: Rounding, operands: [u64; 4]) -> Option<u64> {
    let limits = match of {
        FloatType::F16 => return None,
        FloatType::F32 => F32,
        FloatType::F64 => F64,
    };
    let floats = Floats { of, rounding, limits };
    let [a, b, c, d] = operands;
    Some(match step {
        Division::Scale => floats.scale(a, b, c).0,
        Division::Scaled => floats.scale(a, a, b).1.into(),
        Division::Fmas => floats.fmas(a, b, c, d & 1 == 1),
        Division::Fixup => floats.fixup(a, b, c),
    })
}

impl Floats {
    fn float(&self, operation: Float, operands: [u64; 3]) -> u64 {
        arithmetic(operation, self.of, self.rounding, operands)
    }

    fn exponent(&self, bits: u64) -> i64 {
        ((bits & self.infinity()) >> format(self.of).fraction) as i64
    }

    fn infinity(&self) -> u64 {
        format(self.of).infinity()
    }

    fn magnitude(&self, bits: u64) -> u64 {
        bits & (format(self.of).sign() - 1)
    }

    fn is_nan(&self, bits: u64) -> bool {
        format(self.of).is_nan(bits)
    }

    /// Whether the magnitude is below that of the smallest normal number.
    fn is_small(&self, bits: u64) -> bool {
        self.magnitude(bits) < 1 << format(self.of).fraction
    }

    fn equal(&self, a: u64, b: u64) -> bool {
        !self.is_nan(a) && !self.is_nan(b) && (a == b || self.magnitude(a | b) == 0)
    }

    /// `2^n`, whose exponent is that of a normal number.
    fn power(&self, n: i64) -> u64 {
        ((self.limits.bias + n) as u64) << format(self.of).fraction
    }

    /// `a * 2^n`; one rounding, since the power is a number.
    fn scaled(&self, a: u64, n: i64) -> u64 {
        self.float(Float::Multiply, [a, self.power(n), 0])
    }

    fn divide(&self, a: u64, b: u64) -> u64 {
        arithmetic(Float::Divide, self.of, Rounding::Nearest, [a, b, 0])
    }

    fn scale(&self, a: u64, denominator: u64, numerator: u64) -> (u64, bool) {
        let limits = &self.limits;
        let (up, down) = (self.scaled(a, limits.step), self.scaled(a, -limits.step));
        let (is_denominator, is_numerator) = (self.equal(a, denominator), self.equal(a, numerator));
        let reciprocal_small = self.is_small(self.divide(self.power(0), denominator));
        let quotient_small = self.is_small(self.divide(numerator, denominator));
        if self.magnitude(numerator) == 0 || self.magnitude(denominator) == 0 {
            (format(self.of).nan(), false)
        } else if self.exponent(numerator) - self.exponent(denominator) >= limits.near_max {
            (if is_denominator { up } else { a }, true)
        } else if self.is_small(denominator) {
            (up, false)
        } else if reciprocal_small && quotient_small {
            (if is_denominator { down } else { a }, true)
        } else if reciprocal_small {
            (down, false)
        } else if quotient_small {
            (if is_numerator { up } else { a }, true)
        } else if self.exponent(numerator) <= limits.tiny {
            (up, false)
        } else {
            (a, false)
        }
    }

    fn fmas(&self, a: u64, b: u64, c: u64, scaled: bool) -> u64 {
        let plain = self.float(Float::MultiplyAdd, [a, b, c]);
        if !scaled {
            plain
        } else if self.exponent(c) > self.limits.bias {
            self.scaled(plain, self.limits.step)
        } else {
            self.scaled(self.round_to_subnormal(plain, a, b, c), -self.limits.step)
        }
    }

    /// Rounds `plain`, which is `a * b + c` already rounded, to the precision of the subnormal that it becomes when scaled down. In
    /// a tie, the part lost by the first rounding decides.
    fn round_to_subnormal(&self, plain: u64, a: u64, b: u64, c: u64) -> u64 {
        let (sign, fraction) = (format(self.of).sign(), i64::from(format(self.of).fraction));
        let add = |x: u64, y: u64| self.float(Float::Add, [x, y, 0]);
        let subtract = |x: u64, y: u64| self.float(Float::Add, [x, y ^ sign, 0]);
        // The ULP of a subnormal, scaled up, and the power of two that has this ULP.
        let quantum = 1 - self.limits.bias - fraction + self.limits.step;
        let (half, magic) = (self.power(quantum - 1), self.power(quantum + fraction));
        let product = self.float(Float::Multiply, [a, b, 0]);
        let sum = add(product, c);
        let part = subtract(sum, product);
        let low = add(subtract(product, subtract(sum, part)), subtract(c, part));
        let rest = self.float(Float::MultiplyAdd, [a, b, product ^ sign]);
        let residual = add(add(subtract(sum, plain), low), rest);
        let outward = if plain & sign != 0 { residual ^ sign } else { residual };
        let magnitude = self.magnitude(plain);
        let nearest = subtract(add(magnitude, magic), magic);
        let tie = self.magnitude(subtract(magnitude, nearest)) == half;
        let order = match self.is_nan(outward) || self.magnitude(outward) == 0 {
            true => Ordering::Equal,
            false if outward & sign != 0 => Ordering::Less,
            false => Ordering::Greater,
        };
        let rounded = match order {
            Ordering::Greater if tie => add(magnitude, half),
            Ordering::Less if tie => subtract(magnitude, half),
            _ => nearest,
        };
        if magnitude < magic { self.magnitude(rounded) | plain & sign } else { plain }
    }

    fn fixup(&self, quotient: u64, denominator: u64, numerator: u64) -> u64 {
        let format = format(self.of);
        let infinite = |bits: u64| self.magnitude(bits) == self.infinity();
        let zero = |bits: u64| self.magnitude(bits) == 0;
        let sign = (denominator ^ numerator) & format.sign();
        let distance = self.exponent(numerator) - self.exponent(denominator);
        if self.is_nan(numerator) {
            numerator | format.quiet()
        } else if self.is_nan(denominator) {
            denominator | format.quiet()
        } else if zero(numerator) && zero(denominator) || infinite(numerator) && infinite(denominator) {
            format.nan() | format.sign()
        } else if zero(denominator) || infinite(numerator) {
            self.infinity() | sign
        } else if infinite(denominator) || zero(numerator) || distance < self.limits.underflow {
            sign
        } else if self.is_nan(quotient) {
            // The iteration overflowed, so the quotient does too.
            self.infinity() | sign
        } else {
            self.magnitude(quotient) | sign
        }
    }
}
