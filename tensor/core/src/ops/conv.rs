//! Convolutions of any number of dimensions, as contractions of windows. The forward pass never materialises an unfolded (im2col)
//! input.

use crate::dtype::Scalar;
use crate::error::TensorError;
use crate::layout::Shape;
use crate::ops::axes::Axes;
use crate::ops::elementwise::{add, cast};
use crate::ops::matmul::{Counts, contract};
use crate::ops::shape::{broadcast_to, permuted, sliced, to_shape};
use crate::ops::window::{fold, pad, windows};
use crate::tensor::{Result, Tensor, same_device};

/// Options of a convolution: one number for each spatial dimension, or one for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvOptions {
    /// The distance between windows along each spatial dimension.
    pub stride: Vec<usize>,
    /// Zeros on both sides.
    pub padding: Vec<usize>,
    /// The distance between the elements of a window.
    pub dilation: Vec<usize>,
    /// The number of groups of channels that are convolved separately.
    pub groups: usize,
}

impl Default for ConvOptions {
    fn default() -> ConvOptions {
        ConvOptions { stride: vec![1], padding: vec![0], dilation: vec![1], groups: 1 }
    }
}

/// Expands an option to one number per dimension.
pub(crate) fn each(
    operation: &'static str,
    what: &str,
    given: &[usize],
    axes: usize,
    least: usize,
) -> Result<Shape> {
    let numbers = match given {
        &[one] => Shape::from_elem(one, axes),
        many if many.len() == axes => many.into(),
        other => {
            return Err(TensorError::shape(
                operation,
                format!("{what} must be one number or {axes}, not {other:?}"),
            ));
        }
    };
    if numbers.iter().any(|&number| number < least || number > 1 << 40) {
        return Err(TensorError::shape(operation, format!("{what} must be at least {least}, not {given:?}")));
    }
    Ok(numbers)
}

/// Convolution. `x` is `[n, in, ..]` or `[in, ..]`, `weight` is `[out, in / groups, kernel..]`; the weight's rank determines the
/// number of dimensions.
pub fn conv(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>, options: &ConvOptions) -> Result<Tensor> {
    same_device("conv", x, weight)?;
    let axes = weight.rank().saturating_sub(2);
    if axes > 0 && x.rank() == axes + 1 {
        let one = conv(&crate::ops::shape::unsqueeze(x, 0)?, weight, bias, options)?;
        return to_shape(&one, &one.shape()[1..]);
    }
    let groups = options.groups;
    let fits = axes > 0
        && x.rank() == axes + 2
        && groups > 0
        && weight.shape()[1].checked_mul(groups) == Some(x.shape()[1])
        && weight.shape()[0].is_multiple_of(groups);
    if !fits {
        return Err(TensorError::shape(
            "conv",
            format!(
                "an input of {:?} ([n, in, ..]), a weight of {:?} ([out, in / groups, kernel..]) and {groups} groups do not fit",
                x.shape(),
                weight.shape()
            ),
        ));
    }
    let stride = each("conv", "stride", &options.stride, axes, 1)?;
    let padding = each("conv", "padding", &options.padding, axes, 0)?;
    let dilation = each("conv", "dilation", &options.dilation, axes, 1)?;
    let dtype = x.dtype().promote(weight.dtype());
    let frame: Vec<(isize, isize)> =
        [0, 0].iter().chain(&padding).map(|&side| (side as isize, side as isize)).collect();
    let x = pad(&cast(x, dtype)?, &frame, Scalar::Int(0))?;
    let weight = cast(weight, dtype)?;
    let shape = Geometry { axes, groups, stride, dilation };
    let y = shape.forward(&x.detach(), &weight.detach())?.record("conv", &[&x, &weight], |_| {
        let (x, weight) = (x.saved(), weight.saved());
        Box::new(move |g| {
            Ok(vec![Some(shape.of_input(g, &x, &weight)?), Some(shape.of_weight(g, &x, &weight)?)])
        })
    });
    with_bias("conv", &y, bias)
}

