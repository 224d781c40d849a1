//! Argument conversion: what is accepted as a tensor, a shape or axes, and the device on which an operation on several tensors
//! runs.

use std::sync::Arc;

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PyTuple};
use tensor_core::Tensor;
use tensor_core::dtype::{DType, Kind, Scalar};

use crate::device::{self, AnyDevice};
use crate::element;
use crate::error::raise;
use crate::tensor::{PyTensor, own_elements};

/// A tensor with its placement, or a number.
#[derive(Clone, Debug)]
pub enum Operand {
    Tensor(Tensor, bool),
    Number(Scalar),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Operand {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(tensor) = object.cast::<PyTensor>() {
            let tensor = tensor.get();
            return Ok(Operand::Tensor(tensor.tensor(), tensor.is_placed()));
        }
        if let Some(number) = element::number(&object)? {
            return Ok(Operand::Number(number));
        }
        if object.hasattr("__array_interface__")? {
            let made = crate::tensor::made_of(object.py(), &object, None, None)?;
            return Ok(Operand::Tensor(made.tensor(), made.is_placed()));
        }
        Err(PyTypeError::new_err(format!("expected a tensor or a number, not {}", object.get_type().name()?)))
    }
}

impl From<&PyTensor> for Operand {
    fn from(tensor: &PyTensor) -> Operand {
        Operand::Tensor(tensor.tensor(), tensor.is_placed())
    }
}

/// The type of a number combined with a tensor: the tensor's, unless the number is of a higher kind.
pub fn beside(value: Scalar, dtype: DType) -> DType {
    let kind = match value {
        Scalar::Bool(_) => Kind::Bool,
        Scalar::Int(_) | Scalar::UInt(_) => Kind::Signed,
        Scalar::Float(_) => Kind::Float,
        Scalar::Complex(..) => Kind::Complex,
    };
    let own = if dtype.is_integer() { Kind::Signed } else { dtype.kind() };
    if kind <= own { dtype } else { element::natural(value) }
}

impl Operand {
    /// Converts to a tensor on a device, to be combined with tensors of a type.
    pub fn tensor(&self, device: &AnyDevice, dtype: Option<DType>) -> PyResult<Tensor> {
        match self {
            Operand::Tensor(tensor, _) => tensor.to_device(device).map_err(raise),
            Operand::Number(value) => {
                let dtype = dtype.map_or(element::natural(*value), |dtype| beside(*value, dtype));
                tensor_core::ops::create::full(device, dtype, &[], *value).map_err(raise)
            }
        }
    }

    pub fn dtype(&self) -> Option<DType> {
        match self {
            Operand::Tensor(tensor, _) => Some(tensor.dtype()),
            Operand::Number(_) => None,
        }
    }
}

/// Returns the device on which an operation on these operands runs, and whether it was chosen by a placed tensor; else it is the
/// current device.
pub fn place<'a>(operands: impl Iterator<Item = &'a Operand>) -> PyResult<(AnyDevice, bool)> {
    let mut found: Option<&Tensor> = None;
    for operand in operands {
        if let Operand::Tensor(tensor, true) = operand {
            match found {
                Some(other) if !Arc::ptr_eq(other.device(), tensor.device()) => {
                    return Err(PyRuntimeError::new_err(format!(
                        "the tensors are on different devices, {} and {}; move one with .to()",
                        other.device().name(),
                        tensor.device().name()
                    )));
                }
                _ => found = Some(tensor),
            }
        }
    }
    Ok(match found {
        Some(tensor) => (tensor.device().clone(), true),
        None => (device::current(), false),
    })
}

/// The tensors of an operation, on one device.
pub struct Together {
    pub tensors: Vec<Tensor>,
    pub placed: bool,
}

/// Moves all operands to the device of the operation. Numbers take the type of the tensors.
pub fn together(operands: &[Operand]) -> PyResult<Together> {
    let (device, placed) = place(operands.iter())?;
    let dtype = operands.iter().filter_map(Operand::dtype).reduce(DType::promote);
    let tensors = operands.iter().map(|operand| operand.tensor(&device, dtype)).collect::<PyResult<_>>()?;
    Ok(Together { tensors, placed })
}

/// Runs an operation on several tensors.
pub fn apply(
    operands: &[Operand],
    operation: impl FnOnce(&[Tensor]) -> tensor_core::Result<Tensor>,
) -> PyResult<PyTensor> {
    let Together { tensors, placed } = together(operands)?;
    let result = operation(&tensors).map_err(raise)?;
    Ok(PyTensor::new(own_elements(result, &tensors), placed))
}

/// Like `apply`, for operations that may decline.
pub fn apply_if(
    operands: &[Operand],
    operation: impl FnOnce(&[Tensor]) -> tensor_core::Result<Option<Tensor>>,
) -> PyResult<Option<PyTensor>> {
    let Together { tensors, placed } = together(operands)?;
    let result = operation(&tensors).map_err(raise)?;
    Ok(result.map(|result| PyTensor::new(own_elements(result, &tensors), placed)))
}

