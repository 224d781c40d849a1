//! Fourier transforms along an axis. Computed on the host, whatever the device, so they wait for their input.

use num_complex::Complex;
use tensor_linalg::{Fourier, Part, RealFourier};

use crate::dtype::{DType, Scalar};
use crate::error::TensorError;
use crate::layout::Shape;
use crate::node::Node;
use crate::ops::axes::{Axes, axis};
use crate::ops::elementwise::mul;
use crate::ops::join::cat;
use crate::ops::shape::{permuted, sliced, to_shape};
use crate::tensor::{Result, Tensor, device_error};

/// `out[k] = sum over n of x[n] * exp(-i tau k n / length)` along an axis, with the other sign if `inverse`. Unnormalised: the
/// result is not divided by the length. Of float64 and complex128 it is complex128, else complex64, and computed in this type.
pub fn fft(x: &Tensor, dim: isize, inverse: bool) -> Result<Tensor> {
    let x = &x.cast(x.dtype().with_imaginary())?;
    let (lines, back) = lines("fft", x, dim)?;
    let length = lines.shape()[lines.rank() - 1];
    let made = match x.dtype() {
        DType::C128 => transformed::<f64>(&lines, length, inverse)?,
        _ => transformed::<f32>(&lines, length, inverse)?,
    };
    Ok(permuted(&made, &back)
        .record("fft", &[x], |_| Box::new(move |g| Ok(vec![Some(fft(g, dim, !inverse)?)]))))
}

/// The first `length / 2 + 1` elements of the transform of real numbers along an axis. The others would be conjugates of these, in
/// the opposite order.
pub fn rfft(x: &Tensor, dim: isize) -> Result<Tensor> {
    let x = &x.cast(x.dtype().with_imaginary().part())?;
    let (lines, back) = lines("rfft", x, dim)?;
    let length = lines.shape()[lines.rank() - 1];
    if length % 2 == 1 {
        let whole = fft(x, dim, false)?;
        let axis = axis("rfft", dim, x.rank())?;
        return Ok(sliced(&whole, axis, 0, length / 2 + 1, 1));
    }
    let made = match x.dtype() {
        DType::F64 => half_of::<f64>(&lines, length)?,
        _ => half_of::<f32>(&lines, length)?,
    };
    Ok(permuted(&made, &back).record("rfft", &[x], |_| {
        // `irfft` counts all elements but the first and the last twice, because of their mirror images. Here each counts once.
        Box::new(move |g| Ok(vec![Some(irfft(&inside_times(g, dim, 0.5)?, dim)?)]))
    }))
}

/// The inverse of [`rfft`] for lines of an even length, multiplied by the length. The imaginary parts of the first and the last
/// element are ignored.
pub fn irfft(x: &Tensor, dim: isize) -> Result<Tensor> {
    let x = &x.cast(x.dtype().with_imaginary())?;
    let (lines, back) = lines("irfft", x, dim)?;
    let count = lines.shape()[lines.rank() - 1];
    if count < 2 {
        return Err(TensorError::shape(
            "irfft",
            format!("the axis needs at least two elements, but the input is {:?}", x.shape()),
        ));
    }
    let made = match x.dtype() {
        DType::C128 => whole_of::<f64>(&lines, count)?,
        _ => whole_of::<f32>(&lines, count)?,
    };
    Ok(permuted(&made, &back).record("irfft", &[x], |_| {
        Box::new(move |g| Ok(vec![Some(inside_times(&rfft(g, dim)?, dim, 2.0)?)]))
    }))
}

/// Multiplies all but the first and the last element along an axis by a number.
fn inside_times(x: &Tensor, dim: isize, factor: f64) -> Result<Tensor> {
    let axis = axis("rfft", dim, x.rank())?;
    let inside = x.shape()[axis].saturating_sub(2);
    let ends = Tensor::constant(x.device(), Scalar::Float(1.0), &[1], x.dtype());
    let factors =
        cat(&[&ends, &Tensor::constant(x.device(), Scalar::Float(factor), &[inside], x.dtype()), &ends], 0)?;
    let mut shape = Shape::from_elem(1, x.rank());
    shape[axis] = inside + 2;
    mul(x, &to_shape(&factors, &shape)?)
}

