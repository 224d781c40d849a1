//! Derivatives of the unary and binary elementwise functions.

use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LN_10};

use crate::autograd::Rule;
use crate::dtype::Scalar;
use crate::ops::elementwise::{
    add, binary as apply, binary_scalar, cast, conjugate, div, mul, plus, scaled, sub, unary as function_of,
    where_,
};
use crate::program::{Binary, Unary};
use crate::tensor::{Result, Tensor};

/// The rule of `y = function(x)`. It saves x or y, whichever the derivative is computed from.
pub(crate) fn unary(function: Unary, x: &Tensor, y: Tensor) -> Rule {
    use Unary::*;
    match function {
        Neg => Box::new(|g| one(function_of(Neg, g))),
        Conj => Box::new(|g| one(function_of(Conj, g))),
        Real => {
            let dtype = x.dtype();
            Box::new(move |g| one(cast(g, dtype)))
        }
        Imag if !x.dtype().is_complex() => Box::new(|g| one(Ok(g.filled_like(0.0)))),
        Imag => Box::new(|g| one(apply(Binary::Complex, &g.filled_like(0.0), g))),
        Sign | Not | BitNot | Floor | Ceil | Trunc | Round | IsNan | IsInf => {
            let dtype = x.dtype();
            Box::new(move |g| one(cast(&g.filled_like(0.0), dtype)))
        }
        Sqrt | Rsqrt | Recip | Exp | Exp2 | Expm1 | Tan | Tanh | Sigmoid => {
            Box::new(move |g| one(mul(g, &conjugate(&by_result(function, &y)?)?)))
        }
        Abs if x.dtype().is_complex() => {
            let x = x.saved();
            Box::new(move |g| {
                let unit = div(&x, &cast(&y, x.dtype())?)?;
                let zero = apply(Binary::Eq, &y, &y.filled_like(0.0))?;
                one(where_(&zero, &x.filled_like(0.0), &mul(&cast(g, x.dtype())?, &unit)?))
            })
        }
        _ => {
            let x = x.saved();
            Box::new(move |g| one(mul(g, &conjugate(&by_argument(function, &x)?)?)))
        }
    }
}

fn one(gradient: Result<Tensor>) -> Result<Vec<Option<Tensor>>> {
    Ok(vec![Some(gradient?)])
}

fn square(x: &Tensor) -> Result<Tensor> {
    mul(x, x)
}

/// `number - x`.
fn less(number: f64, x: &Tensor) -> Result<Tensor> {
    binary_scalar(Binary::Sub, x, Scalar::Float(number), true)
}

/// The derivative as a function of the result.
fn by_result(function: Unary, y: &Tensor) -> Result<Tensor> {
    use Unary::*;
    match function {
        Sqrt => binary_scalar(Binary::Div, y, Scalar::Float(0.5), true),
        Rsqrt => scaled(&mul(y, &square(y)?)?, -0.5),
        Recip => function_of(Neg, &square(y)?),
        Exp => Ok(y.clone()),
        Exp2 => scaled(y, LN_2),
        Expm1 => plus(y, 1.0),
        Tan => plus(&square(y)?, 1.0),
        Tanh => less(1.0, &square(y)?),
        _ => mul(y, &less(1.0, y)?),
    }
}

/// The derivative as a function of the argument.
fn by_argument(function: Unary, x: &Tensor) -> Result<Tensor> {
    use Unary::*;
    match function {
        Abs => function_of(Sign, x),
        Log => function_of(Recip, x),
        Log2 => function_of(Recip, &scaled(x, LN_2)?),
        Log10 => function_of(Recip, &scaled(x, LN_10)?),
        Log1p => function_of(Recip, &plus(x, 1.0)?),
        Sin => function_of(Cos, x),
        Cos => function_of(Neg, &function_of(Sin, x)?),
        Asin => function_of(Rsqrt, &less(1.0, &square(x)?)?),
        Acos => function_of(Neg, &function_of(Rsqrt, &less(1.0, &square(x)?)?)?),
        Atan => function_of(Recip, &plus(&square(x)?, 1.0)?),
        Sinh => function_of(Cosh, x),
        Cosh => function_of(Sinh, x),
        Asinh => function_of(Rsqrt, &plus(&square(x)?, 1.0)?),
        Acosh => function_of(Rsqrt, &plus(&square(x)?, -1.0)?),
        Atanh => function_of(Recip, &less(1.0, &square(x)?)?),
        Erf => scaled(&function_of(Exp, &function_of(Neg, &square(x)?)?)?, FRAC_2_SQRT_PI),
        _ => Ok(x.filled_like(0.0)),
    }
}

