//! Fourier transforms of lines.

use std::sync::{Arc, Mutex, PoisonError};

use num_complex::Complex64;
use rustfft::{Fft, FftDirection, FftPlanner};

/// A transform of lines of one length: `out[k] = sum over n of x[n] * exp(-i tau k n / length)`, with the other sign for an
/// inverse. Not divided by the length.
pub struct Fourier {
    plan: Arc<dyn Fft<f64>>,
    scratch: Vec<Complex64>,
}

impl Fourier {
    /// A transform of lines of a length, which is not zero. Plans are kept.
    pub fn new(length: usize, inverse: bool) -> Fourier {
        static PLANNER: Mutex<Option<FftPlanner<f64>>> = Mutex::new(None);
        let direction = if inverse { FftDirection::Inverse } else { FftDirection::Forward };
        // A planner that panicked while planning holds only complete plans.
        let mut planner = PLANNER.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = planner.get_or_insert_with(FftPlanner::new).plan_fft(length, direction);
        let scratch = vec![Complex64::ZERO; plan.get_inplace_scratch_len()];
        Fourier { plan, scratch }
    }

    /// Transforms lines that follow each other.
    pub fn run(&mut self, lines: &mut [Complex64]) {
        self.plan.process_with_scratch(lines, &mut self.scratch);
    }
}

impl std::fmt::Debug for Fourier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fourier({}, {})", self.plan.len(), self.plan.fft_direction())
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use super::*;

    #[test]
    fn transforms_of_any_length_are_the_sums_they_stand_for() {
        for length in [1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 100] {
            let line: Vec<Complex64> = (0..length)
                .map(|n| Complex64::new((n * 37 % 11) as f64 - 5.0, (n * 53 % 7) as f64 - 3.0))
                .collect();
            for (inverse, sign) in [(false, -1.0), (true, 1.0)] {
                let mut made = [line.clone(), line.clone()].concat();
                Fourier::new(length, inverse).run(&mut made);
                for (k, value) in made.iter().enumerate() {
                    let turn = |n: usize| {
                        Complex64::from_polar(1.0, sign * TAU * (k * n % length) as f64 / length as f64)
                    };
                    let expected: Complex64 = line.iter().enumerate().map(|(n, x)| x * turn(n)).sum();
                    assert!((value - expected).norm() < 1e-10, "{length} {k}: {value} is not {expected}");
                }
            }
        }
    }
}
