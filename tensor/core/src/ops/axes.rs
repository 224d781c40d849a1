//! Which axes a caller means, and which shape two tensors have together.

use smallvec::SmallVec;

use crate::error::TensorError;
use crate::layout::Shape;
use crate::tensor::Result;

pub(crate) type Axes = SmallVec<[usize; 6]>;

/// An axis counted from the end if negative. A number has one axis for this purpose, as PyTorch has it.
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

/// Several axes in ascending order, all of them if none are named.
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

/// The shape that both can be expanded to.
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
