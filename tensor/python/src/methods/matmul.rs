//! Matrix products.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tensor_core::Tensor;
use tensor_core::ops::matmul::{self, Precision};

use crate::autocast::lowered;
use crate::operand::{Operand, apply, apply_if, apply_some};
use crate::tensor::PyTensor;

/// Runs a product, in the type of autocast if that is enabled.
fn product(
    x: &PyTensor,
    other: Operand,
    operation: impl FnOnce(&[Tensor]) -> tensor_core::Result<Tensor>,
) -> PyResult<PyTensor> {
    apply(&[lowered(Operand::from(x))?, lowered(other)?], operation)
}

#[pymethods]
impl PyTensor {
    /// The product of matrices in the last two axes, for batches that broadcast; vectors are rows or columns.
    fn matmul(&self, other: Operand) -> PyResult<PyTensor> {
        product(self, other, |x| matmul::matmul(&x[0], &x[1]))
    }

    /// The product of two matrices.
    fn mm(&self, other: Operand) -> PyResult<PyTensor> {
        product(self, other, |x| matmul::matmul(&x[0], &x[1]))
    }

    /// The products of two batches of matrices.
    fn bmm(&self, other: Operand) -> PyResult<PyTensor> {
        product(self, other, |x| matmul::bmm(&x[0], &x[1]))
    }

    /// The products of two batches of matrices.
    fn batch_matmul(&self, other: Operand) -> PyResult<PyTensor> {
        self.bmm(other)
    }

    /// The sum of the products of two vectors.
    fn dot(&self, other: Operand) -> PyResult<PyTensor> {
        product(self, other, |x| matmul::matmul(&x[0], &x[1]))
    }

    /// The products of all pairs of elements of two vectors.
    fn outer(&self, other: Operand) -> PyResult<PyTensor> {
        product(self, other, |x| matmul::outer(&x[0], &x[1]))
    }

    /// `x @ weight.T + bias`.
    #[pyo3(signature = (weight, bias=None))]
    fn linear(&self, weight: Operand, bias: Option<Operand>) -> PyResult<PyTensor> {
        let bias = bias.map(lowered).transpose()?;
        apply_some(&[Some(lowered(Operand::from(self))?), Some(lowered(weight)?), bias], |x| match x {
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
    let operands = operands.into_iter().map(lowered).collect::<PyResult<Vec<_>>>()?;
    apply(&operands, |tensors| {
        tensor_core::ops::einsum::einsum(equation, &tensors.iter().collect::<Vec<_>>())
    })
}

/// Attention of `[batch, heads, length, width]` tensors in one launch; None if the device or the types need other operations.
#[pyfunction]
pub fn attention(
    query: Operand,
    key: Operand,
    value: Operand,
    is_causal: bool,
    scale: f64,
) -> PyResult<Option<PyTensor>> {
    apply_if(&[query, key, value], |x| {
        tensor_core::ops::attention::attention(&x[0], &x[1], &x[2], is_causal, scale)
    })
}

/// Sets how products are added. 'default': float16 and bfloat16 in the fastest order of the device, all others in one fixed order
/// with the same bits on every device. 'ordered': all in the fixed order. 'fast': all in the fastest order.
#[pyfunction]
pub fn set_matmul_precision(precision: &str) -> PyResult<()> {
    matmul::set_precision(match precision {
        "default" | "mixed" => Precision::Mixed,
        "ordered" | "highest" | "precise" => Precision::Ordered,
        "fast" | "high" | "medium" => Precision::Fast,
        other => {
            return Err(PyValueError::new_err(format!(
                "the precision must be 'default', 'ordered' or 'fast', not {other:?}"
            )));
        }
    });
    Ok(())
}

/// The precision of products: 'exact' or 'fast'.
#[pyfunction]
pub fn get_matmul_precision() -> &'static str {
    match matmul::precision() {
        Precision::Mixed => "default",
        Precision::Ordered => "ordered",
        Precision::Fast => "fast",
    }
}
