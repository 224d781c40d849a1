//! Reductions.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};
use tensor_core::ops::{length, norm, reduce, softmax, sort};
use tensor_core::program::Binary;

use crate::dtype::AnyDType;
use crate::error::raise;
use crate::operand::{Dims, Operand, one_of};
use crate::tensor::PyTensor;

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident $function:path;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                $(#[$doc])*
                #[pyo3(signature = (dim=None, keepdim=false, *, dtype=None, axis=None, keepdims=false))]
                fn $name(
                    &self,
                    dim: Option<Dims>,
                    keepdim: bool,
                    dtype: Option<AnyDType>,
                    axis: Option<Dims>,
                    keepdims: bool,
                ) -> PyResult<PyTensor> {
                    let (dim, keepdim) = (one_of(dim, axis)?, keepdim || keepdims);
                    self.map(|x| {
                        let x = match &dtype {
                            Some(dtype) => x.cast(dtype.0)?,
                            None => x.clone(),
                        };
                        let result = $function(&x, dim.as_ref().map(|dim| &dim.0[..]), keepdim)?;
                        // Small integers are summed in a larger type.
                        dtype.as_ref().map_or(Ok(result.clone()), |dtype| result.cast(dtype.0))
                    })
                }
            )*
        }
    };
}

reductions! {
    /// The sum along axes, or of all elements.
    sum reduce::sum;
    /// The mean along axes, or of all elements.
    mean reduce::mean;
    /// The product along an axis, or of all elements.
    prod reduce::prod;
    /// Whether any element along axes is not zero.
    any reduce::any;
    /// Whether all elements along axes are not zero.
    all reduce::all;
    /// The largest elements along axes.
    amax reduce::max;
    /// The smallest elements along axes.
    amin reduce::min;
}

impl PyTensor {
    fn extreme(
        &self,
        py: Python<'_>,
        name: &str,
        dim: Option<&Bound<'_, PyAny>>,
        keepdim: bool,
    ) -> PyResult<Py<PyAny>> {
        let largest = name == "max";
        let Some(dim) = dim else {
            return self
                .map(|x| if largest { reduce::max(x, None, keepdim) } else { reduce::min(x, None, keepdim) })?
                .into_py_any(py);
        };
        let number = if dim.cast::<PyTensor>().is_ok() { None } else { dim.extract::<isize>().ok() };
        let Some(dim) = number else {
            // max(a, b) is maximum(a, b).
            let code = if largest { Binary::Max } else { Binary::Min };
            return super::binary::compute(code, self, dim.extract::<Operand>()?, false)?.into_py_any(py);
        };
        let x = self.here()?;
        let (values, indices) = if largest {
            sort::max_with_indices(&x, dim, keepdim)
        } else {
            sort::min_with_indices(&x, dim, keepdim)
        }
        .map_err(raise)?;
        let placed = self.is_placed();
        super::sort::pair(py, name, PyTensor::new(values, placed), PyTensor::new(indices, placed))
    }
}

#[pymethods]
impl PyTensor {
    /// The maximum of all elements; with `dim` the maximum along it and its index; with a tensor the elementwise maximum.
    #[pyo3(signature = (dim=None, keepdim=false, *, axis=None, keepdims=false))]
    fn max(
        &self,
        py: Python<'_>,
        dim: Option<&Bound<'_, PyAny>>,
        keepdim: bool,
        axis: Option<&Bound<'_, PyAny>>,
        keepdims: bool,
    ) -> PyResult<Py<PyAny>> {
        self.extreme(py, "max", one_of(dim, axis)?, keepdim || keepdims)
    }

    /// The smallest element; along an axis also its index, or the smaller of each two elements.
    #[pyo3(signature = (dim=None, keepdim=false, *, axis=None, keepdims=false))]
    fn min(
        &self,
        py: Python<'_>,
        dim: Option<&Bound<'_, PyAny>>,
        keepdim: bool,
        axis: Option<&Bound<'_, PyAny>>,
        keepdims: bool,
    ) -> PyResult<Py<PyAny>> {
        self.extreme(py, "min", one_of(dim, axis)?, keepdim || keepdims)
    }

