//! Elementwise operations.

use crate::dtype::{DType, Kind, Scalar};
use crate::error::TensorError;
use crate::node::Op;
use crate::ops::axes::broadcast;
use crate::ops::gradients;
use crate::ops::shape::broadcast_to;
use crate::program::{Binary, Unary};
use crate::tensor::{Result, Tensor, same_device};

/// Converts to another type; returns the tensor itself if it already has it.
pub fn cast(x: &Tensor, dtype: DType) -> Result<Tensor> {
    if x.dtype() == dtype {
        return Ok(x.clone());
    }
    if let Some(value) = x.known()
        && (dtype.kind() >= x.dtype().kind() && dtype.bytes() >= x.dtype().bytes())
        && !x.requires_grad()
    {
        return Ok(Tensor::constant(x.device(), value, x.shape(), dtype));
    }
    let made = Tensor::make(Op::Cast, &[x], x.shape().into(), dtype);
    Ok(made.record("cast", &[x], |_| {
        let before = x.dtype();
        Box::new(move |g| Ok(vec![Some(cast(g, before)?)]))
    }))
}

/// Applies a unary function. Functions with fractional results convert integers to float32.
pub fn unary(function: Unary, x: &Tensor) -> Result<Tensor> {
    use Unary::*;
    let kind = x.dtype().kind();
    let refuse =
        |why: &str| Err(TensorError::type_of("unary", format!("{function:?} of {}: {why}", x.dtype())));
    let (x, dtype) = match function {
        Not => (cast(x, DType::Bool)?, DType::Bool),
        BitNot if kind == Kind::Bool => (x.clone(), DType::Bool),
        BitNot if kind < Kind::Float => (x.clone(), x.dtype()),
        BitNot => return refuse("only integers and bools have bits"),
        Neg if kind == Kind::Bool => return refuse("use logical_not"),
        Abs if kind == Kind::Complex => (x.clone(), x.dtype().part()),
        Neg | Abs | Sign => (x.clone(), x.dtype()),
        Floor | Ceil | Trunc | Round if kind < Kind::Float => return Ok(x.clone()),
        Round if kind == Kind::Complex => {
            let part = |part| unary(Round, &unary(part, x)?);
            return binary(Binary::Complex, &part(Real)?, &part(Imag)?);
        }
        Floor | Ceil | Trunc if kind == Kind::Complex => {
            return refuse("complex numbers have no order");
        }
        Floor | Ceil | Trunc | Round => (x.clone(), x.dtype()),
        IsNan | IsInf if kind < Kind::Float => {
            return Ok(Tensor::constant(x.device(), Scalar::Bool(false), x.shape(), DType::Bool));
        }
        IsNan | IsInf => (x.clone(), DType::Bool),
        Real | Conj if kind != Kind::Complex => return Ok(x.clone()),
        Imag if kind != Kind::Complex => return Ok(x.filled_like(0.0)),
        Real | Imag => (x.clone(), x.dtype().part()),
        Conj => (x.clone(), x.dtype()),
        _ if kind < Kind::Float => (cast(x, DType::F32)?, DType::F32),
        _ => (x.clone(), x.dtype()),
    };
    let function = if function == BitNot && x.dtype() == DType::Bool { Not } else { function };
    let made = Tensor::make(Op::Unary(function), &[&x], x.shape().into(), dtype);
    Ok(made.record("unary", &[&x], |y| gradients::unary(function, &x, y)))
}

/// Applies a binary function to two broadcast tensors, in the type that both promote to.
pub fn binary(function: Binary, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let name = name(function);
    same_device(name, a, b)?;
    // Fast path for the most common case.
    let plain = matches!(function, Binary::Add | Binary::Sub | Binary::Mul | Binary::Div);
    if plain && a.dtype() == b.dtype() && a.dtype().is_float() && a.shape() == b.shape() {
        let made = Tensor::make(Op::Binary(function), &[a, b], a.shape().into(), a.dtype());
        return Ok(made.record(name, &[a, b], |y| gradients::binary(function, a, b, y)));
    }
    let shape = broadcast(name, a.shape(), b.shape())?;
    binary_of(function, &broadcast_to(a, &shape)?, &broadcast_to(b, &shape)?, result_type(a, b))
}

