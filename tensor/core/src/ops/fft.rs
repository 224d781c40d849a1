//! Fourier transform along an axis. Computed on the host in f64, whatever the device, so it waits for its input.

use std::f64::consts::TAU;

use num_complex::{Complex32, Complex64};

use crate::dtype::DType;
use crate::error::TensorError;
use crate::layout::Shape;
use crate::ops::axes::{Axes, axis};
use crate::ops::shape::permuted;
use crate::tensor::{Result, Tensor};

/// `out[k] = sum over n of x[n] * exp(-i tau k n / length)` along an axis, with the other sign if `inverse`. Unnormalised: the
/// result is not divided by the length.
pub fn fft(x: &Tensor, dim: isize, inverse: bool) -> Result<Tensor> {
    let x = &x.cast(DType::C64)?;
    if x.rank() == 0 {
        return Err(TensorError::shape("fft", "a tensor without dimensions has no axis to transform"));
    }
    let axis = axis("fft", dim, x.rank())?;
    let length = x.shape()[axis];
    if length == 0 {
        return Err(TensorError::shape("fft", format!("{:?} has no elements along {axis}", x.shape())));
    }
    // The axis is moved last, so that each line is contiguous.
    let mut order: Axes = (0..x.rank()).filter(|&other| other != axis).collect();
    order.push(axis);
    let lines = permuted(&x.detach(), &order);
    let plan = Plan::new(length, inverse);
    let mut bytes = Vec::with_capacity(x.elements() * 8);
    for line in lines.to_bytes()?.chunks_exact(length * 8) {
        let numbers: Vec<Complex64> = line.chunks_exact(8).map(read).collect();
        for Complex64 { re, im } in plan.transformed(&numbers) {
            bytes.extend((re as f32).to_le_bytes());
            bytes.extend((im as f32).to_le_bytes());
        }
    }
    let made = Tensor::from_bytes(x.device(), DType::C64, &Shape::from(lines.shape()), &bytes)?;
    let mut back: Axes = (0..x.rank() - 1).collect();
    back.insert(axis, x.rank() - 1);
    Ok(permuted(&made, &back)
        .record("fft", &[x], |_| Box::new(move |g| Ok(vec![Some(fft(g, axis as isize, !inverse)?)]))))
}

fn read(bytes: &[u8]) -> Complex64 {
    let part = |at: usize| f32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let Complex32 { re, im } = Complex32::new(part(0), part(4));
    Complex64::new(f64::from(re), f64::from(im))
}

/// Precomputed tables for lines of one length.
struct Plan {
    length: usize,
    /// A power of two: the length itself, or large enough for a convolution of that length.
    wide: usize,
    /// `exp(-i tau k / wide)` for the first half of k; with the other sign for an inverse without a chirp.
    roots: Vec<Complex64>,
    /// Bluestein's algorithm for lengths that are no power of two: the chirp, and the transform of its conjugate.
    chirp: Option<(Vec<Complex64>, Vec<Complex64>)>,
}

impl Plan {
    fn new(length: usize, inverse: bool) -> Plan {
        let sign = if inverse { 1.0 } else { -1.0 };
        if length.is_power_of_two() {
            return Plan { length, wide: length, roots: roots(length, sign), chirp: None };
        }
        let wide = (2 * length - 1).next_power_of_two();
        // k squared over twice the length, reduced modulo whole turns in integers, so that no precision is lost.
        let chirp: Vec<Complex64> = (0..length)
            .map(|k| {
                let turns = (k as u128 * k as u128 % (2 * length as u128)) as f64 / (2 * length) as f64;
                Complex64::from_polar(1.0, sign * TAU * turns)
            })
            .collect();
        let mut plan = Plan { length, wide, roots: roots(wide, -1.0), chirp: None };
        let mut against = vec![Complex64::ZERO; wide];
        for (k, value) in chirp.iter().enumerate() {
            against[k] = value.conj();
            against[(wide - k) % wide] = value.conj();
        }
        plan.powers(&mut against);
        plan.chirp = Some((chirp, against));
        plan
    }

    fn transformed(&self, line: &[Complex64]) -> Vec<Complex64> {
        let mut wide = vec![Complex64::ZERO; self.wide];
        let Some((chirp, against)) = &self.chirp else {
            wide.copy_from_slice(line);
            self.powers(&mut wide);
            return wide;
        };
        for ((to, from), turn) in wide.iter_mut().zip(line).zip(chirp) {
            *to = from * turn;
        }
        self.powers(&mut wide);
        // The inverse transform of the product, as a forward transform of conjugates.
        wide.iter_mut().zip(against).for_each(|(a, b)| *a = (*a * b).conj());
        self.powers(&mut wide);
        let share = 1.0 / self.wide as f64;
        chirp.iter().zip(&wide).take(self.length).map(|(turn, value)| value.conj() * share * turn).collect()
    }

    /// Transforms a power of two in place: bit-reversal permutation, then radix-2 butterflies.
    fn powers(&self, line: &mut [Complex64]) {
        let length = line.len();
        let bits = length.trailing_zeros();
        for at in 0..length {
            let other = if bits == 0 { 0 } else { at.reverse_bits() >> (usize::BITS - bits) };
            if at < other {
                line.swap(at, other);
            }
        }
        let mut half = 1;
        while half < length {
            let stride = length / (2 * half);
            for block in line.chunks_exact_mut(2 * half) {
                let (low, high) = block.split_at_mut(half);
                for (n, (a, b)) in low.iter_mut().zip(high).enumerate() {
                    let turned = *b * self.roots[n * stride];
                    (*a, *b) = (*a + turned, *a - turned);
                }
            }
            half *= 2;
        }
    }
}

fn roots(length: usize, sign: f64) -> Vec<Complex64> {
    (0..length / 2).map(|k| Complex64::from_polar(1.0, sign * TAU * k as f64 / length as f64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transforms_of_any_length_are_the_sums_they_stand_for() {
        for length in [1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 100] {
            let line: Vec<Complex64> = (0..length)
                .map(|n| Complex64::new((n * 37 % 11) as f64 - 5.0, (n * 53 % 7) as f64 - 3.0))
                .collect();
            for (inverse, sign) in [(false, -1.0), (true, 1.0)] {
                for (k, value) in Plan::new(length, inverse).transformed(&line).iter().enumerate() {
                    let expected: Complex64 = line
                        .iter()
                        .enumerate()
                        .map(|(n, x)| {
                            x * Complex64::from_polar(
                                1.0,
                                sign * TAU * (k * n % length) as f64 / length as f64,
                            )
                        })
                        .sum();
                    assert!((value - expected).norm() < 1e-10, "{length} {k}: {value} is not {expected}");
                }
            }
        }
    }
}
