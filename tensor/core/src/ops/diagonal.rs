//! Elements whose places along two axes go up together.

use crate::dtype::Scalar;
use crate::error::TensorError;
use crate::layout::{Layout, Shape};
use crate::ops::axes::{Axes, axis};
use crate::ops::create::iota;
use crate::ops::elementwise::{binary, binary_scalar, where_};
use crate::ops::shape::{broadcast_to, permuted, unsqueeze};
use crate::ops::window::pad;
use crate::program::Binary;
use crate::tensor::{Result, Tensor};

/// The diagonal of two axes, which go away, as a last axis; an offset goes to the right of the main one, or below it if negative. It is a view.
pub fn diagonal(x: &Tensor, offset: isize, first: isize, second: isize) -> Result<Tensor> {
    let (first, second) = (axis("diagonal", first, x.rank())?, axis("diagonal", second, x.rank())?);
    if first == second || x.rank() < 2 {
        return Err(TensorError::shape(
            "diagonal",
            format!(
                "two different dimensions are needed, of {:?} were named {first} and {second}",
                x.shape()
            ),
        ));
    }
    let mut order: Axes = (0..x.rank()).filter(|axis| ![first, second].contains(axis)).collect();
    order.extend([first, second]);
    Ok(of_last(&permuted(x, &order), offset))
}

/// Of the last two axes.
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

/// The inverse: zeros with these elements on a diagonal of the last two axes.
fn spread(g: &Tensor, shape: &[usize], offset: isize) -> Result<Tensor> {
    let kept = shape.len() - 2;
    let (rows, length) = (shape[kept], g.shape()[kept]);
    if length == 0 {
        return Ok(Tensor::constant(g.device(), Scalar::Int(0), shape, g.dtype()));
    }
    // Each row has its own element everywhere; all but one place of it are forgotten.
    let down = if offset < 0 { offset.unsigned_abs() } else { 0 };
    let mut frame = vec![(0, 0); kept + 1];
    frame[kept] = (down as isize, (rows - down - length) as isize);
    let wide = broadcast_to(&unsqueeze(&pad(g, &frame, Scalar::Int(0))?, -1)?, shape)?;
    let place = |axis| iota(g.device(), shape, axis);
    let beside = binary_scalar(Binary::Add, &place(kept)?, Scalar::Int(offset as i64), false)?;
    let here = binary(Binary::Eq, &beside, &place(kept + 1)?)?;
    where_(&here, &wide, &wide.filled_like(0.0))
}
