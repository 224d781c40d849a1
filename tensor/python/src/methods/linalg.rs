//! Operations computed on the host: linear algebra and transforms for `pyflame.linalg` and `pyflame.fft`, and unique elements.
//! Also diagonals.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tensor_core::Tensor;
use tensor_core::ops::{diagonal, fft, index, linalg, reduce, shape, unique};

use crate::error::raise;
use crate::operand::{Operand, apply};
use crate::tensor::PyTensor;

/// Calls a function that waits for its input, with the GIL released.
fn waited<T: Send>(
    py: Python<'_>,
    x: &PyTensor,
    function: impl FnOnce(&Tensor) -> tensor_core::Result<T> + Send,
) -> PyResult<T> {
    let tensor = x.here()?;
    crate::device::usable(tensor.device())?;
    py.detach(|| function(&tensor)).map_err(raise)
}

macro_rules! one {
    ($($name:ident $function:path, $doc:literal;)*) => {
        $(
            #[doc = $doc]
            #[pyfunction]
            fn $name(py: Python<'_>, input: &Bound<'_, PyTensor>) -> PyResult<PyTensor> {
                let x = input.get();
                Ok(PyTensor::new(waited(py, x, $function)?, x.is_placed()))
            }
        )*

        fn register_one(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(module.add_function(wrap_pyfunction!($name, module)?)?;)*
            Ok(())
        }
    };
}

one! {
    linalg_inv linalg::inv, "The inverse of each matrix.";
    linalg_eigvalsh linalg::eigvalsh, "The eigenvalues of each Hermitian matrix, of which the lower triangle is read.";
    linalg_svdvals linalg::svdvals, "The singular values of each matrix.";
    linalg_det linalg::det, "The determinant of each matrix.";
    linalg_cholesky linalg::cholesky, "The lower Cholesky factor of each matrix.";
}

/// The solution of `a @ x = b` for each matrix.
#[pyfunction]
fn linalg_solve(py: Python<'_>, a: Operand, b: Operand) -> PyResult<PyTensor> {
    let together = crate::operand::together(&[a, b])?;
    let (a, b) = (&together.tensors[0], &together.tensors[1]);
    crate::device::usable(a.device())?;
    Ok(PyTensor::new(py.detach(|| linalg::solve(a, b)).map_err(raise)?, together.placed))
}

/// Results of two or three tensors.
type Pair = (PyTensor, PyTensor);
type Three = (PyTensor, PyTensor, PyTensor);

fn pair(x: &PyTensor, (first, second): (Tensor, Tensor)) -> Pair {
    (PyTensor::new(first, x.is_placed()), PyTensor::new(second, x.is_placed()))
}

/// The sign of each determinant and the logarithm of its absolute value.
#[pyfunction]
fn linalg_slogdet(py: Python<'_>, input: &Bound<'_, PyTensor>) -> PyResult<Pair> {
    Ok(pair(input.get(), waited(py, input.get(), linalg::slogdet)?))
}

/// The eigenvalues of each Hermitian matrix in ascending order, and its eigenvectors.
#[pyfunction]
fn linalg_eigh(py: Python<'_>, input: &Bound<'_, PyTensor>) -> PyResult<Pair> {
    Ok(pair(input.get(), waited(py, input.get(), linalg::eigh)?))
}

/// Orthonormal columns and an upper triangle of each matrix.
#[pyfunction]
fn linalg_qr(py: Python<'_>, input: &Bound<'_, PyTensor>, complete: bool) -> PyResult<Pair> {
    Ok(pair(input.get(), waited(py, input.get(), |x| linalg::qr(x, complete))?))
}

/// The singular value decomposition of each matrix.
#[pyfunction]
fn linalg_svd(py: Python<'_>, input: &Bound<'_, PyTensor>, full_matrices: bool) -> PyResult<Three> {
    let (u, values, v) = waited(py, input.get(), |x| linalg::svd(x, full_matrices))?;
    let made = |tensor| PyTensor::new(tensor, input.get().is_placed());
    Ok((made(u), made(values), made(v)))
}

/// The Fourier transform along an axis, or its inverse; both unnormalised.
#[pyfunction]
fn fft_line(py: Python<'_>, input: &Bound<'_, PyTensor>, dim: isize, inverse: bool) -> PyResult<PyTensor> {
    let x = input.get();
    Ok(PyTensor::new(waited(py, x, |x| fft::fft(x, dim, inverse))?, x.is_placed()))
}

