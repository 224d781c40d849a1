//! Indexing: gather, scatter, selection, masks.

use crate::bounds::{bound, within};
use crate::dtype::{DType, Scalar};
use crate::error::TensorError;
use crate::layout::Shape;
use crate::node::Op;
use crate::ops::axes::axis;
use crate::ops::elementwise::{binary, binary_scalar, cast, where_};
use crate::ops::fused;
use crate::ops::iota::iota;
use crate::ops::shape::{broadcast_to, sliced, to_shape, unsqueeze};
use crate::program::Binary;
use crate::step::{Fused, Work};
use crate::tensor::{Result, Tensor, same_device};

/// `out[i, j, k] = x[i, index[i, j, k], k]` for the axis in the middle.
pub fn gather(x: &Tensor, dim: isize, index: &Tensor) -> Result<Tensor> {
    if x.rank() == 0 || index.rank() == 0 {
        // A 0-dimensional tensor counts as a vector of one element, on either side.
        let vector = |x: &Tensor| to_shape(x, &[x.elements()]);
        if x.rank() + index.rank() > 0 && x.rank().max(index.rank()) == 1 {
            return to_shape(&gather(&vector(x)?, dim, &vector(index)?)?, index.shape());
        }
    }
    let axis = agreed("gather", x, dim, index)?;
    if x.rank() == 0 {
        return Ok(x.clone());
    }
    looked_for("gather", x, axis, index, false)
}

/// Like [`gather`], with an index that was checked already or is valid by construction. Indices out of bounds read as zero.
pub(crate) fn picked(x: &Tensor, dim: isize, index: &Tensor) -> Result<Tensor> {
    let axis = agreed("gather", x, dim, index)?;
    if x.rank() == 0 {
        return Ok(x.clone());
    }
    let index = &cast(index, DType::I64)?;
    taken(&reached(x, axis, index), axis, index, Box::new(Work::Gather { axis }), |index| Ok(index.clone()))
}

/// Like [`picked`], with an index that is checked. If it `wraps`, negative ones count from the end.
fn looked_for(name: &'static str, x: &Tensor, axis: usize, index: &Tensor, wraps: bool) -> Result<Tensor> {
    let length = x.shape()[axis];
    let wraps = wraps && index.dtype().kind() != crate::dtype::Kind::Unsigned;
    let wrapped = move |index: &Tensor| if wraps { from_end(index, length) } else { Ok(index.clone()) };
    let index = &cast(index, DType::I64)?;
    let step = Fused::Gather { axis, wraps, bound: bound(name, length) };
    match fused::supported(step, &[x, index]) {
        Some(work) => taken(&reached(x, axis, index), axis, index, work, wrapped),
        None => picked(x, axis as isize, &within(name, &wrapped(index)?, length)?),
    }
}

/// The part of a tensor that an index along an axis reaches.
fn reached(x: &Tensor, axis: usize, index: &Tensor) -> Tensor {
    (0..x.rank())
        .filter(|&other| other != axis)
        .fold(x.clone(), |x, other| sliced(&x, other, 0, index.shape()[other], 1))
}

/// The result of a step that looks up elements. `resolved` returns the index that its gradient scatters to.
fn taken(
    within: &Tensor,
    axis: usize,
    index: &Tensor,
    work: Box<Work>,
    resolved: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static,
) -> Result<Tensor> {
    let op = Op::Whole(work, Vec::new());
    let made = Tensor::make(op, &[within, index], index.shape().into(), within.dtype());
    Ok(made.record("gather", &[within], |_| {
        let (index, before) = (index.snapshot(), Shape::from(within.shape()));
        Box::new(move |g| {
            let zeros = Tensor::constant(g.device(), Scalar::Int(0), &before, g.dtype());
            Ok(vec![Some(put("scatter_add", &zeros, axis as isize, &resolved(&index)?, g, true)?)])
        })
    }))
}

/// `x` with `out[i, index[i, j, k], k] += source[i, j, k]`.
pub fn scatter_add(x: &Tensor, dim: isize, index: &Tensor, source: &Tensor) -> Result<Tensor> {
    looked_at("scatter_add", x, dim, index, source, true)
}

/// `x` with `out[i, index[i, j, k], k] = source[i, j, k]`; for repeated indices the last one wins.
pub fn scatter(x: &Tensor, dim: isize, index: &Tensor, source: &Tensor) -> Result<Tensor> {
    looked_at("scatter", x, dim, index, source, false)
}