fn with_bias(operation: &'static str, y: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let Some(bias) = bias else { return Ok(y.clone()) };
    if bias.shape() != &y.shape()[1..2] {
        return Err(TensorError::shape(
            operation,
            format!("the bias is {:?}, the output has {} channels", bias.shape(), y.shape()[1]),
        ));
    }
    let mut per_channel = Shape::from_elem(1, y.rank() - 1);
    per_channel[0] = y.shape()[1];
    add(y, &to_shape(&cast(bias, y.dtype())?, &per_channel)?)
}

/// A convolution of an input that is already padded.
struct Geometry {
    axes: usize,
    groups: usize,
    stride: Shape,
    dilation: Shape,
}

impl Geometry {
    /// `[n, groups, in / groups, out.., kernel..]`, a view.
    fn windows(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        windows(&self.grouped(x)?, &weight.shape()[2..], &self.stride, &self.dilation)
    }

    /// The channels as `[groups, channels / groups]`.
    fn grouped(&self, x: &Tensor) -> Result<Tensor> {
        let mut shape = Shape::from_slice(&[x.shape()[0], self.groups, x.shape()[1] / self.groups]);
        shape.extend_from_slice(&x.shape()[2..]);
        to_shape(x, &shape)
    }

    /// `[groups, out / groups, in / groups, kernel..]`.
    fn split(&self, weight: &Tensor) -> Result<Tensor> {
        let mut shape = Shape::from_slice(&[self.groups, weight.shape()[0] / self.groups]);
        shape.extend_from_slice(&weight.shape()[1..]);
        to_shape(weight, &shape)
    }

    /// Contracts to `[channels, positions]` for each image and group, so that the result is laid out as `[n, channels,
    /// positions..]`.
    fn forward(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        let axes = self.axes;
        let windows = self.windows(x, weight)?;
        // [n, g, out.., in, kernel..].
        let order: Axes =
            [0, 1].into_iter().chain(3..3 + axes).chain([2]).chain(3 + axes..3 + 2 * axes).collect();
        let right = permuted(&windows, &order);
        let split = self.split(weight)?;
        let mut shape = Shape::from_slice(&[x.shape()[0]]);
        shape.extend_from_slice(split.shape());
        let left = broadcast_to(&split, &shape)?;
        let y = contract(&left, &right, Counts { batch: 2, rows: 1, columns: axes, depth: 1 + axes })?;
        let mut shape = Shape::from_slice(&[x.shape()[0], weight.shape()[0]]);
        shape.extend_from_slice(&y.shape()[3..]);
        to_shape(&y, &shape)
    }

    /// The gradient of the weight: summed over images and positions.
    fn of_weight(&self, g: &Tensor, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        let axes = self.axes;
        // [g, out, n, positions..] with [g, in, kernel.., n, positions..].
        let order: Axes = [1, 2, 0].into_iter().chain(3..3 + axes).collect();
        let left = permuted(&self.grouped(g)?, &order);
        let order: Axes =
            [1, 2].into_iter().chain(3 + axes..3 + 2 * axes).chain([0]).chain(3..3 + axes).collect();
        let right = permuted(&self.windows(x, weight)?, &order);
        let product =
            contract(&left, &right, Counts { batch: 1, rows: 1, columns: 1 + axes, depth: 1 + axes })?;
        to_shape(&product, weight.shape())
    }

    fn of_input(&self, g: &Tensor, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        // [g, in / groups, kernel.., out / groups].
        let split = self.split(weight)?;
        let order: Axes = [0].into_iter().chain(2..split.rank()).chain([1]).collect();
        self.spread(g, &permuted(&split, &order), &x.shape()[2..], x.shape()[1])
    }

