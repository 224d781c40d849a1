//! Overlapping windows, folding and padding, as used by convolutions and pooling.

use crate::dtype::Scalar;
use crate::error::TensorError;
use crate::layout::{Layout, Shape, Strides};
use crate::node::Op;
use crate::ops::shape::sliced;
use crate::step::Work;
use crate::tensor::{Result, Tensor, size_in_bytes};

/// Returns all windows over the last axes as a view: `[.., counts.., kernel..]`.
pub fn windows(x: &Tensor, kernel: &[usize], stride: &[usize], dilation: &[usize]) -> Result<Tensor> {
    let axes = kernel.len();
    let outer = x.rank().checked_sub(axes).filter(|_| stride.len() == axes && dilation.len() == axes);
    let Some(outer) = outer else {
        return Err(TensorError::shape(
            "windows",
            format!(
                "{:?} with kernel {kernel:?}, stride {stride:?}, dilation {dilation:?}: numbers of dimensions differ",
                x.shape()
            ),
        ));
    };
    let counts = (0..axes)
        .map(|n| count("windows", x.shape()[outer + n], kernel[n], stride[n], dilation[n]))
        .collect::<Result<Shape>>()?;
    let view = x.viewed(|layout| {
        let mut shape = Shape::from(&layout.shape[..outer]);
        let mut strides = Strides::from(&layout.strides[..outer]);
        shape.extend_from_slice(&counts);
        strides.extend((0..axes).map(|n| layout.strides[outer + n] * stride[n] as isize));
        shape.extend_from_slice(kernel);
        strides.extend((0..axes).map(|n| layout.strides[outer + n] * dilation[n] as isize));
        Layout { shape, strides, offset: layout.offset }
    });
    Ok(view.record("windows", &[x], |_| {
        let lengths = Shape::from(&x.shape()[outer..]);
        let (stride, dilation) = (Shape::from(stride), Shape::from(dilation));
        Box::new(move |g| Ok(vec![Some(fold(g, &lengths, &stride, &dilation)?)]))
    }))
}

/// Returns how many windows fit.
fn count(
    operation: &'static str,
    length: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
) -> Result<usize> {
    if kernel == 0 || stride == 0 || dilation == 0 {
        return Err(TensorError::shape(operation, "kernel, stride and dilation must be at least 1"));
    }
    let reach = (kernel - 1)
        .checked_mul(dilation)
        .and_then(|reach| reach.checked_add(1))
        .filter(|&reach| reach <= length)
        .ok_or_else(|| {
            TensorError::shape(
                operation,
                format!("a kernel of {kernel} with dilation {dilation} does not fit into {length} elements"),
            )
        })?;
    Ok((length - reach) / stride + 1)
}

/// Adds overlapping windows `[.., counts.., kernel..]` at their original positions: the adjoint of `windows`.
pub fn fold(x: &Tensor, lengths: &[usize], stride: &[usize], dilation: &[usize]) -> Result<Tensor> {
    let axes = lengths.len();
    let Some(outer) = x.rank().checked_sub(2 * axes) else {
        return Err(TensorError::shape(
            "fold",
            format!("{:?} has no windows over {axes} dimensions", x.shape()),
        ));
    };
    let kernel = Shape::from(&x.shape()[outer + axes..]);
    for n in 0..axes {
        if count("fold", lengths[n], kernel[n], stride[n], dilation[n])? < x.shape()[outer + n] {
            return Err(TensorError::shape(
                "fold",
                format!("{} windows do not fit into {} elements", x.shape()[outer + n], lengths[n]),
            ));
        }
    }
    let mut shape = Shape::from(&x.shape()[..outer]);
    shape.extend_from_slice(lengths);
    size_in_bytes("fold", &shape, x.dtype())?;
    let work = Work::Fold { kernel: kernel.clone(), stride: stride.into(), dilation: dilation.into() };
    let made = Tensor::make(Op::Whole(Box::new(work), Vec::new()), &[x], shape, x.dtype());
    Ok(made.record("fold", &[x], |_| {
        let counts = Shape::from(&x.shape()[outer..outer + axes]);
        let (stride, dilation) = (Shape::from(stride), Shape::from(dilation));
        Box::new(move |g| {
            let mut back = windows(g, &kernel, &stride, &dilation)?;
            for (n, &count) in counts.iter().enumerate() {
                back = sliced(&back, outer + n, 0, count, 1);
            }
            Ok(vec![Some(back)])
        })
    }))
}

/// Pads with one value; a negative padding removes elements. `frame` has a pair (before, after) for each axis.
pub fn pad(x: &Tensor, frame: &[(isize, isize)], value: Scalar) -> Result<Tensor> {
    if frame.len() != x.rank() {
        return Err(TensorError::shape(
            "pad",
            format!("{:?} needs one pair for each dimension, not {frame:?}", x.shape()),
        ));
    }
    let mut inner = x.clone();
    for (axis, &(before, after)) in frame.iter().enumerate() {
        let taken = [before, after].map(|side| side.min(0).unsigned_abs());
        let left = inner.shape()[axis].checked_sub(taken[0]).and_then(|left| left.checked_sub(taken[1]));
        let Some(left) = left else {
            return Err(TensorError::shape(
                "pad",
                format!("{frame:?} takes more away than {:?} has", x.shape()),
            ));
        };
        inner = sliced(&inner, axis, taken[0], left, 1);
    }
    let added = |side: isize| side.max(0) as usize;
    if frame.iter().all(|&(before, after)| before <= 0 && after <= 0) {
        return Ok(inner);
    }
    let mut shape = Shape::from(inner.shape());
    let before: Shape = frame.iter().map(|&(before, _)| added(before)).collect();
    for (length, &(before, after)) in shape.iter_mut().zip(frame) {
        *length = length.saturating_add(added(before)).saturating_add(added(after));
    }
    size_in_bytes("pad", &shape, x.dtype())?;
    let work = Work::Pad { before: before.clone(), value };
    let made = Tensor::make(Op::Whole(Box::new(work), Vec::new()), &[&inner], shape, x.dtype());
    Ok(made.record("pad", &[&inner], |_| {
        let lengths = Shape::from(inner.shape());
        Box::new(move |g| {
            let within = (0..lengths.len())
                .fold(g.clone(), |g, axis| sliced(&g, axis, before[axis], lengths[axis], 1));
            Ok(vec![Some(within)])
        })
    }))
}
