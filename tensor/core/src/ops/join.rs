//! Joining and splitting of tensors.

use crate::error::TensorError;
use crate::layout::Shape;
use crate::node::Op;
use crate::ops::axes::axis;
use crate::ops::elementwise::cast;
use crate::ops::shape::{broadcast_to, sliced, to_shape, unsqueeze};
use crate::step::Work;
use crate::tensor::{Result, Tensor, same_device};

/// Concatenates along an axis.
pub fn cat(tensors: &[&Tensor], dim: isize) -> Result<Tensor> {
    let Some(&first) = tensors.first() else {
        return Err(TensorError::shape("cat", "no tensors given; pass at least one"));
    };
    if first.rank() == 0 {
        return Err(TensorError::shape("cat", "tensors without dimensions cannot be joined; use stack"));
    }
    let axis = axis("cat", dim, first.rank())?;
    let mut dtype = first.dtype();
    let mut length = 0;
    for tensor in tensors {
        same_device("cat", first, tensor)?;
        dtype = dtype.promote(tensor.dtype());
        let alike = tensor.rank() == first.rank()
            && (0..first.rank()).all(|other| other == axis || tensor.shape()[other] == first.shape()[other]);
        if !alike {
            return Err(TensorError::shape(
                "cat",
                format!("{:?} and {:?} differ in more than dimension {axis}", first.shape(), tensor.shape()),
            ));
        }
        length += tensor.shape()[axis];
    }
    let parts = tensors.iter().map(|tensor| cast(tensor, dtype)).collect::<Result<Vec<_>>>()?;
    let parts: Vec<&Tensor> = parts.iter().collect();
    let mut shape = Shape::from(first.shape());
    shape[axis] = length;
    let joined = Tensor::make(Op::Whole(Box::new(Work::Concat { axis }), Vec::new()), &parts, shape, dtype);
    Ok(joined.record("cat", &parts, |_| {
        let lengths: Vec<usize> = parts.iter().map(|part| part.shape()[axis]).collect();
        Box::new(move |g| {
            let mut start = 0;
            let part = |&length: &usize| {
                start += length;
                Some(sliced(g, axis, start - length, length, 1))
            };
            Ok(lengths.iter().map(part).collect())
        })
    }))
}

/// Stacks along a new axis.
pub fn stack(tensors: &[&Tensor], dim: isize) -> Result<Tensor> {
    let Some(&first) = tensors.first() else {
        return Err(TensorError::shape("stack", "no tensors given; pass at least one"));
    };
    if let Some(other) = tensors.iter().find(|other| other.shape() != first.shape()) {
        return Err(TensorError::shape(
            "stack",
            format!("all tensors must have one shape: {:?} and {:?}", first.shape(), other.shape()),
        ));
    }
    let raised = tensors.iter().map(|tensor| unsqueeze(tensor, dim)).collect::<Result<Vec<_>>>()?;
    cat(&raised.iter().collect::<Vec<_>>(), dim)
}

/// Splits into pieces of the given lengths along an axis, as views.
pub fn split(x: &Tensor, lengths: &[usize], dim: isize) -> Result<Vec<Tensor>> {
    let axis = axis("split", dim, x.rank())?;
    if x.rank() == 0 || lengths.iter().sum::<usize>() != x.shape()[axis] {
        return Err(TensorError::shape(
            "split",
            format!("the lengths {lengths:?} do not add up to dimension {axis} of {:?}", x.shape()),
        ));
    }
    let mut start = 0;
    let piece = |&length: &usize| {
        start += length;
        sliced(x, axis, start - length, length, 1)
    };
    Ok(lengths.iter().map(piece).collect())
}

/// Rotates along an axis: elements shifted past the end reappear at the beginning.
pub fn roll(x: &Tensor, shift: isize, dim: isize) -> Result<Tensor> {
    let axis = axis("roll", dim, x.rank())?;
    let length = x.shape().get(axis).copied().unwrap_or(0);
    if length == 0 {
        return Ok(x.clone());
    }
    let shift = shift.rem_euclid(length as isize) as usize;
    if shift == 0 {
        return Ok(x.clone());
    }
    let (end, start) = (sliced(x, axis, length - shift, shift, 1), sliced(x, axis, 0, length - shift, 1));
    cat(&[&end, &start], axis as isize)
}

/// Repeats the whole tensor; one count for each axis, and for new leading ones.
pub fn tile(x: &Tensor, times: &[usize]) -> Result<Tensor> {
    let rank = times.len().max(x.rank());
    let times: Vec<usize> = std::iter::repeat_n(1, rank - times.len()).chain(times.iter().copied()).collect();
    let lengths: Vec<usize> =
        std::iter::repeat_n(1, rank - x.rank()).chain(x.shape().iter().copied()).collect();
    let pairs = |first: &dyn Fn(usize) -> usize| -> Shape {
        (0..rank).flat_map(|axis| [first(axis), lengths[axis]]).collect()
    };
    let apart = to_shape(x, &pairs(&|_| 1))?;
    let repeated = broadcast_to(&apart, &pairs(&|axis| times[axis]))?;
    to_shape(&repeated, &(0..rank).map(|axis| times[axis] * lengths[axis]).collect::<Shape>())
}

/// Repeats each element several times in a row along an axis.
pub fn repeat_interleave(x: &Tensor, times: usize, dim: isize) -> Result<Tensor> {
    let axis = axis("repeat_interleave", dim, x.rank())?;
    let apart = unsqueeze(x, axis as isize + 1)?;
    let mut shape = Shape::from(apart.shape());
    shape[axis + 1] = times;
    let repeated = broadcast_to(&apart, &shape)?;
    let length = shape.remove(axis + 1) * shape[axis];
    shape[axis] = length;
    to_shape(&repeated, &shape)
}