    /// Multiplies every element of `g` by a kernel and adds the products at the positions that the kernel covers: `[n, channels,
    /// lengths..]`.
    fn spread(&self, g: &Tensor, kernels: &Tensor, lengths: &[usize], channels: usize) -> Result<Tensor> {
        let axes = self.axes;
        // [g, n, positions.., c] with [g, channels, kernel.., c].
        let order: Axes = [1, 0].into_iter().chain(3..3 + axes).chain([2]).collect();
        let left = permuted(&self.grouped(g)?, &order);
        let product =
            contract(&left, kernels, Counts { batch: 1, rows: 1 + axes, columns: 1 + axes, depth: 1 })?;
        // [g, n, positions.., channels, kernel..] to [n, g, channels, positions.., kernel..].
        let order: Axes =
            [1, 0, 2 + axes].into_iter().chain(2..2 + axes).chain(3 + axes..3 + 2 * axes).collect();
        let folded = fold(&permuted(&product, &order), lengths, &self.stride, &self.dilation)?;
        let mut shape = Shape::from_slice(&[g.shape()[0], channels]);
        shape.extend_from_slice(lengths);
        to_shape(&folded, &shape)
    }
}

/// Transposed convolution, the input gradient of a convolution. `x` is `[n, in, ..]` or `[in, ..]`, `weight` is `[in, out /
/// groups, kernel..]`.
pub fn conv_transpose(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: &ConvOptions,
    output_padding: &[usize],
) -> Result<Tensor> {
    same_device("conv_transpose", x, weight)?;
    let axes = weight.rank().saturating_sub(2);
    if axes > 0 && x.rank() == axes + 1 {
        let one =
            conv_transpose(&crate::ops::shape::unsqueeze(x, 0)?, weight, bias, options, output_padding)?;
        return to_shape(&one, &one.shape()[1..]);
    }
    let groups = options.groups;
    let fits = axes > 0
        && x.rank() == axes + 2
        && groups > 0
        && weight.shape()[0] == x.shape()[1]
        && x.shape()[1].is_multiple_of(groups);
    if !fits {
        return Err(TensorError::shape(
            "conv_transpose",
            format!(
                "an input of {:?} ([n, in, ..]), a weight of {:?} ([in, out / groups, kernel..]) and {groups} groups do not fit",
                x.shape(),
                weight.shape()
            ),
        ));
    }
    let stride = each("conv_transpose", "stride", &options.stride, axes, 1)?;
    let padding = each("conv_transpose", "padding", &options.padding, axes, 0)?;
    let dilation = each("conv_transpose", "dilation", &options.dilation, axes, 1)?;
    let extra = each("conv_transpose", "output_padding", output_padding, axes, 0)?;
    let mut lengths = Shape::new();
    for n in 0..axes {
        if extra[n] >= stride[n].max(dilation[n]) {
            return Err(TensorError::shape(
                "conv_transpose",
                format!(
                    "output_padding {extra:?} must be smaller than stride {stride:?} or dilation {dilation:?}"
                ),
            ));
        }
        let reach = (weight.shape()[2 + n].max(1) - 1) * dilation[n] + 1;
        lengths.push((x.shape()[2 + n].max(1) - 1) * stride[n] + reach + extra[n]);
        if lengths[n] <= 2 * padding[n] {
            return Err(TensorError::shape(
                "conv_transpose",
                format!("padding {padding:?} leaves nothing of {lengths:?}"),
            ));
        }
    }
    let dtype = x.dtype().promote(weight.dtype());
    let (x, weight) = (cast(x, dtype)?, cast(weight, dtype)?);
    let shape = Geometry { axes, groups, stride, dilation };
    // [g, in / groups, out / groups, kernel..] to [g, out / groups, kernel.., in / groups].
    let split = shape.split(&weight)?;
    let order: Axes = [0].into_iter().chain(2..split.rank()).chain([1]).collect();
    let channels = weight.shape()[1] * groups;
    let mut y = shape.spread(&x, &permuted(&split, &order), &lengths, channels)?;
    for n in 0..axes {
        y = sliced(&y, 2 + n, padding[n], lengths[n] - 2 * padding[n], 1);
    }
    with_bias("conv_transpose", &y, bias)
}