/// The first half of the Fourier transform of real numbers along an axis.
#[pyfunction]
fn rfft_line(py: Python<'_>, input: &Bound<'_, PyTensor>, dim: isize) -> PyResult<PyTensor> {
    let x = input.get();
    Ok(PyTensor::new(waited(py, x, |x| fft::rfft(x, dim))?, x.is_placed()))
}

/// The real numbers, an even number of them, whose transform has this first half; unnormalised.
#[pyfunction]
fn irfft_line(py: Python<'_>, input: &Bound<'_, PyTensor>, dim: isize) -> PyResult<PyTensor> {
    let x = input.get();
    Ok(PyTensor::new(waited(py, x, |x| fft::irfft(x, dim))?, x.is_placed()))
}

/// The first position of each distinct element, the group of each element, and the count of each.
#[pyfunction]
#[pyo3(signature = (input, dim=None))]
fn groups(py: Python<'_>, input: &Bound<'_, PyTensor>, dim: Option<isize>) -> PyResult<Three> {
    let found = waited(py, input.get(), |x| unique::groups(x, dim))?;
    let made = |tensor| PyTensor::new(tensor, input.get().is_placed());
    Ok((made(found.first), made(found.inverse), made(found.counts)))
}

/// Complex numbers from real and imaginary parts.
#[pyfunction]
fn complex(real: Operand, imag: Operand) -> PyResult<PyTensor> {
    apply(&[real, imag], |x| {
        tensor_core::ops::elementwise::binary(tensor_core::program::Binary::Complex, &x[0], &x[1])
    })
}

#[pymethods]
impl PyTensor {
    /// The diagonal of two axes, as a last axis.
    #[pyo3(signature = (offset=0, dim1=0, dim2=1))]
    fn diagonal(&self, offset: isize, dim1: isize, dim2: isize) -> PyResult<PyTensor> {
        self.map_view(|x| diagonal::diagonal(x, offset, dim1, dim2))
    }

    /// The sum of a matrix's diagonal.
    fn trace(&self) -> PyResult<PyTensor> {
        if self.tensor().rank() != 2 {
            return Err(pyo3::exceptions::PyValueError::new_err("trace: the tensor must be a matrix"));
        }
        self.map(|x| reduce::sum(&diagonal::diagonal(x, 0, 0, 1)?, None, false))
    }

    /// The distinct elements in ascending order, or the distinct slices along an axis; optionally the group of each element and
    /// the counts.
    #[pyo3(signature = (sorted=true, return_inverse=false, return_counts=false, dim=None))]
    fn unique(
        &self,
        py: Python<'_>,
        sorted: bool,
        return_inverse: bool,
        return_counts: bool,
        dim: Option<isize>,
    ) -> PyResult<Py<PyAny>> {
        // The result is always sorted.
        let _ = sorted;
        let found = waited(py, self, |x| unique::groups(x, dim))?;
        let values = self.map(|x| match dim {
            Some(dim) => index::index_select(x, dim, &found.first),
            None => index::index_select(&shape::flatten(x, 0, -1)?, 0, &found.first),
        })?;
        let mut answers = vec![values];
        if return_inverse {
            answers.push(PyTensor::new(found.inverse, self.is_placed()));
        }
        if return_counts {
            answers.push(PyTensor::new(found.counts, self.is_placed()));
        }
        if answers.len() == 1 {
            return answers.swap_remove(0).into_py_any(py);
        }
        PyTuple::new(py, answers)?.into_py_any(py)
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    register_one(module)?;
    module.add_function(wrap_pyfunction!(linalg_solve, module)?)?;
    module.add_function(wrap_pyfunction!(linalg_slogdet, module)?)?;
    module.add_function(wrap_pyfunction!(linalg_eigh, module)?)?;
    module.add_function(wrap_pyfunction!(linalg_qr, module)?)?;
    module.add_function(wrap_pyfunction!(linalg_svd, module)?)?;
    module.add_function(wrap_pyfunction!(fft_line, module)?)?;
    module.add_function(wrap_pyfunction!(rfft_line, module)?)?;
    module.add_function(wrap_pyfunction!(irfft_line, module)?)?;
    module.add_function(wrap_pyfunction!(groups, module)?)?;
    module.add_function(wrap_pyfunction!(complex, module)?)
}
