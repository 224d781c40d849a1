//! Convolutions of any number of dimensions, as contractions of windows. The forward pass never materialises an unfolded (im2col)
//! input.

use crate::dtype::Scalar;
use crate::error::TensorError;
use crate::layout::{Layout, Shape};
use crate::node::Op;
use crate::ops::axes::Axes;
use crate::ops::elementwise::{add, cast};
use crate::ops::matmul::{Counts, contract, contract_as, precision};
use crate::ops::shape::{broadcast_to, contiguous, permuted, sliced, to_shape};
use crate::ops::strided::written;
use crate::ops::window::{fold, pad, windows};
use crate::step::{Accumulation, Convolution, Fused, Work};
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
    let (x, weight) = (cast(x, dtype)?, cast(weight, dtype)?);
    let shape = Geometry { axes, groups, stride, padding, dilation };
    let y = shape.forward(&x.snapshot(), &weight.snapshot())?.record("conv", &[&x, &weight], |_| {
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

/// A convolution.
struct Geometry {
    axes: usize,
    groups: usize,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
}

impl Geometry {
    /// The input with zeros around it.
    fn padded(&self, x: &Tensor) -> Result<Tensor> {
        let sides = [0, 0].iter().chain(&self.padding).map(|&side| (side as isize, side as isize));
        pad(x, &sides.collect::<Vec<_>>(), Scalar::Int(0))
    }

    /// `[n, groups, in / groups, out.., kernel..]`, a view of a padded input.
    fn windows(&self, padded: &Tensor, kernel: &[usize]) -> Result<Tensor> {
        windows(&self.grouped(padded)?, kernel, &self.stride, &self.dilation)
    }

    /// Describes the contraction of the windows of a padded input as a convolution, for devices with a library of these.
    fn convolution(&self, padded: &Tensor, of_weight: bool) -> Option<Convolution> {
        let (stride, dilation) = (self.stride.clone(), self.dilation.clone());
        Some(Convolution { of_weight, shape: padded.shape().into(), groups: self.groups, stride, dilation })
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

    fn forward(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        self.convolved(&self.padded(x)?, &self.split(weight)?)
    }

    /// Contracts a padded input with a weight of `[groups, out / groups, in / groups, kernel..]` to `[channels, positions]` for each
    /// image and group, so that the result is laid out as `[n, channels, positions..]`.
    fn convolved(&self, padded: &Tensor, split: &Tensor) -> Result<Tensor> {
        let axes = self.axes;
        let windows = self.windows(padded, &split.shape()[3..])?;
        // [n, g, out.., in, kernel..].
        let order: Axes =
            [0, 1].into_iter().chain(3..3 + axes).chain([2]).chain(3 + axes..3 + 2 * axes).collect();
        let right = permuted(&windows, &order);
        let mut shape = Shape::from_slice(&[padded.shape()[0]]);
        shape.extend_from_slice(split.shape());
        let left = broadcast_to(split, &shape)?;
        let counts = Counts { batch: 2, rows: 1, columns: axes, depth: 1 + axes };
        let y = contract_as(&left, &right, counts, self.convolution(padded, false))?;
        let mut shape = Shape::from_slice(&[padded.shape()[0], split.shape()[0] * split.shape()[1]]);
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
        let padded = self.padded(x)?;
        let right = permuted(&self.windows(&padded, &weight.shape()[2..])?, &order);
        let counts = Counts { batch: 1, rows: 1, columns: 1 + axes, depth: 1 + axes };
        let product = contract_as(&left, &right, counts, self.convolution(&padded, true))?;
        to_shape(&product, weight.shape())
    }

    /// The gradient of the input. The elements at one phase, their position modulo the stride, are convolutions of `g` with the
    /// part of the kernel that reaches them.
    fn of_input(&self, g: &Tensor, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        let (axes, lengths) = (self.axes, &x.shape()[2..]);
        if let Some(all) = self.of_input_at_once(g, x, weight)? {
            return Ok(all);
        }
        let split = self.split(weight)?;
        if (0..axes).any(|n| self.stride[n] > 1 && self.dilation[n] > 1) || weight.shape().contains(&0) {
            // [g, in / groups, kernel.., out / groups].
            let order: Axes = [0].into_iter().chain(2..split.rank()).chain([1]).collect();
            let lengths: Shape = lengths.iter().zip(&self.padding).map(|(n, side)| n + 2 * side).collect();
            let mut all = self.spread(g, &permuted(&split, &order), &lengths, x.shape()[1])?;
            for n in 0..axes {
                all = sliced(&all, 2 + n, self.padding[n], x.shape()[2 + n], 1);
            }
            return Ok(all);
        }
        let turned: Axes = [0, 2, 1].into_iter().chain(3..split.rank()).collect();
        let turned = permuted(&split, &turned);
        let whole = Geometry {
            axes,
            groups: self.groups,
            stride: Shape::from_elem(1, axes),
            padding: Shape::from_elem(0, axes),
            dilation: self.dilation.clone(),
        };
        let phases: usize = self.stride.iter().product();
        let mut all = Tensor::constant(g.device(), Scalar::Int(0), x.shape(), g.dtype());
        for number in 0..phases {
            let (mut kernel, mut frame, mut rest) = (turned.clone(), vec![(0, 0); 2], number);
            let mut layout = Layout::contiguous(x.shape());
            for (n, &length) in lengths.iter().enumerate() {
                let stride = self.stride[n];
                let phase = rest % stride;
                rest /= stride;
                let (first, shift) = ((phase + self.padding[n]) % stride, (phase + self.padding[n]) / stride);
                let taps = weight.shape()[2 + n].saturating_sub(first).div_ceil(stride);
                let count = length.saturating_sub(phase).div_ceil(stride);
                if taps > 0 {
                    // The last one first.
                    let last = first + (taps - 1) * stride;
                    kernel = sliced(&kernel, 3 + n, last, taps, -(stride as isize));
                } else {
                    kernel = sliced(&kernel, 3 + n, 0, 0, 1);
                }
                let reach = (taps.max(1) - 1) * self.dilation[n];
                let after = (shift + count) as isize - g.shape()[2 + n] as isize;
                frame.push((reach as isize - shift as isize, after));
                layout.offset += phase * layout.strides[2 + n] as usize;
                layout.shape[2 + n] = count;
                layout.strides[2 + n] *= stride as isize;
            }
            if kernel.elements() == 0 || layout.elements() == 0 {
                continue;
            }
            // A GPU reads the kernel again for every tile of the result; the CPU packs it.
            let kernel = if g.device().is_immediate() { kernel } else { contiguous(&kernel)? };
            let part = whole.convolved(&pad(g, &frame, Scalar::Int(0))?, &kernel)?;
            all = if phases == 1 { part } else { written(&all, &layout, &part) };
        }
        Ok(all)
    }

    /// The same as one step of a device that has one, if it may be added in any order and is not differentiated itself.
    fn of_input_at_once(&self, g: &Tensor, x: &Tensor, weight: &Tensor) -> Result<Option<Tensor>> {
        let (stride, padding) = (self.stride.clone(), self.padding.clone());
        let dilation = self.dilation.clone();
        let work = Work::Fused(Fused::ConvolutionGradient { stride, padding, dilation, groups: self.groups });
        let is_fast = precision().accumulation(g.dtype()) == Accumulation::Fast;
        let recorded = crate::grad_mode::is_enabled() && (g.requires_grad() || weight.requires_grad());
        let fits = |number: usize| i32::try_from(number).is_ok();
        let all_fit = [g, x, weight].iter().all(|it| it.elements() > 0 && fits(it.elements()))
            && [&self.stride, &self.padding, &self.dilation]
                .iter()
                .all(|numbers| numbers.iter().all(|&number| fits(number)));
        if !is_fast
            || recorded
            || !all_fit
            || !g.device().supports(&work, &[g.dtype(), weight.dtype(), g.dtype()])
        {
            return Ok(None);
        }
        let op = Op::Whole(Box::new(work), Vec::new());
        let (g, weight) = (contiguous(g)?, contiguous(weight)?);
        Ok(Some(Tensor::make(op, &[&g, &weight], x.shape().into(), g.dtype())))
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
    let shape = Geometry { axes, groups, stride, padding: Shape::from_elem(0, axes), dilation };
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
