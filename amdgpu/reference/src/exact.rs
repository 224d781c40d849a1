//! Exact floating-point arithmetic on integers times powers of two, rounded once: the reference for every float operation.
//!
//! Covers binary16, binary32 and binary64 in all rounding modes, with subnormals kept or flushed. It uses no float arithmetic of
//! the host, so that it cannot share an error with the emulator.

use std::cmp::Ordering;

use isa::Mode;

/// A binary floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Size in bits.
    pub bits: u32,
    /// Size of the fraction field in bits.
    pub fraction: u32,
}

/// binary16.
pub const F16: Format = Format { bits: 16, fraction: 10 };
/// binary32.
pub const F32: Format = Format { bits: 32, fraction: 23 };
/// binary64.
pub const F64: Format = Format { bits: 64, fraction: 52 };

impl Format {
    const fn exponent_bits(self) -> u32 {
        self.bits - 1 - self.fraction
    }

    const fn bias(self) -> i32 {
        (1 << (self.exponent_bits() - 1)) - 1
    }

    /// The sign bit.
    pub const fn sign(self) -> u64 {
        1 << (self.bits - 1)
    }

    /// Bits of infinity.
    pub const fn infinity(self) -> u64 {
        ((1 << self.exponent_bits()) - 1) << self.fraction
    }

    /// The bit that makes a NaN quiet.
    pub const fn quiet(self) -> u64 {
        1 << (self.fraction - 1)
    }

    /// Bits of a quiet NaN.
    pub const fn nan(self) -> u64 {
        self.infinity() | self.quiet()
    }

    /// Whether the bits are a NaN.
    pub const fn is_nan(self, bits: u64) -> bool {
        bits & (self.sign() - 1) > self.infinity()
    }

    /// Whether the bits are a signalling NaN.
    pub const fn is_signalling(self, bits: u64) -> bool {
        self.is_nan(bits) && bits & self.quiet() == 0
    }

    /// Whether the bits are a subnormal number.
    pub const fn is_subnormal(self, bits: u64) -> bool {
        let magnitude = bits & (self.sign() - 1);
        magnitude != 0 && magnitude < 1 << self.fraction
    }

    /// Bits of the largest finite number.
    pub const fn largest(self) -> u64 {
        self.infinity() - 1
    }

    /// Exponent of the least significant bit of subnormals.
    const fn lowest(self) -> i32 {
        1 - self.bias() - self.fraction as i32
    }
}

/// A value: NaN, infinite, or `mantissa * 2^exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Not a number.
    Nan,
    /// Infinity.
    Infinite {
        /// The sign.
        negative: bool,
    },
    /// A finite number.
    Finite {
        /// The sign.
        negative: bool,
        /// The integer factor.
        mantissa: u128,
        /// The power of two.
        exponent: i32,
        /// Whether more follows below the last place.
        sticky: bool,
    },
}

use Number::{Finite, Infinite, Nan};

/// Positive zero.
pub const ZERO: Number = Finite { negative: false, mantissa: 0, exponent: 0, sticky: false };

impl Number {
    /// The value of the bits.
    pub fn of(format: Format, bits: u64) -> Number {
        let negative = bits & format.sign() != 0;
        let magnitude = bits & (format.sign() - 1);
        let biased = (magnitude >> format.fraction) as i32;
        let fraction = u128::from(magnitude & ((1 << format.fraction) - 1));
        if magnitude > format.infinity() {
            Nan
        } else if magnitude == format.infinity() {
            Infinite { negative }
        } else if biased == 0 {
            Finite { negative, mantissa: fraction, exponent: format.lowest(), sticky: false }
        } else {
            let mantissa = fraction | 1 << format.fraction;
            Finite { negative, mantissa, exponent: format.lowest() + biased - 1, sticky: false }
        }
    }

    /// An integer.
    pub fn integer(value: i128) -> Number {
        Finite { negative: value < 0, mantissa: value.unsigned_abs(), exponent: 0, sticky: false }
    }

    /// Whether the sign is negative, also of zero.
    pub fn is_negative(self) -> bool {
        matches!(self, Infinite { negative: true } | Finite { negative: true, .. })
    }

    /// Whether the value is exactly zero.
    pub fn is_zero(self) -> bool {
        matches!(self, Finite { mantissa: 0, sticky: false, .. })
    }

