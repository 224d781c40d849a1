//! Arbitrary strided views.

use crate::dtype::{DType, Scalar};
use crate::error::TensorError;
use crate::layout::Layout;
use crate::ops::elementwise::cast;
use crate::ops::index::put;
use crate::ops::iota::iota;
use crate::ops::shape::{contiguous, to_shape};
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
    let view = flat.viewed(|layout| Layout {
        shape: shape.into(),
        strides: strides.into(),
        offset: layout.offset + offset,
    });
    Ok(view.record("as_strided", &[&flat], |_| {
        let (device, elements) = (flat.device().clone(), flat.elements());
        let layout = Layout { shape: shape.into(), strides: strides.into(), offset };
        Box::new(move |g| {
            let places = iota(&device, &[elements.max(1)], 0)?;
            let places = to_shape(&contiguous(&places.viewed(|_| layout.clone()))?, &[g.elements()])?;
            let zeros = Tensor::constant(&device, Scalar::Int(0), &[elements], g.dtype());
            let flat = to_shape(g, &[g.elements()])?;
            Ok(vec![Some(put("windows", &zeros, 0, &cast(&places, DType::I64)?, &flat, true)?)])
        })
    }))
}
