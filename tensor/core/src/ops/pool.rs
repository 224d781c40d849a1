//! One number for each window.

use crate::dtype::{DType, Kind, Scalar};
use crate::error::TensorError;
use crate::layout::Shape;
use crate::ops::axes::Axes;
use crate::ops::conv::each;
use crate::ops::create::iota;
use crate::ops::elementwise::{add, binary, binary_scalar, cast, div, where_};
use crate::ops::matmul::{Counts, contract};
use crate::ops::reduce::{finish, reduced, sum_over};
use crate::ops::shape::{broadcast_to, permuted, to_shape};
use crate::ops::window::{fold, pad, windows};
use crate::program::Binary;
use crate::step::Reduction;
use crate::tensor::{Result, Tensor};

/// One number for each spatial dimension, or one for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    pub kernel: Vec<usize>,
    /// The kernel, if empty.
    pub stride: Vec<usize>,
    pub padding: Vec<usize>,
    pub dilation: Vec<usize>,
    /// Whether a last window may reach beyond the end.
    pub ceil_mode: bool,
    /// Whether zeros of the frame count in an average.
    pub count_include_pad: bool,
}

impl PoolOptions {
    pub fn new(kernel: &[usize]) -> PoolOptions {
        PoolOptions {
            kernel: kernel.into(),
            stride: Vec::new(),
            padding: vec![0],
            dilation: vec![1],
            ceil_mode: false,
            count_include_pad: true,
        }
    }
}

/// How the windows lie along each of the last `axes` dimensions.
struct Windows {
    axes: usize,
    kernel: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    counts: Shape,
}

impl Windows {
    fn of(operation: &'static str, x: &Tensor, axes: usize, options: &PoolOptions) -> Result<Windows> {
        if axes == 0 || x.rank() < axes + 1 {
            return Err(TensorError::shape(
                operation,
                format!(
                    "{:?} is not [n, channels, ..] or [channels, ..] with {axes} more dimensions",
                    x.shape()
                ),
            ));
        }
        let kernel = each(operation, "kernel_size", &options.kernel, axes, 1)?;
        let stride = if options.stride.is_empty() { &options.kernel } else { &options.stride };
        let stride = each(operation, "stride", stride, axes, 1)?;
        let padding = each(operation, "padding", &options.padding, axes, 0)?;
        let dilation = each(operation, "dilation", &options.dilation, axes, 1)?;
        let mut counts = Shape::new();
        for n in 0..axes {
            let length = x.shape()[x.rank() - axes + n];
            let reach = (kernel[n] - 1) * dilation[n] + 1;
            if padding[n] * 2 > kernel[n] {
                return Err(TensorError::shape(
                    operation,
                    format!("padding {padding:?} must be at most half of the kernel {kernel:?}"),
                ));
            }
            let Some(room) = (length + 2 * padding[n]).checked_sub(reach) else {
                return Err(TensorError::shape(
                    operation,
                    format!("a kernel of {kernel:?} does not fit into {:?}", x.shape()),
                ));
            };
            let mut count = room / stride[n] + 1;
            // A window must begin inside of the input or its frame on the left.
            if options.ceil_mode && !room.is_multiple_of(stride[n]) && count * stride[n] < length + padding[n]
            {
                count += 1;
            }
            counts.push(count);
        }
        Ok(Windows { axes, kernel, stride, padding, dilation, counts })
    }

    /// With as much of a frame as the windows reach.
    fn framed(&self, x: &Tensor, value: Scalar) -> Result<Tensor> {
        let outer = x.rank() - self.axes;
        let mut frame = vec![(0, 0); outer];
        for n in 0..self.axes {
            let reach = (self.counts[n] - 1) * self.stride[n] + (self.kernel[n] - 1) * self.dilation[n] + 1;
            let after = reach.saturating_sub(x.shape()[outer + n] + self.padding[n]);
            frame.push((self.padding[n] as isize, after as isize));
        }
        pad(x, &frame, value)
    }
}

pub fn max_pool(x: &Tensor, axes: usize, options: &PoolOptions) -> Result<Tensor> {
    if matches!(x.dtype().kind(), Kind::Bool | Kind::Complex) {
        return Err(TensorError::type_of("max_pool", format!("{} has no largest", x.dtype())));
    }
    let shape = Windows::of("max_pool", x, axes, options)?;
    let lowest = match x.dtype() {
        dtype if dtype.is_float() => Scalar::Float(f64::NEG_INFINITY),
        DType::I8 => Scalar::Int(i64::from(i8::MIN)),
        DType::I16 => Scalar::Int(i64::from(i16::MIN)),
        DType::I32 => Scalar::Int(i64::from(i32::MIN)),
        DType::I64 => Scalar::Int(i64::MIN),
        _ => Scalar::Int(0),
    };
    let x = shape.framed(x, lowest)?;
    let seen = windows(&x.detach(), &shape.kernel, &shape.stride, &shape.dilation)?;
    let kernel: Axes = (seen.rank() - axes..seen.rank()).collect();
    let best = reduced(&seen, Reduction::Max, &kernel, x.dtype());
    let y = best.record("max_pool", &[&x], |best| {
        let lengths = Shape::from(&x.shape()[x.rank() - axes..]);
        Box::new(move |g| {
            // The first of equals takes all, so each element of a window has a number.
            let mut number = iota(seen.device(), seen.shape(), kernel[0])?;
            for &axis in &kernel[1..] {
                let length = Scalar::Int(seen.shape()[axis] as i64);
                let before = binary_scalar(Binary::Mul, &number, length, false)?;
                number = add(&before, &iota(seen.device(), seen.shape(), axis)?)?;
            }
            let equal = binary(Binary::Eq, &seen, &broadcast_to(&best, seen.shape())?)?;
            let beyond = Tensor::constant(seen.device(), Scalar::Int(i64::MAX), seen.shape(), DType::I64);
            let first = reduced(&where_(&equal, &number, &beyond)?, Reduction::Min, &kernel, DType::I64);
            let chosen = binary(Binary::Eq, &number, &broadcast_to(&first, seen.shape())?)?;
            let g = broadcast_to(g, seen.shape())?;
            let spread = where_(&chosen, &g, &g.filled_like(0.0))?;
            Ok(vec![Some(fold(&spread, &lengths, &shape.stride, &shape.dilation)?)])
        })
    });
    let gone: Axes = (y.rank() - axes..y.rank()).collect();
    finish(&y, &gone, false)
}

