//! Sorting, and cumulative sums.

use pyo3::prelude::*;
use tensor_core::dtype::DType;
use tensor_core::ops::{index, sort};

use crate::dtype::AnyDType;
use crate::error::raise;
use crate::operand::{Operand, apply, needed};
use crate::tensor::PyTensor;

/// Returns values and indices, as PyTorch does; the object can also be used as if it were only the values.
pub fn pair(py: Python<'_>, name: &str, values: PyTensor, indices: PyTensor) -> PyResult<Py<PyAny>> {
    let class = py.import("pyflame._size")?.getattr("ValuesAndIndices")?;
    Ok(class.call1((values, indices, name))?.unbind())
}

#[pymethods]
impl PyTensor {
    /// Stable sort, NaN last.
    #[pyo3(signature = (dim=-1, descending=false, stable=true), text_signature = "($self, dim=-1, descending=False, stable=True)")]
    fn sort(&self, py: Python<'_>, dim: isize, descending: bool, stable: bool) -> PyResult<Py<PyAny>> {
        let _ = stable;
        let (values, indices) = sort::sort(&self.here()?, dim, descending).map_err(raise)?;
        let placed = self.is_placed();
        pair(py, "sort", PyTensor::new(values, placed), PyTensor::new(indices, placed))
    }

    /// The indices that sort the elements along an axis.
    #[pyo3(signature = (dim=-1, descending=false, stable=true), text_signature = "($self, dim=-1, descending=False, stable=True)")]
    fn argsort(&self, dim: isize, descending: bool, stable: bool) -> PyResult<PyTensor> {
        let _ = stable;
        self.map(|x| sort::argsort(x, dim, descending))
    }

    /// The `k` largest or smallest elements along an axis, and their indices.
    #[pyo3(signature = (k, dim=-1, largest=true, sorted=true), text_signature = "($self, k, dim=-1, largest=True, sorted=True)")]
    fn topk(&self, py: Python<'_>, k: usize, dim: isize, largest: bool, sorted: bool) -> PyResult<Py<PyAny>> {
        let _ = sorted;
        let (values, indices) = sort::topk(&self.here()?, k, dim, largest).map_err(raise)?;
        let placed = self.is_placed();
        pair(py, "topk", PyTensor::new(values, placed), PyTensor::new(indices, placed))
    }

    /// The sum of the elements up to each one, along an axis.
    #[pyo3(signature = (dim=None, *, dtype=None, axis=None))]
    fn cumsum(&self, dim: Option<isize>, dtype: Option<AnyDType>, axis: Option<isize>) -> PyResult<PyTensor> {
        let dim = needed(dim, axis, "cumsum")?;
        self.map(|x| match &dtype {
            Some(dtype) => sort::cumsum(&x.cast(dtype.0)?, dim)?.cast(dtype.0),
            None => sort::cumsum(x, dim),
        })
    }

    /// The product of the elements up to each one, along an axis.
    #[pyo3(signature = (dim=None, *, dtype=None, axis=None))]
    fn cumprod(
        &self,
        dim: Option<isize>,
        dtype: Option<AnyDType>,
        axis: Option<isize>,
    ) -> PyResult<PyTensor> {
        let dim = needed(dim, axis, "cumprod")?;
        self.map(|x| match &dtype {
            Some(dtype) => sort::cumprod(&x.cast(dtype.0)?, dim)?.cast(dtype.0),
            None => sort::cumprod(x, dim),
        })
    }

    /// Elements by their index in the flattened tensor.
    fn take(&self, index: Operand) -> PyResult<PyTensor> {
        apply(&[Operand::from(self), index], |x| index::take(&x[0], &x[1]))
    }

    /// A one at the index given by the element, zeros elsewhere; without a number of classes, the largest element determines it.
    #[pyo3(signature = (num_classes=-1), text_signature = "($self, num_classes=-1)")]
    fn one_hot(&self, py: Python<'_>, num_classes: i64) -> PyResult<PyTensor> {
        let classes = match usize::try_from(num_classes) {
            Ok(classes) => classes,
            Err(_) => {
                let largest =
                    self.map(|x| tensor_core::ops::reduce::max(&x.cast(DType::I64)?, None, false))?;
                match largest.element(py)? {
                    tensor_core::dtype::Scalar::Int(largest) => usize::try_from(largest + 1).unwrap_or(0),
                    _ => 0,
                }
            }
        };
        self.map(|x| index::one_hot(x, classes))
    }

    /// The lower triangle of matrices; other elements are zero.
    #[pyo3(signature = (diagonal=0))]
    fn tril(&self, diagonal: i64) -> PyResult<PyTensor> {
        self.map(|x| index::tril(x, diagonal))
    }

    /// The upper triangle of matrices; other elements are zero.
    #[pyo3(signature = (diagonal=0))]
    fn triu(&self, diagonal: i64) -> PyResult<PyTensor> {
        self.map(|x| index::triu(x, diagonal))
    }
}
