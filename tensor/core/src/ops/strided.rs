//! Reads and writes by arbitrary layouts.

use crate::dtype::{DType, Scalar};
use crate::error::TensorError;
use crate::layout::{Layout, Shape};
use crate::node::Op;
use crate::ops::elementwise::cast;
use crate::ops::index::put;
use crate::ops::iota::iota;
use crate::ops::shape::{clone, contiguous, to_shape};
use crate::tensor::{Result, Tensor, size_in_bytes};

/// Returns an arbitrary strided view of the elements in row-major order; strides and offset in elements.
pub fn as_strided(x: &Tensor, shape: &[usize], strides: &[isize], offset: usize) -> Result<Tensor> {
    if shape.len() != strides.len() {
        return Err(TensorError::shape(
            "as_strided",
            format!("{shape:?} and {strides:?} have different lengths"),
        ));
    }
    let (mut lowest, mut highest) = (offset as i128, offset as i128);
    for (&length, &stride) in shape.iter().zip(strides) {
        let reach = (length.max(1) - 1) as i128 * stride as i128;
        if reach < 0 { lowest += reach } else { highest += reach }
    }
    if !shape.contains(&0) && (lowest < 0 || highest >= x.elements() as i128) {
        return Err(TensorError::index(
            "as_strided",
            format!(
                "{shape:?} by {strides:?} from {offset} exceeds the {} elements of {:?}",
                x.elements(),
                x.shape()
            ),
        ));
    }
    size_in_bytes("as_strided", shape, x.dtype())?;
    let flat = to_shape(&contiguous(x)?, &[x.elements()])?;
    let layout = Layout { shape: shape.into(), strides: strides.into(), offset };
    Ok(strided(&flat, &layout))
}

/// The elements at a layout of `x`, which is row-major; a view.
fn strided(x: &Tensor, layout: &Layout) -> Tensor {
    let view = x.viewed(|own| Layout { offset: own.offset + layout.offset, ..layout.clone() });
    view.record("as_strided", &[x], |_| {
        let (layout, shape) = (layout.clone(), Shape::from(x.shape()));
        Box::new(move |g| Ok(vec![Some(spread(g, &layout, &shape)?)]))
    })
}

/// `x`, in row-major order, with the elements of `y` at a layout. A copy.
pub(crate) fn written(x: &Tensor, layout: &Layout, y: &Tensor) -> Tensor {
    let made = Tensor::make(Op::Write(layout.clone()), &[x, y], x.shape().into(), x.dtype());
    made.record("write", &[x, y], |_| {
        let (layout, shape) = (layout.clone(), Shape::from(y.shape()));
        Box::new(move |g| {
            let nothing = Tensor::constant(g.device(), Scalar::Int(0), &shape, g.dtype());
            let of_x = written(g, &layout, &nothing);
            Ok(vec![Some(of_x), Some(strided(&row_major(g)?, &layout))])
        })
    })
}

/// The inverse of [`strided`]: zeros with these elements at a layout. Elements at the same place are added.
fn spread(g: &Tensor, layout: &Layout, shape: &[usize]) -> Result<Tensor> {
    let zeros = Tensor::constant(g.device(), Scalar::Int(0), shape, g.dtype());
    if !layout.overlaps() {
        return Ok(written(&zeros, layout, g));
    }
    let elements = zeros.elements();
    let places = iota(g.device(), &[elements.max(1)], 0)?;
    let places = to_shape(&contiguous(&strided(&row_major(&places)?, layout))?, &[g.elements()])?;
    let flat = to_shape(g, &[g.elements()])?;
    let sums = put("windows", &to_shape(&zeros, &[elements])?, 0, &cast(&places, DType::I64)?, &flat, true)?;
    to_shape(&sums, shape)
}

/// The tensor, or a copy if it is not all of its storage.
fn row_major(x: &Tensor) -> Result<Tensor> {
    if x.elements_place().layout.is_none() { Ok(x.clone()) } else { clone(x) }
}

/// Returns the function from gradients of a view to those of its base.
pub(crate) fn from_view(
    view: &Tensor,
    base: &Tensor,
) -> impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static {
    let frame = Frame::of(base);
    let layout = view.layout();
    move |g| frame.inside(&spread(g, &layout, &frame.storage)?)
}

/// The base of views in its storage.
struct Frame {
    storage: Shape,
    /// `None`: all of the storage.
    layout: Option<Layout>,
}

impl Frame {
    fn of(base: &Tensor) -> Frame {
        let place = base.elements_place();
        Frame { storage: place.storage.shape().into(), layout: place.layout }
    }

    /// A gradient of the storage as one of the base.
    fn inside(&self, g: &Tensor) -> Result<Tensor> {
        match &self.layout {
            None => Ok(g.clone()),
            Some(layout) => Ok(strided(&row_major(g)?, layout)),
        }
    }

    /// A gradient of the base as one of the storage.
    fn outside(&self, g: &Tensor) -> Result<Tensor> {
        match &self.layout {
            None => Ok(g.clone()),
            Some(layout) => spread(g, layout, &self.storage),
        }
    }
}

impl Tensor {
    /// Gives this tensor, and all that share its elements, the elements of another one, which has the same shape, type and
    /// device. Recorded for gradients.
    pub fn assign(&self, other: &Tensor) -> Result<()> {
        self.same_kind("in-place operation", other)?;
        let refuse = |why: &str| Err(TensorError::state("in-place operation", why));
        let recording = crate::grad_mode::is_enabled();
        let fixed = |x: &Tensor| recording && x.is_leaf() && x.requires_grad();
        if fixed(self) {
            return refuse(
                "a leaf Variable that requires grad is being used in an in-place operation; do it under no_grad()",
            );
        }
        if self.base().is_some_and(fixed) {
            return refuse(
                "a view of a leaf Variable that requires grad is being used in an in-place operation; do it under no_grad()",
            );
        }
        let layout = self.layout();
        if layout.overlaps() {
            return refuse(
                "more than one element of the tensor refers to a single place in memory; clone() it before the change",
            );
        }
        let old = recording && self.requires_grad();
        match self.base() {
            None => {
                let new = if old && !other.requires_grad() { forgotten(self, other) } else { other.clone() };
                self.write(other)?;
                if recording && new.requires_grad() {
                    self.take_history(&new);
                }
            }
            Some(base) => {
                let differentiable = recording && (other.requires_grad() || base.requires_grad());
                let new = differentiable.then(|| rebased(base, &layout, other));
                self.write(other)?;
                if let Some(new) = new {
                    base.take_history(&new);
                    self.refresh();
                }
            }
        }
        Ok(())
    }
}

/// `y` with the history of a write that ignores `x`.
fn forgotten(x: &Tensor, y: &Tensor) -> Tensor {
    y.snapshot().record("write", &[x], |_| Box::new(|g| Ok(vec![Some(g.filled_like(0.0))])))
}

/// A tensor with the history that the base of a view has after a write to the view. Its elements do not matter.
fn rebased(base: &Tensor, layout: &Layout, y: &Tensor) -> Tensor {
    base.snapshot().record("write", &[base, y], |_| {
        let (frame, layout, shape) = (Frame::of(base), layout.clone(), Shape::from(y.shape()));
        Box::new(move |g| {
            let g = row_major(&frame.outside(g)?)?;
            let nothing = Tensor::constant(g.device(), Scalar::Int(0), &shape, g.dtype());
            let of_base = frame.inside(&written(&g, &layout, &nothing))?;
            Ok(vec![Some(of_base), Some(strided(&g, &layout))])
        })
    })
}
