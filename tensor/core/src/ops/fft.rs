//! Fourier transform along an axis. Computed on the host in f64, whatever the device, so it waits for its input.

use num_complex::Complex64;
use tensor_linalg::Fourier;

use crate::error::TensorError;
use crate::layout::Shape;
use crate::numbers::Number;
use crate::ops::axes::{Axes, axis};
use crate::ops::shape::permuted;
use crate::tensor::{Result, Tensor};

/// `out[k] = sum over n of x[n] * exp(-i tau k n / length)` along an axis, with the other sign if `inverse`. Unnormalised: the
/// result is not divided by the length. Of float64 and complex128 it is complex128, else complex64.
pub fn fft(x: &Tensor, dim: isize, inverse: bool) -> Result<Tensor> {
    let x = &x.cast(x.dtype().with_imaginary())?;
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
    let lines = permuted(&x.snapshot(), &order);
    let mut bytes = lines.to_bytes()?;
    let mut numbers = Complex64::read(&bytes, x.dtype());
    Fourier::new(length, inverse).run(&mut numbers);
    bytes.clear();
    Complex64::write(&numbers, x.dtype(), &mut bytes);
    let made = Tensor::from_bytes(x.device(), x.dtype(), &Shape::from(lines.shape()), &bytes)?;
    let mut back: Axes = (0..x.rank() - 1).collect();
    back.insert(axis, x.rank() - 1);
    Ok(permuted(&made, &back)
        .record("fft", &[x], |_| Box::new(move |g| Ok(vec![Some(fft(g, axis as isize, !inverse)?)]))))
}
