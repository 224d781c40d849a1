//! Matrix products.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tensor_core::ops::matmul;

use crate::operand::{Operand, apply, apply_some};
use crate::tensor::PyTensor;

#[pymethods]
impl PyTensor {
    fn matmul(&self, other: Operand) -> PyResult<PyTensor> {
        apply(&[Operand::from(self), other], |x| matmul::matmul(&x[0], &x[1]))
    }

    fn mm(&self, other: Operand) -> PyResult<PyTensor> {
        apply(&[Operand::from(self), other], |x| matmul::matmul(&x[0], &x[1]))
    }

    fn bmm(&self, other: Operand) -> PyResult<PyTensor> {
        apply(&[Operand::from(self), other], |x| matmul::bmm(&x[0], &x[1]))
    }

    fn batch_matmul(&self, other: Operand) -> PyResult<PyTensor> {
        self.bmm(other)
    }

    fn dot(&self, other: Operand) -> PyResult<PyTensor> {
        apply(&[Operand::from(self), other], |x| matmul::matmul(&x[0], &x[1]))
    }

    fn outer(&self, other: Operand) -> PyResult<PyTensor> {
        apply(&[Operand::from(self), other], |x| matmul::outer(&x[0], &x[1]))
    }

    /// `x @ weight.T + bias`.
    #[pyo3(signature = (weight, bias=None))]
    fn linear(&self, weight: Operand, bias: Option<Operand>) -> PyResult<PyTensor> {
        apply_some(&[Some(Operand::from(self)), Some(weight), bias], |x| match x {
            [Some(x), Some(weight), bias] => matmul::linear(x, weight, *bias),
            _ => unreachable!("both operands were passed"),
        })
    }
}

/// Einstein summation: `einsum('bij,bjk->bik', a, b)`.
#[pyfunction]
#[pyo3(signature = (equation, *operands))]
pub fn einsum(equation: &str, operands: &Bound<'_, PyTuple>) -> PyResult<PyTensor> {
    let operands = match operands.len() {
        1 if operands.get_item(0)?.cast::<PyTensor>().is_err() => {
            operands.get_item(0)?.extract::<Vec<Operand>>()?
        }
        _ => operands.iter().map(|operand| operand.extract()).collect::<PyResult<Vec<Operand>>>()?,
    };
    apply(&operands, |tensors| {
        tensor_core::ops::einsum::einsum(equation, &tensors.iter().collect::<Vec<_>>())
    })
}

/// Sets how fp32 products are accumulated: 'ordered' gives the same bits on every device, 'fast' uses the fastest order of each.
#[pyfunction]
pub fn set_matmul_precision(precision: &str) -> PyResult<()> {
    match precision {
        "ordered" | "highest" | "precise" => matmul::set_fast(false),
        "fast" | "high" | "medium" => matmul::set_fast(true),
        other => {
            return Err(PyValueError::new_err(format!(
                "the precision must be 'ordered' or 'fast', not {other:?}"
            )));
        }
    }
    Ok(())
}

#[pyfunction]
pub fn get_matmul_precision() -> &'static str {
    if matmul::is_fast() { "fast" } else { "ordered" }
}