pub fn avg_pool(x: &Tensor, axes: usize, options: &PoolOptions) -> Result<Tensor> {
    if !x.dtype().is_float() {
        return Err(TensorError::type_of(
            "avg_pool",
            format!("it needs a floating point type, not {}", x.dtype()),
        ));
    }
    let shape = Windows::of("avg_pool", x, axes, &PoolOptions { dilation: vec![1], ..options.clone() })?;
    let outer = x.rank() - axes;
    let framed = shape.framed(x, Scalar::Int(0))?;
    let seen = windows(&framed, &shape.kernel, &shape.stride, &shape.dilation)?;
    let kernel: Axes = (seen.rank() - axes..seen.rank()).collect();
    let sum = finish(&sum_over(&seen, &kernel)?, &kernel, false)?;
    // How much of each window counts, for each dimension.
    let counted = |n: usize| -> Vec<usize> {
        let (length, side) = (x.shape()[outer + n], shape.padding[n]);
        let bounds = if options.count_include_pad { (0, length + 2 * side) } else { (side, side + length) };
        let at = |window: usize| {
            let start = window * shape.stride[n];
            (start + shape.kernel[n]).min(bounds.1).saturating_sub(start.max(bounds.0)).max(1)
        };
        (0..shape.counts[n]).map(at).collect()
    };
    let counted: Vec<Vec<usize>> = (0..axes).map(counted).collect();
    if counted.iter().zip(&shape.kernel).all(|(counts, &kernel)| counts.iter().all(|&count| count == kernel))
    {
        let size: usize = shape.kernel.iter().product();
        return binary_scalar(Binary::Div, &sum, Scalar::Float(size as f64), false);
    }
    let mut divisors: Vec<f32> = vec![1.0];
    for counts in &counted {
        divisors = divisors.iter().flat_map(|&d| counts.iter().map(move |&count| d * count as f32)).collect();
    }
    let divisors = from_f32(x, &shape.counts, &divisors)?;
    div(&sum, &divisors)
}

/// Averages over as many windows as are asked for, which divide the input as evenly as they can.
pub fn adaptive_avg_pool(x: &Tensor, output: &[usize]) -> Result<Tensor> {
    let axes = output.len();
    if axes == 0 || x.rank() < axes + 1 || output.contains(&0) || x.shape()[x.rank() - axes..].contains(&0) {
        return Err(TensorError::shape(
            "adaptive_avg_pool",
            format!("{:?} cannot become [.., {output:?}]", x.shape()),
        ));
    }
    let outer = x.rank() - axes;
    let lengths = &x.shape()[outer..];
    if lengths.iter().zip(output).all(|(length, out)| length.is_multiple_of(*out)) {
        let kernel: Vec<usize> = lengths.iter().zip(output).map(|(length, out)| length / out).collect();
        return avg_pool(x, axes, &PoolOptions::new(&kernel));
    }
    let mut y = x.clone();
    for (n, &count) in output.iter().enumerate() {
        let length = x.shape()[outer + n];
        let mut weights = vec![0.0; count * length];
        for window in 0..count {
            let (start, end) = (window * length / count, ((window + 1) * length).div_ceil(count));
            weights[window * length + start..window * length + end].fill(1.0 / (end - start) as f32);
        }
        let weights = from_f32(x, &[count, length], &weights)?;
        let mut order: Axes = (0..y.rank()).filter(|&axis| axis != outer + n).collect();
        order.push(outer + n);
        let rows = permuted(&y, &order);
        let counts = Counts { batch: 0, rows: rows.rank() - 1, columns: 1, depth: 1 };
        let averaged = contract(&rows, &weights, counts)?;
        let mut back: Axes = (0..y.rank() - 1).collect();
        back.insert(outer + n, y.rank() - 1);
        y = permuted(&averaged, &back);
    }
    Ok(y)
}

/// Numbers from here, on the device and in the type of another tensor.
fn from_f32(like: &Tensor, shape: &[usize], values: &[f32]) -> Result<Tensor> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let tensor = to_shape(&Tensor::from_bytes(like.device(), DType::F32, &[values.len()], &bytes)?, shape)?;
    cast(&tensor, like.dtype())
}
