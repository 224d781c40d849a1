//! Import and export of arrays: NumPy arrays through their array interface, nested lists element by element.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySequence, PyTuple};
use tensor_core::dtype::{DType, Scalar};
use tensor_core::layout::Layout;
use tensor_core::{HostMemory, Lease, Tensor};

use crate::element;
use crate::tensor::PyTensor;

/// Row-major elements for a new tensor.
pub struct Elements {
    pub dtype: DType,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

/// The deepest nesting of lists.
const DEEPEST: usize = 64;

/// Reads anything that can become a tensor: an array, a number, lists of numbers, lists of tensors.
pub fn read(data: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<Elements> {
    if let Some(value) = element::number(data)? {
        let dtype = dtype.unwrap_or(element::natural(value));
        let mut bytes = Vec::new();
        element::encode(value, dtype, &mut bytes)?;
        return Ok(Elements { dtype, shape: Vec::new(), bytes });
    }
    if data.hasattr("__array_interface__")? || data.hasattr("__array__")? {
        return from_numpy(data);
    }
    if data.cast::<PyList>().is_ok() || data.cast::<PyTuple>().is_ok() || data.cast::<PySequence>().is_ok() {
        let mut shape = Vec::new();
        let mut values = Vec::new();
        flatten(data, 0, &mut shape, &mut values)?;
        let natural = values
            .iter()
            .map(|&value| element::natural(value))
            .reduce(|first, second| first.promote(second))
            .unwrap_or(DType::F32);
        let dtype = dtype.unwrap_or(natural);
        let mut bytes = Vec::with_capacity(values.len() * dtype.bytes());
        for value in values {
            element::encode(value, dtype, &mut bytes)?;
        }
        return Ok(Elements { dtype, shape, bytes });
    }
    Err(PyTypeError::new_err(format!(
        "a tensor can be made from numbers, lists of numbers, or arrays, not from {}",
        data.get_type().name()?
    )))
}

fn flatten(
    data: &Bound<'_, PyAny>,
    depth: usize,
    shape: &mut Vec<usize>,
    values: &mut Vec<Scalar>,
) -> PyResult<()> {
    let uneven = || PyValueError::new_err("tensor: the lists at one depth have different lengths");
    if let Some(value) = element::number(data)? {
        if depth != shape.len() {
            return Err(uneven());
        }
        values.push(value);
        return Ok(());
    }
    if let Ok(tensor) = data.cast::<PyTensor>() {
        if tensor.get().tensor().rank() == 0 && depth == shape.len() {
            values.push(tensor.get().element(data.py())?);
            return Ok(());
        }
        return flatten(&tensor.call_method0("tolist")?, depth, shape, values);
    }
    if depth == DEEPEST {
        return Err(PyValueError::new_err(format!("tensor: lists may be nested at most {DEEPEST} deep")));
    }
    if data.hasattr("__array_interface__")? {
        return flatten(&data.call_method0("tolist")?, depth, shape, values);
    }
    let Ok(sequence) = data.cast::<PySequence>() else {
        return Err(PyTypeError::new_err(format!(
            "a tensor can only contain numbers, not {}",
            data.get_type().name()?
        )));
    };
    if data.is_instance_of::<pyo3::types::PyString>() || data.is_instance_of::<pyo3::types::PyBytes>() {
        return Err(PyTypeError::new_err("a tensor can only contain numbers, not strings"));
    }
    let length = sequence.len()?;
    if depth == shape.len() {
        if !values.is_empty() || shape.contains(&0) {
            return Err(uneven());
        }
        shape.push(length);
    } else if shape[depth] != length {
        return Err(uneven());
    }
    for index in 0..length {
        flatten(&sequence.get_item(index)?, depth + 1, shape, values)?;
    }
    Ok(())
}

fn typed(kind: &str) -> Option<DType> {
    Some(match kind {
        "b1" => DType::Bool,
        "u1" => DType::U8,
        "u2" => DType::U16,
        "u4" => DType::U32,
        "u8" => DType::U64,
        "i1" => DType::I8,
        "i2" => DType::I16,
        "i4" => DType::I32,
        "i8" => DType::I64,
        "f2" => DType::F16,
        "f4" => DType::F32,
        "f8" => DType::F64,
        "c8" => DType::C64,
        "c16" => DType::C128,
        _ => return None,
    })
}

fn spelt(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "|b1",
        DType::U8 => "|u1",
        DType::U16 => "<u2",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        DType::I8 => "|i1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::F16 => "<f2",
        DType::BF16 => "<V2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::C64 => "<c8",
        DType::C128 => "<c16",
    }
}

pub fn from_numpy(array: &Bound<'_, PyAny>) -> PyResult<Elements> {
    let py = array.py();
    let numpy = py.import("numpy")?;
    let mut array = numpy.call_method1("asarray", (array,))?;
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    let name: String = array.getattr("dtype")?.getattr("name")?.extract()?;
    array = numpy.call_method("ascontiguousarray", (array,), None)?;
    let mut code: String = array.getattr("dtype")?.getattr("str")?.extract()?;
    if code.starts_with('>') {
        array =
            array.call_method1("astype", (array.getattr("dtype")?.call_method1("newbyteorder", ("<",))?,))?;
        code = array.getattr("dtype")?.getattr("str")?.extract()?;
    }
    let dtype = if name == "bfloat16" {
        array = array.call_method1("view", ("u2",))?;
        DType::BF16
    } else {
        typed(code.trim_start_matches(['<', '|', '=']))
            .ok_or_else(|| PyTypeError::new_err(format!("NumPy's type {name} is not supported")))?
    };
    let length: usize = array.getattr("nbytes")?.extract()?;
    let interface = array.getattr("__array_interface__")?;
    let (address, _): (usize, bool) = interface.cast::<PyDict>()?.as_any().get_item("data")?.extract()?;
    let bytes = if length == 0 {
        Vec::new()
    } else {
        // SAFETY: NumPy reports `length` bytes at the address of this contiguous array, and `array` keeps them alive during the
        // copy.
        unsafe { std::slice::from_raw_parts(address as *const u8, length) }.to_vec()
    };
    Ok(Elements { dtype, shape, bytes })
}

/// A tensor with the memory of a NumPy array, if the current device is the CPU and the array allows it.
#[pyfunction]
pub fn sharing(array: &Bound<'_, PyAny>) -> PyResult<Option<PyTensor>> {
    if !crate::device::is_current(crate::device::cpu()) {
        return Ok(None);
    }
    Ok(over_numpy(array)?.map(|tensor| PyTensor::new(tensor, false)))
}

/// The memory of a tensor with NumPy's array interface. The NumPy array keeps this object, and so the memory, alive.
#[pyclass(frozen, module = "pyflame._pyflame")]
struct Lent {
    lease: Lease,
    dtype: DType,
}

#[pymethods]
impl Lent {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (size, layout) = (self.dtype.bytes(), &self.lease.layout);
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", spelt(self.dtype))?;
        interface.set_item("shape", PyTuple::new(py, &layout.shape)?)?;
        interface
            .set_item("strides", PyTuple::new(py, layout.strides.iter().map(|it| it * size as isize))?)?;
        interface.set_item("data", (self.lease.start as usize + layout.offset * size, false))?;
        Ok(interface)
    }
}

