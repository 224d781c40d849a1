//! Shape operations.

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tensor_core::ops::shape;

use crate::operand::{Dims, lengths, lengths_or, needed, one_of};
use crate::tensor::PyTensor;

#[pymethods]
impl PyTensor {
    /// The elements in another shape; a view if strides can express it.
    #[pyo3(signature = (*lengths, shape=None))]
    fn reshape(&self, lengths: &Bound<'_, PyTuple>, shape: Option<Dims>) -> PyResult<PyTensor> {
        let lengths = lengths_or(lengths, shape)?;
        self.map_view(|x| shape::reshape(x, &lengths))
    }

    /// A view of the elements in another shape.
    #[pyo3(signature = (*shape))]
    fn view(&self, shape: &Bound<'_, PyTuple>) -> PyResult<PyTensor> {
        let lengths = lengths(shape)?;
        self.map_view(|x| shape::view(x, &lengths))
    }

    /// A view of the elements in the shape of another tensor.
    fn view_as(&self, other: &Bound<'_, PyTensor>) -> PyResult<PyTensor> {
        self.reshape_as(other)
    }

    /// The elements in the shape of another tensor.
    fn reshape_as(&self, other: &Bound<'_, PyTensor>) -> PyResult<PyTensor> {
        let lengths: Vec<isize> =
            other.get().tensor().shape().iter().map(|&length| length as isize).collect();
        self.map_view(|x| shape::reshape(x, &lengths))
    }

    /// The elements with a range of axes merged into one.
    #[pyo3(signature = (start_dim=0, end_dim=-1), text_signature = "($self, start_dim=0, end_dim=-1)")]
    fn flatten(&self, start_dim: isize, end_dim: isize) -> PyResult<PyTensor> {
        self.map_view(|x| shape::flatten(x, start_dim, end_dim))
    }

    /// The elements as a vector.
    fn ravel(&self) -> PyResult<PyTensor> {
        self.map_view(|x| shape::flatten(x, 0, -1))
    }

    /// A view with the axes in another order.
    #[pyo3(signature = (*axes, dims=None))]
    fn permute(&self, axes: &Bound<'_, PyTuple>, dims: Option<Dims>) -> PyResult<PyTensor> {
        let dims = lengths_or(axes, dims)?;
        self.map_view(|x| shape::permute(x, &dims))
    }

    /// A view with two axes swapped.
    fn transpose(&self, dim0: isize, dim1: isize) -> PyResult<PyTensor> {
        self.map_view(|x| shape::transpose(x, dim0, dim1))
    }

    /// A view with two axes swapped.
    fn swapaxes(&self, dim0: isize, dim1: isize) -> PyResult<PyTensor> {
        self.map_view(|x| shape::transpose(x, dim0, dim1))
    }

    /// A view of a matrix with its axes swapped.
    fn t(&self) -> PyResult<PyTensor> {
        let rank = self.tensor().rank();
        if rank > 2 {
            return Err(PyValueError::new_err(format!(
                "t() needs a matrix, but this tensor has {rank} dimensions; use transpose"
            )));
        }
        self.map_view(|x| if rank < 2 { Ok(x.clone()) } else { shape::transpose(x, 0, 1) })
    }

    /// Reverses all axes.
    #[getter]
    #[pyo3(name = "T")]
    fn transposed(&self) -> PyResult<PyTensor> {
        self.map_view(|x| shape::permute(x, &(0..x.rank() as isize).rev().collect::<Vec<_>>()))
    }

    /// Swaps the last two axes.
    #[getter]
    #[pyo3(name = "mT")]
    fn matrix_transposed(&self) -> PyResult<PyTensor> {
        self.map_view(|x| if x.rank() == 0 { Ok(x.clone()) } else { shape::transpose(x, -2, -1) })
    }

    /// A view with axes moved to other places.
    fn movedim(&self, source: Dims, destination: Dims) -> PyResult<PyTensor> {
        let rank = self.tensor().rank();
        if source.0.len() != destination.0.len() {
            return Err(PyValueError::new_err("movedim: there must be as many destinations as sources"));
        }
        let counted = |dims: &Dims| {
            dims.0.iter().map(|&dim| crate::tensor::axis(dim, rank, "movedim")).collect::<PyResult<Vec<_>>>()
        };
        let (from, to) = (counted(&source)?, counted(&destination)?);
        let twice = |axes: &[usize]| axes.iter().enumerate().any(|(at, axis)| axes[..at].contains(axis));
        if twice(&from) || twice(&to) {
            return Err(PyValueError::new_err(format!(
                "movedim: a dimension appears twice in {:?} or {:?}",
                source.0, destination.0
            )));
        }
        let mut order: Vec<Option<usize>> = vec![None; rank];
        for (&from, &to) in from.iter().zip(&to) {
            order[to] = Some(from);
        }
        let mut rest = (0..rank).filter(|axis| !from.contains(axis));
        let order: Vec<isize> = order
            .into_iter()
            .filter_map(|place| place.or_else(|| rest.next()))
            .map(|axis| axis as isize)
            .collect();
        self.map_view(|x| shape::permute(x, &order))
    }

    /// A view without axes of length one.
    #[pyo3(signature = (dim=None, *, axis=None))]
    fn squeeze(&self, dim: Option<Dims>, axis: Option<Dims>) -> PyResult<PyTensor> {
        let dim = one_of(dim, axis)?;
        self.map_view(|x| shape::squeeze(x, dim.as_ref().map(|dim| &dim.0[..])))
    }

