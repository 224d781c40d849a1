//! The gradient mode: whether operations record a graph for gradients.

use std::sync::Mutex;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tensor_core::grad_mode;

macro_rules! modes {
    ($($name:ident $python:literal $enabled:expr, $doc:literal;)*) => {
        $(
            #[doc = $doc]
            #[pyclass(name = $python, module = "pyflame", frozen)]
            pub struct $name { before: Mutex<Vec<bool>> }

            #[pymethods]
            impl $name {
                #[new]
                fn new() -> Self {
                    Self { before: Mutex::new(Vec::new()) }
                }

                fn __enter__(&self) {
                    let before = grad_mode::is_enabled();
                    self.before.lock().expect("no code panics while holding this lock").push(before);
                    grad_mode::set_enabled($enabled);
                }

                #[pyo3(signature = (*_error))]
                fn __exit__(&self, _error: &Bound<'_, PyTuple>) {
                    let before = self.before.lock().expect("no code panics while holding this lock").pop();
                    grad_mode::set_enabled(before.unwrap_or(true));
                }

                /// Use as a decorator.
                fn __call__<'py>(&self, py: Python<'py>, function: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
                    py.import("pyflame.autograd")?.call_method1("_decorated", (py.get_type::<Self>(), function))
                }
            }
        )*
    };
}

modes! {
    NoGrad "no_grad" false, "Operations inside record no graph for gradients. Also a decorator.";
    EnableGrad "enable_grad" true, "Operations inside record a graph for gradients. Also a decorator.";
}

/// Whether gradients are recorded in this thread.
#[pyfunction]
fn is_grad_enabled() -> bool {
    grad_mode::is_enabled()
}

/// Switches the recording of gradients for this thread on or off.
#[pyfunction]
fn set_grad_mode(enabled: bool) {
    grad_mode::set_enabled(enabled);
}

/// Parses the arguments of `to` into a device and a type.
#[pyfunction]
#[pyo3(signature = (*arguments, **named))]
pub fn parse_to<'py>(
    arguments: &Bound<'py, PyTuple>,
    named: Option<&Bound<'py, PyDict>>,
) -> PyResult<(Option<String>, Option<Py<crate::dtype::PyDType>>)> {
    let py = arguments.py();
    let (mut device, mut dtype) = (None, None);
    let mut take = |object: Bound<'py, PyAny>| -> PyResult<()> {
        if object.is_none() {
            return Ok(());
        }
        if let Ok(name) = object.extract::<String>()
            && crate::dtype::named(&name).is_none()
        {
            device = Some(name);
        } else if let Ok(other) = object.cast::<crate::tensor::PyTensor>() {
            device = Some(other.get().tensor().device().name().to_owned());
            dtype = Some(crate::dtype::object(py, other.get().tensor().dtype())?);
        } else {
            dtype = Some(crate::dtype::object(py, crate::dtype::meant(&object)?)?);
        }
        Ok(())
    };
    for argument in arguments.iter() {
        take(argument)?;
    }
    for (name, value) in named.into_iter().flatten() {
        match name.extract::<String>()?.as_str() {
            "device" | "dtype" => take(value)?,
            "copy" | "non_blocking" => {}
            other => {
                return Err(pyo3::exceptions::PyTypeError::new_err(format!("to() has no argument {other}")));
            }
        }
    }
    Ok((device, dtype))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<NoGrad>()?;
    module.add_class::<EnableGrad>()?;
    module.add_function(wrap_pyfunction!(is_grad_enabled, module)?)?;
    module.add_function(wrap_pyfunction!(set_grad_mode, module)?)?;
    module.add_function(wrap_pyfunction!(parse_to, module)?)
}