/// A tensor on the CPU with the memory of a NumPy array. `None` if that is not possible: another byte order, elements that overlap
/// or that may not be written.
fn over_numpy(array: &Bound<'_, PyAny>) -> PyResult<Option<Tensor>> {
    let code: String = array.getattr("dtype")?.getattr("str")?.extract()?;
    let name: String = array.getattr("dtype")?.getattr("name")?.extract()?;
    let dtype =
        if name == "bfloat16" { Some(DType::BF16) } else { typed(code.trim_start_matches(['<', '|', '='])) };
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    let strides: Vec<isize> = array.getattr("strides")?.extract()?;
    let writeable: bool = array.getattr("flags")?.getattr("writeable")?.extract()?;
    let Some(dtype) = dtype.filter(|_| writeable && !code.starts_with('>') && !shape.contains(&0)) else {
        return Ok(None);
    };
    let size = dtype.bytes() as isize;
    if shape.len() > 64 || strides.iter().any(|stride| stride % size != 0) {
        return Ok(None);
    }
    let strides = strides.iter().map(|stride| stride / size).collect();
    let layout = Layout { shape: shape.iter().copied().collect(), strides, offset: 0 };
    if layout.overlaps() {
        return Ok(None);
    }
    let address: usize = array.getattr("ctypes")?.getattr("data")?.extract()?;
    let owner = Box::new(array.clone().unbind());
    // SAFETY: NumPy reports these elements at the address, and the array, which keeps them alive, may be written.
    let memory = unsafe { HostMemory::new(address as *mut u8, layout, owner) };
    Ok(Some(Tensor::from_memory(crate::device::cpu(), dtype, memory)))
}

/// Returns a NumPy array with the tensor's elements, in the tensor's memory if that is in this process. NumPy has no bfloat16; without ml_dtypes it becomes float32.
pub fn to_numpy<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    let numpy = py.import("numpy")?;
    let brain = if tensor.dtype() == DType::BF16 { Some(py.import("ml_dtypes").ok()) } else { None };
    let widened;
    let tensor = if let Some(None) = brain {
        widened = tensor.cast(DType::F32).map_err(crate::error::raise)?;
        &widened
    } else {
        tensor
    };
    if tensor.elements() == 0 {
        // An error of earlier work is raised here too.
        crate::tensor::download(py, tensor)?;
        let dtype = if tensor.dtype() == DType::BF16 { "u2" } else { spelt(tensor.dtype()) };
        return numpy.call_method1("empty", (PyTuple::new(py, tensor.shape())?, dtype));
    }
    let lease = match crate::tensor::lend(py, tensor)? {
        Some(lease) => lease,
        None => crate::tensor::lend_copy(py, tensor)?,
    };
    let held = Lent { lease, dtype: tensor.dtype() };
    let array = numpy.call_method1("asarray", (Py::new(py, held)?,))?;
    match brain {
        Some(Some(types)) => array.call_method1("view", (types.getattr("bfloat16")?,)),
        _ => Ok(array),
    }
}

/// Returns nested lists of numbers.
pub fn to_list(py: Python<'_>, tensor: &Tensor) -> PyResult<Py<PyAny>> {
    let bytes = crate::tensor::download(py, tensor)?;
    nested(py, &bytes, tensor.dtype(), tensor.shape())
}

fn nested(py: Python<'_>, bytes: &[u8], dtype: DType, shape: &[usize]) -> PyResult<Py<PyAny>> {
    let Some((&length, rest)) = shape.split_first() else {
        return element::to_python(py, element::decode(bytes, dtype));
    };
    let size = rest.iter().product::<usize>() * dtype.bytes();
    let items = (0..length)
        .map(|index| nested(py, &bytes[index * size..(index + 1) * size], dtype, rest))
        .collect::<PyResult<Vec<_>>>()?;
    Ok(PyList::new(py, items)?.into_any().unbind())
}
