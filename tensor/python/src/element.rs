//! Conversion of single elements between bytes, `Scalar`, and Python numbers.

use half::{bf16, f16};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt};
use tensor_core::dtype::{DType, Scalar};

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
        return Ok(Some(Scalar::Complex(real as f32, imaginary as f32)));
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
        _ => None,
    })
}

/// Writes a number as an element. Values out of range wrap, as in casts of arrays.
pub fn encode(value: Scalar, dtype: DType, into: &mut Vec<u8>) -> PyResult<()> {
    if dtype != DType::C64 && matches!(value, Scalar::Complex(..)) {
        return Err(PyTypeError::new_err(format!("a complex number cannot be converted to {dtype}")));
    }
    let float = match value {
        Scalar::Bool(value) => f64::from(u8::from(value)),
        Scalar::Int(value) => value as f64,
        Scalar::UInt(value) => value as f64,
        Scalar::Float(value) => value,
        Scalar::Complex(real, _) => f64::from(real),
    };
    let integer = match value {
        Scalar::Bool(value) => i64::from(value),
        Scalar::Int(value) => value,
        Scalar::UInt(value) => value as i64,
        Scalar::Float(value) => value as i64,
        Scalar::Complex(real, _) => real as i64,
    };
    match dtype {
        DType::Bool => {
            into.push(u8::from(float != 0.0 || matches!(value, Scalar::Complex(_, i) if i != 0.0)))
        }
        DType::U8 => into.push(integer as u8),
        DType::I8 => into.extend((integer as i8).to_ne_bytes()),
        DType::U16 => into.extend((integer as u16).to_ne_bytes()),
        DType::I16 => into.extend((integer as i16).to_ne_bytes()),
        DType::U32 => into.extend((integer as u32).to_ne_bytes()),
        DType::I32 => into.extend((integer as i32).to_ne_bytes()),
        DType::U64 => match value {
            Scalar::Float(value) if value >= 0.0 => into.extend((value as u64).to_ne_bytes()),
            _ => into.extend((integer as u64).to_ne_bytes()),
        },
        DType::I64 => into.extend(integer.to_ne_bytes()),
        DType::F16 => into.extend(f16::from_f64(float).to_ne_bytes()),
        DType::BF16 => into.extend(bf16::from_f64(float).to_ne_bytes()),
        DType::F32 => into.extend((float as f32).to_ne_bytes()),
        DType::F64 => into.extend(float.to_ne_bytes()),
        DType::C64 => {
            let imaginary = if let Scalar::Complex(_, imaginary) = value { imaginary } else { 0.0 };
            into.extend((float as f32).to_ne_bytes());
            into.extend(imaginary.to_ne_bytes());
        }
    }
    Ok(())
}

/// Reads the element at the start of `bytes`.
pub fn decode(bytes: &[u8], dtype: DType) -> Scalar {
    macro_rules! read {
        ($type:ty) => {{
            let mut raw = [0; size_of::<$type>()];
            raw.copy_from_slice(&bytes[..size_of::<$type>()]);
            <$type>::from_ne_bytes(raw)
        }};
    }
    match dtype {
        DType::Bool => Scalar::Bool(bytes[0] != 0),
        DType::U8 => Scalar::UInt(u64::from(bytes[0])),
        DType::U16 => Scalar::UInt(u64::from(read!(u16))),
        DType::U32 => Scalar::UInt(u64::from(read!(u32))),
        DType::U64 => Scalar::UInt(read!(u64)),
        DType::I8 => Scalar::Int(i64::from(read!(i8))),
        DType::I16 => Scalar::Int(i64::from(read!(i16))),
        DType::I32 => Scalar::Int(i64::from(read!(i32))),
        DType::I64 => Scalar::Int(read!(i64)),
        DType::F16 => Scalar::Float(f64::from(f16::from_bits(read!(u16)))),
        DType::BF16 => Scalar::Float(f64::from(bf16::from_bits(read!(u16)))),
        DType::F32 => Scalar::Float(f64::from(read!(f32))),
        DType::F64 => Scalar::Float(read!(f64)),
        DType::C64 => {
            let real = read!(f32);
            let mut raw = [0; 4];
            raw.copy_from_slice(&bytes[4..8]);
            Scalar::Complex(real, f32::from_ne_bytes(raw))
        }
    }
}

pub fn to_python(py: Python<'_>, value: Scalar) -> PyResult<Py<PyAny>> {
    Ok(match value {
        Scalar::Bool(value) => PyBool::new(py, value).to_owned().into_any().unbind(),
        Scalar::Int(value) => value.into_pyobject(py)?.into_any().unbind(),
        Scalar::UInt(value) => value.into_pyobject(py)?.into_any().unbind(),
        Scalar::Float(value) => PyFloat::new(py, value).into_any().unbind(),
        Scalar::Complex(real, imaginary) => {
            PyComplex::from_doubles(py, f64::from(real), f64::from(imaginary)).into_any().unbind()
        }
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
