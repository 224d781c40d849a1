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

/// A transform between lines of an even length of real numbers and the first halves of their spectra, by a complex transform of
/// half the length.
pub struct RealFourier<T: Part> {
    half: Fourier<T>,
    /// `-i exp(-i tau k / length)`, or its conjugate for an inverse, for each k from one up that is below a quarter of the length.
    turns: Vec<Complex<T>>,
    inverse: bool,
}

impl<T: Part> RealFourier<T> {
    /// A transform of lines of `length` real numbers: an even number, which is not zero.
    pub fn new(length: usize, inverse: bool) -> RealFourier<T> {
        assert!(length.is_multiple_of(2), "a line of {length} numbers has no halves");
        let half = length / 2;
        let sign = if inverse { 1.0 } else { -1.0 };
        let turn = |k: usize| {
            let (sine, cosine) = (std::f64::consts::TAU * k as f64 / length as f64).sin_cos();
            let part = |x: f64| T::from_f64(x).unwrap_or_else(|| unreachable!("f32 and f64 hold {x}"));
            Complex { re: part(-sine), im: part(sign * cosine) }
        };
        let turns = (1..half.div_ceil(2)).map(turn).collect();
        RealFourier { half: Fourier::new(half, inverse), turns, inverse }
    }

    /// Transforms a line in place. It has room for `length / 2 + 1` elements of a spectrum; real numbers are the parts of all but
    /// the last of them. The inverse ignores the imaginary parts of the first and the last element, and is not divided by the
    /// length.
    pub fn run(&mut self, line: &mut [Complex<T>]) {
        if self.inverse {
            let (first, last) = (line[0].re, line[line.len() - 1].re);
            line[0] = Complex { re: first + last, im: first - last };
            self.exchange(line);
            let count = line.len() - 1;
            self.half.run(&mut line[..count]);
        } else {
            let count = line.len() - 1;
            self.half.run(&mut line[..count]);
            let Complex { re, im } = line[0];
            line[0] = Complex { re: re + im, im: T::zero() };
            line[count] = Complex { re: re - im, im: T::zero() };
            self.exchange(line);
        }
    }

    /// Converts the spectrum of the line as complex numbers to that of its real numbers, or the other way round for an inverse:
    /// elements `k` and `half - k` of one depend on the same two elements of the other. Leaves out the first and the last.
    fn exchange(&self, line: &mut [Complex<T>]) {
        let count = line.len() - 1;
        let half = T::from_f64(0.5).unwrap_or_else(|| unreachable!("every float holds a half"));
        let scale = if self.inverse { T::one() } else { half };
        let (front, back) = line[1..count].split_at_mut((count - 1) / 2);
        let middle = back.len() - front.len();
        for middle in &mut back[..middle] {
            let double = scale + scale;
            *middle = Complex { re: middle.re * double, im: -(middle.im * double) };
        }
        for ((one, other), turn) in front.iter_mut().zip(back[middle..].iter_mut().rev()).zip(&self.turns) {
            let sum = Complex { re: (one.re + other.re) * scale, im: (one.im - other.im) * scale };
            let apart = Complex { re: (one.re - other.re) * scale, im: (one.im + other.im) * scale };
            let turned = Complex {
                re: apart.re * turn.re - apart.im * turn.im,
                im: apart.re * turn.im + apart.im * turn.re,
            };
            *one = Complex { re: sum.re + turned.re, im: sum.im + turned.im };
            *other = Complex { re: sum.re - turned.re, im: turned.im - sum.im };
        }
    }
}

impl<T: Part> std::fmt::Debug for RealFourier<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RealFourier({:?})", self.half)
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
    fn real_numbers_have_the_first_half_of_their_complex_spectrum() {
        for length in [2_usize, 4, 6, 8, 10, 12, 14, 30, 62, 64, 100, 1024] {
            let numbers: Vec<f64> = (0..length).map(|n| (n * n * 37 % 101) as f64 - 50.0).collect();
            let mut whole: Vec<Complex64> = numbers.iter().map(|&x| x.into()).collect();
            Fourier::new(length, false).run(&mut whole);
            let mut line: Vec<Complex64> =
                numbers.as_chunks().0.iter().map(|&[re, im]| Complex64::new(re, im)).collect();
            line.push(Complex64::new(f64::NAN, f64::NAN));
            let mut short: Vec<Complex32> =
                line.iter().map(|x| Complex32::new(x.re as f32, x.im as f32)).collect();
            RealFourier::new(length, false).run(&mut line);
            RealFourier::new(length, false).run(&mut short);
            for (k, value) in line.iter().enumerate() {
                assert!((value - whole[k]).norm() < 1e-9, "{length} {k}: {value} is not {}", whole[k]);
                let short = Complex64::new(short[k].re.into(), short[k].im.into());
                assert!((short - whole[k]).norm() < 2e-5 * length as f64, "{length} {k}: {short}");
            }
            // The inverse ignores what is not the spectrum of real numbers.
            line[0].im = 3.0;
            line[length / 2].im = -5.0;
            RealFourier::new(length, true).run(&mut line);
            for (n, &value) in numbers.iter().enumerate() {
                let found = if n % 2 == 0 { line[n / 2].re } else { line[n / 2].im };
                assert!((found / length as f64 - value).abs() < 1e-9, "{length} {n}: {found} is not {value}");
            }
        }
    }

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
