//! Conversion of errors to Python exceptions.

use std::cell::RefCell;
use std::error::Error;

use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyTypeError, PyValueError};
use tensor_core::error::{DeviceError, TensorError};

create_exception!(
    pyflame,
    OutOfMemoryError,
    PyRuntimeError,
    "A device is out of memory for a tensor, even after its memory pool was emptied."
);

/// Joins the message and the messages of all causes.
fn text_with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

thread_local! {
    /// The exception of a Python function that a backward pass of this thread has called.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Keeps the exception of a Python function while a backward pass returns; [`raise`] raises it again.
pub fn keep(raised: PyErr) -> TensorError {
    let why = raised.to_string();
    RAISED.set(Some(raised));
    TensorError::State { operation: FROM_PYTHON, why }
}

/// The operation of errors that stand for a kept exception.
const FROM_PYTHON: &str = "a Python function of the backward pass";

pub fn raise(error: TensorError) -> PyErr {
    if let TensorError::State { operation: FROM_PYTHON, .. } = &error
        && let Some(raised) = RAISED.take()
    {
        return raised;
    }
    let text = text_with_sources(&error);
    match error {
        TensorError::Shape { .. } => PyValueError::new_err(text),
        TensorError::Type { .. } => PyTypeError::new_err(text),
        TensorError::Index { .. } => PyIndexError::new_err(text),
        TensorError::Device { source: DeviceError::OutOfMemory { .. }, .. } => {
            OutOfMemoryError::new_err(text)
        }
        TensorError::Device { source: DeviceError::OutOfBounds { .. }, .. } => PyIndexError::new_err(text),
        TensorError::State { .. } | TensorError::Device { .. } => PyRuntimeError::new_err(text),
    }
}

pub fn raise_device(error: DeviceError) -> PyErr {
    let text = text_with_sources(&error);
    match error {
        DeviceError::OutOfMemory { .. } => OutOfMemoryError::new_err(text),
        DeviceError::OutOfBounds { .. } => PyIndexError::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}
