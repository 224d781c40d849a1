//! Sorting, selection of extremes, and cumulative operations along an axis.

use crate::dtype::{DType, Scalar};
use crate::error::TensorError;
use crate::layout::Shape;
use crate::node::{Inputs, Node, Op};
use crate::ops::axes::axis;
use crate::ops::elementwise::{binary, cast, mul, where_};
use crate::ops::fused;
use crate::ops::index::{picked, put};
use crate::ops::iota::iota;
use crate::ops::reduce::{finish, sum_over};
use crate::ops::shape::{broadcast_to, sliced, to_shape, unsqueeze};
use crate::program::Binary;
use crate::step::{Fused, Work};
use crate::tensor::{Result, Tensor};

/// Returns sorted values and their indices. The sort is stable; NaN comes last.
pub fn sort(x: &Tensor, dim: isize, descending: bool) -> Result<(Tensor, Tensor)> {
    ordered("sort", x)?;
    let axis = axis("sort", dim, x.rank())?;
    if x.rank() == 0 {
        return Ok((x.clone(), Tensor::constant(x.device(), Scalar::Int(0), &[], DType::I64)));
    }
    let shape = Shape::from(x.shape());
    let work = Work::Sort { axis, descending };
    let op = Op::Whole(Box::new(work), vec![(shape.clone(), DType::I64)]);
    let inputs = Inputs::from_iter([x.node()]);
    let whole = Node::new(op, inputs, shape.clone(), x.dtype(), x.device().clone());
    let part =
        Node::new(Op::Part(1), Inputs::from_iter([whole.clone()]), shape, DType::I64, x.device().clone());
    let places = Tensor::of_node(part);
    Ok((placed("sort", x, axis, Tensor::of_node(whole), &places), places))
}

/// Records that values are the elements of `x` at these places along an axis.
fn placed(name: &'static str, x: &Tensor, axis: usize, values: Tensor, places: &Tensor) -> Tensor {
    values.record(name, &[x], |_| {
        let (places, shape) = (places.snapshot(), Shape::from(x.shape()));
        Box::new(move |g| {
            let zeros = Tensor::constant(g.device(), Scalar::Int(0), &shape, g.dtype());
            Ok(vec![Some(put(name, &zeros, axis as isize, &places, g, true)?)])
        })
    })
}

/// The indices that sort along a dimension.
pub fn argsort(x: &Tensor, dim: isize, descending: bool) -> Result<Tensor> {
    Ok(sort(x, dim, descending)?.1)
}

/// Returns the largest or smallest `k`, in order.
pub fn topk(x: &Tensor, k: usize, dim: isize, largest: bool) -> Result<(Tensor, Tensor)> {
    let axis = axis("topk", dim, x.rank())?;
    let length = x.shape().get(axis).copied().unwrap_or(1);
    if k > length {
        return Err(TensorError::shape(
            "topk",
            format!("k is {k}, but dimension {axis} of {:?} has {length} elements", x.shape()),
        ));
    }
    ordered("topk", x)?;
    if x.rank() > 0
        && let Some(work) = fused::supported(Fused::TopK { axis, descending: largest }, &[x])
    {
        let mut shape = Shape::from(x.shape());
        shape[axis] = k;
        let (values, places) = fused::pair(work, &[x], (&shape, x.dtype()), (&shape, DType::I64));
        return Ok((placed("topk", x, axis, values, &places), places));
    }
    let (values, places) = sort(x, dim, largest)?;
    if x.rank() == 0 {
        return Ok((values, places));
    }
    Ok((sliced(&values, axis, 0, k, 1), sliced(&places, axis, 0, k, 1)))
}

/// Returns the index of the maximum, the first of equals; over all elements if no axis is given.
pub fn argmax(x: &Tensor, dim: Option<isize>, keepdim: bool) -> Result<Tensor> {
    place("argmax", x, dim, keepdim, true)
}

/// The index of the minimum along a dimension, or of all elements.
pub fn argmin(x: &Tensor, dim: Option<isize>, keepdim: bool) -> Result<Tensor> {
    place("argmin", x, dim, keepdim, false)
}

