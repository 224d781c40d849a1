//! Resolution of axis arguments, and broadcasting of shapes.

use smallvec::SmallVec;

use crate::error::TensorError;
use crate::layout::Shape;
use crate::tensor::Result;

pub(crate) type Axes = SmallVec<[usize; 6]>;

/// Resolves an axis; negative values count from the end. A 0-dimensional tensor counts as having one axis, as in PyTorch.
pub(crate) fn axis(operation: &'static str, dim: isize, rank: usize) -> Result<usize> {
    let count = rank.max(1) as isize;
    if dim < -count || dim >= count {
        return Err(TensorError::index(
            operation,
            format!("dim {dim} is out of range for {rank} dimensions (from {} to {})", -count, count - 1),
        ));
    }
    Ok(dim.rem_euclid(count) as usize)
}

/// Resolves several axes to ascending order; all axes if none are given.
pub(crate) fn axes(operation: &'static str, dims: Option<&[isize]>, rank: usize) -> Result<Axes> {
    let Some(dims) = dims.filter(|dims| !dims.is_empty()) else {
        return Ok((0..rank).collect());
    };
    let mut axes = dims.iter().map(|&dim| axis(operation, dim, rank)).collect::<Result<Axes>>()?;
    axes.sort_unstable();
    if axes.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(TensorError::shape(operation, format!("a dimension appears twice in {dims:?}")));
    }
    if rank == 0 {
        axes.clear();
    }
    Ok(axes)
}

/// Returns the shape that both broadcast to.
pub(crate) fn broadcast(operation: &'static str, first: &[usize], second: &[usize]) -> Result<Shape> {
    if first == second {
        return Ok(first.into());
    }
    let rank = first.len().max(second.len());
    let at = |shape: &[usize], axis: usize| match (axis + shape.len()).checked_sub(rank) {
        Some(axis) => shape[axis],
        None => 1,
    };
    (0..rank)
        .map(|axis| match (at(first, axis), at(second, axis)) {
            (a, b) if a == b => Ok(a),
            (1, b) => Ok(b),
            (a, 1) => Ok(a),
            (a, b) => Err(TensorError::shape(
                operation,
                format!(
                    "{first:?} and {second:?} do not broadcast: {a} and {b} at dimension {axis}; sizes must be equal or one of them 1"
                ),
            )),
        })
        .collect()
}
