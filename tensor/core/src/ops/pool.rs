//! Pooling: one number for each window.

use crate::dtype::{DType, Kind, Scalar};
use crate::error::TensorError;
use crate::launch::accumulator;
use crate::layout::Shape;
use crate::ops::axes::Axes;
use crate::ops::conv::each;
use crate::ops::elementwise::{add, binary, binary_scalar, cast, div, unary, where_};
use crate::ops::fused;
use crate::ops::index::put;
use crate::ops::iota::iota;
use crate::ops::matmul::{Counts, contract};
use crate::ops::reduce::{finish, reduced, sum_over};
use crate::ops::shape::{broadcast_to, permuted, to_shape};
use crate::ops::window::{fold, pad, windows};
use crate::program::{Binary, Unary};
use crate::step::{Fused, Reduction};
use crate::tensor::{Result, Tensor};

/// Options of a pooling operation: one number for each spatial dimension, or one for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// The size of a window along each spatial dimension.
    pub kernel: Vec<usize>,
    /// Defaults to the kernel if empty.
    pub stride: Vec<usize>,
    /// The number of elements added at both ends.
    pub padding: Vec<usize>,
    /// The distance between the elements of a window.
    pub dilation: Vec<usize>,
    /// Whether a last window may extend beyond the end.
    pub ceil_mode: bool,
    /// Whether the padding counts in an average.
    pub count_include_pad: bool,
    /// Divisor of the sums, instead of the number of elements.
    pub divisor: Option<i64>,
}

impl PoolOptions {
    /// Windows of this size next to one another, without padding.
    pub fn new(kernel: &[usize]) -> PoolOptions {
        PoolOptions {
            kernel: kernel.into(),
            stride: Vec::new(),
            padding: vec![0],
            dilation: vec![1],
            ceil_mode: false,
            count_include_pad: true,
            divisor: None,
        }
    }
}

/// The positions of the windows along each of the last `axes` dimensions.
#[derive(Clone)]
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
            // A window must start inside the input or its left padding.
            if options.ceil_mode && !room.is_multiple_of(stride[n]) && count * stride[n] < length + padding[n]
            {
                count += 1;
            }
            counts.push(count);
        }
        Ok(Windows { axes, kernel, stride, padding, dilation, counts })
    }

    /// Pads the input as far as the windows extend.
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

    /// Numbers the elements of each window in row-major order.
    fn numbers(&self, seen: &Tensor) -> Result<Tensor> {
        let first = seen.rank() - self.axes;
        let mut number = iota(seen.device(), seen.shape(), first)?;
        for axis in first + 1..seen.rank() {
            let length = Scalar::Int(seen.shape()[axis] as i64);
            let before = binary_scalar(Binary::Mul, &number, length, false)?;
            number = add(&before, &iota(seen.device(), seen.shape(), axis)?)?;
        }
        Ok(number)
    }

    /// Returns the number of the first maximum in each window, or of the first NaN if there is one. Padding around the `lengths`
    /// of the input is never selected.
    fn first(&self, seen: &Tensor, best: &Tensor, lengths: &[usize]) -> Result<Tensor> {
        let mut largest = binary(Binary::Eq, seen, &broadcast_to(best, seen.shape())?)?;
        if seen.dtype().is_float() {
            largest = binary(Binary::Or, &largest, &unary(Unary::IsNan, seen)?)?;
        }
        let kernel = seen.rank() - self.axes;
        for (n, &length) in lengths.iter().enumerate() {
            let reach = (self.counts[n] - 1) * self.stride[n] + (self.kernel[n] - 1) * self.dilation[n] + 1;
            if self.padding[n] == 0 && reach <= length {
                continue;
            }
            let number = |value: usize| Scalar::Int(value as i64);
            let window = iota(seen.device(), seen.shape(), kernel - self.axes + n)?;
            let window = binary_scalar(Binary::Mul, &window, number(self.stride[n]), false)?;
            let within = iota(seen.device(), seen.shape(), kernel + n)?;
            let within = binary_scalar(Binary::Mul, &within, number(self.dilation[n]), false)?;
            let at = binary_scalar(Binary::Sub, &add(&window, &within)?, number(self.padding[n]), false)?;
            let above = binary_scalar(Binary::Ge, &at, Scalar::Int(0), false)?;
            let below = binary_scalar(Binary::Lt, &at, number(length), false)?;
            largest = binary(Binary::And, &largest, &binary(Binary::And, &above, &below)?)?;
        }
        let number = self.numbers(seen)?;
        let beyond = Tensor::constant(seen.device(), Scalar::Int(i64::MAX), seen.shape(), DType::I64);
        let axes: Axes = (kernel..seen.rank()).collect();
        Ok(reduced(&where_(&largest, &number, &beyond)?, Reduction::Min, &axes, DType::I64))
    }
}

