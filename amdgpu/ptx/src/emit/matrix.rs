//! Matrix operations.

use lift::form::*;

use crate::Options;
use crate::generator::{Generator, Reason};

/// Whether the operation is fast only with permuted lanes.
pub(crate) fn wants_permuted_lanes(_matrix: &Matrix, _options: &Options) -> bool {
    false
}

/// Writes an operation.
pub(crate) fn emit(
    _g: &mut Generator<'_>,
    _instruction: &Instruction,
    _matrix: &Matrix,
) -> Result<(), Reason> {
    Err("a matrix operation".into())
}