    /// The value with the opposite sign.
    pub fn negated(self) -> Number {
        match self {
            Nan => Nan,
            Infinite { negative } => Infinite { negative: !negative },
            Finite { negative, mantissa, exponent, sticky } => {
                Finite { negative: !negative, mantissa, exponent, sticky }
            }
        }
    }

    /// The absolute value.
    pub fn magnitude(self) -> Number {
        if self.is_negative() { self.negated() } else { self }
    }

    /// Multiplies by a power of two.
    pub fn scaled(self, by: i32) -> Number {
        match self {
            Finite { negative, mantissa, exponent, sticky } => {
                Finite { negative, mantissa, exponent: exponent + by, sticky }
            }
            other => other,
        }
    }

    /// The product, which is exact.
    pub fn times(self, other: Number) -> Number {
        let negative = self.is_negative() != other.is_negative();
        match (self, other) {
            (Nan, _) | (_, Nan) => Nan,
            (Infinite { .. }, x) | (x, Infinite { .. }) if x.is_zero() => Nan,
            (Infinite { .. }, _) | (_, Infinite { .. }) => Infinite { negative },
            (
                Finite { mantissa: a, exponent: ea, sticky: false, .. },
                Finite { mantissa: b, exponent: eb, sticky: false, .. },
            ) => Finite { negative, mantissa: a * b, exponent: ea + eb, sticky: false },
            _ => unreachable!("factors are exact"),
        }
    }

    /// Adds. An exact zero sum of opposite values is negative only when rounding down.
    pub fn plus(self, other: Number, round: u8) -> Number {
        match (self, other) {
            (Nan, _) | (_, Nan) => Nan,
            (Infinite { negative: a }, Infinite { negative: b }) => {
                if a == b {
                    self
                } else {
                    Nan
                }
            }
            (Infinite { .. }, _) => self,
            (_, Infinite { .. }) => other,
            _ if self.is_zero() && other.is_zero() => {
                let negative = if self.is_negative() == other.is_negative() {
                    self.is_negative()
                } else {
                    round == DOWN
                };
                Finite { negative, mantissa: 0, exponent: 0, sticky: false }
            }
            _ if self.is_zero() => other,
            _ if other.is_zero() => self,
            _ => finite_sum(self, other, round),
        }
    }

    /// Compares by value; `None` for NaNs.
    pub fn compare(self, other: Number) -> Option<Ordering> {
        if self == Nan || other == Nan {
            return None;
        }
        if let (Infinite { negative: a }, Infinite { negative: b }) = (self, other) {
            return Some(b.cmp(&a));
        }
        Some(match self.plus(other.negated(), NEAREST) {
            difference if difference.is_zero() => Ordering::Equal,
            difference if difference.is_negative() => Ordering::Less,
            _ => Ordering::Greater,
        })
    }

    /// Rounds to an integer and keeps the sign.
    pub fn rounded(self, round: u8) -> Number {
        let Finite { negative, mantissa, exponent, .. } = self else { return self };
        if exponent >= 0 {
            return self;
        }
        let mantissa = cut(mantissa, -exponent as u32, false, negative, round);
        Finite { negative, mantissa, exponent: 0, sticky: false }
    }

    /// Truncates to an integer and clamps it between two bounds; NaN becomes 0.
    pub fn to_integer(self, low: i128, high: i128) -> i128 {
        match self.rounded(ZERO_WARD) {
            Nan => 0,
            Infinite { negative } => {
                if negative {
                    low
                } else {
                    high
                }
            }
            Finite { negative, mantissa, exponent, .. } => {
                let magnitude = if exponent > 70 { 1_i128 << 100 } else { (mantissa << exponent) as i128 };
                let magnitude = if mantissa == 0 { 0 } else { magnitude };
                (if negative { -magnitude } else { magnitude }).clamp(low, high)
            }
        }
    }

    /// Returns one divided by the value.
    pub fn reciprocal(self) -> Number {
        match self {
            Nan => Nan,
            Infinite { negative } => Finite { negative, mantissa: 0, exponent: 0, sticky: false },
            Finite { negative, mantissa: 0, .. } => Infinite { negative },
            Finite { negative, mantissa, exponent, .. } => {
                let one = 1_u128 << 126;
                Finite {
                    negative,
                    mantissa: one / mantissa,
                    exponent: -126 - exponent,
                    sticky: !one.is_multiple_of(mantissa),
                }
            }
        }
    }