/// Like `apply`, for operations with optional tensors.
pub fn apply_some(
    operands: &[Option<Operand>],
    operation: impl FnOnce(&[Option<&Tensor>]) -> tensor_core::Result<Tensor>,
) -> PyResult<PyTensor> {
    let (device, placed) = place(operands.iter().flatten())?;
    let dtype = operands.iter().flatten().filter_map(Operand::dtype).reduce(DType::promote);
    let tensors = operands
        .iter()
        .map(|operand| operand.as_ref().map(|operand| operand.tensor(&device, dtype)).transpose())
        .collect::<PyResult<Vec<_>>>()?;
    let borrowed: Vec<Option<&Tensor>> = tensors.iter().map(Option::as_ref).collect();
    let result = operation(&borrowed).map_err(raise)?;
    Ok(PyTensor::new(own_elements(result, tensors.iter().flatten()), placed))
}

/// One axis or several.
pub struct Dims(pub Vec<isize>);

impl<'a, 'py> FromPyObject<'a, 'py> for Dims {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(dim) = object.extract::<isize>() {
            return Ok(Dims(vec![dim]));
        }
        Ok(Dims(object.extract::<Vec<isize>>()?))
    }
}

/// The argument that was passed: as `dim`, or with NumPy's name `axis`.
pub fn one_of<T>(dim: Option<T>, axis: Option<T>) -> PyResult<Option<T>> {
    match (dim, axis) {
        (Some(_), Some(_)) => {
            Err(PyTypeError::new_err("dim and axis are the same argument; pass one of them"))
        }
        (dim, axis) => Ok(dim.or(axis)),
    }
}

/// Like [`one_of`], for an argument without a default.
pub fn needed<T>(dim: Option<T>, axis: Option<T>, operation: &str) -> PyResult<T> {
    one_of(dim, axis)?
        .ok_or_else(|| PyTypeError::new_err(format!("{operation}: the argument dim is missing")))
}

/// Lengths as separate arguments or as one list: `randn(2, 3)`, `randn((2, 3))`.
pub fn lengths(arguments: &Bound<'_, PyTuple>) -> PyResult<Vec<isize>> {
    if arguments.len() == 1 {
        let only = arguments.get_item(0)?;
        if only.cast::<PyList>().is_ok() || only.cast::<PyTuple>().is_ok() {
            return only.extract();
        }
        if !only.is_instance_of::<PyInt>() && only.hasattr("__iter__")? && only.extract::<isize>().is_err() {
            return only.extract();
        }
    }
    arguments.extract()
}

/// Like [`lengths`], or by name: `flip(0, 1)`, `flip((0, 1))`, `flip(dims=(0, 1))`.
pub fn lengths_or(arguments: &Bound<'_, PyTuple>, named: Option<Dims>) -> PyResult<Vec<isize>> {
    match named {
        None => lengths(arguments),
        Some(named) if arguments.is_empty() => Ok(named.0),
        Some(_) => Err(PyTypeError::new_err("the numbers were passed twice, by position and by name")),
    }
}

/// Non-negative lengths.
pub fn shape_of(arguments: &Bound<'_, PyTuple>) -> PyResult<Vec<usize>> {
    lengths(arguments)?.into_iter().map(length_of).collect()
}

/// One non-negative length.
pub fn length_of(length: isize) -> PyResult<usize> {
    usize::try_from(length)
        .map_err(|_| PyValueError::new_err(format!("a tensor cannot have the length {length}")))
}

/// One number for all dimensions, or one each.
pub enum Each {
    Same(usize),
    List(Vec<usize>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Each {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let negative =
            |_| PyValueError::new_err(format!("sizes, strides and paddings must be >= 0, not {}", *object));
        if let Ok(number) = object.extract::<isize>() {
            return usize::try_from(number).map(Each::Same).map_err(negative);
        }
        let numbers: Vec<isize> = object.extract()?;
        numbers
            .into_iter()
            .map(|number| usize::try_from(number).map_err(negative))
            .collect::<PyResult<_>>()
            .map(Each::List)
    }
}

/// The output size of pooling: `None` keeps the input's.
pub enum OutputSize {
    Same(Option<usize>),
    List(Vec<Option<usize>>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for OutputSize {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let length = |number: Option<isize>| number.map(length_of).transpose();
        if let Ok(number) = object.extract::<Option<isize>>() {
            return length(number).map(OutputSize::Same);
        }
        let numbers: Vec<Option<isize>> = object.extract()?;
        numbers.into_iter().map(length).collect::<PyResult<_>>().map(OutputSize::List)
    }
}

impl OutputSize {
    /// Resolves the size for an input with these last lengths.
    pub fn of(&self, lengths: &[usize], operation: &str) -> PyResult<Vec<usize>> {
        let each = match self {
            OutputSize::Same(number) => vec![*number; lengths.len()],
            OutputSize::List(list) if list.len() == lengths.len() => list.clone(),
            OutputSize::List(list) => {
                return Err(PyValueError::new_err(format!(
                    "{operation}: output_size must be one number or {}, not {}",
                    lengths.len(),
                    list.len()
                )));
            }
        };
        Ok(each.iter().zip(lengths).map(|(wanted, &own)| wanted.unwrap_or(own)).collect())
    }
}

impl Each {
    pub fn of(&self, dims: usize, operation: &str, name: &str) -> PyResult<Vec<usize>> {
        match self {
            Each::Same(number) => Ok(vec![*number; dims]),
            Each::List(list) if list.len() == 1 => Ok(vec![list[0]; dims]),
            Each::List(list) if list.len() == dims => Ok(list.clone()),
            Each::List(list) => Err(PyValueError::new_err(format!(
                "{operation}: {name} must be one number or {dims}, not {}",
                list.len()
            ))),
        }
    }
}
