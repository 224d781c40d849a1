//! Activation functions. Rules save one tensor each, where possible one that a launch stores anyway.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use crate::dtype::{DType, Kind, Scalar};
use crate::error::TensorError;
use crate::launch::accumulator;
use crate::ops::create::random;
use crate::ops::elementwise::{
    add, binary, binary_scalar, cast, clamp, div, maximum, minimum, mul, plus, scaled, unary, where_,
};
use crate::program::{Binary, Unary};
use crate::step::Distribution;
use crate::tensor::{Result, Tensor};

/// `max(x, 0)`.
pub fn relu(x: &Tensor) -> Result<Tensor> {
    let y = maximum(&x.snapshot(), &x.filled_like(0.0))?;
    Ok(y.record("relu", &[x], |y| {
        Box::new(move |g| {
            let zero = g.filled_like(0.0);
            Ok(vec![Some(where_(&binary(Binary::Gt, &y, &zero)?, g, &zero)?)])
        })
    }))
}

/// `1 / (1 + exp(-x))`.
pub fn sigmoid(x: &Tensor) -> Result<Tensor> {
    unary(Unary::Sigmoid, x)
}

/// The hyperbolic tangent.
pub fn tanh(x: &Tensor) -> Result<Tensor> {
    unary(Unary::Tanh, x)
}

/// x times the cumulative distribution function of the normal distribution, exact or with the tanh approximation.
pub fn gelu(x: &Tensor, approximate_tanh: bool) -> Result<Tensor> {
    let x = &fraction("gelu", x)?;
    let dtype = x.dtype();
    // Kept in the accumulator type, so that intermediate results are not rounded to half precision.
    let inner = cast(&x.snapshot(), accumulator(dtype))?;
    let share = if approximate_tanh { tanh_cumulative(&inner)?.0 } else { cumulative(&inner)? };
    let y = cast(&mul(&inner, &share)?, dtype)?;
    Ok(y.record("gelu", &[x], |_| {
        let x = x.saved();
        Box::new(move |g| {
            let inner = cast(&x, accumulator(dtype))?;
            let slope = if approximate_tanh {
                let (cumulative, density) = tanh_cumulative(&inner)?;
                add(&cumulative, &mul(&inner, &density)?)?
            } else {
                let square = scaled(&mul(&inner, &inner)?, -0.5)?;
                let density = scaled(&unary(Unary::Exp, &square)?, FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * 0.5)?;
                add(&cumulative(&inner)?, &mul(&inner, &density)?)?
            };
            Ok(vec![Some(cast(&mul(&cast(g, inner.dtype())?, &slope)?, dtype)?)])
        })
    }))
}

fn cumulative(x: &Tensor) -> Result<Tensor> {
    scaled(&plus(&unary(Unary::Erf, &scaled(x, FRAC_1_SQRT_2)?)?, 1.0)?, 0.5)
}

/// Returns the tanh approximation of the cumulative distribution function, and its derivative.
fn tanh_cumulative(x: &Tensor) -> Result<(Tensor, Tensor)> {
    let factor = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
    let square = mul(x, x)?;
    let inner = scaled(&mul(x, &plus(&scaled(&square, 0.044_715)?, 1.0)?)?, factor)?;
    let tanh = unary(Unary::Tanh, &inner)?;
    let slope = scaled(&plus(&scaled(&square, 3.0 * 0.044_715)?, 1.0)?, 0.5 * factor)?;
    let steep = binary_scalar(Binary::Sub, &mul(&tanh, &tanh)?, Scalar::Float(1.0), true)?;
    Ok((scaled(&plus(&tanh, 1.0)?, 0.5)?, mul(&slope, &steep)?))
}

/// x times its sigmoid.
pub fn silu(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_complex() {
        let down = unary(Unary::Exp, &unary(Unary::Neg, x)?)?;
        return div(x, &plus(&down, 1.0)?);
    }
    let x = &fraction("silu", x)?;
    let inner = x.snapshot();
    let y = mul(&inner, &sigmoid(&inner)?)?;
    Ok(y.record("silu", &[x], |_| {
        let inner = x.saved();
        Box::new(move |g| {
            let s = sigmoid(&inner)?;
            let rest = binary_scalar(Binary::Sub, &s, Scalar::Float(1.0), true)?;
            let slope = mul(&s, &plus(&mul(&inner, &rest)?, 1.0)?)?;
            Ok(vec![Some(mul(g, &slope)?)])
        })
    }))
}

/// `x` where it is positive, else `slope * x`.
pub fn leaky_relu(x: &Tensor, slope: f64) -> Result<Tensor> {
    let positive = binary(Binary::Gt, x, &x.filled_like(0.0))?;
    where_(&positive, x, &scaled(x, slope)?)
}

/// `x` where it is positive, else `alpha * (exp(x) - 1)`.
pub fn elu(x: &Tensor, alpha: f64) -> Result<Tensor> {
    let x = &fraction("elu", x)?;
    let zero = x.filled_like(0.0);
    let positive = binary(Binary::Gt, x, &zero)?;
    // Clamp the branch that is not selected: if it overflowed, infinity times zero would put NaN into the gradient.
    let below = scaled(&unary(Unary::Expm1, &minimum(x, &zero)?)?, alpha)?;
    where_(&positive, x, &below)
}

/// The scaled exponential linear unit, with its usual constants.
pub fn selu(x: &Tensor) -> Result<Tensor> {
    scaled(&elu(x, 1.673_263_242_354_377_2)?, 1.050_700_987_355_480_5)
}

/// log(1 + exp(x)), without overflow.
pub fn softplus(x: &Tensor) -> Result<Tensor> {
    let x = &fraction("softplus", x)?;
    binary(Binary::Logaddexp, x, &x.filled_like(0.0))
}

/// `x * tanh(ln(1 + exp(x)))`.
pub fn mish(x: &Tensor) -> Result<Tensor> {
    mul(x, &unary(Unary::Tanh, &softplus(x)?)?)
}

/// `x` limited to `low..=high`.
pub fn hardtanh(x: &Tensor, low: f64, high: f64) -> Result<Tensor> {
    // Integers stay integers; the limits are truncated.
    let limit = |value: f64| match x.dtype().is_integer() {
        true => Scalar::Int(value as i64),
        false => Scalar::Float(value),
    };
    clamp(x, Some(limit(low)), Some(limit(high)))
}

/// Sets a share `p` of the elements to zero and scales the others so that the mean is kept.
pub fn dropout(x: &Tensor, p: f64, seed: u64, offset: u64) -> Result<Tensor> {
    if !(0.0..=1.0).contains(&p) {
        return Err(TensorError::shape("dropout", format!("the probability must be from 0 to 1, not {p}")));
    }
    if p == 0.0 {
        return Ok(x.clone());
    }
    if p == 1.0 {
        return mul(x, &x.filled_like(0.0));
    }
    let chance = random(x.device(), DType::F32, x.shape(), Distribution::Uniform, seed, offset)?;
    let kept = binary(Binary::Ge, &chance, &chance.filled_like(p))?;
    where_(&kept, &scaled(x, 1.0 / (1.0 - p))?, &x.filled_like(0.0))
}

/// Converts integers to float32.
fn fraction(operation: &'static str, x: &Tensor) -> Result<Tensor> {
    match x.dtype().kind() {
        Kind::Complex => Err(TensorError::type_of(operation, "it is not defined for complex numbers")),
        Kind::Float => Ok(x.clone()),
        _ => cast(x, DType::F32),
    }
}
