//! Reductions over axes.

use crate::dtype::{DType, Kind, Scalar};
use crate::error::TensorError;
use crate::launch::accumulator;
use crate::layout::Shape;
use crate::node::Op;
use crate::ops::axes::{Axes, axes};
use crate::ops::elementwise::{binary, binary_scalar, cast, div, mul, where_};
use crate::ops::shape::{broadcast_to, to_shape};
use crate::program::Binary;
use crate::step::Reduction;
use crate::tensor::{Result, Tensor};

/// Sum over axes. Integers and bools are summed as i64.
pub fn sum(x: &Tensor, dims: Option<&[isize]>, keepdim: bool) -> Result<Tensor> {
    let axes = axes("sum", dims, x.rank())?;
    finish(&sum_over(&counted(x)?, &axes)?, &axes, keepdim)
}

/// The mean over dimensions, or over all.
pub fn mean(x: &Tensor, dims: Option<&[isize]>, keepdim: bool) -> Result<Tensor> {
    if x.dtype().kind() < Kind::Float {
        return Err(TensorError::type_of(
            "mean",
            format!("the mean of {} is not {0}; cast to a floating point type first", x.dtype()),
        ));
    }
    let axes = axes("mean", dims, x.rank())?;
    let count = count(x, &axes);
    // A sum of half floats may exceed the largest of them where the mean does not, so only the mean is rounded.
    let sum = sum_over(&cast(x, accumulator(x.dtype()))?, &axes)?;
    let mean = binary_scalar(Binary::Div, &sum, Scalar::Float(count as f64), false)?;
    finish(&cast(&mean, x.dtype())?, &axes, keepdim)
}

/// The product over dimensions, or over all.
pub fn prod(x: &Tensor, dims: Option<&[isize]>, keepdim: bool) -> Result<Tensor> {
    let axes = axes("prod", dims, x.rank())?;
    finish(&product_over(&counted(x)?, &axes), &axes, keepdim)
}

/// Products over axes, which are kept with length one.
fn product_over(x: &Tensor, axes: &[usize]) -> Tensor {
    reduced(x, Reduction::Product, axes, x.dtype()).record("prod", &[x], |_| {
        let (x, axes) = (x.saved(), Axes::from(axes));
        Box::new(move |g| Ok(vec![Some(prod_gradient(&x, &axes, g)?)]))
    })
}

/// The maximum; NaN if any element is. Equal maxima share the gradient.
pub fn max(x: &Tensor, dims: Option<&[isize]>, keepdim: bool) -> Result<Tensor> {
    extreme("max", Reduction::Max, x, dims, keepdim)
}

/// The minimum over dimensions, or over all.
pub fn min(x: &Tensor, dims: Option<&[isize]>, keepdim: bool) -> Result<Tensor> {
    extreme("min", Reduction::Min, x, dims, keepdim)
}

/// Whether any element over dimensions, or over all, is not zero.
pub fn any(x: &Tensor, dims: Option<&[isize]>, keepdim: bool) -> Result<Tensor> {
    let axes = axes("any", dims, x.rank())?;
    finish(&reduced(&cast(x, DType::Bool)?, Reduction::Any, &axes, DType::Bool), &axes, keepdim)
}

/// Whether all elements over dimensions, or over all, are not zero.
pub fn all(x: &Tensor, dims: Option<&[isize]>, keepdim: bool) -> Result<Tensor> {
    let axes = axes("all", dims, x.rank())?;
    finish(&reduced(&cast(x, DType::Bool)?, Reduction::All, &axes, DType::Bool), &axes, keepdim)
}

fn extreme(
    name: &'static str,
    reduction: Reduction,
    x: &Tensor,
    dims: Option<&[isize]>,
    keepdim: bool,
) -> Result<Tensor> {
    if x.dtype().is_complex() {
        return Err(TensorError::type_of(name, "complex numbers have no order"));
    }
    let axes = axes(name, dims, x.rank())?;
    if count(x, &axes) == 0 {
        return Err(TensorError::shape(name, format!("{:?} has no elements to choose from", x.shape())));
    }
    if x.dtype() == DType::Bool {
        let reduction = if reduction == Reduction::Max { Reduction::Any } else { Reduction::All };
        return finish(&reduced(x, reduction, &axes, DType::Bool), &axes, keepdim);
    }
    let best = reduced(x, reduction, &axes, x.dtype()).record(name, &[x], |best| {
        let (x, axes) = (x.snapshot(), axes.clone());
        Box::new(move |g| {
            let chosen = binary(Binary::Eq, &x, &broadcast_to(&best, x.shape())?)?;
            let share = div(g, &sum_over(&cast(&chosen, g.dtype())?, &axes)?)?;
            let share = broadcast_to(&share, x.shape())?;
            Ok(vec![Some(where_(&chosen, &share, &share.filled_like(0.0))?)])
        })
    });
    finish(&best, &axes, keepdim)
}