/// The rule of `y = function(a, b)`, all of one shape.
pub(crate) fn binary(function: Binary, a: &Tensor, b: &Tensor, y: Tensor) -> Rule {
    use Binary::*;
    match function {
        Add => Box::new(|g| Ok(vec![Some(g.clone()), Some(g.clone())])),
        Sub => Box::new(|g| Ok(vec![Some(g.clone()), Some(function_of(Unary::Neg, g)?)])),
        Mul => {
            // Each operand is only saved if the other one requires a gradient.
            let keep = |wanted: &Tensor, kept: &Tensor| wanted.requires_grad().then(|| kept.saved());
            let (a, b) = (keep(b, a), keep(a, b));
            let times = |g: &Tensor, other: &Option<Tensor>| {
                other.as_ref().map(|other| mul(g, &conjugate(other)?)).transpose()
            };
            Box::new(move |g| Ok(vec![times(g, &b)?, times(g, &a)?]))
        }
        Div => {
            let b_wants = b.requires_grad();
            let b = b.saved();
            let y = b_wants.then_some(y);
            Box::new(move |g| {
                let of_a = div(g, &conjugate(&b)?)?;
                let of_b = match &y {
                    Some(y) => Some(function_of(Unary::Neg, &mul(&of_a, &conjugate(y)?)?)?),
                    None => None,
                };
                Ok(vec![Some(of_a), of_b])
            })
        }
        _ => {
            let (a, b) = (a.saved(), b.saved());
            Box::new(move |g| {
                Ok(match derivatives(function, &a, &b, &y)? {
                    Some((of_a, of_b)) => {
                        vec![Some(mul(g, &conjugate(&of_a)?)?), Some(mul(g, &conjugate(&of_b)?)?)]
                    }
                    None if function == Complex => {
                        vec![Some(function_of(Unary::Real, g)?), Some(function_of(Unary::Imag, g)?)]
                    }
                    None => vec![Some(a.filled_like(0.0)), Some(b.filled_like(0.0))],
                })
            })
        }
    }
}

/// The derivatives with respect to both arguments; `None` if the function has none.
fn derivatives(function: Binary, a: &Tensor, b: &Tensor, y: &Tensor) -> Result<Option<(Tensor, Tensor)>> {
    use Binary::*;
    let pair = match function {
        Pow => {
            let zero = a.filled_like(0.0);
            let of_a = mul(b, &apply(Pow, a, &plus(b, -1.0)?)?)?;
            // x^0 does not depend on x; 0^b does not depend on b where it is defined.
            let of_a = where_(&apply(Eq, b, &zero)?, &zero, &of_a)?;
            let of_b = mul(y, &function_of(Unary::Log, a)?)?;
            let nothing = apply(And, &apply(Eq, a, &zero)?, &apply(Ge, &real(b)?, &real(&zero)?)?)?;
            (of_a, where_(&nothing, &zero, &of_b)?)
        }
        Max | Min => {
            let first = if function == Max { Gt } else { Lt };
            // Equal operands get half each.
            let half = scaled(&cast(&apply(Eq, a, b)?, a.dtype())?, 0.5)?;
            let of_a = add(&cast(&apply(first, a, b)?, a.dtype())?, &half)?;
            let of_b = add(&cast(&apply(first, b, a)?, a.dtype())?, &half)?;
            (of_a, of_b)
        }
        Atan2 => {
            let length = add(&square(a)?, &square(b)?)?;
            (div(b, &length)?, function_of(Unary::Neg, &div(a, &length)?)?)
        }
        Hypot => (div(a, y)?, div(b, y)?),
        Logaddexp => (function_of(Unary::Exp, &sub(a, y)?)?, function_of(Unary::Exp, &sub(b, y)?)?),
        Rem => {
            let times = function_of(Unary::Floor, &div(a, b)?)?;
            (a.filled_like(1.0), function_of(Unary::Neg, &times)?)
        }
        Copysign => {
            let flipped = mul(&function_of(Unary::Sign, a)?, &function_of(Unary::Sign, y)?)?;
            (flipped, b.filled_like(0.0))
        }
        _ => return Ok(None),
    };
    Ok(Some(pair))
}

fn real(x: &Tensor) -> Result<Tensor> {
    function_of(Unary::Real, x)
}
