//! The lazy graph, for those who want to see it or to have it computed now.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tensor_core::Tensor;

use crate::device;
use crate::error::raise;
use crate::profile;
use crate::tensor::PyTensor;

fn collect(arguments: &Bound<'_, PyAny>, into: &mut Vec<Tensor>) -> PyResult<()> {
    if let Ok(tensor) = arguments.cast::<PyTensor>() {
        into.push(tensor.get().tensor());
        return Ok(());
    }
    if arguments.is_none() {
        return Ok(());
    }
    let Ok(items) = arguments.try_iter() else {
        return Err(PyTypeError::new_err(format!("a tensor is needed, not {}", arguments.get_type().name()?)));
    };
    for item in items {
        collect(&item?, into)?;
    }
    Ok(())
}

/// Begins to compute tensors, or lists of them, together. Waits for nothing.
#[pyfunction]
#[pyo3(signature = (*tensors))]
fn eval(py: Python<'_>, tensors: &Bound<'_, PyTuple>) -> PyResult<()> {
    let mut wanted = Vec::new();
    collect(tensors.as_any(), &mut wanted)?;
    let Some(first) = wanted.first() else { return Ok(()) };
    device::usable(first.device())?;
    let name = if profile::is_on() {
        format!("eval: {}", tensor_core::explain(&wanted).map_err(raise)?.launches().len())
    } else {
        String::new()
    };
    profile::begun(&name, first.device().name(), || py.detach(|| tensor_core::eval(&wanted))).map_err(raise)
}

/// Whether a tensor is not computed yet.
#[pyfunction]
fn is_lazy(tensor: &Bound<'_, PyTensor>) -> bool {
    !tensor.get().tensor().is_realised()
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(eval, module)?)?;
    module.add_function(wrap_pyfunction!(is_lazy, module)?)
}