    /// The index of the largest element.
    #[pyo3(signature = (dim=None, keepdim=false, *, axis=None, keepdims=false))]
    fn argmax(
        &self,
        dim: Option<isize>,
        keepdim: bool,
        axis: Option<isize>,
        keepdims: bool,
    ) -> PyResult<PyTensor> {
        let (dim, keepdim) = (one_of(dim, axis)?, keepdim || keepdims);
        self.map(|x| sort::argmax(x, dim, keepdim))
    }

    /// The index of the smallest element.
    #[pyo3(signature = (dim=None, keepdim=false, *, axis=None, keepdims=false))]
    fn argmin(
        &self,
        dim: Option<isize>,
        keepdim: bool,
        axis: Option<isize>,
        keepdims: bool,
    ) -> PyResult<PyTensor> {
        let (dim, keepdim) = (one_of(dim, axis)?, keepdim || keepdims);
        self.map(|x| sort::argmin(x, dim, keepdim))
    }

    /// The variance along axes, or of all elements.
    #[pyo3(signature = (dim=None, unbiased=true, keepdim=false, *, correction=None, axis=None))]
    fn var(
        &self,
        dim: Option<&Bound<'_, PyAny>>,
        unbiased: bool,
        keepdim: bool,
        correction: Option<f64>,
        axis: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyTensor> {
        let (dim, unbiased) = spread_of(one_of(dim, axis)?, unbiased)?;
        let correction = correction.unwrap_or(f64::from(u8::from(unbiased)));
        self.map(|x| norm::var(x, dim.as_ref().map(|dim| &dim.0[..]), correction, keepdim))
    }

    /// The standard deviation along axes, or of all elements.
    #[pyo3(signature = (dim=None, unbiased=true, keepdim=false, *, correction=None, axis=None))]
    fn std(
        &self,
        dim: Option<&Bound<'_, PyAny>>,
        unbiased: bool,
        keepdim: bool,
        correction: Option<f64>,
        axis: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyTensor> {
        let (dim, unbiased) = spread_of(one_of(dim, axis)?, unbiased)?;
        let correction = correction.unwrap_or(f64::from(u8::from(unbiased)));
        self.map(|x| norm::std(x, dim.as_ref().map(|dim| &dim.0[..]), correction, keepdim))
    }

    /// The logarithm of the sum of the exponentials along axes.
    #[pyo3(signature = (dim=None, keepdim=false, *, axis=None))]
    fn logsumexp(&self, dim: Option<Dims>, keepdim: bool, axis: Option<Dims>) -> PyResult<PyTensor> {
        let dim = one_of(dim, axis)?;
        self.map(|x| softmax::logsumexp(x, dim.as_ref().map(|dim| &dim.0[..]), keepdim))
    }

    /// The norm of vectors: Euclidean (also 'fro'), or another p.
    #[pyo3(signature = (p=None, dim=None, keepdim=false, *, dtype=None, axis=None))]
    fn norm(
        &self,
        p: Option<&Bound<'_, PyAny>>,
        dim: Option<Dims>,
        keepdim: bool,
        dtype: Option<AnyDType>,
        axis: Option<Dims>,
    ) -> PyResult<PyTensor> {
        let dim = one_of(dim, axis)?;
        let p = match p {
            None => 2.0,
            Some(p) => match p.cast::<PyString>() {
                Ok(name) if name == "fro" => 2.0,
                Ok(name) => {
                    return Err(PyValueError::new_err(format!(
                        "norm: p must be a number or 'fro', not {:?}",
                        name.to_string_lossy()
                    )));
                }
                Err(_) => p.extract()?,
            },
        };
        self.map(|x| {
            let x = dtype.as_ref().map_or(Ok(x.clone()), |dtype| x.cast(dtype.0))?;
            length::norm(&x, p, dim.as_ref().map(|dim| &dim.0[..]), keepdim)
        })
    }
}

/// Parses `var(dim, unbiased)`, or `var(unbiased)`.
fn spread_of(dim: Option<&Bound<'_, PyAny>>, unbiased: bool) -> PyResult<(Option<Dims>, bool)> {
    Ok(match dim {
        Some(dim) if dim.is_instance_of::<PyBool>() => (None, dim.extract()?),
        Some(dim) => (Some(dim.extract()?), unbiased),
        None => (None, unbiased),
    })
}