/// The maximum of each window over the last `axes` dimensions.
pub fn max_pool(x: &Tensor, axes: usize, options: &PoolOptions) -> Result<Tensor> {
    if let Some((y, _)) = fused_max_pool(x, axes, options)? {
        return Ok(y);
    }
    Ok(pooled(x, axes, options)?.0)
}

/// The maxima of the windows, and their positions, if the device has a step for that.
fn fused_max_pool(x: &Tensor, axes: usize, options: &PoolOptions) -> Result<Option<(Tensor, Tensor)>> {
    poolable(x)?;
    let shape = Windows::of("max_pool", x, axes, options)?;
    let Windows { kernel, stride, padding, dilation, counts, .. } = shape;
    let Some(work) = fused::supported(Fused::MaxPool { kernel, stride, padding, dilation }, &[x]) else {
        return Ok(None);
    };
    let outer = x.rank() - axes;
    let mut pooled = Shape::from(&x.shape()[..outer]);
    pooled.extend_from_slice(&counts);
    if i32::try_from(x.shape()[outer..].iter().product::<usize>()).is_err() {
        return Ok(None);
    }
    let (y, places) = fused::pair(work, &[x], (&pooled, x.dtype()), (&pooled, DType::I64));
    let y = y.record("max_pool", &[x], |_| {
        let (places, shape) = (places.snapshot(), Shape::from(x.shape()));
        Box::new(move |g| {
            // Each plane as a row.
            let row = |shape: &[usize]| {
                let mut row = Shape::from(&shape[..outer]);
                row.push(shape[outer..].iter().product());
                row
            };
            let zeros = Tensor::constant(g.device(), Scalar::Int(0), &row(&shape), g.dtype());
            let (places, g) = (to_shape(&places, &row(&pooled))?, to_shape(g, &row(&pooled))?);
            Ok(vec![Some(to_shape(&put("max_pool", &zeros, outer as isize, &places, &g, true)?, &shape)?)])
        })
    });
    Ok(Some((y, places)))
}

/// Like [`max_pool`], and also returns the row-major position of each maximum in the last `axes` dimensions.
pub fn max_pool_with_indices(x: &Tensor, axes: usize, options: &PoolOptions) -> Result<(Tensor, Tensor)> {
    if let Some(both) = fused_max_pool(x, axes, options)? {
        return Ok(both);
    }
    let (y, seen, best, shape) = pooled(x, axes, options)?;
    let first = shape.first(&seen, &best, &x.shape()[x.rank() - axes..])?;
    let outer = x.rank() - axes;
    let mut place = Tensor::constant(x.device(), Scalar::Int(0), first.shape(), DType::I64);
    let mut inner: usize = shape.kernel.iter().product();
    for n in 0..axes {
        inner /= shape.kernel[n];
        let number = |value: usize| Scalar::Int(value as i64);
        let within = binary_scalar(Binary::FloorDiv, &first, number(inner), false)?;
        let within = binary_scalar(Binary::Rem, &within, number(shape.kernel[n]), false)?;
        let within = binary_scalar(Binary::Mul, &within, number(shape.dilation[n]), false)?;
        let window = iota(x.device(), first.shape(), outer + n)?;
        let window = binary_scalar(Binary::Mul, &window, number(shape.stride[n]), false)?;
        let at = binary_scalar(Binary::Sub, &add(&window, &within)?, number(shape.padding[n]), false)?;
        place = add(&binary_scalar(Binary::Mul, &place, number(x.shape()[outer + n]), false)?, &at)?;
    }
    let gone: Axes = (first.rank() - axes..first.rank()).collect();
    Ok((y, finish(&place, &gone, false)?))
}

