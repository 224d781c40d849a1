//! Normalisation layers, variance and standard deviation.

use crate::dtype::{Kind, Scalar};
use crate::error::TensorError;
use crate::launch::accumulator;
use crate::layout::Shape;
use crate::node::{Inputs, Node, Op};
use crate::ops::axes::Axes;
use crate::ops::elementwise::{add, binary_scalar, cast, conjugate, mul, plus, scaled, sub, unary};
use crate::ops::reduce::{count, sum_over};
use crate::ops::shape::{broadcast_to, to_shape};
use crate::program::{Binary, Unary};
use crate::step::Work;
use crate::tensor::{Result, Tensor, same_device};

/// Normalises over the last axes, whose lengths are `normalized_shape`.
pub fn layer_norm(
    x: &Tensor,
    normalized_shape: &[usize],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    epsilon: f64,
) -> Result<Tensor> {
    if normalized_shape.is_empty() || !x.shape().ends_with(normalized_shape) {
        return Err(TensorError::shape(
            "layer_norm",
            format!("{:?} does not end with the normalized shape {normalized_shape:?}", x.shape()),
        ));
    }
    let parameter = |parameter: Option<&Tensor>| {
        parameter.map(|parameter| fitted("layer_norm", x, parameter, normalized_shape)).transpose()
    };
    normalised("layer_norm", x, normalized_shape.len(), parameter(weight)?, parameter(bias)?, epsilon)
}

/// Normalises over groups of channels and all positions: `[n, channels, ..]`.
pub fn group_norm(
    x: &Tensor,
    groups: usize,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    epsilon: f64,
) -> Result<Tensor> {
    if x.rank() < 2 || groups == 0 || !x.shape()[1].is_multiple_of(groups) {
        return Err(TensorError::shape(
            "group_norm",
            format!("the channels of {:?} ([n, channels, ..]) do not divide into {groups} groups", x.shape()),
        ));
    }
    let channels = x.shape()[1];
    let mut apart = Shape::from_slice(&[x.shape()[0], groups, channels / groups]);
    apart.extend_from_slice(&x.shape()[2..]);
    let mut per_channel = Shape::from_elem(1, apart.len() - 1);
    (per_channel[0], per_channel[1]) = (groups, channels / groups);
    let parameter = |parameter: Option<&Tensor>| {
        parameter
            .map(|parameter| to_shape(&fitted("group_norm", x, parameter, &[channels])?, &per_channel))
            .transpose()
    };
    let flat = to_shape(x, &apart)?;
    let y = normalised("group_norm", &flat, apart.len() - 2, parameter(weight)?, parameter(bias)?, epsilon)?;
    to_shape(&y, x.shape())
}

/// Normalises each channel of each sample separately.
pub fn instance_norm(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    epsilon: f64,
) -> Result<Tensor> {
    if x.rank() < 3 {
        return Err(TensorError::shape(
            "instance_norm",
            format!("{:?} is not [n, channels, positions..]", x.shape()),
        ));
    }
    group_norm(x, x.shape()[1], weight, bias, epsilon)
}

/// The running means and variances of a batch norm.
#[derive(Clone, Copy, Debug)]
pub struct Running<'a> {
    /// The mean of each channel.
    pub mean: &'a Tensor,
    /// The variance of each channel.
    pub variance: &'a Tensor,
}

