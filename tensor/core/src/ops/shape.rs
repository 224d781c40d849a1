//! Shape operations: views where strides can express the result, copies where they cannot.

use crate::dtype::Scalar;
use crate::error::TensorError;
use crate::layout::{Layout, Shape};
use crate::node::Op;
use crate::ops::axes::{Axes, axis};
use crate::ops::reduce::sum_to;
use crate::ops::window::{fold, pad};
use crate::tensor::{Result, Tensor, size_in_bytes};

/// Changes the shape; one length may be -1.
pub fn reshape(x: &Tensor, shape: &[isize]) -> Result<Tensor> {
    to_shape(x, &solve("reshape", x, shape)?)
}

/// Like [`reshape`], but returns an error instead of copying.
pub fn view(x: &Tensor, shape: &[isize]) -> Result<Tensor> {
    let shape = solve("view", x, shape)?;
    if x.layout().reshape(&shape).is_none() {
        return Err(TensorError::shape(
            "view",
            format!(
                "the memory layout of {:?} has no view of shape {shape:?}; use reshape, which copies",
                x.shape()
            ),
        ));
    }
    to_shape(x, &shape)
}

fn solve(operation: &'static str, x: &Tensor, shape: &[isize]) -> Result<Shape> {
    let impossible = || {
        TensorError::shape(
            operation,
            format!("{:?} has {} elements, which do not fill {shape:?}", x.shape(), x.elements()),
        )
    };
    let known: Vec<usize> =
        shape.iter().filter(|&&length| length != -1).map(|&length| length as usize).collect();
    if shape.iter().any(|&length| length < -1) || shape.len() > known.len() + 1 {
        return Err(impossible());
    }
    let product = known
        .iter()
        .try_fold(1_usize, |product, &length| product.checked_mul(length))
        .ok_or_else(impossible)?;
    let free = if shape.len() > known.len() {
        if product == 0 || !x.elements().is_multiple_of(product) {
            return Err(impossible());
        }
        x.elements() / product
    } else {
        1
    };
    if product * free != x.elements() {
        return Err(impossible());
    }
    Ok(shape.iter().map(|&length| if length == -1 { free } else { length as usize }).collect())
}

/// Changes to a shape with equally many elements.
pub(crate) fn to_shape(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    if x.shape() == shape {
        return Ok(x.clone());
    }
    let source = if x.layout().reshape(shape).is_none() { clone(x)? } else { x.clone() };
    let view = source.viewed(|layout| layout.reshape(shape).unwrap_or_else(|| Layout::contiguous(shape)));
    Ok(view.record("reshape", &[&source], |_| {
        let before = Shape::from(source.shape());
        Box::new(move |g| Ok(vec![Some(to_shape(g, &before)?)]))
    }))
}

/// Returns the tensor itself if it is contiguous, else a contiguous copy.
pub fn contiguous(x: &Tensor) -> Result<Tensor> {
    if x.layout().is_contiguous() { Ok(x.clone()) } else { clone(x) }
}

/// Returns a copy with its own memory.
pub fn clone(x: &Tensor) -> Result<Tensor> {
    let copy = match x.known() {
        Some(value) => Tensor::constant(x.device(), value, x.shape(), x.dtype()),
        None => Tensor::make(Op::Copy, &[x], x.shape().into(), x.dtype()),
    };
    Ok(copy.record("clone", &[x], |_| Box::new(|g| Ok(vec![Some(g.clone())]))))
}

/// The dimensions in another order.
pub fn permute(x: &Tensor, dims: &[isize]) -> Result<Tensor> {
    let order = dims.iter().map(|&dim| axis("permute", dim, x.rank())).collect::<Result<Axes>>()?;
    let once = (0..x.rank()).all(|axis| order.contains(&axis));
    if order.len() != x.rank() || !once {
        return Err(TensorError::shape(
            "permute",
            format!("{dims:?} does not name each of the {} dimensions once", x.rank()),
        ));
    }
    Ok(permuted(x, &order))
}