    /// A view with an additional axis of length one.
    #[pyo3(signature = (dim=None, *, axis=None))]
    fn unsqueeze(&self, dim: Option<isize>, axis: Option<isize>) -> PyResult<PyTensor> {
        let dim = needed(dim, axis, "unsqueeze")?;
        self.map_view(|x| shape::unsqueeze(x, dim))
    }

    /// A view with axes of length one repeated, without a copy.
    #[pyo3(signature = (*sizes, size=None))]
    fn expand(&self, sizes: &Bound<'_, PyTuple>, size: Option<Dims>) -> PyResult<PyTensor> {
        let sizes = lengths_or(sizes, size)?;
        self.map_view(|x| shape::expand(x, &sizes))
    }

    /// A view with axes of length one repeated to the shape of another tensor.
    fn expand_as(&self, other: &Bound<'_, PyTensor>) -> PyResult<PyTensor> {
        let other = other.get().tensor();
        self.map_view(|x| shape::broadcast_to(x, other.shape()))
    }

    /// A view broadcast to a shape.
    #[pyo3(signature = (*shape, size=None))]
    fn broadcast_to(&self, shape: &Bound<'_, PyTuple>, size: Option<Dims>) -> PyResult<PyTensor> {
        let sizes = lengths_or(shape, size)?;
        self.map_view(|x| shape::expand(x, &sizes))
    }

    /// The elements in reverse order along axes.
    #[pyo3(signature = (*axes, dims=None))]
    fn flip(&self, axes: &Bound<'_, PyTuple>, dims: Option<Dims>) -> PyResult<PyTensor> {
        let dims = lengths_or(axes, dims)?;
        self.map(|x| shape::flip(x, &dims))
    }

    /// `x[start:end:step]` along one axis.
    #[pyo3(signature = (dim=0, start=None, end=None, step=1))]
    fn slice(&self, dim: isize, start: Option<isize>, end: Option<isize>, step: isize) -> PyResult<PyTensor> {
        self.map_view(|x| shape::slice(x, dim, start.unwrap_or(0), end.unwrap_or(isize::MAX), step))
    }

    /// A view of a range along an axis.
    fn narrow(&self, dim: isize, start: isize, length: isize) -> PyResult<PyTensor> {
        self.map_view(|x| shape::slice(x, dim, start, start.saturating_add(length), 1))
    }

    /// A view of one index of an axis.
    fn select(&self, dim: isize, index: isize) -> PyResult<PyTensor> {
        self.map_view(|x| shape::select(x, dim, index))
    }

    /// Splits along an axis, which is removed.
    #[pyo3(signature = (dim=0))]
    fn unbind(&self, dim: isize) -> PyResult<Vec<PyTensor>> {
        let tensor = self.tensor();
        if tensor.rank() == 0 {
            return Err(PyIndexError::new_err("unbind: a tensor without dimensions has no parts"));
        }
        let axis = crate::tensor::axis(dim, tensor.rank(), "unbind")?;
        let length = tensor.shape().get(axis).copied().unwrap_or(0);
        (0..length).map(|at| self.map_view(|x| shape::select(x, dim, at as isize))).collect()
    }

    /// The tensor itself if its elements are in row-major order, else a copy.
    fn contiguous(&self) -> PyResult<PyTensor> {
        self.map_view(shape::contiguous)
    }

    /// A copy of the tensor.
    fn clone(&self) -> PyResult<PyTensor> {
        self.map(shape::clone)
    }

    /// A copy of the tensor.
    fn copy(&self) -> PyResult<PyTensor> {
        self.map(shape::clone)
    }

    /// Splits along an axis into parts of one length, or of the lengths of a list.
    #[pyo3(signature = (split_size, dim=0))]
    fn split(&self, split_size: &Bound<'_, PyAny>, dim: isize) -> PyResult<Vec<PyTensor>> {
        let tensor = self.tensor();
        let axis = crate::tensor::axis(dim, tensor.rank(), "split")?;
        let length = tensor.shape().get(axis).copied().unwrap_or(0);
        let sizes: Vec<usize> = match split_size.extract::<usize>() {
            Ok(0) => return Err(PyValueError::new_err("split: the size of a part must be at least 1")),
            Ok(size) => (0..length.max(1)).step_by(size).map(|start| size.min(length - start)).collect(),
            Err(_) => split_size.extract()?,
        };
        if sizes.iter().sum::<usize>() != length {
            return Err(PyValueError::new_err(format!(
                "split: {sizes:?} do not add up to the length {length}"
            )));
        }
        let mut start = 0_isize;
        sizes
            .into_iter()
            .map(|size| {
                let end = start + size as isize;
                let part = self.map_view(|x| shape::slice(x, dim, start, end, 1));
                start = end;
                part
            })
            .collect()
    }

    /// Splits along an axis into a number of parts, equal but for the last.
    #[pyo3(signature = (chunks, dim=0))]
    fn chunk(&self, py: Python<'_>, chunks: usize, dim: isize) -> PyResult<Vec<PyTensor>> {
        let tensor = self.tensor();
        let axis = crate::tensor::axis(dim, tensor.rank(), "chunk")?;
        if chunks == 0 {
            return Err(PyValueError::new_err("chunk: the number of parts must be at least 1"));
        }
        let size = tensor.shape().get(axis).copied().unwrap_or(1).div_ceil(chunks).max(1);
        self.split(size.into_pyobject(py)?.as_any(), dim)
    }
}