fn looked_at(
    name: &'static str,
    x: &Tensor,
    dim: isize,
    index: &Tensor,
    source: &Tensor,
    adds: bool,
) -> Result<Tensor> {
    let axis = agreed(name, x, dim, index)?;
    let length = x.shape().get(axis).copied().unwrap_or(1);
    let bound = bound(name, length);
    let step = Fused::Scatter { axis, add: adds, bound: Some(bound) };
    if x.rank() > 0 && fused::supported(step, &[x, index, source]).is_some() {
        return put_within(name, x, dim, index, source, adds, Some(bound));
    }
    put(name, x, dim, &within(name, index, length)?, source, adds)
}

/// Scatters with an index that was checked already or is valid by construction. Indices out of bounds write nothing.
pub(crate) fn put(
    name: &'static str,
    x: &Tensor,
    dim: isize,
    index: &Tensor,
    source: &Tensor,
    adds: bool,
) -> Result<Tensor> {
    put_within(name, x, dim, index, source, adds, None)
}

/// Like [`put`]; with a bound, on a device that checks the index.
fn put_within(
    name: &'static str,
    x: &Tensor,
    dim: isize,
    index: &Tensor,
    source: &Tensor,
    adds: bool,
    bound: Option<i64>,
) -> Result<Tensor> {
    let axis = agreed(name, x, dim, index)?;
    same_device(name, x, source)?;
    if source.rank() != index.rank() || source.shape().iter().zip(index.shape()).any(|(s, i)| s < i) {
        return Err(TensorError::shape(
            name,
            format!("the source {:?} is smaller than the index {:?}", source.shape(), index.shape()),
        ));
    }
    if x.dtype() != source.dtype() {
        return Err(TensorError::type_of(
            name,
            format!("the tensor is {}, the source {}", x.dtype(), source.dtype()),
        ));
    }
    let index = &cast(index, DType::I64)?;
    let source = (0..source.rank())
        .fold(source.clone(), |source, other| sliced(&source, other, 0, index.shape()[other], 1));
    if x.rank() == 0 {
        return if adds { crate::ops::elementwise::add(x, &source) } else { Ok(source) };
    }
    if (0..x.rank()).any(|other| other != axis && x.shape()[other] != index.shape()[other]) {
        // The launch needs equal lengths on the other axes, so only the covered corner is scattered into.
        return corner(x, axis, index, &source, adds, bound);
    }
    let fused = fused::supported(Fused::Scatter { axis, add: adds, bound }, &[x, index, &source]);
    let zeros = matches!(x.known(), Some(value) if is_zero(value));
    let made = match fused {
        Some(work) if zeros => {
            Tensor::make(Op::Whole(work, Vec::new()), &[index, &source], x.shape().into(), x.dtype())
        }
        Some(work) => {
            Tensor::make(Op::Whole(work, Vec::new()), &[x, index, &source], x.shape().into(), x.dtype())
        }
        None => {
            let op = Op::Whole(Box::new(Work::Scatter { axis, add: adds }), Vec::new());
            Tensor::make(op, &[x, index, &source], x.shape().into(), x.dtype())
        }
    };
    Ok(made.record(name, &[x, index, &source], |_| {
        let index = index.snapshot();
        Box::new(move |g| {
            let of_source = picked(g, axis as isize, &index)?;
            let of_x = if adds {
                g.clone()
            } else {
                put("scatter", g, axis as isize, &index, &of_source.filled_like(0.0), false)?
            };
            Ok(vec![Some(of_x), None, Some(of_source)])
        })
    }))
}

/// Whether a constant is zero. Not minus zero.
fn is_zero(value: Scalar) -> bool {
    match value {
        Scalar::Bool(value) => !value,
        Scalar::Int(value) => value == 0,
        Scalar::UInt(value) => value == 0,
        Scalar::Float(value) => value.to_bits() == 0,
        Scalar::Complex(real, imaginary) => real.to_bits() == 0 && imaginary.to_bits() == 0,
    }
}