fn place(name: &'static str, x: &Tensor, dim: Option<isize>, keepdim: bool, largest: bool) -> Result<Tensor> {
    ordered(name, x)?;
    let Some(dim) = dim else {
        let flat = place(name, &to_shape(x, &[x.elements()])?, Some(0), false, largest)?;
        let rank = if keepdim { x.rank() } else { 0 };
        return to_shape(&flat, &Shape::from_elem(1, rank));
    };
    let axis = axis(name, dim, x.rank())?;
    if x.rank() == 0 {
        return Ok(Tensor::constant(x.device(), Scalar::Int(0), &[], DType::I64));
    }
    if x.shape()[axis] == 0 {
        return Err(TensorError::shape(name, format!("{:?} has no elements to choose from", x.shape())));
    }
    let x = if x.dtype() == DType::Bool { cast(x, DType::U8)? } else { x.clone() };
    let mut shape = Shape::from(x.shape());
    shape[axis] = 1;
    let op = Op::Whole(Box::new(Work::ArgReduce { largest, axis }), Vec::new());
    finish(&Tensor::make(op, &[&x], shape, DType::I64), &[axis], keepdim)
}

/// Returns the maximum along an axis and its index; the gradient goes to that element.
pub fn max_with_indices(x: &Tensor, dim: isize, keepdim: bool) -> Result<(Tensor, Tensor)> {
    chosen(x, dim, keepdim, true)
}

/// The minimum along a dimension, and its index.
pub fn min_with_indices(x: &Tensor, dim: isize, keepdim: bool) -> Result<(Tensor, Tensor)> {
    chosen(x, dim, keepdim, false)
}

fn chosen(x: &Tensor, dim: isize, keepdim: bool, largest: bool) -> Result<(Tensor, Tensor)> {
    let name = if largest { "max" } else { "min" };
    let axis = axis(name, dim, x.rank())?;
    let places = place(name, x, Some(dim), true, largest)?;
    let values = picked(x, dim, &places)?;
    if x.rank() == 0 {
        return Ok((values, places));
    }
    Ok((finish(&values, &[axis], keepdim)?, finish(&places, &[axis], keepdim)?))
}

/// The sums of the elements up to each one along a dimension.
pub fn cumsum(x: &Tensor, dim: isize) -> Result<Tensor> {
    cumulative("cumsum", x, dim, false)
}

/// The products of the elements up to each one along a dimension.
pub fn cumprod(x: &Tensor, dim: isize) -> Result<Tensor> {
    cumulative("cumprod", x, dim, true)
}

fn cumulative(name: &'static str, x: &Tensor, dim: isize, product: bool) -> Result<Tensor> {
    let axis = axis(name, dim, x.rank())?;
    let x =
        &if x.dtype().is_integer() || x.dtype() == DType::Bool { cast(x, DType::I64)? } else { x.clone() };
    if x.rank() == 0 {
        return Ok(x.clone());
    }
    let op = Op::Whole(Box::new(Work::Cumulative { axis, product }), Vec::new());
    let y = Tensor::make(op, &[x], x.shape().into(), x.dtype());
    Ok(y.record(name, &[x], |_| {
        let x = x.saved();
        Box::new(move |g| {
            let of_x = if product { cumprod_gradient(&x, axis, g)? } else { from_behind(g, axis)? };
            Ok(vec![Some(of_x)])
        })
    }))
}

/// Reversed cumulative sum: sums of everything from each position to the end.
fn from_behind(g: &Tensor, axis: usize) -> Result<Tensor> {
    let length = g.shape()[axis];
    if length == 0 {
        return Ok(g.clone());
    }
    let turned = cumsum(&sliced(g, axis, length - 1, length, -1), axis as isize)?;
    Ok(sliced(&turned, axis, length - 1, length, -1))
}

/// Multiplies without each element in turn instead of dividing, so that zeros work; needs a square matrix per line.
fn cumprod_gradient(x: &Tensor, axis: usize, g: &Tensor) -> Result<Tensor> {
    let length = x.shape()[axis];
    let mut square = Shape::from(x.shape());
    square.insert(axis, length);
    let each = broadcast_to(&unsqueeze(x, axis as isize)?, &square)?;
    let without = iota(x.device(), &square, axis)?;
    let at = iota(x.device(), &square, axis + 1)?;
    let rest = where_(&binary(Binary::Eq, &without, &at)?, &each.filled_like(1.0), &each)?;
    let products = cumprod(&rest, axis as isize + 1)?;
    let g = broadcast_to(&unsqueeze(g, axis as isize)?, &square)?;
    let reached = binary(Binary::Ge, &at, &without)?;
    let shares = where_(&reached, &mul(&g, &products)?, &g.filled_like(0.0))?;
    finish(&sum_over(&shares, &[axis + 1])?, &[axis + 1], false)
}

fn ordered(operation: &'static str, x: &Tensor) -> Result<()> {
    if x.dtype().is_complex() {
        return Err(TensorError::type_of(operation, "complex numbers have no order"));
    }
    Ok(())
}