pub(crate) fn permuted(x: &Tensor, order: &[usize]) -> Tensor {
    x.viewed(|layout| layout.permute(order)).record("permute", &[x], |_| {
        let mut back = Axes::from_elem(0, order.len());
        order.iter().enumerate().for_each(|(at, &axis)| back[axis] = at);
        Box::new(move |g| Ok(vec![Some(permuted(g, &back))]))
    })
}

/// Two dimensions exchanged.
pub fn transpose(x: &Tensor, first: isize, second: isize) -> Result<Tensor> {
    let (first, second) = (axis("transpose", first, x.rank())?, axis("transpose", second, x.rank())?);
    let mut order: Axes = (0..x.rank()).collect();
    if x.rank() > 0 {
        order.swap(first, second);
    }
    Ok(permuted(x, &order))
}

/// Removes the given axes of length one, or all of them.
pub fn squeeze(x: &Tensor, dims: Option<&[isize]>) -> Result<Tensor> {
    let named = match dims {
        None => (0..x.rank()).collect(),
        Some(dims) => dims.iter().map(|&dim| axis("squeeze", dim, x.rank())).collect::<Result<Axes>>()?,
    };
    let kept = x.shape().iter().enumerate().filter(|&(axis, &length)| length != 1 || !named.contains(&axis));
    to_shape(x, &kept.map(|(_, &length)| length).collect::<Shape>())
}

/// A dimension of length one inserted.
pub fn unsqueeze(x: &Tensor, dim: isize) -> Result<Tensor> {
    let axis = axis("unsqueeze", dim, x.rank() + 1)?;
    let mut shape = Shape::from(x.shape());
    shape.insert(axis, 1);
    to_shape(x, &shape)
}

/// Merges the axes from `start` to `end` into one.
pub fn flatten(x: &Tensor, start: isize, end: isize) -> Result<Tensor> {
    if x.rank() == 0 {
        return to_shape(x, &[1]);
    }
    let (start, end) = (axis("flatten", start, x.rank())?, axis("flatten", end, x.rank())?);
    if start > end {
        return Err(TensorError::shape("flatten", format!("the start {start} is after the end {end}")));
    }
    let mut shape = Shape::from(&x.shape()[..start]);
    shape.push(x.shape()[start..=end].iter().product());
    shape.extend_from_slice(&x.shape()[end + 1..]);
    to_shape(x, &shape)
}

/// Broadcasts along new leading axes and those of length one; -1 keeps a length.
pub fn expand(x: &Tensor, shape: &[isize]) -> Result<Tensor> {
    let added = shape.len().saturating_sub(x.rank());
    let solved = shape.iter().enumerate().map(|(axis, &length)| match length {
        -1 if axis >= added => Ok(x.shape()[axis - added]),
        0.. => Ok(length as usize),
        _ => Err(TensorError::shape("expand", format!("{length} in {shape:?} is not a valid length"))),
    });
    broadcast_to(x, &solved.collect::<Result<Shape>>()?)
}

/// Dimensions of length one repeated to a shape.
pub fn broadcast_to(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    if x.shape() == shape {
        return Ok(x.clone());
    }
    size_in_bytes("broadcast_to", shape, x.dtype())?;
    if Layout::contiguous(x.shape()).expand(shape).is_none() {
        return Err(TensorError::shape(
            "broadcast_to",
            format!(
                "{:?} does not broadcast to {shape:?}: lengths must be equal or 1, counted from the last",
                x.shape()
            ),
        ));
    }
    let view =
        x.viewed(|layout| layout.expand(shape).unwrap_or_else(|| unreachable!("the layout expanded above")));
    Ok(view.record("expand", &[x], |_| {
        let before = Shape::from(x.shape());
        Box::new(move |g| Ok(vec![Some(sum_to(g, &before)?)]))
    }))
}

