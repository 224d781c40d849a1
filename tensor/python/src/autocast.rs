//! Automatic mixed precision: inside of `pyflame.amp.autocast`, products take float16 or bfloat16 operands, and what needs the range or
//! the precision of float32 takes those.

use std::cell::Cell;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use tensor_core::dtype::DType;

use crate::dtype::{AnyDType, PyDType};
use crate::error::raise;
use crate::operand::Operand;
use crate::tensor::PyTensor;

thread_local! {
    /// The type of products on this thread.
    static CHOSEN: Cell<Option<DType>> = const { Cell::new(None) };
}

fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// The operand of a product in the chosen type, if there is one and the operand has another type of at most 32 bits.
pub fn lowered(operand: Operand) -> PyResult<Operand> {
    match (CHOSEN.get(), operand) {
        (Some(chosen), Operand::Tensor(x, placed)) if x.dtype() == DType::F32 || is_half(x.dtype()) => {
            Ok(Operand::Tensor(x.cast(chosen).map_err(raise)?, placed))
        }
        (_, operand) => Ok(operand),
    }
}

/// The tensor in float32 if products are in a half type and it has one.
pub fn raised(x: &PyTensor) -> PyResult<Operand> {
    raised_operand(Operand::from(x))
}

pub fn raised_operand(operand: Operand) -> PyResult<Operand> {
    match operand {
        Operand::Tensor(x, placed) if CHOSEN.get().is_some() && is_half(x.dtype()) => {
            Ok(Operand::Tensor(x.cast(DType::F32).map_err(raise)?, placed))
        }
        operand => Ok(operand),
    }
}

/// Sets the type of products on this thread, or None for that of the operands; returns the one before.
#[pyfunction]
fn set_autocast(py: Python<'_>, dtype: Option<AnyDType>) -> PyResult<Option<Py<PyDType>>> {
    if let Some(AnyDType(other)) = dtype
        && !is_half(other)
    {
        return Err(PyTypeError::new_err(format!(
            "autocast: the type must be float16 or bfloat16, not {other}"
        )));
    }
    let before = CHOSEN.replace(dtype.map(|dtype| dtype.0));
    before.map(|dtype| crate::dtype::object(py, dtype)).transpose()
}

/// The type of products on this thread, or None.
#[pyfunction]
fn get_autocast(py: Python<'_>) -> PyResult<Option<Py<PyDType>>> {
    CHOSEN.get().map(|dtype| crate::dtype::object(py, dtype)).transpose()
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(set_autocast, module)?)?;
    module.add_function(wrap_pyfunction!(get_autocast, module)?)
}
