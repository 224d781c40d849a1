//! Diagonals of two axes.

use crate::dtype::Scalar;
use crate::error::TensorError;
use crate::layout::{Layout, Shape};
use crate::ops::axes::{Axes, axis};
use crate::ops::elementwise::{binary, binary_scalar, where_};
use crate::ops::iota::iota;
use crate::ops::shape::{broadcast_to, permuted, unsqueeze};
use crate::ops::window::pad;
use crate::program::Binary;
use crate::tensor::{Result, Tensor};

/// Returns the diagonal of two axes as a view; both axes are removed and the diagonal becomes the last axis. A positive offset
/// moves right of the main diagonal, a negative one below it.
pub fn diagonal(x: &Tensor, offset: isize, first: isize, second: isize) -> Result<Tensor> {
    let (first, second) = (axis("diagonal", first, x.rank())?, axis("diagonal", second, x.rank())?);
    if first == second || x.rank() < 2 {
        return Err(TensorError::shape(
            "diagonal",
            format!("two different dimensions of {:?} are needed, not {first} and {second}", x.shape()),
        ));
    }
    let mut order: Axes = (0..x.rank()).filter(|axis| ![first, second].contains(axis)).collect();
    order.extend([first, second]);
    Ok(of_last(&permuted(x, &order), offset))
}

/// The diagonal of the last two axes.
fn of_last(x: &Tensor, offset: isize) -> Tensor {
    let kept = x.rank() - 2;
    let (rows, columns) = (x.shape()[kept], x.shape()[kept + 1]);
    let (down, right) = if offset < 0 { (offset.unsigned_abs(), 0) } else { (0, offset.unsigned_abs()) };
    let length = rows.saturating_sub(down).min(columns.saturating_sub(right));
    let view = x.viewed(|layout| {
        let mut layout: Layout = layout.clone();
        let (below, beside) = (layout.strides[kept], layout.strides[kept + 1]);
        if length > 0 {
            layout.offset =
                layout.offset.wrapping_add_signed(down as isize * below + right as isize * beside);
        }
        layout.shape.truncate(kept);
        layout.shape.push(length);
        layout.strides.truncate(kept);
        layout.strides.push(below + beside);
        layout
    });
    view.record("diagonal", &[x], |_| {
        let shape = Shape::from(x.shape());
        Box::new(move |g| Ok(vec![Some(spread(g, &shape, offset)?)]))
    })
}

/// The inverse of `diagonal`: zeros with these elements on a diagonal of the last two axes.
fn spread(g: &Tensor, shape: &[usize], offset: isize) -> Result<Tensor> {
    let kept = shape.len() - 2;
    let (rows, length) = (shape[kept], g.shape()[kept]);
    if length == 0 {
        return Ok(Tensor::constant(g.device(), Scalar::Int(0), shape, g.dtype()));
    }
    // Each row is filled with its own element; then all but one position of the row are set to zero.
    let down = if offset < 0 { offset.unsigned_abs() } else { 0 };
    let mut frame = vec![(0, 0); kept + 1];
    frame[kept] = (down as isize, (rows - down - length) as isize);
    let wide = broadcast_to(&unsqueeze(&pad(g, &frame, Scalar::Int(0))?, -1)?, shape)?;
    let place = |axis| iota(g.device(), shape, axis);
    let beside = binary_scalar(Binary::Add, &place(kept)?, Scalar::Int(offset as i64), false)?;
    let here = binary(Binary::Eq, &beside, &place(kept + 1)?)?;
    where_(&here, &wide, &wide.filled_like(0.0))
}