/// Applies a binary function to a tensor and a scalar. The scalar changes the tensor's type only if it is of a higher kind.
/// `reflected`: the scalar is on the left.
pub fn binary_scalar(function: Binary, x: &Tensor, number: Scalar, reflected: bool) -> Result<Tensor> {
    let dtype = type_with_scalar(x.dtype(), number);
    // Squares and square roots use the exact and faster operations.
    if function == Binary::Pow && !reflected && dtype == x.dtype() && dtype != DType::Bool {
        match number {
            Scalar::Int(2) | Scalar::Float(2.0) => return binary_of(Binary::Mul, x, x, dtype),
            Scalar::Float(0.5) if dtype.is_float() => return unary(Unary::Sqrt, x),
            _ => {}
        }
    }
    let number = Tensor::constant(x.device(), number, x.shape(), dtype);
    let (a, b) = if reflected { (&number, x) } else { (x, &number) };
    binary_of(function, a, b, dtype)
}

/// Returns the type of an operation between a tensor and a Python scalar.
pub fn type_with_scalar(dtype: DType, number: Scalar) -> DType {
    match number {
        Scalar::Bool(_) => dtype,
        Scalar::Int(_) | Scalar::UInt(_) if dtype == DType::Bool => DType::I64,
        Scalar::Int(_) | Scalar::UInt(_) => dtype,
        Scalar::Float(_) if dtype.kind() < Kind::Float => DType::F32,
        Scalar::Float(_) => dtype,
        Scalar::Complex(..) => dtype.with_imaginary(),
    }
}

/// Returns the type of an operation between two tensors. A 0-dimensional tensor only counts if it is of a higher kind.
pub fn result_type(a: &Tensor, b: &Tensor) -> DType {
    let rank = |kind: Kind| match kind {
        Kind::Bool => 0,
        Kind::Unsigned | Kind::Signed => 1,
        Kind::Float => 2,
        Kind::Complex => 3,
    };
    let (ka, kb) = (rank(a.dtype().kind()), rank(b.dtype().kind()));
    match (a.rank(), b.rank()) {
        (1.., 0) if ka >= kb => a.dtype(),
        (0, 1..) if kb >= ka => b.dtype(),
        (1.., 0) | (0, 1..) => {
            let (low, high) = if ka > kb { (b.dtype(), a.dtype()) } else { (a.dtype(), b.dtype()) };
            // The parts keep the precision of the tensor with dimensions.
            if high.is_complex() && low.is_float() { low.with_imaginary() } else { high }
        }
        _ => a.dtype().promote(b.dtype()),
    }
}

/// Applies a binary function to tensors of one shape.
fn binary_of(function: Binary, a: &Tensor, b: &Tensor, dtype: DType) -> Result<Tensor> {
    use Binary::*;
    let refuse = |why: &str| {
        Err(TensorError::type_of(name(function), format!("{} and {}: {why}", a.dtype(), b.dtype())))
    };
    let kind = dtype.kind();
    let (function, computed) = match function {
        Div if kind < Kind::Float => (Div, DType::F32),
        Atan2 | Hypot | Copysign | Nextafter | Logaddexp if kind < Kind::Float => (function, DType::F32),
        And | Or | Xor if kind >= Kind::Float => return refuse("only integers and bools have bits"),
        Shl | Shr if !dtype.is_integer() => return refuse("only integers can be shifted"),
        Max | Min | Rem | FloorDiv | Lt | Le | Gt | Ge | Atan2 | Hypot | Copysign | Nextafter | Logaddexp
            if kind == Kind::Complex =>
        {
            return refuse("complex numbers have no order");
        }
        Add | Max if kind == Kind::Bool => (Or, dtype),
        Mul | Min if kind == Kind::Bool => (And, dtype),
        Sub if kind == Kind::Bool => return refuse("bools cannot be subtracted; use ^ or logical_not"),
        FloorDiv | Rem | Pow if kind == Kind::Bool => (function, DType::U8),
        Complex => (Complex, if dtype == DType::F64 { dtype } else { DType::F32 }),
        other => (other, dtype),
    };
    let (a, b) = (cast(a, computed)?, cast(b, computed)?);
    let result = match function {
        Complex => computed.with_imaginary(),
        _ if function.compares() => DType::Bool,
        _ => computed,
    };
    let made = Tensor::make(Op::Binary(function), &[&a, &b], a.shape().into(), result);
    Ok(made.record(name(function), &[&a, &b], |y| gradients::binary(function, &a, &b, y)))
}

