//! Simulated floating-point arithmetic: numbers are stored as f64 and rounded after every operation.
//!
//! f64 has more than twice the digits of f32, so rounding its sums, products, quotients and roots gives exactly the f32 results.

use std::cmp::Ordering;
use std::iter::Sum;
use std::marker::PhantomData;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// Rounding mode of an arithmetic.
pub trait Mode: Copy + std::fmt::Debug + Send + Sync + 'static {
    /// Rounds the result of an operation.
    fn round(value: f64) -> f64;
    /// Rounds an input.
    fn input(value: f64) -> f64;
    /// Returns whether sums are pairwise.
    fn pairwise() -> bool;
}

/// Plain f64, the reference result.
#[derive(Clone, Copy, Debug)]
pub struct Exact;

impl Mode for Exact {
    fn round(value: f64) -> f64 {
        value
    }

    fn input(value: f64) -> f64 {
        value
    }

    fn pairwise() -> bool {
        false
    }
}

/// A number in the arithmetic of a mode.
#[derive(Debug)]
pub struct Real<M>(f64, PhantomData<M>);

impl<M> Clone for Real<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Real<M> {}

impl<M> Default for Real<M> {
    fn default() -> Self {
        Self(0.0, PhantomData)
    }
}

impl<M> PartialEq for Real<M> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<M> PartialOrd for Real<M> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.0.partial_cmp(&other.0)
    }
}

/// Rounds a constant to the arithmetic.
pub(crate) fn real<M: Mode>(value: f64) -> Real<M> {
    Real(M::round(value), PhantomData)
}

impl<M: Mode> Real<M> {
    pub(crate) fn zero() -> Self {
        real(0.0)
    }

    pub(crate) fn input(value: f64) -> Self {
        Self(M::input(value), PhantomData)
    }

    pub(crate) fn output(self) -> f64 {
        self.0
    }

    pub(crate) fn exp(self) -> Self {
        real(self.0.exp())
    }

    /// Returns the natural logarithm.
    pub(crate) fn ln(self) -> Self {
        real(self.0.ln())
    }

    /// Returns `ln(1 + x)` without loss of precision for small `x`.
    pub(crate) fn ln_1p(self) -> Self {
        real(self.0.ln_1p())
    }

    /// Returns `e^x - 1` without loss of precision for small `x`.
    pub(crate) fn exp_m1(self) -> Self {
        real(self.0.exp_m1())
    }

    pub(crate) fn tanh(self) -> Self {
        real(self.0.tanh())
    }

    pub(crate) fn sqrt(self) -> Self {
        real(self.0.sqrt())
    }

    pub(crate) fn abs(self) -> Self {
        Self(self.0.abs(), PhantomData)
    }

    pub(crate) fn max(self, other: Self) -> Self {
        if other > self { other } else { self }
    }

    pub(crate) fn min(self, other: Self) -> Self {
        if other < self { other } else { self }
    }

    pub(crate) fn square(self) -> Self {
        self * self
    }

    /// Sums values, sequentially or pairwise according to the mode.
    pub(crate) fn sum_of(values: &[Self]) -> Self {
        if M::pairwise() && values.len() > 2 {
            let (left, right) = values.split_at(values.len() / 2);
            return Self::sum_of(left) + Self::sum_of(right);
        }
        values.iter().fold(Self::zero(), |sum, value| sum + *value)
    }
}

macro_rules! operator {
    ($($trait:ident $method:ident $sign:tt;)*) => {
        $(impl<M: Mode> $trait for Real<M> {
            type Output = Self;
            #[inline]
            fn $method(self, other: Self) -> Self {
                real(self.0 $sign other.0)
            }
        })*
    };
}

operator! { Add add +; Sub sub -; Mul mul *; Div div /; }

impl<M: Mode> Neg for Real<M> {
    type Output = Self;
    fn neg(self) -> Self {
        Self(-self.0, PhantomData)
    }
}

impl<M: Mode> AddAssign for Real<M> {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl<M: Mode> Sum for Real<M> {
    fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
        if M::pairwise() {
            Self::sum_of(&values.collect::<Vec<_>>())
        } else {
            values.fold(Self::zero(), Add::add)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::tried::{Arithmetic, Tried};

    fn sum(values: &[f64], arithmetic: Arithmetic) -> f64 {
        arithmetic
            .during(|| values.iter().map(|value| Real::<Tried>::input(*value)).sum::<Real<Tried>>().output())
    }

    #[test]
    fn single_precision_rounds_as_f32_does() {
        let (a, b) = (1.0f32 / 3.0, 16_777_217.0f64);
        let product = Arithmetic::Single.during(|| Real::<Tried>::input(a.into()) * Real::input(b));
        assert_eq!(product.output(), f64::from(a * b as f32));
    }

    #[test]
    fn the_order_of_a_sum_is_the_mode_s() {
        let values = vec![0.1; 4096];
        let sequential: f32 = values.iter().map(|v| *v as f32).sum();
        let single = sum(&values, Arithmetic::Single);
        assert_eq!(single, f64::from(sequential));
        let truth: Real<Exact> = values.iter().map(|v| Real::input(*v)).sum();
        let pairwise = sum(&values, Arithmetic::SinglePairwise);
        assert!((pairwise - truth.output()).abs() < (single - truth.output()).abs());
    }
}
