//! Conversion of errors to Python exceptions.

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

pub fn raise(error: TensorError) -> PyErr {
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
