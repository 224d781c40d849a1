//! Joining, repeating, padding and splitting tensors.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tensor_core::Tensor;
use tensor_core::dtype::DType;
use tensor_core::ops::{join, strided, window};

use crate::operand::{Dims, Operand, apply, length_of, lengths_or};
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

/// Concatenates along an axis.
#[pyfunction]
#[pyo3(signature = (tensors, dim=0, *, axis=None))]
fn cat(tensors: Vec<Operand>, dim: isize, axis: Option<isize>) -> PyResult<PyTensor> {
    let dim = axis.unwrap_or(dim);
    joined(tensors, |tensors| join::cat(tensors, dim))
}

/// Joins tensors along an axis.
#[pyfunction]
#[pyo3(signature = (tensors, dim=0, *, axis=None))]
fn concat(tensors: Vec<Operand>, dim: isize, axis: Option<isize>) -> PyResult<PyTensor> {
    let dim = axis.unwrap_or(dim);
    cat(tensors, dim, None)
}

/// Stacks along a new axis.
#[pyfunction]
#[pyo3(signature = (tensors, dim=0, *, axis=None))]
fn stack(tensors: Vec<Operand>, dim: isize, axis: Option<isize>) -> PyResult<PyTensor> {
    let dim = axis.unwrap_or(dim);
    joined(tensors, |tensors| join::stack(tensors, dim))
}

#[pymethods]
impl PyTensor {
    /// Moves the elements along axes; those beyond the end come in at the start.
    #[pyo3(signature = (shifts, dims=None))]
    fn roll(&self, shifts: Dims, dims: Option<Dims>) -> PyResult<PyTensor> {
        use tensor_core::ops::shape;
        let Some(dims) = dims else {
            return match &shifts.0[..] {
                [shift] => self.map(|x| {
                    let whole: Vec<isize> = x.shape().iter().map(|&length| length as isize).collect();
                    shape::reshape(&join::roll(&shape::flatten(x, 0, -1)?, *shift, 0)?, &whole)
                }),
                _ => Err(PyValueError::new_err("roll: several shifts need equally many dims")),
            };
        };
        if dims.0.len() != shifts.0.len() {
            return Err(PyValueError::new_err("roll: there must be as many dims as shifts"));
        }
        self.map(|x| {
            dims.0.iter().zip(&shifts.0).try_fold(x.clone(), |x, (&dim, &shift)| join::roll(&x, shift, dim))
        })
    }

    /// Repeats the tensor along its axes.
    #[pyo3(signature = (*times, dims=None))]
    fn tile(&self, times: &Bound<'_, PyTuple>, dims: Option<Dims>) -> PyResult<PyTensor> {
        let times = lengths_or(times, dims)?.into_iter().map(length_of).collect::<PyResult<Vec<_>>>()?;
        self.map(|x| join::tile(x, &times))
    }

    /// Repeats the tensor along its axes.
    #[pyo3(signature = (*sizes))]
    fn repeat(&self, sizes: &Bound<'_, PyTuple>) -> PyResult<PyTensor> {
        let times = crate::operand::shape_of(sizes)?;
        if times.len() < self.tensor().rank() {
            return Err(PyValueError::new_err(
                "repeat: one number for every dimension is needed; tile() accepts fewer",
            ));
        }
        self.map(|x| join::tile(x, &times))
    }

    /// Repeats every element, or slice along an axis, a number of times; or each its own number of times.
    #[pyo3(signature = (repeats, dim=None))]
    fn repeat_interleave(&self, repeats: &Bound<'_, PyAny>, dim: Option<isize>) -> PyResult<PyTensor> {
        let Ok(repeats) = repeats.extract::<usize>() else { return self.repeat_each(repeats, dim) };
        self.map(|x| match dim {
            Some(dim) => join::repeat_interleave(x, repeats, dim),
            None => join::repeat_interleave(&tensor_core::ops::shape::flatten(x, 0, -1)?, repeats, 0),
        })
    }

