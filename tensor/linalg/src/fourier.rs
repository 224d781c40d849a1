//! Fourier transforms of lines.

use std::sync::{Arc, Mutex, PoisonError};

use num_complex::Complex;
use rustfft::{Fft, FftDirection, FftNum, FftPlanner};

/// The type of a number's parts: f32 or f64.
pub trait Part: FftNum {
    /// The plan of a length. Plans are kept.
    fn plan(length: usize, direction: FftDirection) -> Arc<dyn Fft<Self>>;
}

// Not generic, so that rustfft's functions are compiled in this crate.
macro_rules! parts {
    ($($T:ty)*) => {$(
        impl Part for $T {
            fn plan(length: usize, direction: FftDirection) -> Arc<dyn Fft<$T>> {
                static PLANNER: Mutex<Option<FftPlanner<$T>>> = Mutex::new(None);
                // A planner that panicked while planning holds only complete plans.
                let mut planner = PLANNER.lock().unwrap_or_else(PoisonError::into_inner);
                planner.get_or_insert_with(FftPlanner::new).plan_fft(length, direction)
            }
        }
    )*};
}

parts! { f32 f64 }

/// A transform of lines of one length: `out[k] = sum over n of x[n] * exp(-i tau k n / length)`, with the other sign for an
/// inverse. Not divided by the length.
pub struct Fourier<T: Part> {
    plan: Arc<dyn Fft<T>>,
    scratch: Vec<Complex<T>>,
}

impl<T: Part> Fourier<T> {
    /// A transform of lines of a length, which is not zero.
    pub fn new(length: usize, inverse: bool) -> Fourier<T> {
        let plan = T::plan(length, if inverse { FftDirection::Inverse } else { FftDirection::Forward });
        let zero = Complex { re: T::zero(), im: T::zero() };
        let scratch = vec![zero; plan.get_inplace_scratch_len()];
        Fourier { plan, scratch }
    }

    /// Transforms lines that follow each other.
    pub fn run(&mut self, lines: &mut [Complex<T>]) {
        self.plan.process_with_scratch(lines, &mut self.scratch);
    }
}

impl<T: Part> std::fmt::Debug for Fourier<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fourier({}, {})", self.plan.len(), self.plan.fft_direction())
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use num_complex::{Complex32, Complex64};

    use super::*;

    #[test]
    fn transforms_of_any_length_are_the_sums_they_stand_for() {
        for length in [1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 100] {
            let line: Vec<Complex64> = (0..length)
                .map(|n| Complex64::new((n * 37 % 11) as f64 - 5.0, (n * 53 % 7) as f64 - 3.0))
                .collect();
            for (inverse, sign) in [(false, -1.0), (true, 1.0)] {
                let mut made = [line.clone(), line.clone()].concat();
                let mut short: Vec<Complex32> =
                    made.iter().map(|x| Complex32::new(x.re as f32, x.im as f32)).collect();
                Fourier::new(length, inverse).run(&mut made);
                Fourier::new(length, inverse).run(&mut short);
                for (k, (value, short)) in made.iter().zip(&short).enumerate() {
                    let turn = |n: usize| {
                        Complex64::from_polar(1.0, sign * TAU * (k * n % length) as f64 / length as f64)
                    };
                    let expected: Complex64 = line.iter().enumerate().map(|(n, x)| x * turn(n)).sum();
                    assert!((value - expected).norm() < 1e-10, "{length} {k}: {value} is not {expected}");
                    let short = Complex64::new(short.re.into(), short.im.into());
                    let close = 1e-6 * 6.0 * length as f64;
                    assert!((short - expected).norm() < close, "{length} {k}: {short} is not {expected}");
                }
            }
        }
    }
}
