//! Hooks of gradients, and functions whose backward pass is written in Python.

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use tensor_core::Tensor;
use tensor_core::autograd::{Custom, HookHandle, backward_within as backward_inside};

use crate::error::{keep, raise};
use crate::tensor::PyTensor;

/// Removes a hook: `handle.remove()`, or at the end of a `with` block.
#[pyclass(name = "HookHandle", module = "pyflame", frozen)]
struct Handle(HookHandle);

#[pymethods]
impl Handle {
    /// Removes the hook. Does nothing if it was removed before.
    fn remove(&self) {
        self.0.remove();
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, _error: &Bound<'_, pyo3::types::PyTuple>) {
        self.0.remove();
    }
}

#[pymethods]
impl PyTensor {
    /// Calls `hook(gradient)` with the gradient of this tensor in every backward pass; a result other than None replaces it.
    fn register_hook(&self, hook: Py<PyAny>) -> PyResult<Handle> {
        let placed = self.is_placed();
        let call = move |gradient: &Tensor| {
            Python::attach(|py| {
                let given = PyTensor::new(gradient.clone(), placed);
                let changed = hook.call1(py, (given,))?;
                tensor_or_none(changed.bind(py), "a hook")
            })
            .map_err(keep)
        };
        self.tensor().register_hook(Arc::new(call)).map(Handle).map_err(raise)
    }

    /// Makes backward passes accumulate the gradient of this tensor in `grad`, although it is the result of an operation.
    fn retain_grad(&self) -> PyResult<()> {
        self.tensor().retain_grad().map_err(raise)
    }

    /// Whether `retain_grad` was called on this result of an operation.
    #[getter]
    fn retains_grad(&self) -> bool {
        self.tensor().retains_grad()
    }
}

fn tensor_or_none(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Option<Tensor>> {
    if object.is_none() {
        return Ok(None);
    }
    match object.cast::<PyTensor>() {
        Ok(tensor) => Ok(Some(tensor.get().tensor())),
        Err(_) => Err(PyTypeError::new_err(format!(
            "{what} must return a tensor or None, not {}",
            object.get_type().name()?
        ))),
    }
}

/// Gives outputs the history of a function of the inputs whose backward pass is `backward(gradients, saved)`. It returns one gradient
/// or None for each input.
#[pyfunction]
fn custom_function(
    inputs: Vec<Bound<'_, PyTensor>>,
    outputs: Vec<Bound<'_, PyTensor>>,
    saved: Vec<Bound<'_, PyTensor>>,
    backward: Py<PyAny>,
) -> Vec<PyTensor> {
    let own = |tensors: &[Bound<'_, PyTensor>]| -> Vec<Tensor> {
        tensors.iter().map(|tensor| tensor.get().tensor()).collect()
    };
    let placed = inputs.iter().chain(&outputs).any(|tensor| tensor.get().is_placed());
    let (inputs, outputs, saved) = (own(&inputs), own(&outputs), own(&saved));
    let homes: Vec<_> = inputs.iter().map(|input| (input.device().clone(), input.dtype())).collect();
    let call = move |gradients: &[Option<Tensor>], saved: &[Tensor]| -> PyResult<Vec<Option<Tensor>>> {
        Python::attach(|py| {
            let wrapped = |tensor: &Tensor| Py::new(py, PyTensor::new(tensor.clone(), placed));
            let gradients = gradients.iter().map(|it| it.as_ref().map(wrapped).transpose());
            let gradients = gradients.collect::<PyResult<Vec<_>>>()?;
            let saved = saved.iter().map(wrapped).collect::<PyResult<Vec<_>>>()?;
            let answer: Vec<Bound<'_, PyAny>> = backward.call1(py, (gradients, saved))?.extract(py)?;
            let found = answer.iter().map(|gradient| tensor_or_none(gradient, "backward"));
            let found = found.collect::<PyResult<Vec<_>>>()?;
            let at_home = found.into_iter().zip(&homes).map(|(gradient, (device, dtype))| {
                gradient.map(|it| it.to_device(device)?.cast(*dtype)).transpose().map_err(raise)
            });
            at_home.collect()
        })
    };
    let custom = Custom {
        inputs: &inputs.iter().collect::<Vec<_>>(),
        outputs: &outputs,
        saved: &saved.iter().collect::<Vec<_>>(),
        backward: Box::new(move |gradients, saved| call(gradients, saved).map_err(keep)),
    };
    custom.record().into_iter().map(|tensor| PyTensor::new(tensor, placed)).collect()
}

/// A backward pass inside of a backward pass: returns the gradients of the inputs, and hands those of all other leaves to the outer
/// one.
#[pyfunction]
fn backward_within(
    py: Python<'_>,
    outputs: Vec<Bound<'_, PyTensor>>,
    gradients: Vec<Option<Bound<'_, PyTensor>>>,
    inputs: Vec<Bound<'_, PyTensor>>,
) -> PyResult<Vec<Option<PyTensor>>> {
    let placed: Vec<bool> = inputs.iter().map(|input| input.get().is_placed()).collect();
    let outputs: Vec<Tensor> = outputs.iter().map(|tensor| tensor.get().tensor()).collect();
    let gradients: Vec<Option<Tensor>> =
        gradients.iter().map(|gradient| gradient.as_ref().map(|it| it.get().tensor())).collect();
    let inputs: Vec<Tensor> = inputs.iter().map(|tensor| tensor.get().tensor()).collect();
    let begun: Vec<_> = outputs.iter().zip(gradients.iter().map(Option::as_ref)).collect();
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let found = py.detach(|| backward_inside(&begun, &inputs)).map_err(raise)?;
    let found = found.into_iter().zip(placed);
    Ok(found.map(|(gradient, placed)| gradient.map(|it| PyTensor::new(it, placed))).collect())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Handle>()?;
    module.add_function(wrap_pyfunction!(custom_function, module)?)?;
    module.add_function(wrap_pyfunction!(backward_within, module)?)
}
