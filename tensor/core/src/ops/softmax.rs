//! Softmax, log-softmax and logsumexp.

use crate::dtype::DType;
use crate::error::TensorError;
use crate::launch::accumulator;
use crate::node::Op;
use crate::ops::axes::axis;
use crate::ops::elementwise::{mul, sub, unary};
use crate::ops::reduce::sum_over;
use crate::ops::shape::to_shape;
use crate::program::Unary;
use crate::step::Work;
use crate::tensor::{Result, Tensor};

/// `exp(x)` divided by its sum along a dimension.
pub fn softmax(x: &Tensor, dim: isize) -> Result<Tensor> {
    along("softmax", x, dim, false)
}

/// The logarithm of [`softmax`].
pub fn log_softmax(x: &Tensor, dim: isize) -> Result<Tensor> {
    along("log_softmax", x, dim, true)
}

fn along(name: &'static str, x: &Tensor, dim: isize, log: bool) -> Result<Tensor> {
    if !x.dtype().is_float() {
        return Err(TensorError::type_of(
            name,
            format!("it needs a floating point type, not {}; cast first", x.dtype()),
        ));
    }
    let axis = axis(name, dim, x.rank())?;
    if x.rank() == 0 {
        return to_shape(&along(name, &to_shape(x, &[1])?, 0, log)?, &[]);
    }
    let op = Op::Whole(Box::new(Work::Softmax { axis, log }), Vec::new());
    let y = Tensor::make(op, &[x], x.shape().into(), x.dtype());
    Ok(y.record(name, &[x], |y| {
        Box::new(move |g| {
            Ok(vec![Some(if log {
                sub(g, &mul(&unary(Unary::Exp, &y)?, &sum_over(g, &[axis])?)?)?
            } else {
                mul(&y, &sub(g, &sum_over(&mul(g, &y)?, &[axis])?)?)?
            })])
        })
    }))
}

/// The logarithm of a sum of exponentials, without overflow.
pub fn logsumexp(x: &Tensor, dims: Option<&[isize]>, keepdim: bool) -> Result<Tensor> {
    let x = &if x.dtype().is_float() { x.clone() } else { x.cast(DType::F32)? };
    // A sum of half floats may exceed the largest of them where its logarithm does not.
    let (dtype, x) = (x.dtype(), &x.cast(accumulator(x.dtype()))?);
    let axes = crate::ops::axes::axes("logsumexp", dims, x.rank())?;
    let largest = crate::ops::reduce::max(&x.snapshot(), dims, true)?;
    let infinite = unary(Unary::IsInf, &largest)?;
    let shift = crate::ops::elementwise::where_(&infinite, &largest.filled_like(0.0), &largest)?;
    let sum = sum_over(&unary(Unary::Exp, &sub(x, &shift)?)?, &axes)?;
    let result = crate::ops::elementwise::add(&unary(Unary::Log, &sum)?, &shift)?;
    crate::ops::reduce::finish(&result.cast(dtype)?, &axes, keepdim)
}
