//! Fourier transform along an axis. Computed on the host, whatever the device, so it waits for its input.

use num_complex::Complex;
use tensor_linalg::{Fourier, Part};

use crate::dtype::DType;
use crate::error::TensorError;
use crate::node::Node;
use crate::ops::axes::{Axes, axis};
use crate::ops::shape::permuted;
use crate::tensor::{Result, Tensor, device_error};

/// `out[k] = sum over n of x[n] * exp(-i tau k n / length)` along an axis, with the other sign if `inverse`. Unnormalised: the
/// result is not divided by the length. Of float64 and complex128 it is complex128, else complex64, and computed in this type.
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
    let made = match x.dtype() {
        DType::C128 => transformed::<f64>(&lines, length, inverse)?,
        _ => transformed::<f32>(&lines, length, inverse)?,
    };
    let mut back: Axes = (0..x.rank() - 1).collect();
    back.insert(axis, x.rank() - 1);
    Ok(permuted(&made, &back)
        .record("fft", &[x], |_| Box::new(move |g| Ok(vec![Some(fft(g, axis as isize, !inverse)?)]))))
}

/// Transforms lines along the last axis, in the memory of the result if this process can access it.
fn transformed<T: Part>(lines: &Tensor, length: usize, inverse: bool) -> Result<Tensor> {
    let (device, count) = (lines.device(), lines.elements());
    let failed = |source| device_error("fft", device, source);
    let buffer = device.allocate((count * size_of::<Complex<T>>()).max(1)).map_err(failed)?;
    let mut own = Vec::new();
    let numbers = match device.host_address(&buffer) {
        // SAFETY: the buffer is as large, aligned, initialised, and known to nobody else; any bits are a number.
        Some(start) => unsafe { std::slice::from_raw_parts_mut(start.cast::<Complex<T>>(), count) },
        None => {
            own.resize(count, Complex { re: T::zero(), im: T::zero() });
            &mut own[..]
        }
    };
    // SAFETY: these are the bytes of the numbers, which have no padding and may have any bits.
    let bytes = unsafe { std::slice::from_raw_parts_mut(numbers.as_mut_ptr().cast(), size_of_val(numbers)) };
    lines.read_into(bytes)?;
    Fourier::<T>::new(length, inverse).run(numbers);
    if !own.is_empty() {
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(own.as_ptr().cast(), size_of_val(&own[..])) };
        device.upload(&buffer, 0, bytes).map_err(failed)?;
    }
    Ok(Tensor::of_node(Node::leaf(buffer, lines.shape().into(), lines.dtype(), device.clone())))
}