    /// The square root, with enough bits to round it once.
    pub fn square_root(self) -> Number {
        match self {
            Nan | Infinite { negative: true } => Nan,
            Infinite { .. } => self,
            _ if self.is_zero() => self,
            Finite { negative: true, .. } => Nan,
            Finite { mantissa, exponent, .. } => {
                let up = (mantissa.leading_zeros() as i32 - 2) & !1;
                let up = if (exponent - up) % 2 == 0 { up } else { up + 1 };
                let wide = mantissa << up;
                let root = wide.isqrt();
                Finite {
                    negative: false,
                    mantissa: root,
                    exponent: (exponent - up) / 2,
                    sticky: root * root != wide,
                }
            }
        }
    }

    /// Encodes the value in a format; overflow follows the rounding mode.
    pub fn bits(self, format: Format, round: u8) -> u64 {
        let signed = |negative: bool, bits: u64| if negative { bits | format.sign() } else { bits };
        let (negative, mantissa, exponent, sticky) = match self {
            Nan => return format.nan(),
            Infinite { negative } => return signed(negative, format.infinity()),
            Finite { negative, mantissa, exponent, sticky } => (negative, mantissa, exponent, sticky),
        };
        if mantissa == 0 {
            return signed(negative, 0);
        }
        let width = 128 - mantissa.leading_zeros() as i32;
        let last = (exponent + width - 1 - format.fraction as i32).max(format.lowest());
        let kept = match last - exponent {
            shift @ 1.. => cut(mantissa, shift as u32, sticky, negative, round),
            shift => mantissa << -shift,
        };
        // The exponent field of a subnormal is zero, since it lacks the hidden bit; a carry out of the fraction increments the
        // exponent by itself.
        let rounded = ((last - format.lowest()) as u64).checked_shl(format.fraction).unwrap_or(u64::MAX / 4);
        let rounded = rounded.saturating_add(kept as u64);
        if rounded >= format.infinity() || last - format.lowest() > 4096 {
            let away = match round {
                NEAREST => true,
                UP => !negative,
                DOWN => negative,
                _ => false,
            };
            return signed(negative, if away { format.infinity() } else { format.largest() });
        }
        signed(negative, rounded)
    }
}

/// Values of the rounding fields of MODE.
pub const NEAREST: u8 = 0;
/// Round towards positive infinity.
pub const UP: u8 = 1;
/// Round towards negative infinity.
pub const DOWN: u8 = 2;
/// Round towards zero.
pub const ZERO_WARD: u8 = 3;

/// Computes `mantissa >> shift`, rounded.
fn cut(mantissa: u128, shift: u32, sticky: bool, negative: bool, round: u8) -> u128 {
    let (kept, rest, half) = if shift > 127 {
        (0, u128::from(mantissa != 0), 2)
    } else {
        (mantissa >> shift, mantissa & ((1 << shift) - 1), 1 << (shift - 1))
    };
    let exact = rest == 0 && !sticky;
    let up = match round {
        NEAREST => rest > half || rest == half && (sticky || kept & 1 == 1),
        UP => !negative && !exact,
        DOWN => negative && !exact,
        _ => false,
    };
    kept + u128::from(up)
}

fn finite_sum(x: Number, y: Number, round: u8) -> Number {
    // Normalise to bit 124, so that a sum fits and a difference keeps enough bits.
    let normal = |number: Number| match number {
        Finite { negative, mantissa, exponent, .. } => {
            let up = mantissa.leading_zeros() as i32 - 3;
            let mantissa = if up >= 0 { mantissa << up } else { mantissa >> -up };
            (negative, mantissa, exponent - up)
        }
        _ => unreachable!("both are finite"),
    };
    let (mut high, mut low) = (normal(x), normal(y));
    if (high.2, high.1) < (low.2, low.1) {
        std::mem::swap(&mut high, &mut low);
    }
    let distance = (high.2 - low.2) as u32;
    let shifted = low.1.checked_shr(distance).unwrap_or(0);
    let sticky = if distance > 127 { low.1 != 0 } else { shifted << distance != low.1 };
    let mantissa = if high.0 == low.0 { high.1 + shifted } else { high.1 - shifted - u128::from(sticky) };
    if mantissa == 0 && !sticky {
        return Finite { negative: round == DOWN, mantissa: 0, exponent: 0, sticky: false };
    }
    Finite { negative: high.0, mantissa, exponent: high.2, sticky }
}

