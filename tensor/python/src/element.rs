//! Conversion between Python numbers, `Scalar` and elements.

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt};
use tensor_core::dtype::{DType, Scalar};
use tensor_core::element;
pub use tensor_core::element::decode;

/// Converts a Python object to a scalar, if it is a number. NumPy scalars and objects convertible to a number count too.
pub fn number(object: &Bound<'_, PyAny>) -> PyResult<Option<Scalar>> {
    if object.is_exact_instance_of::<PyFloat>() {
        return Ok(Some(Scalar::Float(object.extract()?)));
    }
    if object.is_instance_of::<PyBool>() {
        return Ok(Some(Scalar::Bool(object.extract()?)));
    }
    if object.is_instance_of::<PyInt>() {
        return whole(object).map(Some);
    }
    if object.is_instance_of::<PyFloat>() {
        return Ok(Some(Scalar::Float(object.extract()?)));
    }
    if object.is_instance_of::<PyComplex>() {
        let real: f64 = object.getattr("real")?.extract()?;
        let imaginary: f64 = object.getattr("imag")?.extract()?;
        return Ok(Some(Scalar::Complex(real, imaginary)));
    }
    numpy_number(object)
}

fn whole(object: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    match object.extract::<i64>() {
        Ok(value) => Ok(Scalar::Int(value)),
        Err(_) => match object.extract::<u64>() {
            Ok(value) => Ok(Scalar::UInt(value)),
            Err(_) => Err(PyOverflowError::new_err(format!("{object} does not fit into 64 bits"))),
        },
    }
}

fn numpy_number(object: &Bound<'_, PyAny>) -> PyResult<Option<Scalar>> {
    let class = object.get_type();
    let is_numpy = class.module().is_ok_and(|name| name.to_string_lossy() == "numpy");
    if !is_numpy || object.hasattr("__iter__")? && object.hasattr("__len__")? {
        return Ok(None);
    }
    let Ok(kind) = object.getattr("dtype").and_then(|dtype| dtype.getattr("kind")) else { return Ok(None) };
    if object.getattr("ndim").and_then(|ndim| ndim.extract::<usize>()).unwrap_or(1) != 0 {
        return Ok(None);
    }
    let kind: String = kind.extract()?;
    if !object.hasattr("item")? || class.name()?.to_string_lossy() == "ndarray" {
        return Ok(None);
    }
    Ok(match kind.as_str() {
        "b" => Some(Scalar::Bool(object.is_truthy()?)),
        "i" | "u" => Some(whole(&object.call_method0("item")?)?),
        "f" => Some(Scalar::Float(object.call_method0("item")?.extract()?)),
        "c" => return number(&object.call_method0("item")?),
        _ => None,
    })
}

/// Writes a number as an element, unless that would drop an imaginary part. Values out of range wrap, as in casts of arrays.
pub fn encode(value: Scalar, dtype: DType, into: &mut Vec<u8>) -> PyResult<()> {
    if !dtype.is_complex() && matches!(value, Scalar::Complex(..)) {
        return Err(PyTypeError::new_err(format!("a complex number cannot be converted to {dtype}")));
    }
    element::encode(value, dtype, into);
    Ok(())
}

pub fn to_python(py: Python<'_>, value: Scalar) -> PyResult<Py<PyAny>> {
    Ok(match value {
        Scalar::Bool(value) => PyBool::new(py, value).to_owned().into_any().unbind(),
        Scalar::Int(value) => value.into_pyobject(py)?.into_any().unbind(),
        Scalar::UInt(value) => value.into_pyobject(py)?.into_any().unbind(),
        Scalar::Float(value) => PyFloat::new(py, value).into_any().unbind(),
        Scalar::Complex(real, imaginary) => PyComplex::from_doubles(py, real, imaginary).into_any().unbind(),
    })
}

/// The default element type of a Python number.
pub fn natural(value: Scalar) -> DType {
    match value {
        Scalar::Bool(_) => DType::Bool,
        Scalar::Int(_) => DType::I64,
        Scalar::UInt(_) => DType::U64,
        Scalar::Float(_) => DType::F32,
        Scalar::Complex(..) => DType::C64,
    }
}
