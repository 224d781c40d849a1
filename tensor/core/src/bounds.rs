//! Indices that have to be within bounds, and are only known when they are there: the device looks at them while it computes, and tells of the first that is
//! not as soon as somebody waits for anything.
//!
//! A bound is a length with the operation that has it in the bits above, so that a device needs to know neither.

use crate::dtype::{DType, Scalar};
use crate::error::DeviceError;
use crate::node::Op;
use crate::program::Binary;
use crate::tensor::{Result, Tensor};

/// Bits of a bound that are the length.
pub const LENGTH_BITS: u32 = 48;

/// Operations that look at indices.
const OPERATIONS: [&str; 10] = [
    "index",
    "gather",
    "scatter",
    "scatter_add",
    "index_select",
    "take",
    "embedding",
    "nll_loss",
    "cross_entropy",
    "indices",
];

/// The indices as they are, i64, looked at when they are used.
pub fn within(operation: &'static str, index: &Tensor, length: usize) -> Result<Tensor> {
    let index = index.cast(DType::I64)?;
    let number = OPERATIONS.iter().position(|known| *known == operation).unwrap_or(OPERATIONS.len() - 1);
    let bound = (number as i64) << LENGTH_BITS | length as i64;
    let bound = Tensor::constant(index.device(), Scalar::Int(bound), index.shape(), DType::I64);
    Ok(Tensor::make(Op::Binary(Binary::Within), &[&index, &bound], index.shape().into(), DType::I64))
}

/// The length of a bound.
pub fn length(bound: i64) -> i64 {
    bound & ((1 << LENGTH_BITS) - 1)
}

/// What is wrong with an index that a device has met.
pub fn error(index: i64, bound: i64) -> DeviceError {
    let operation = OPERATIONS.get((bound >> LENGTH_BITS) as usize).copied().unwrap_or("indices");
    DeviceError::OutOfBounds { operation, index, length: length(bound) }
}