/// Normalises each channel: with the statistics of the batch while training, which also updates the running statistics; with the
/// running statistics otherwise.
pub fn batch_norm(
    x: &Tensor,
    running: Option<Running<'_>>,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    training: bool,
    momentum: f64,
    epsilon: f64,
) -> Result<Tensor> {
    if x.elements() == 0 && x.dtype().is_float() {
        return Ok(x.clone());
    }
    if x.rank() < 2 || !x.dtype().is_float() {
        return Err(TensorError::shape(
            "batch_norm",
            format!("{:?} of {} is not [n, channels, ..] of a floating point type", x.shape(), x.dtype()),
        ));
    }
    let channels = x.shape()[1];
    let mut per_channel = Shape::from_elem(1, x.rank());
    per_channel[1] = channels;
    let wide = |parameter: &Tensor| {
        broadcast_to(&to_shape(&fitted("batch_norm", x, parameter, &[channels])?, &per_channel)?, x.shape())
    };
    let (weight, bias) = (weight.map(wide).transpose()?, bias.map(wide).transpose()?);
    if !training {
        let Some(running) = running else {
            return Err(TensorError::state("batch_norm", "evaluation needs running means and variances"));
        };
        // Everything is expanded to the shape of x, so that all of it fits into the epilogue of a convolution.
        let scale = unary(Unary::Rsqrt, &plus(&wide(running.variance)?, epsilon)?)?;
        let y = mul(&sub(x, &cast(&wide(running.mean)?, x.dtype())?)?, &cast(&scale, x.dtype())?)?;
        return affine(y, weight.as_ref(), bias.as_ref());
    }
    let axes: Axes = (0..x.rank()).filter(|&axis| axis != 1).collect();
    let samples = count(x, &axes);
    if samples < 2 {
        return Err(TensorError::shape(
            "batch_norm",
            format!("training needs more than one value per channel, {:?} has {samples}", x.shape()),
        ));
    }
    let inner = cast(&x.snapshot(), accumulator(x.dtype()))?;
    let mean = scaled(&sum_over(&inner, &axes)?, 1.0 / samples as f64)?;
    let centred = sub(&inner, &mean)?;
    let variance = scaled(&sum_over(&mul(&centred, &centred)?, &axes)?, 1.0 / samples as f64)?;
    if let Some(running) = running {
        let correction = samples as f64 / (samples - 1) as f64;
        for (kept, seen) in [(running.mean, mean.clone()), (running.variance, scaled(&variance, correction)?)]
        {
            let seen = cast(&to_shape(&seen, &[channels])?, kept.dtype())?;
            let moved = add(&scaled(&kept.snapshot(), 1.0 - momentum)?, &scaled(&seen, momentum)?)?;
            kept.write(&moved)?;
            // Schedule it with the next evaluation; otherwise it would stay pending and keep the whole batch alive.
            crate::execute::want(kept);
        }
    }
    let scale = unary(Unary::Rsqrt, &plus(&variance, epsilon)?)?;
    let y = cast(&mul(&centred, &scale)?, x.dtype())?;
    let detached = |parameter: &Option<Tensor>| parameter.as_ref().map(Tensor::snapshot);
    let y = affine(y, detached(&weight).as_ref(), detached(&bias).as_ref())?;
    Ok(remembered("batch_norm", y, x, weight, bias, Statistics { mean, scale, epsilon, axes }))
}

fn affine(y: Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>) -> Result<Tensor> {
    let y = match weight {
        Some(weight) => mul(&y, weight)?,
        None => y,
    };
    match bias {
        Some(bias) => add(&y, bias),
        None => Ok(y),
    }
}

/// Converts a parameter to the type of the input, after checking its shape.
fn fitted(operation: &'static str, x: &Tensor, parameter: &Tensor, shape: &[usize]) -> Result<Tensor> {
    same_device(operation, x, parameter)?;
    if parameter.shape() != shape {
        return Err(TensorError::shape(
            operation,
            format!(
                "a parameter has shape {:?}, but {shape:?} is needed for an input of {:?}",
                parameter.shape(),
                x.shape()
            ),
        ));
    }
    cast(parameter, x.dtype())
}

/// One normalisation launch over the last axes.
fn normalised(
    name: &'static str,
    x: &Tensor,
    axes: usize,
    weight: Option<Tensor>,
    bias: Option<Tensor>,
    epsilon: f64,
) -> Result<Tensor> {
    if !x.dtype().is_float() {
        return Err(TensorError::type_of(name, format!("it needs a floating point type, not {}", x.dtype())));
    }
    let wide = |parameter: Tensor| broadcast_to(&parameter, x.shape());
    let (weight, bias) = (weight.map(wide).transpose()?, bias.map(wide).transpose()?);
    let mut inputs = Inputs::from_iter([x.node()]);
    if weight.is_some() || bias.is_some() {
        // The launch takes both weight and bias, or neither.
        inputs.push(weight.as_ref().map_or_else(|| x.filled_like(1.0).node(), Tensor::node));
        inputs.push(bias.as_ref().map_or_else(|| x.filled_like(0.0).node(), Tensor::node));
    }
    let mut small = Shape::from(x.shape());
    small[x.rank() - axes..].fill(1);
    let precise = accumulator(x.dtype());
    let more = vec![(small.clone(), precise), (small.clone(), precise)];
    let op = Op::Whole(Box::new(Work::Normalise { axes, epsilon }), more);
    let whole = Node::new(op, inputs, x.shape().into(), x.dtype(), x.device().clone());
    let part = |number| {
        let inputs = Inputs::from_iter([whole.clone()]);
        Tensor::of_node(Node::new(Op::Part(number), inputs, small.clone(), precise, x.device().clone()))
    };
    let y = Tensor::of_node(whole.clone());
    let reduced: Axes = (x.rank() - axes..x.rank()).collect();
    let statistics = Statistics { mean: part(1), scale: part(2), epsilon, axes: reduced };
    Ok(remembered(name, y, x, weight, bias, statistics))
}

/// Mean and scale of an input over its axes.
struct Statistics {
    mean: Tensor,
    scale: Tensor,
    epsilon: f64,
    axes: Axes,
}

