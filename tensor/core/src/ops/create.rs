//! Creation of tensors: constants, ranges, random numbers. Constants and ranges take no memory until an operation needs them in
//! memory.

use std::sync::Arc;

use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::error::TensorError;
use crate::node::{Inputs, Node, Op};
use crate::ops::elementwise::{binary, binary_scalar, cast, where_};
use crate::ops::iota::iota;
use crate::program::Binary;
use crate::random::per_block;
use crate::step::{Distribution, Work};
use crate::tensor::{Result, Tensor, size_in_bytes};

/// A tensor with one value for all elements.
pub fn full(device: &Arc<dyn Device>, dtype: DType, shape: &[usize], value: Scalar) -> Result<Tensor> {
    size_in_bytes("full", shape, dtype)?;
    Ok(Tensor::constant(device, value, shape, dtype))
}

/// A tensor of zeros.
pub fn zeros(device: &Arc<dyn Device>, dtype: DType, shape: &[usize]) -> Result<Tensor> {
    full(device, dtype, shape, Scalar::Int(0))
}

/// A tensor of ones.
pub fn ones(device: &Arc<dyn Device>, dtype: DType, shape: &[usize]) -> Result<Tensor> {
    full(device, dtype, shape, Scalar::Int(1))
}

/// `start`, `start + step` and so on, `length` numbers.
pub fn sequence(
    device: &Arc<dyn Device>,
    dtype: DType,
    start: Scalar,
    step: Scalar,
    length: usize,
) -> Result<Tensor> {
    let fraction = [start, step].iter().any(|number| matches!(number, Scalar::Float(_)));
    let whole = (dtype.is_integer() || dtype == DType::Bool) && !fraction;
    let wide = if whole { DType::I64 } else { DType::F64 };
    let index = cast(&iota(device, &[length], 0)?, wide)?;
    let scaled = binary_scalar(Binary::Mul, &index, step, false)?;
    cast(&binary_scalar(Binary::Add, &scaled, start, false)?, dtype)
}

/// `count` evenly spaced numbers from `start` to `end`, both included. Each is computed from the nearer end.
pub fn linspace(
    device: &Arc<dyn Device>,
    dtype: DType,
    start: f64,
    end: f64,
    count: usize,
) -> Result<Tensor> {
    let step = if count > 1 { (end - start) / (count - 1) as f64 } else { 0.0 };
    if count < 2 {
        return full(device, dtype, &[count], Scalar::Float(start));
    }
    let index = iota(device, &[count], 0)?;
    let from_end = binary_scalar(Binary::Sub, &index, Scalar::Int(count as i64 - 1), true)?;
    let along = |index: &Tensor, origin: f64, step: f64| {
        let scaled = binary_scalar(Binary::Mul, &cast(index, DType::F64)?, Scalar::Float(step), false)?;
        binary_scalar(Binary::Add, &scaled, Scalar::Float(origin), false)
    };
    let first = binary_scalar(Binary::Lt, &index, Scalar::Int(count as i64 / 2), false)?;
    cast(&where_(&first, &along(&index, start, step)?, &along(&from_end, end, -step)?)?, dtype)
}

/// Like Python's range, for scalars of any type. For i64, `start` and `step` are truncated to integers.
pub fn arange(
    device: &Arc<dyn Device>,
    dtype: DType,
    start: Scalar,
    end: Scalar,
    step: Scalar,
) -> Result<Tensor> {
    let whole = |number: Scalar| match number {
        Scalar::Float(number) if dtype.is_integer() => Scalar::Int(number as i64),
        number => number,
    };
    // The length is computed from the unconverted bounds, except for i64.
    let end = if dtype == DType::I64 { whole(end) } else { end };
    let (start, step) = match dtype {
        DType::I64 => (whole(start), whole(step)),
        _ => (start, step),
    };
    let length = match (start, end, step) {
        (Scalar::Int(start), Scalar::Int(end), Scalar::Int(step)) if step != 0 => {
            let (distance, step) = (i128::from(end) - i128::from(start), i128::from(step));
            // Rounded up, for either sign.
            let whole = distance / step;
            (whole + i128::from(distance % step != 0 && (distance < 0) == (step < 0))).max(0) as f64
        }
        _ => ((end.to_f64() - start.to_f64()) / step.to_f64()).ceil().max(0.0),
    };
    if !length.is_finite() || length > 9e15 || step.to_f64() == 0.0 {
        return Err(TensorError::shape(
            "arange",
            format!("the range from {start:?} to {end:?} by {step:?} is not finite"),
        ));
    }
    sequence(device, dtype, whole(start), whole(step), length as usize)
}

/// An identity matrix, possibly rectangular: ones on the main diagonal.
pub fn eye(device: &Arc<dyn Device>, dtype: DType, rows: usize, columns: usize) -> Result<Tensor> {
    let shape = [rows, columns];
    let diagonal = binary(Binary::Eq, &iota(device, &shape, 0)?, &iota(device, &shape, 1)?)?;
    cast(&diagonal, dtype)
}

/// Random numbers of a distribution. The caller advances `offset` by [`random_blocks`]; integers are drawn as 64-bit integers and
/// converted.
pub fn random(
    device: &Arc<dyn Device>,
    dtype: DType,
    shape: &[usize],
    distribution: Distribution,
    seed: u64,
    offset: u64,
) -> Result<Tensor> {
    let (operation, drawn) = match distribution {
        Distribution::Uniform => ("uniform", dtype),
        Distribution::Normal => ("normal", dtype),
        Distribution::Integers { low, high } if low >= high => {
            let why = format!("there is no integer from {low} to below {high}");
            return Err(TensorError::shape("randint", why));
        }
        Distribution::Integers { .. } => ("randint", DType::I64),
    };
    size_in_bytes(operation, shape, drawn)?;
    if !dtype.is_float() && !matches!(distribution, Distribution::Integers { .. }) {
        return Err(TensorError::type_of(
            operation,
            format!("random floating point numbers need a floating point type, not {dtype}"),
        ));
    }
    let work = Work::Random { seed, offset, distribution };
    let op = Op::Whole(Box::new(work), Vec::new());
    let numbers = Tensor::of_node(Node::new(op, Inputs::new(), shape.into(), drawn, device.clone()));
    cast(&numbers, dtype)
}

/// Returns how many generator blocks a tensor of this many elements consumes.
pub fn random_blocks(elements: usize, dtype: DType, distribution: Distribution) -> u64 {
    (elements as u64).div_ceil(per_block(dtype, distribution))
}