fn corner(
    x: &Tensor,
    axis: usize,
    index: &Tensor,
    source: &Tensor,
    adds: bool,
    bound: Option<i64>,
) -> Result<Tensor> {
    let reached = reached(x, axis, index);
    let new = put_within("scatter", &reached, axis as isize, index, source, adds, bound)?;
    let mut inside: Option<Tensor> = None;
    let mut frame = vec![(0, 0); x.rank()];
    for other in (0..x.rank()).filter(|&other| other != axis) {
        frame[other].1 = (x.shape()[other] - index.shape()[other]) as isize;
        let place = iota(x.device(), x.shape(), other)?;
        let here = binary_scalar(Binary::Lt, &place, Scalar::Int(index.shape()[other] as i64), false)?;
        inside = Some(match inside {
            Some(before) => binary(Binary::And, &before, &here)?,
            None => here,
        });
    }
    let wide = crate::ops::window::pad(&new, &frame, Scalar::Int(0))?;
    match inside {
        Some(inside) => where_(&inside, &wide, x),
        None => Ok(wide),
    }
}

fn agreed(operation: &'static str, x: &Tensor, dim: isize, index: &Tensor) -> Result<usize> {
    same_device(operation, x, index)?;
    integers(operation, index)?;
    let axis = axis(operation, dim, x.rank())?;
    let fits = x.rank() == index.rank()
        && (0..x.rank()).all(|other| other == axis || index.shape()[other] <= x.shape()[other]);
    if !fits {
        return Err(TensorError::shape(
            operation,
            format!(
                "the index {:?} must have as many dimensions as {:?} and be no longer except along {axis}",
                index.shape(),
                x.shape()
            ),
        ));
    }
    Ok(axis)
}

fn integers(operation: &'static str, index: &Tensor) -> Result<()> {
    if index.dtype().is_integer() {
        return Ok(());
    }
    Err(TensorError::type_of(operation, format!("an index must have an integer type, not {}", index.dtype())))
}

/// Selects whole slices along an axis by a vector of indices. Negative ones count from the end.
pub fn index_select(x: &Tensor, dim: isize, index: &Tensor) -> Result<Tensor> {
    selected("index_select", x, dim, index)
}

fn selected(name: &'static str, x: &Tensor, dim: isize, index: &Tensor) -> Result<Tensor> {
    if index.rank() > 1 {
        return Err(TensorError::shape(name, format!("the index {:?} must be a vector", index.shape())));
    }
    integers(name, index)?;
    same_device(name, x, index)?;
    let axis = axis(name, dim, x.rank())?;
    if x.rank() == 0 {
        if index.elements() != 1 {
            return Err(TensorError::index(
                name,
                format!("cannot select {} elements of a tensor without dimensions", index.elements()),
            ));
        }
        return to_shape(&selected(name, &to_shape(x, &[1])?, 0, index)?, &[]);
    }
    let index = to_shape(index, &[index.elements()])?;
    let mut shape = Shape::from_elem(1, x.rank());
    shape[axis] = index.elements();
    let index = to_shape(&index, &shape)?;
    let mut wide = Shape::from(x.shape());
    wide[axis] = index.elements();
    looked_for(name, x, axis, &broadcast_to(&index, &wide)?, true)
}

/// Resolves negative indices, which count from the end.
fn from_end(index: &Tensor, length: usize) -> Result<Tensor> {
    if index.dtype().kind() == crate::dtype::Kind::Unsigned {
        return cast(index, DType::I64);
    }
    let index = cast(index, DType::I64)?;
    let negative = binary_scalar(Binary::Lt, &index, Scalar::Int(0), false)?;
    where_(&negative, &binary_scalar(Binary::Add, &index, Scalar::Int(length as i64), false)?, &index)
}

/// Looks up rows of a table.
pub fn embedding(weight: &Tensor, index: &Tensor) -> Result<Tensor> {
    if weight.rank() != 2 {
        return Err(TensorError::shape(
            "embedding",
            format!("the weight {:?} must be [rows, width]", weight.shape()),
        ));
    }
    integers("embedding", index)?;
    same_device("embedding", weight, index)?;
    let width = weight.shape()[1];
    let flat = to_shape(index, &[index.elements(), 1])?;
    let rows = looked_for("embedding", weight, 0, &broadcast_to(&flat, &[index.elements(), width])?, false);
    let mut shape = Shape::from(index.shape());
    shape.push(width);
    to_shape(&rows?, &shape)
}

/// Selects elements by their row-major position.
pub fn take(x: &Tensor, index: &Tensor) -> Result<Tensor> {
    let flat = to_shape(x, &[x.elements()])?;
    to_shape(&selected("take", &flat, 0, &to_shape(index, &[index.elements()])?)?, index.shape())
}

/// Replaces elements by a scalar where the mask is true.
pub fn masked_fill(x: &Tensor, mask: &Tensor, value: Scalar) -> Result<Tensor> {
    if mask.dtype() != DType::Bool {
        return Err(TensorError::type_of(
            "masked_fill",
            format!("a mask must be of type bool, not {}", mask.dtype()),
        ));
    }
    where_(mask, &Tensor::constant(x.device(), value, &[], x.dtype()), x)
}