/// `x[start:end:step]` along an axis, with Python's rules for bounds.
pub fn slice(x: &Tensor, dim: isize, start: isize, end: isize, step: isize) -> Result<Tensor> {
    if x.rank() == 0 {
        return Err(TensorError::index("slice", "a tensor without dimensions has nothing to slice"));
    }
    if step == 0 {
        return Err(TensorError::shape("slice", "the step must not be zero"));
    }
    let axis = axis("slice", dim, x.rank())?;
    let length = x.shape()[axis] as isize;
    let (lowest, highest) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let inside = |at: isize| if at < 0 { at.saturating_add(length) } else { at }.clamp(lowest, highest);
    let (start, end) = (inside(start), inside(end));
    let count = if step > 0 {
        (end - start).max(0).cast_unsigned().div_ceil(step.unsigned_abs())
    } else {
        (start - end).max(0).cast_unsigned().div_ceil(step.unsigned_abs())
    };
    Ok(sliced(x, axis, start.max(0) as usize, count, step))
}

/// Returns `count` elements along an axis from `start` by `step`.
pub(crate) fn sliced(x: &Tensor, axis: usize, start: usize, count: usize, step: isize) -> Tensor {
    if start == 0 && step == 1 && count == x.shape()[axis] {
        return x.clone();
    }
    x.viewed(|layout| layout.slice(axis, start, count, step)).record("slice", &[x], |_| {
        let length = x.shape()[axis];
        Box::new(move |g| Ok(vec![Some(spread(g, axis, start, step, length)?)]))
    })
}

/// Selects one element of an axis and removes the axis.
pub fn select(x: &Tensor, dim: isize, at: isize) -> Result<Tensor> {
    if x.rank() == 0 {
        return Err(TensorError::index("select", "a tensor without dimensions cannot be indexed"));
    }
    let axis = axis("select", dim, x.rank())?;
    let length = x.shape()[axis] as isize;
    if at < -length || at >= length {
        return Err(TensorError::index(
            "select",
            format!("index {at} is out of bounds for dimension {axis} of {:?}", x.shape()),
        ));
    }
    let one = sliced(x, axis, at.rem_euclid(length) as usize, 1, 1);
    let mut shape = Shape::from(one.shape());
    shape.remove(axis);
    to_shape(&one, &shape)
}

/// Reverses the given axes.
pub fn flip(x: &Tensor, dims: &[isize]) -> Result<Tensor> {
    let mut flipped = x.clone();
    for &dim in dims {
        let axis = axis("flip", dim, x.rank())?;
        let length = x.shape().get(axis).copied().unwrap_or(0);
        if length > 0 {
            flipped = sliced(&flipped, axis, length - 1, length, -1);
        }
    }
    Ok(flipped)
}

/// The inverse of a slice: its elements at their original positions, zeros elsewhere.
fn spread(g: &Tensor, axis: usize, start: usize, step: isize, length: usize) -> Result<Tensor> {
    let count = g.shape()[axis];
    if count == 0 {
        let mut shape = Shape::from(g.shape());
        shape[axis] = length;
        return Ok(Tensor::constant(g.device(), Scalar::Int(0), &shape, g.dtype()));
    }
    let (g, first) = if step < 0 {
        (sliced(g, axis, count - 1, count, -1), start - (count - 1) * step.unsigned_abs())
    } else {
        (g.clone(), start)
    };
    let covered = (count - 1) * step.unsigned_abs() + 1;
    let g = if step.unsigned_abs() == 1 { g } else { dilated(&g, axis, step.unsigned_abs(), covered)? };
    let mut frame = vec![(0, 0); g.rank()];
    frame[axis] = (first as isize, (length - first - covered) as isize);
    pad(&g, &frame, Scalar::Int(0))
}

/// Inserts zeros between neighbours along an axis.
fn dilated(g: &Tensor, axis: usize, step: usize, length: usize) -> Result<Tensor> {
    // A fold with windows of one element each; the axis is moved last and back.
    let mut order: Axes = (0..g.rank()).filter(|&other| other != axis).collect();
    order.push(axis);
    let last = unsqueeze(&permuted(g, &order), -1)?;
    let folded = fold(&last, &[length], &[step], &[1])?;
    let mut back: Axes = (0..g.rank() - 1).collect();
    back.insert(axis, g.rank() - 1);
    Ok(permuted(&folded, &back))
}
