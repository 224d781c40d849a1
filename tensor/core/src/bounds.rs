//! Deferred bounds checks for indices whose values are only known on the device. The device checks them while it computes and
//! reports the first index out of bounds at the next call that waits.
//!
//! A bound is an i64: the length in the low [`LENGTH_BITS`] bits, the number of the operation in the bits above. A device only
//! needs to pass it back.

use crate::dtype::{DType, Scalar};
use crate::error::DeviceError;
use crate::node::Op;
use crate::program::Binary;
use crate::tensor::{Result, Tensor};

/// Number of low bits of a bound that hold the length.
pub const LENGTH_BITS: u32 = 48;

/// Operations that check indices; a bound stores the position in this table.
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

/// Returns the indices as i64, with a bounds check that runs when they are used.
pub fn within(operation: &'static str, index: &Tensor, length: usize) -> Result<Tensor> {
    let index = index.cast(DType::I64)?;
    let bound = Scalar::Int(bound(operation, length));
    let bound = Tensor::constant(index.device(), bound, index.shape(), DType::I64);
    Ok(Tensor::make(Op::Binary(Binary::Within), &[&index, &bound], index.shape().into(), DType::I64))
}

/// The bound of an operation's indices.
pub(crate) fn bound(operation: &'static str, length: usize) -> i64 {
    let number = OPERATIONS.iter().position(|known| *known == operation).unwrap_or(OPERATIONS.len() - 1);
    (number as i64) << LENGTH_BITS | length as i64
}

/// Returns the length encoded in a bound.
pub fn length(bound: i64) -> i64 {
    bound & ((1 << LENGTH_BITS) - 1)
}

/// Returns the error for an index that a device found out of bounds.
pub fn error(index: i64, bound: i64) -> DeviceError {
    let operation = OPERATIONS.get((bound >> LENGTH_BITS) as usize).copied().unwrap_or("indices");
    DeviceError::OutOfBounds { operation, index, length: length(bound) }
}