fn poolable(x: &Tensor) -> Result<()> {
    if matches!(x.dtype().kind(), Kind::Bool | Kind::Complex) {
        return Err(TensorError::type_of("max_pool", format!("max pooling of {} is not defined", x.dtype())));
    }
    Ok(())
}

/// Returns the maximum of each window, the windows, the maximum with the windows' axes kept, and the window geometry.
fn pooled(x: &Tensor, axes: usize, options: &PoolOptions) -> Result<(Tensor, Tensor, Tensor, Windows)> {
    poolable(x)?;
    let shape = Windows::of("max_pool", x, axes, options)?;
    let lowest = match x.dtype() {
        dtype if dtype.is_float() => Scalar::Float(f64::NEG_INFINITY),
        DType::I8 => Scalar::Int(i64::from(i8::MIN)),
        DType::I16 => Scalar::Int(i64::from(i16::MIN)),
        DType::I32 => Scalar::Int(i64::from(i32::MIN)),
        DType::I64 => Scalar::Int(i64::MIN),
        _ => Scalar::Int(0),
    };
    let inside = Shape::from(&x.shape()[x.rank() - axes..]);
    let x = shape.framed(x, lowest)?;
    let seen = windows(&x.snapshot(), &shape.kernel, &shape.stride, &shape.dilation)?;
    let kernel: Axes = (seen.rank() - axes..seen.rank()).collect();
    let best = reduced(&seen, Reduction::Max, &kernel, x.dtype());
    let y = best.record("max_pool", &[&x], |best| {
        let lengths = Shape::from(&x.shape()[x.rank() - axes..]);
        let (seen, shape) = (seen.clone(), shape.clone());
        Box::new(move |g| {
            let first = shape.first(&seen, &best, &inside)?;
            let number = shape.numbers(&seen)?;
            let chosen = binary(Binary::Eq, &number, &broadcast_to(&first, seen.shape())?)?;
            let g = broadcast_to(g, seen.shape())?;
            let spread = where_(&chosen, &g, &g.filled_like(0.0))?;
            Ok(vec![Some(fold(&spread, &lengths, &shape.stride, &shape.dilation)?)])
        })
    });
    let gone: Axes = (y.rank() - axes..y.rank()).collect();
    Ok((finish(&y, &gone, false)?, seen, y.snapshot(), shape))
}

/// The mean of each window over the last `axes` dimensions.
pub fn avg_pool(x: &Tensor, axes: usize, options: &PoolOptions) -> Result<Tensor> {
    // A sum of half floats may exceed the largest of them where the mean does not, so only the mean is rounded.
    cast(&averaged(&cast(x, accumulator(x.dtype()))?, axes, options)?, x.dtype())
}