impl Statistics {
    /// Returns mean and scale of an input: the stored ones, or recomputed so that gradients flow through them.
    fn of(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        if !crate::grad_mode::is_enabled() || !x.requires_grad() {
            return Ok((self.mean.clone(), self.scale.clone()));
        }
        let share = 1.0 / count(x, &self.axes) as f64;
        let mean = scaled(&sum_over(x, &self.axes)?, share)?;
        let centred = sub(x, &mean)?;
        let variance = scaled(&sum_over(&mul(&centred, &centred)?, &self.axes)?, share)?;
        Ok((mean, unary(Unary::Rsqrt, &plus(&variance, self.epsilon)?)?))
    }
}

/// Records the rule of `(x - mean) * scale * weight + bias`, all in the shape of x.
fn remembered(
    name: &'static str,
    y: Tensor,
    x: &Tensor,
    weight: Option<Tensor>,
    bias: Option<Tensor>,
    statistics: Statistics,
) -> Tensor {
    let none = x.filled_like(0.0);
    let inputs = [x, weight.as_ref().unwrap_or(&none), bias.as_ref().unwrap_or(&none)];
    y.record(name, &inputs, |_| {
        let (x, weight) = (x.saved(), weight.as_ref().map(Tensor::saved));
        Box::new(move |g| {
            let precise = accumulator(x.dtype());
            let (axes, inner) = (&statistics.axes, cast(&x, precise)?);
            let (mean, scale) = statistics.of(&inner)?;
            let normal = mul(&sub(&inner, &mean)?, &scale)?;
            let g = cast(g, precise)?;
            let repeated = |weight: &Tensor| axes.iter().all(|&axis| weight.layout().strides[axis] == 0);
            let is_outside = weight.as_ref().is_some_and(repeated);
            let weight = weight.as_ref().map(|weight| cast(weight, precise)).transpose()?;
            // A weight that is constant along the axes is multiplied in last: then the sums are the same as those of its own
            // gradient.
            let outside = weight.as_ref().filter(|_| is_outside);
            let weighted = match &weight {
                Some(weight) if outside.is_none() => mul(&g, weight)?,
                _ => g.clone(),
            };
            let share = 1.0 / count(&x, axes) as f64;
            let level = scaled(&sum_over(&weighted, axes)?, share)?;
            let slope = scaled(&sum_over(&mul(&weighted, &normal)?, axes)?, share)?;
            let mut of_x = mul(&scale, &sub(&sub(&weighted, &level)?, &mul(&normal, &slope)?)?)?;
            if let Some(weight) = outside {
                of_x = mul(&of_x, weight)?;
            }
            Ok(vec![
                Some(cast(&of_x, x.dtype())?),
                Some(cast(&mul(&g, &normal)?, x.dtype())?),
                Some(cast(&g, x.dtype())?),
            ])
        })
    })
}

/// The variance: the sum of squared distances from the mean, divided by the count less `correction`.
pub fn var(x: &Tensor, dims: Option<&[isize]>, correction: f64, keepdim: bool) -> Result<Tensor> {
    let (variance, axes) = variance("var", x, dims, correction)?;
    crate::ops::reduce::finish(&cast(&variance, x.dtype().part())?, &axes, keepdim)
}

/// The standard deviation.
pub fn std(x: &Tensor, dims: Option<&[isize]>, correction: f64, keepdim: bool) -> Result<Tensor> {
    // The variance of half floats may exceed the largest of them where its root does not.
    let (variance, axes) = variance("std", x, dims, correction)?;
    let deviation = unary(Unary::Sqrt, &variance)?;
    crate::ops::reduce::finish(&cast(&deviation, x.dtype().part())?, &axes, keepdim)
}

/// The variance in the type that sums are computed in, with the axes kept; and the axes.
fn variance(
    operation: &'static str,
    x: &Tensor,
    dims: Option<&[isize]>,
    correction: f64,
) -> Result<(Tensor, Axes)> {
    if x.dtype().kind() < Kind::Float {
        return Err(TensorError::type_of(
            operation,
            format!("it needs a floating point type, not {}", x.dtype()),
        ));
    }
    let axes = crate::ops::axes::axes(operation, dims, x.rank())?;
    let count = count(x, &axes) as f64;
    let precise = cast(x, accumulator(x.dtype()))?;
    let mean = binary_scalar(Binary::Div, &sum_over(&precise, &axes)?, Scalar::Float(count), false)?;
    let centred = sub(&precise, &mean)?;
    // For complex numbers, the squared distance is the sum over both parts.
    let squares = unary(Unary::Real, &mul(&centred, &conjugate(&centred)?)?)?;
    let sum = sum_over(&squares, &axes)?;
    let divisor = (count - correction).max(0.0);
    Ok((binary_scalar(Binary::Div, &sum, Scalar::Float(divisor), false)?, axes))
}