/// Adds a last axis with a one at the given index.
pub fn one_hot(index: &Tensor, classes: usize) -> Result<Tensor> {
    integers("one_hot", index)?;
    let mut shape = Shape::from(index.shape());
    shape.push(classes);
    let places = iota(index.device(), &shape, shape.len() - 1)?;
    let equal = binary(Binary::Eq, &places, &unsqueeze(&cast(index, DType::I64)?, -1)?)?;
    cast(&equal, DType::I64)
}

/// Returns the coordinates of all nonzero elements, `[count, rank]`. Evaluates and waits, because the shape depends on the
/// elements.
pub fn nonzero(x: &Tensor) -> Result<Tensor> {
    let flags = cast(x, DType::Bool)?.to_bytes()?;
    let count = flags.iter().map(|&flag| usize::from(flag != 0)).sum();
    let mut places: Vec<u8> = Vec::with_capacity(count * x.rank() * 8);
    for (number, _) in flags.iter().enumerate().filter(|(_, flag)| **flag != 0) {
        if x.rank() == 1 {
            places.extend((number as i64).to_le_bytes());
            continue;
        }
        let mut place = Shape::from_elem(0, x.rank());
        let mut rest = number;
        for axis in (0..x.rank()).rev() {
            place[axis] = rest % x.shape()[axis];
            rest /= x.shape()[axis];
        }
        places.extend(place.iter().flat_map(|&at| (at as i64).to_le_bytes()));
    }
    Tensor::from_bytes(x.device(), DType::I64, &[count, x.rank()], &places)
}

/// Returns the elements where the mask is true as a vector. Evaluates the mask and waits.
pub fn masked_select(x: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let shape = crate::ops::axes::broadcast("masked_select", x.shape(), mask.shape())?;
    let (x, mask) = (broadcast_to(x, &shape)?, broadcast_to(mask, &shape)?);
    if mask.dtype() == DType::Bool
        && let Some(work) = fused::supported(Fused::Compress, &[&x, &mask])
    {
        // Evaluated once, for the count and for the selection.
        let mask = crate::ops::shape::contiguous(&mask)?;
        let count = mask.to_bytes()?.iter().map(|&flag| usize::from(flag != 0)).sum();
        let op = Op::Whole(work, Vec::new());
        let made = Tensor::make(op, &[&x, &mask], Shape::from_elem(count, 1), x.dtype());
        return Ok(made.record("masked_select", &[&x], |_| {
            let (mask, shape) = (mask.snapshot(), Shape::from(x.shape()));
            Box::new(move |g| {
                let elements: usize = shape.iter().product();
                let places = nonzero(&to_shape(&mask, &[elements])?)?;
                let places = to_shape(&places, &[places.elements()])?;
                let zeros = Tensor::constant(g.device(), Scalar::Int(0), &[elements], g.dtype());
                Ok(vec![Some(to_shape(&put("masked_select", &zeros, 0, &places, g, false)?, &shape)?)])
            })
        }));
    }
    let flat = to_shape(&x, &[x.elements()])?;
    let places = nonzero(&to_shape(&mask, &[x.elements()])?)?;
    picked(&flat, 0, &to_shape(&places, &[places.elements()])?)
}

/// Sets elements above a diagonal of the last two axes to zero.
pub fn tril(x: &Tensor, diagonal: i64) -> Result<Tensor> {
    triangle("tril", x, Binary::Ge, diagonal)
}

/// Sets elements below a diagonal of the last two axes to zero.
pub fn triu(x: &Tensor, diagonal: i64) -> Result<Tensor> {
    triangle("triu", x, Binary::Le, diagonal)
}

fn triangle(name: &'static str, x: &Tensor, keeps: Binary, diagonal: i64) -> Result<Tensor> {
    if x.rank() < 2 {
        return Err(TensorError::shape(name, format!("{:?} is not a matrix", x.shape())));
    }
    let row = iota(x.device(), x.shape(), x.rank() - 2)?;
    let column = iota(x.device(), x.shape(), x.rank() - 1)?;
    let kept = binary(keeps, &binary_scalar(Binary::Add, &row, Scalar::Int(diagonal), false)?, &column)?;
    where_(&kept, x, &Tensor::constant(x.device(), Scalar::Int(0), x.shape(), x.dtype()))
}