fn averaged(x: &Tensor, axes: usize, options: &PoolOptions) -> Result<Tensor> {
    if matches!(x.dtype().kind(), Kind::Bool | Kind::Complex) {
        return Err(TensorError::type_of(
            "avg_pool",
            format!("it needs a floating point type or integers, not {}", x.dtype()),
        ));
    }
    if options.divisor == Some(0) {
        return Err(TensorError::shape("avg_pool", "the divisor must not be zero"));
    }
    let shape = Windows::of("avg_pool", x, axes, &PoolOptions { dilation: vec![1], ..options.clone() })?;
    let outer = x.rank() - axes;
    let framed = shape.framed(x, Scalar::Int(0))?;
    let seen = windows(&framed, &shape.kernel, &shape.stride, &shape.dilation)?;
    let kernel: Axes = (seen.rank() - axes..seen.rank()).collect();
    let sum = finish(&sum_over(&seen, &kernel)?, &kernel, false)?;
    if let Some(divisor) = options.divisor {
        return shared(&sum, &Tensor::constant(x.device(), Scalar::Int(divisor), &[], x.dtype()));
    }
    // The number of counted elements of each window, for each dimension.
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
        return shared(&sum, &Tensor::constant(x.device(), Scalar::Int(size as i64), &[], x.dtype()));
    }
    let mut divisors: Vec<f64> = vec![1.0];
    for counts in &counted {
        divisors = divisors.iter().flat_map(|&d| counts.iter().map(move |&count| d * count as f64)).collect();
    }
    shared(&sum, &from_f64(x, &shape.counts, &divisors)?)
}

/// Divides in the type of the sum; integers are truncated.
fn shared(sum: &Tensor, divisor: &Tensor) -> Result<Tensor> {
    if sum.dtype().is_float() {
        return div(sum, divisor);
    }
    let quotient = div(&cast(sum, DType::F64)?, &cast(divisor, DType::F64)?)?;
    cast(&unary(Unary::Trunc, &quotient)?, sum.dtype())
}

/// Averages over the given number of windows, which divide the input as evenly as possible.
pub fn adaptive_avg_pool(x: &Tensor, output: &[usize]) -> Result<Tensor> {
    let axes = output.len();
    if axes == 0 || x.rank() < axes + 1 || output.contains(&0) || x.shape()[x.rank() - axes..].contains(&0) {
        return Err(TensorError::shape(
            "adaptive_avg_pool",
            format!("{:?} cannot be pooled to [.., {output:?}]", x.shape()),
        ));
    }
    let outer = x.rank() - axes;
    let lengths = &x.shape()[outer..];
    if lengths.iter().zip(output).all(|(length, out)| length.is_multiple_of(*out)) {
        let kernel: Vec<usize> = lengths.iter().zip(output).map(|(length, out)| length / out).collect();
        return avg_pool(x, axes, &PoolOptions::new(&kernel));
    }
    // Intermediate results between the dimensions are not rounded.
    let mut y = cast(x, accumulator(x.dtype()))?;
    for (n, &count) in output.iter().enumerate() {
        let length = x.shape()[outer + n];
        let mut weights = vec![0.0; count * length];
        for window in 0..count {
            let (start, end) = (window * length / count, ((window + 1) * length).div_ceil(count));
            weights[window * length + start..window * length + end].fill(1.0 / (end - start) as f64);
        }
        let weights = from_f64(&y, &[count, length], &weights)?;
        let mut order: Axes = (0..y.rank()).filter(|&axis| axis != outer + n).collect();
        order.push(outer + n);
        let rows = permuted(&y, &order);
        let counts = Counts { batch: 0, rows: rows.rank() - 1, columns: 1, depth: 1 };
        let averaged = contract(&rows, &weights, counts)?;
        let mut back: Axes = (0..y.rank() - 1).collect();
        back.insert(outer + n, y.rank() - 1);
        y = permuted(&averaged, &back);
    }
    cast(&y, x.dtype())
}

/// Uploads numbers to the device and in the type of another tensor.
fn from_f64(like: &Tensor, shape: &[usize], values: &[f64]) -> Result<Tensor> {
    let (dtype, bytes): (DType, Vec<u8>) = if like.dtype() == DType::F64 {
        (DType::F64, values.iter().flat_map(|value| value.to_le_bytes()).collect())
    } else {
        (DType::F32, values.iter().flat_map(|&value| (value as f32).to_le_bytes()).collect())
    };
    let tensor = to_shape(&Tensor::from_bytes(like.device(), dtype, &[values.len()], &bytes)?, shape)?;
    cast(&tensor, like.dtype())
}
