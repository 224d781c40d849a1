//! Element types as Python objects: `pf.float32`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyString, PyType};
use tensor_core::dtype::{DType, Kind};

/// The type of a tensor's elements. Each type is a singleton.
#[pyclass(name = "dtype", module = "pyflame", frozen, eq, hash, skip_from_py_object)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PyDType(pub DType);

#[pymethods]
impl PyDType {
    /// The name of the type.
    #[getter]
    fn name(&self) -> &'static str {
        self.0.name()
    }

    /// The size of an element in bytes.
    #[getter]
    fn itemsize(&self) -> usize {
        self.0.bytes()
    }

    /// Whether the elements are real floating-point numbers.
    #[getter]
    fn is_floating_point(&self) -> bool {
        self.0.is_float()
    }

    /// Whether the elements are complex numbers.
    #[getter]
    fn is_complex(&self) -> bool {
        self.0.kind() == Kind::Complex
    }

    /// Whether numbers of this type may be negative.
    #[getter]
    fn is_signed(&self) -> bool {
        !matches!(self.0.kind(), Kind::Bool | Kind::Unsigned)
    }

    fn __repr__(&self) -> String {
        format!("pyflame.{}", self.0.name())
    }

    fn __str__(&self) -> String {
        self.__repr__()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (&'static str,))> {
        Ok((py.import("pyflame._pyflame")?.getattr("dtype_of")?, (self.0.name(),)))
    }
}

static OBJECTS: PyOnceLock<Vec<Py<PyDType>>> = PyOnceLock::new();

/// Returns the singleton of a type.
pub fn object(py: Python<'_>, dtype: DType) -> PyResult<Py<PyDType>> {
    let all = OBJECTS.get_or_try_init(py, || {
        DType::ALL.iter().map(|&dtype| Py::new(py, PyDType(dtype))).collect::<PyResult<Vec<_>>>()
    })?;
    Ok(all[dtype as usize].clone_ref(py))
}

/// Resolves a name, a Python type, or a NumPy type to an element type.
pub fn meant(object: &Bound<'_, PyAny>) -> PyResult<DType> {
    if let Ok(dtype) = object.cast::<PyDType>() {
        return Ok(dtype.get().0);
    }
    if let Ok(class) = object.cast::<PyType>() {
        let py = object.py();
        if class.is(py.get_type::<PyBool>()) {
            return Ok(DType::Bool);
        }
        if class.is(py.get_type::<PyInt>()) {
            return Ok(DType::I64);
        }
        if class.is(py.get_type::<PyFloat>()) {
            return Ok(DType::F32);
        }
        if class.is(py.get_type::<PyComplex>()) {
            return Ok(DType::C64);
        }
    }
    let name = if let Ok(name) = object.cast::<PyString>() {
        name.to_string()
    } else if let Ok(name) = object.getattr("name").and_then(|name| name.extract::<String>()) {
        name
    } else if let Ok(name) = object.getattr("__name__").and_then(|name| name.extract::<String>()) {
        name
    } else {
        object.str()?.to_string()
    };
    named(&name).ok_or_else(|| {
        PyTypeError::new_err(format!(
            "{name} is not an element type; valid types are {}",
            DType::ALL.map(|dtype| dtype.name()).join(", ")
        ))
    })
}

pub fn named(name: &str) -> Option<DType> {
    let name = name.strip_prefix("pyflame.").unwrap_or(name);
    let name = name.strip_suffix('_').unwrap_or(name);
    match name {
        "float" => Some(DType::F32),
        "double" => Some(DType::F64),
        "half" => Some(DType::F16),
        "int" => Some(DType::I32),
        "long" => Some(DType::I64),
        _ => DType::ALL.into_iter().find(|dtype| dtype.name() == name),
    }
}

/// The element type that a name, a Python type or a NumPy type means.
#[pyfunction]
pub fn dtype_of(py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<Py<PyDType>> {
    self::object(py, meant(object)?)
}

/// An argument that names a type.
pub struct AnyDType(pub DType);

impl<'a, 'py> FromPyObject<'a, 'py> for AnyDType {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        meant(&object).map(AnyDType)
    }
}

/// The values of `finfo`: bits, smallest, largest, epsilon, and the smallest normal number.
#[pyfunction]
pub fn limits(dtype: AnyDType) -> PyResult<(usize, f64, f64, f64, f64)> {
    let (largest, step, normal) = match dtype.0 {
        DType::F16 => (65504.0, 2f64.powi(-10), 2f64.powi(-14)),
        DType::BF16 => (f64::from(f32::from_bits(0x7f7f_0000)), 2f64.powi(-7), 2f64.powi(-126)),
        DType::F32 | DType::C64 => {
            (f64::from(f32::MAX), f64::from(f32::EPSILON), f64::from(f32::MIN_POSITIVE))
        }
        DType::F64 | DType::C128 => (f64::MAX, f64::EPSILON, f64::MIN_POSITIVE),
        other => return Err(PyTypeError::new_err(format!("finfo: {other} is not a floating point type"))),
    };
    let bits = dtype.0.part().bytes() * 8;
    Ok((bits, -largest, largest, step, normal))
}

/// Bits, smallest and largest value of an integer type.
#[pyfunction]
pub fn integer_limits(dtype: AnyDType) -> PyResult<(usize, i128, i128)> {
    let bits = dtype.0.bytes() * 8;
    match dtype.0.kind() {
        Kind::Unsigned => Ok((bits, 0, (1_i128 << bits) - 1)),
        Kind::Signed => Ok((bits, -(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)),
        _ => Err(PyTypeError::new_err(format!("iinfo: {} is not an integer type", dtype.0))),
    }
}