    /// Pads the last axes: (left, right, top, bottom, ...), the last axis first; negative padding crops.
    #[pyo3(signature = (pad, value=None))]
    fn pad(&self, pad: Vec<isize>, value: Option<&Bound<'_, PyAny>>) -> PyResult<PyTensor> {
        let value = match value {
            None => tensor_core::dtype::Scalar::Int(0),
            Some(value) => crate::element::number(value)?
                .ok_or_else(|| PyTypeError::new_err("pad: the value must be a number"))?,
        };
        let rank = self.tensor().rank();
        if !pad.len().is_multiple_of(2) || pad.len() / 2 > rank {
            return Err(PyValueError::new_err(format!(
                "pad: {pad:?} is not a list of pairs for at most {rank} axes"
            )));
        }
        let mut frame = vec![(0, 0); rank];
        for (number, pair) in pad.chunks_exact(2).enumerate() {
            frame[rank - 1 - number] = (pair[0], pair[1]);
        }
        self.map(|x| window::pad(x, &frame, value))
    }

    /// A view with given shape, strides and offset in the tensor's storage.
    #[pyo3(signature = (size, stride, storage_offset=0))]
    fn as_strided(&self, size: Vec<usize>, stride: Vec<isize>, storage_offset: usize) -> PyResult<PyTensor> {
        self.map_view(|x| strided::as_strided(x, &size, &stride, storage_offset))
    }

    /// Windows of one axis, as a new last axis.
    fn unfold(&self, dimension: isize, size: usize, step: usize) -> PyResult<PyTensor> {
        use tensor_core::ops::shape;
        let rank = self.tensor().rank();
        let axis = crate::tensor::axis(dimension, rank, "unfold")?;
        if rank == 0 {
            // A 0-dimensional tensor counts as a vector of one element, with one window.
            return self.map_view(|x| {
                shape::select(&window::windows(&shape::reshape(x, &[1])?, &[size], &[step], &[1])?, 0, 0)
            });
        }
        self.map_view(|x| {
            // The axis is moved last for the windows, and their count is moved back to its position.
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

impl PyTensor {
    /// Downloads the counts, because the shape depends on them.
    fn repeat_each(&self, repeats: &Bound<'_, PyAny>, dim: Option<isize>) -> PyResult<PyTensor> {
        let repeats: Vec<i64> = match repeats.cast::<PyTensor>() {
            Ok(tensor) => {
                let flat = tensor.get().map(|x| tensor_core::ops::shape::flatten(x, 0, -1))?;
                Bound::new(repeats.py(), flat)?.call_method0("tolist")?.extract()?
            }
            Err(_) => repeats.extract()?,
        };
        let flat = match dim {
            Some(_) => PyTensor::new(self.here()?, self.is_placed()),
            None => self.map(|x| tensor_core::ops::shape::flatten(x, 0, -1))?,
        };
        let dim = dim.unwrap_or(0);
        let tensor = flat.tensor();
        let axis = crate::tensor::axis(dim, tensor.rank(), "repeat_interleave")?;
        let length = tensor.shape().get(axis).copied().unwrap_or(1);
        let each = |at: usize| repeats[if repeats.len() == 1 { 0 } else { at }];
        if repeats.len() != 1 && repeats.len() != length || repeats.iter().any(|&times| times < 0) {
            return Err(PyValueError::new_err(format!(
                "repeat_interleave: repeats must be one or {length} non-negative numbers, not {repeats:?}"
            )));
        }
        let places: Vec<u8> = (0..length)
            .flat_map(|at| std::iter::repeat_n(at as i64, each(at) as usize))
            .flat_map(i64::to_ne_bytes)
            .collect();
        flat.map(|x| {
            let index = Tensor::from_bytes(x.device(), DType::I64, &[places.len() / 8], &places)?;
            tensor_core::ops::index::index_select(x, dim, &index)
        })
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(cat, module)?)?;
    module.add_function(wrap_pyfunction!(concat, module)?)?;
    module.add_function(wrap_pyfunction!(stack, module)?)
}