/// One float type under a given MODE.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    /// Format of sources and results.
    pub format: Format,
    /// Rounding direction.
    pub round: u8,
    /// Subnormal sources become zero.
    pub flush_in: bool,
    /// Subnormal results become zero.
    pub flush_out: bool,
    /// Overflowing halves become the largest finite half.
    pub saturates: bool,
}

impl Unit {
    /// The unit of a format in a MODE.
    pub fn of(format: Format, mode: &Mode) -> Unit {
        let (round, denormals) =
            if format == F32 { (mode.round_f32, mode.denorm_f32) } else { (mode.round_f64, mode.denorm_f64) };
        Unit {
            format,
            round,
            flush_in: denormals & 1 == 0,
            flush_out: denormals & 2 == 0,
            saturates: format == F16 && mode.fp16_ovfl,
        }
    }

    /// Rounds to nearest even regardless of MODE.
    pub fn nearest(self) -> Unit {
        Unit { round: NEAREST, ..self }
    }

    /// Flushes subnormal sources and results regardless of MODE.
    pub fn flushing(self) -> Unit {
        Unit { flush_in: true, flush_out: true, ..self }
    }

    /// Flushes a source if MODE requires it.
    pub fn flushed(&self, bits: u64) -> u64 {
        if self.flush_in && self.format.is_subnormal(bits) { bits & self.format.sign() } else { bits }
    }

    /// The value of a source.
    pub fn read(&self, bits: u64) -> Number {
        Number::of(self.format, self.flushed(bits))
    }

    /// Rounds a result.
    pub fn write(&self, number: Number) -> u64 {
        let mut bits = number.bits(self.format, self.round);
        if self.saturates
            && !matches!(number, Infinite { .. })
            && bits & !self.format.sign() == self.format.infinity()
        {
            bits -= 1;
        }
        self.finish(bits)
    }

    /// Flushes a result if MODE requires it.
    pub fn finish(&self, bits: u64) -> u64 {
        if self.flush_out && self.format.is_subnormal(bits) { bits & self.format.sign() } else { bits }
    }

    /// Sum.
    pub fn add(&self, a: u64, b: u64) -> u64 {
        self.write(self.read(a).plus(self.read(b), self.round))
    }

    /// Difference.
    pub fn sub(&self, a: u64, b: u64) -> u64 {
        self.write(self.read(a).plus(self.read(b).negated(), self.round))
    }

    /// Product.
    pub fn mul(&self, a: u64, b: u64) -> u64 {
        self.write(self.read(a).times(self.read(b)))
    }

    /// Product and sum, rounded once.
    pub fn fma(&self, a: u64, b: u64, c: u64) -> u64 {
        self.write(self.read(a).times(self.read(b)).plus(self.read(c), self.round))
    }

    /// Multiplies and adds with two roundings. Only f32 flushes in between.
    pub fn mad(&self, a: u64, b: u64, c: u64) -> u64 {
        let product = self.read(a).times(self.read(b)).bits(self.format, self.round);
        let product = if self.format == F32 { self.finish(product) } else { product };
        let sum = Number::of(self.format, product).plus(self.read(c), self.round);
        // An overflow of the product is also an overflow of the result.
        let infinite = |bits: u64| matches!(self.read(bits), Infinite { .. });
        match sum {
            Infinite { negative } if self.saturates && ![a, b, c].into_iter().any(infinite) => {
                self.format.largest() | if negative { self.format.sign() } else { 0 }
            }
            _ => self.write(sum),
        }
    }

    /// Compares two sources; `None` for NaNs.
    pub fn compare(&self, a: u64, b: u64) -> Option<Ordering> {
        self.read(a).compare(self.read(b))
    }

    /// Minimum or maximum; a number takes precedence over a NaN, -0 is below +0; with `ieee` a signalling NaN takes precedence
    /// over everything.
    pub fn extreme(&self, a: u64, b: u64, larger: bool, ieee: bool) -> u64 {
        let (a, b) = (self.flushed(a), self.flushed(b));
        if ieee && (self.format.is_signalling(a) || self.format.is_signalling(b)) {
            return self.format.nan();
        }
        let first = match self.read(a).compare(self.read(b)) {
            None => self.format.is_nan(b),
            Some(Ordering::Equal) => (a & self.format.sign() != 0) != larger,
            Some(order) => (order == Ordering::Greater) == larger,
        };
        self.finish(if first { a } else { b })
    }
}
