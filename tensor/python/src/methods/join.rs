//! Tensors joined, repeated, framed and cut.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tensor_core::Tensor;
use tensor_core::ops::{join, window};

use crate::operand::{Dims, Operand, apply};
use crate::tensor::PyTensor;

fn joined(
    tensors: Vec<Operand>,
    operation: impl FnOnce(&[&Tensor]) -> tensor_core::Result<Tensor>,
) -> PyResult<PyTensor> {
    if tensors.is_empty() {
        return Err(PyValueError::new_err("at least one tensor is needed"));
    }
    apply(&tensors, |tensors| operation(&tensors.iter().collect::<Vec<_>>()))
}

/// One after another along an axis.
#[pyfunction]
#[pyo3(signature = (tensors, dim=0))]
fn cat(tensors: Vec<Operand>, dim: isize) -> PyResult<PyTensor> {
    joined(tensors, |tensors| join::cat(tensors, dim))
}

#[pyfunction]
#[pyo3(signature = (tensors, dim=0))]
fn concat(tensors: Vec<Operand>, dim: isize) -> PyResult<PyTensor> {
    cat(tensors, dim)
}

/// One after another along a new axis.
#[pyfunction]
#[pyo3(signature = (tensors, dim=0))]
fn stack(tensors: Vec<Operand>, dim: isize) -> PyResult<PyTensor> {
    joined(tensors, |tensors| join::stack(tensors, dim))
}

#[pymethods]
impl PyTensor {
    #[pyo3(signature = (shifts, dims=None))]
    fn roll(&self, shifts: Dims, dims: Option<Dims>) -> PyResult<PyTensor> {
        use tensor_core::ops::shape;
        let Some(dims) = dims else {
            return match &shifts.0[..] {
                [shift] => self.map(|x| {
                    let whole: Vec<isize> = x.shape().iter().map(|&length| length as isize).collect();
                    shape::reshape(&join::roll(&shape::flatten(x, 0, -1)?, *shift, 0)?, &whole)
                }),
                _ => Err(PyValueError::new_err("roll: several shifts need as many dims")),
            };
        };
        if dims.0.len() != shifts.0.len() {
            return Err(PyValueError::new_err("roll: as many dims as shifts are needed"));
        }
        self.map(|x| {
            dims.0.iter().zip(&shifts.0).try_fold(x.clone(), |x, (&dim, &shift)| join::roll(&x, shift, dim))
        })
    }

    #[pyo3(signature = (*dims))]
    fn tile(&self, dims: &Bound<'_, PyTuple>) -> PyResult<PyTensor> {
        let times = crate::operand::shape_of(dims)?;
        self.map(|x| join::tile(x, &times))
    }

    #[pyo3(signature = (*sizes))]
    fn repeat(&self, sizes: &Bound<'_, PyTuple>) -> PyResult<PyTensor> {
        let times = crate::operand::shape_of(sizes)?;
        if times.len() < self.tensor().rank() {
            return Err(PyValueError::new_err(
                "repeat: a number for every dimension is needed; tile() takes fewer",
            ));
        }
        self.map(|x| join::tile(x, &times))
    }

    #[pyo3(signature = (repeats, dim=None))]
    fn repeat_interleave(&self, repeats: usize, dim: Option<isize>) -> PyResult<PyTensor> {
        self.map(|x| match dim {
            Some(dim) => join::repeat_interleave(x, repeats, dim),
            None => join::repeat_interleave(&tensor_core::ops::shape::flatten(x, 0, -1)?, repeats, 0),
        })
    }

    /// Frames the last axes: (left, right, top, bottom, ...), the last axis first; a negative frame cuts.
    #[pyo3(signature = (pad, value=None))]
    fn pad(&self, pad: Vec<isize>, value: Option<&Bound<'_, PyAny>>) -> PyResult<PyTensor> {
        let value = match value {
            None => tensor_core::dtype::Scalar::Int(0),
            Some(value) => crate::element::number(value)?
                .ok_or_else(|| PyTypeError::new_err("pad: the value is a number"))?,
        };
        let rank = self.tensor().rank();
        if !pad.len().is_multiple_of(2) || pad.len() / 2 > rank {
            return Err(PyValueError::new_err(format!("pad: {pad:?} are not pairs for at most {rank} axes")));
        }
        let mut frame = vec![(0, 0); rank];
        for (number, pair) in pad.chunks_exact(2).enumerate() {
            frame[rank - 1 - number] = (pair[0], pair[1]);
        }
        self.map(|x| window::pad(x, &frame, value))
    }

    #[pyo3(signature = (size, stride, storage_offset=0))]
    fn as_strided(&self, size: Vec<usize>, stride: Vec<isize>, storage_offset: usize) -> PyResult<PyTensor> {
        self.map(|x| window::as_strided(x, &size, &stride, storage_offset))
    }

    /// Windows of one axis, which become a last axis.
    fn unfold(&self, dimension: isize, size: usize, step: usize) -> PyResult<PyTensor> {
        use tensor_core::ops::shape;
        let rank = self.tensor().rank();
        let axis = crate::tensor::axis(dimension, rank, "unfold")?;
        self.map(|x| {
            // The axis goes last and its windows come back to where it was.
            let mut order: Vec<isize> =
                (0..rank).filter(|&other| other != axis).map(|axis| axis as isize).collect();
            order.push(axis as isize);
            let windows = window::windows(&shape::permute(x, &order)?, &[size], &[step], &[1])?;
            let mut back: Vec<isize> = (0..rank as isize - 1).collect();
            back.insert(axis, rank as isize - 1);
            back.push(rank as isize);
            shape::permute(&windows, &back)
        })
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(cat, module)?)?;
    module.add_function(wrap_pyfunction!(concat, module)?)?;
    module.add_function(wrap_pyfunction!(stack, module)?)
}