/// Moves an axis last, so that each line is contiguous; returns the order that moves it back, too.
fn lines(operation: &'static str, x: &Tensor, dim: isize) -> Result<(Tensor, Axes)> {
    if x.rank() == 0 {
        return Err(TensorError::shape(operation, "a tensor without dimensions has no axis to transform"));
    }
    let axis = axis(operation, dim, x.rank())?;
    if x.shape()[axis] == 0 {
        return Err(TensorError::shape(operation, format!("{:?} has no elements along {axis}", x.shape())));
    }
    let mut order: Axes = (0..x.rank()).filter(|&other| other != axis).collect();
    order.push(axis);
    let mut back: Axes = (0..x.rank() - 1).collect();
    back.insert(axis, x.rank() - 1);
    Ok((permuted(&x.snapshot(), &order), back))
}

/// Transforms lines along the last axis, in the memory of the result.
fn transformed<T: Part>(lines: &Tensor, length: usize, inverse: bool) -> Result<Tensor> {
    in_memory::<T>(lines, lines.elements(), lines.shape().into(), lines.dtype(), |numbers| {
        lines.read_into(bytes_of(numbers))?;
        Fourier::<T>::new(length, inverse).run(numbers);
        Ok(())
    })
}

/// The halves of the transforms of lines of real numbers.
fn half_of<T: Part>(lines: &Tensor, length: usize) -> Result<Tensor> {
    let half = length / 2;
    let count = lines.elements() / length;
    let mut shape = Shape::from(lines.shape());
    shape[lines.rank() - 1] = half + 1;
    let room = count * (half + 1);
    in_memory::<T>(lines, room, shape, lines.dtype().with_imaginary(), |numbers| {
        // At the end of the memory, so that no result is written over a line that is still needed.
        lines.read_into(bytes_of(&mut numbers[count..]))?;
        let mut fourier = RealFourier::<T>::new(length, false);
        for number in 0..count {
            let (from, to) = (count + number * half, number * (half + 1));
            numbers.copy_within(from..from + half, to);
            fourier.run(&mut numbers[to..=to + half]);
        }
        Ok(())
    })
}

/// The lines of real numbers that have these halves of transforms.
fn whole_of<T: Part>(lines: &Tensor, elements: usize) -> Result<Tensor> {
    let half = elements - 1;
    let count = lines.elements() / elements;
    let mut shape = Shape::from(lines.shape());
    shape[lines.rank() - 1] = 2 * half;
    in_memory::<T>(lines, lines.elements(), shape, lines.dtype().part(), |numbers| {
        lines.read_into(bytes_of(numbers))?;
        let mut fourier = RealFourier::<T>::new(2 * half, true);
        for number in 0..count {
            let (from, to) = (number * elements, number * half);
            fourier.run(&mut numbers[from..from + elements]);
            numbers.copy_within(from..from + half, to);
        }
        Ok(())
    })
}

/// A tensor in new memory, which a function fills: that of the device if this process can access it.
fn in_memory<T: Part>(
    lines: &Tensor,
    count: usize,
    shape: Shape,
    dtype: DType,
    fill: impl FnOnce(&mut [Complex<T>]) -> Result<()>,
) -> Result<Tensor> {
    let device = lines.device();
    let failed = |source| device_error("fft", device, source);
    let buffer = device.allocate((count * size_of::<Complex<T>>()).max(1)).map_err(failed)?;
    match device.host_address(&buffer) {
        // SAFETY: the buffer is as large, aligned, initialised, and known to nobody else; any bits are a number.
        Some(start) => fill(unsafe { std::slice::from_raw_parts_mut(start.cast::<Complex<T>>(), count) })?,
        None => {
            let mut own = vec![Complex { re: T::zero(), im: T::zero() }; count];
            fill(&mut own)?;
            device.upload(&buffer, 0, bytes_of(&mut own)).map_err(failed)?;
        }
    }
    Ok(Tensor::of_node(Node::leaf(buffer, shape, dtype, device.clone())))
}

/// The bytes of numbers.
fn bytes_of<T: Part>(numbers: &mut [Complex<T>]) -> &mut [u8] {
    // SAFETY: numbers of f32 or f64 have no padding and may have any bits.
    unsafe { std::slice::from_raw_parts_mut(numbers.as_mut_ptr().cast(), size_of_val(numbers)) }
}