/// Selects `yes` where `condition` is true, else `no`.
pub fn where_(condition: &Tensor, yes: &Tensor, no: &Tensor) -> Result<Tensor> {
    same_device("where", condition, yes)?;
    same_device("where", condition, no)?;
    let shape = broadcast("where", &broadcast("where", condition.shape(), yes.shape())?, no.shape())?;
    let dtype = result_type(yes, no);
    let condition = broadcast_to(&cast(condition, DType::Bool)?, &shape)?;
    let yes = broadcast_to(&cast(yes, dtype)?, &shape)?;
    let no = broadcast_to(&cast(no, dtype)?, &shape)?;
    let made = Tensor::make(Op::Select, &[&condition, &yes, &no], shape, dtype);
    Ok(made.record("where", &[&condition, &yes, &no], |_| {
        let condition = condition.snapshot();
        Box::new(move |g| {
            let zero = g.filled_like(0.0);
            Ok(vec![None, Some(where_(&condition, g, &zero)?), Some(where_(&condition, &zero, g)?)])
        })
    }))
}

/// `a + b`.
pub fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    binary(Binary::Add, a, b)
}

/// `a - b`.
pub fn sub(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    binary(Binary::Sub, a, b)
}

/// `a * b`.
pub fn mul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    binary(Binary::Mul, a, b)
}

/// True division: integers give float32.
pub fn div(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    binary(Binary::Div, a, b)
}

/// `a` to the power of `b`.
pub fn pow(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    binary(Binary::Pow, a, b)
}

/// The larger of two numbers; NaN if one of them is.
pub fn maximum(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    binary(Binary::Max, a, b)
}

/// The smaller of two numbers; NaN if one of them is.
pub fn minimum(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    binary(Binary::Min, a, b)
}

/// Clamps to the given limits.
pub fn clamp(x: &Tensor, low: Option<Scalar>, high: Option<Scalar>) -> Result<Tensor> {
    if low.is_none() && high.is_none() {
        return Err(TensorError::shape("clamp", "at least one of min and max must be given"));
    }
    let mut dtype = x.dtype();
    for limit in [low, high].into_iter().flatten() {
        dtype = dtype.promote(type_with_scalar(dtype, limit));
    }
    let x = cast(x, dtype)?;
    let limit = |value| Tensor::constant(x.device(), value, x.shape(), dtype);
    let mut y = x.snapshot();
    let mut inside: Option<Tensor> = None;
    for (value, function, keeps) in [(low, Binary::Max, Binary::Ge), (high, Binary::Min, Binary::Le)] {
        if let Some(value) = value {
            y = binary(function, &y, &limit(value))?;
            let holds = binary(keeps, &x, &limit(value))?;
            inside = Some(match inside {
                Some(before) => binary(Binary::And, &before, &holds)?,
                None => holds,
            });
        }
    }
    // Gradients pass at the limits themselves, as in PyTorch.
    Ok(y.record("clamp", &[&x], |_| {
        Box::new(move |g| {
            let inside = inside.as_ref().unwrap_or(g);
            Ok(vec![Some(where_(inside, g, &g.filled_like(0.0))?)])
        })
    }))
}

/// Returns the conjugate of complex numbers; other types are unchanged.
pub(crate) fn conjugate(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_complex() { unary(Unary::Conj, x) } else { Ok(x.clone()) }
}

pub(crate) fn scaled(x: &Tensor, factor: f64) -> Result<Tensor> {
    binary_scalar(Binary::Mul, x, Scalar::Float(factor), false)
}

pub(crate) fn plus(x: &Tensor, number: f64) -> Result<Tensor> {
    binary_scalar(Binary::Add, x, Scalar::Float(number), false)
}

fn name(function: Binary) -> &'static str {
    use Binary::*;
    match function {
        Add => "add",
        Sub => "sub",
        Mul => "mul",
        Div => "div",
        FloorDiv => "floor_divide",
        Rem => "remainder",
        Pow => "pow",
        Max => "maximum",
        Min => "minimum",
        Atan2 => "atan2",
        Hypot => "hypot",
        Copysign => "copysign",
        Nextafter => "nextafter",
        Logaddexp => "logaddexp",
        And => "bitwise_and",
        Or => "bitwise_or",
        Xor => "bitwise_xor",
        Shl => "left_shift",
        Shr => "right_shift",
        Eq => "eq",
        Ne => "ne",
        Lt => "lt",
        Le => "le",
        Gt => "gt",
        Ge => "ge",
        Complex => "complex",
        Within => "within",
    }
}