/// The gradient times the product of all other elements, which is recomputed for each element instead of divided, so that zeros
/// work.
fn prod_gradient(x: &Tensor, axes: &[usize], g: &Tensor) -> Result<Tensor> {
    let shape = x.shape();
    let mut order: Axes = (0..x.rank()).filter(|axis| !axes.contains(axis)).collect();
    order.extend_from_slice(axes);
    let moved = crate::ops::shape::permuted(x, &order);
    let kept: Shape = order[..x.rank() - axes.len()].iter().map(|&axis| shape[axis]).collect();
    let length = count(x, axes);
    let mut square = kept.clone();
    square.push(length);
    let flat = to_shape(&moved, &square)?;
    square.push(length);
    let rank = square.len();
    let mut row = Shape::from(flat.shape());
    row.insert(rank - 2, 1);
    let each = broadcast_to(&to_shape(&flat, &row)?, &square)?;
    let iota = |axis| crate::ops::iota::iota(x.device(), &square, axis);
    let same = binary(Binary::Eq, &iota(rank - 2)?, &iota(rank - 1)?)?;
    let others = where_(&same, &each.filled_like(1.0), &each)?;
    let others = product_over(&others, &[rank - 1]);
    let permuted_shape: Shape = order.iter().map(|&axis| shape[axis]).collect();
    let others = to_shape(&others, &permuted_shape)?;
    let mut back = Axes::from_elem(0, order.len());
    order.iter().enumerate().for_each(|(at, &axis)| back[axis] = at);
    let others = crate::ops::shape::permuted(&others, &back);
    mul(&others, &broadcast_to(g, x.shape())?)
}

/// Sums over axes, which are kept with length one.
pub(crate) fn sum_over(x: &Tensor, axes: &[usize]) -> Result<Tensor> {
    if axes.iter().all(|&axis| x.shape()[axis] == 1) {
        return Ok(x.clone());
    }
    Ok(reduced(x, Reduction::Sum, axes, x.dtype()).record("sum", &[x], |_| {
        let before = Shape::from(x.shape());
        Box::new(move |g| Ok(vec![Some(broadcast_to(g, &before)?)]))
    }))
}

/// Sums over broadcast axes, back to the original shape.
pub(crate) fn sum_to(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    if x.shape() == shape {
        return Ok(x.clone());
    }
    let added = x.rank() - shape.len();
    let axes: Axes = (0..x.rank())
        .filter(|&axis| axis < added || (shape[axis - added] == 1 && x.shape()[axis] != 1))
        .collect();
    to_shape(&sum_over(x, &axes)?, shape)
}

/// The number of elements that are reduced to one.
pub(crate) fn count(x: &Tensor, axes: &[usize]) -> usize {
    axes.iter().map(|&axis| x.shape()[axis]).product()
}

/// Creates the node, without autograd history.
pub(crate) fn reduced(x: &Tensor, reduction: Reduction, axes: &[usize], dtype: DType) -> Tensor {
    let mut shape = Shape::from(x.shape());
    axes.iter().for_each(|&axis| shape[axis] = 1);
    if let Some(value) = x.known() {
        let times = count(x, axes) as f64;
        let folded = match reduction {
            _ if times == 0.0 => None,
            Reduction::Sum if dtype.is_float() => Some(Scalar::Float(value.to_f64() * times)),
            Reduction::Max | Reduction::Min | Reduction::Any | Reduction::All => Some(value),
            _ => None,
        };
        if let Some(folded) = folded.filter(|_| !dtype.is_complex()) {
            return Tensor::constant(x.device(), folded, &shape, dtype);
        }
    }
    Tensor::make(Op::Reduce { reduction, axes: axes.into() }, &[x], shape, dtype)
}

/// Removes the reduced axes unless `keepdim` is set.
pub(crate) fn finish(x: &Tensor, axes: &[usize], keepdim: bool) -> Result<Tensor> {
    if keepdim {
        return Ok(x.clone());
    }
    let kept = x.shape().iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
    to_shape(x, &kept.map(|(_, &length)| length).collect::<Shape>())
}

fn counted(x: &Tensor) -> Result<Tensor> {
    match x.dtype().kind() {
        Kind::Bool | Kind::Signed | Kind::Unsigned => cast(x, DType::I64),
        Kind::Float | Kind::Complex => Ok(x.clone()),
    }
}
