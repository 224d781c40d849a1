//! Vector norms.

use crate::dtype::{Kind, Scalar};
use crate::error::TensorError;
use crate::launch::accumulator;
use crate::ops::axes::axes;
use crate::ops::elementwise::{binary, binary_scalar, cast, div, mul, unary, where_};
use crate::ops::reduce::{finish, max, min, sum_over};
use crate::ops::shape::broadcast_to;
use crate::program::{Binary, Unary};
use crate::tensor::{Result, Tensor};

/// The p-norm: the p-th root of the sum of p-th powers. Zero counts nonzero elements, infinity takes the largest, minus infinity
/// the smallest. Where the norm is zero, its gradient is zero too.
pub fn norm(x: &Tensor, p: f64, dims: Option<&[isize]>, keepdim: bool) -> Result<Tensor> {
    if x.dtype().kind() < Kind::Float {
        return Err(TensorError::type_of(
            "norm",
            format!("it needs a floating point type, not {}", x.dtype()),
        ));
    }
    let dtype = x.dtype().part();
    let precise = cast(x, accumulator(x.dtype()))?;
    if p.is_infinite() {
        let size = unary(Unary::Abs, &precise)?;
        let chosen = if p > 0.0 { max(&size, dims, keepdim)? } else { min(&size, dims, keepdim)? };
        return cast(&chosen, dtype);
    }
    let axes = axes("norm", dims, x.rank())?;
    if p == 0.0 {
        let counted = binary(Binary::Ne, &precise, &precise.filled_like(0.0))?;
        return finish(&sum_over(&cast(&counted, dtype)?, &axes)?, &axes, keepdim);
    }
    let inner = precise.snapshot();
    let size = unary(Unary::Abs, &inner)?;
    let powers = if p == 1.0 { size } else { raised(&size, p)? };
    let sum = sum_over(&powers, &axes)?;
    let length = if p == 1.0 { sum } else { raised(&sum, 1.0 / p)? };
    let length = length.record("norm", &[&precise], |length| {
        let inner = precise.saved();
        Box::new(move |g| {
            let length = broadcast_to(&length, inner.shape())?;
            let g = broadcast_to(g, inner.shape())?;
            // The derivative of |x| is x / |x|; that of the norm is (|x| / norm) to the power of p - 1.
            let slope = if p == 2.0 {
                mul(&cast(&div(&g, &length)?, inner.dtype())?, &inner)?
            } else {
                let unit = sign(&inner)?;
                let share = match p {
                    1.0 => g,
                    _ => mul(&g, &raised(&div(&unary(Unary::Abs, &inner)?, &length)?, p - 1.0)?)?,
                };
                mul(&cast(&share, inner.dtype())?, &unit)?
            };
            let nothing = binary(Binary::Eq, &length, &length.filled_like(0.0))?;
            Ok(vec![Some(where_(&nothing, &slope.filled_like(0.0), &slope)?)])
        })
    });
    finish(&cast(&length, dtype)?, &axes, keepdim)
}

fn raised(x: &Tensor, power: f64) -> Result<Tensor> {
    binary_scalar(Binary::Pow, x, Scalar::Float(power), false)
}

fn sign(x: &Tensor) -> Result<Tensor> {
    if !x.dtype().is_complex() {
        return unary(Unary::Sign, x);
    }
    let size = cast(&unary(Unary::Abs, x)?, x.dtype())?;
    let nothing = binary(Binary::Eq, &size, &size.filled_like(0.0))?;
    where_(&nothing, &x.filled_like(0.0), &div(x, &size)?)
}
