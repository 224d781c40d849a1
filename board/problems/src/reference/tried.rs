//! Arithmetic of solutions that tests try: references computed in single or half precision.

use super::real::Mode;
use crate::threads::with_threads;
use half::f16;
use std::cell::Cell;

/// Arithmetic that a solution might use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    /// Single precision, sequential sums.
    Single,
    /// Single precision, pairwise sums.
    SinglePairwise,
    /// Inputs rounded to half precision, then exact.
    HalfInputs,
    /// Everything in half precision.
    Half,
}

thread_local! {
    static PRESENT: Cell<Arithmetic> = const { Cell::new(Arithmetic::Single) };
}

impl Arithmetic {
    /// Runs `body` with this arithmetic for [`Tried`]. Other threads do not have it.
    pub(crate) fn during<T>(self, body: impl FnOnce() -> T) -> T {
        PRESENT.set(self);
        with_threads(1, body)
    }
}

/// Mode that uses the current thread's arithmetic, so that references are compiled for one test mode instead of four.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tried;

impl Mode for Tried {
    fn round(value: f64) -> f64 {
        match PRESENT.get() {
            Arithmetic::Single | Arithmetic::SinglePairwise => f64::from(value as f32),
            Arithmetic::HalfInputs => value,
            Arithmetic::Half => f16::from_f64(value).to_f64(),
        }
    }

    fn input(value: f64) -> f64 {
        match PRESENT.get() {
            Arithmetic::HalfInputs => f16::from_f64(value).to_f64(),
            _ => Self::round(value),
        }
    }

    fn pairwise() -> bool {
        PRESENT.get() == Arithmetic::SinglePairwise
    }
}
