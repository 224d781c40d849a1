//! Loss functions.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tensor_core::dtype::{DType, Scalar};
use tensor_core::ops::elementwise;
use tensor_core::ops::loss::{self, ClassOptions, LossReduction};
use tensor_core::program::Binary;

use crate::operand::{Operand, apply, apply_some};
use crate::tensor::PyTensor;

fn reduction(name: &str) -> PyResult<LossReduction> {
    match name {
        "none" => Ok(LossReduction::None),
        "mean" => Ok(LossReduction::Mean),
        "sum" => Ok(LossReduction::Sum),
        other => {
            Err(PyValueError::new_err(format!("reduction must be 'mean', 'sum' or 'none', not {other:?}")))
        }
    }
}

macro_rules! plain {
    ($($name:ident $function:path;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                #[pyo3(signature = (target, reduction="mean"))]
                fn $name(&self, target: Operand, reduction: &str) -> PyResult<PyTensor> {
                    let reduction = self::reduction(reduction)?;
                    apply(&[Operand::from(self), target], |x| $function(&x[0], &x[1], reduction))
                }
            )*
        }
    };
}

plain! {
    mse_loss loss::mse_loss;
    l1_loss loss::l1_loss;
}

#[pymethods]
impl PyTensor {
    #[pyo3(signature = (target, reduction="mean", beta=1.0))]
    fn smooth_l1_loss(&self, target: Operand, reduction: &str, beta: f64) -> PyResult<PyTensor> {
        let reduction = self::reduction(reduction)?;
        apply(&[Operand::from(self), target], |x| loss::smooth_l1_loss(&x[0], &x[1], beta, reduction))
    }

    #[pyo3(signature = (target, reduction="mean", delta=1.0))]
    fn huber_loss(&self, target: Operand, reduction: &str, delta: f64) -> PyResult<PyTensor> {
        let reduction = self::reduction(reduction)?;
        apply(&[Operand::from(self), target], |x| loss::huber_loss(&x[0], &x[1], delta, reduction))
    }

    #[pyo3(signature = (target, weight=None, reduction="mean"))]
    fn bce_loss(&self, target: Operand, weight: Option<Operand>, reduction: &str) -> PyResult<PyTensor> {
        let reduction = self::reduction(reduction)?;
        apply_some(&[Some(Operand::from(self)), Some(target), weight], |x| match x {
            [Some(x), Some(target), weight] => loss::bce_loss(x, target, *weight, reduction),
            _ => unreachable!("both operands were passed"),
        })
    }

    #[pyo3(signature = (target, weight=None, reduction="mean", pos_weight=None))]
    fn bce_with_logits(
        &self,
        target: Operand,
        weight: Option<Operand>,
        reduction: &str,
        pos_weight: Option<Operand>,
    ) -> PyResult<PyTensor> {
        let reduction = self::reduction(reduction)?;
        apply_some(&[Some(Operand::from(self)), Some(target), weight, pos_weight], |x| match x {
            [Some(x), Some(target), weight, positive] => {
                loss::bce_with_logits(x, target, *weight, *positive, reduction)
            }
            _ => unreachable!("both operands were passed"),
        })
    }

    #[pyo3(signature = (target, reduction="mean", log_target=false))]
    fn kl_div(&self, target: Operand, reduction: &str, log_target: bool) -> PyResult<PyTensor> {
        let batch = reduction == "batchmean";
        let reduction = if batch { LossReduction::Sum } else { self::reduction(reduction)? };
        apply(&[Operand::from(self), target], |x| {
            let sum = loss::kl_div(&x[0], &x[1], log_target, reduction)?;
            let examples = x[0].shape().first().copied().unwrap_or(1);
            if batch {
                elementwise::binary_scalar(Binary::Div, &sum, Scalar::Float(examples as f64), false)
            } else {
                Ok(sum)
            }
        })
    }

    #[pyo3(signature = (target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0))]
    fn cross_entropy(
        &self,
        target: Operand,
        weight: Option<Operand>,
        ignore_index: i64,
        reduction: &str,
        label_smoothing: f64,
    ) -> PyResult<PyTensor> {
        let reduction = self::reduction(reduction)?;
        apply_some(&[Some(Operand::from(self)), Some(target), weight], |x| match x {
            [Some(x), Some(target), weight] => {
                let options = ClassOptions { weight: *weight, ignore_index, label_smoothing, reduction };
                loss::cross_entropy(x, &classes(target)?, &options)
            }
            _ => unreachable!("both operands were passed"),
        })
    }

    #[pyo3(signature = (target, weight=None, ignore_index=-100, reduction="mean"))]
    fn nll_loss(
        &self,
        target: Operand,
        weight: Option<Operand>,
        ignore_index: i64,
        reduction: &str,
    ) -> PyResult<PyTensor> {
        let reduction = self::reduction(reduction)?;
        apply_some(&[Some(Operand::from(self)), Some(target), weight], |x| match x {
            [Some(x), Some(target), weight] => {
                let options = ClassOptions { weight: *weight, ignore_index, label_smoothing: 0.0, reduction };
                loss::nll_loss(x, &classes(target)?, &options)
            }
            _ => unreachable!("both operands were passed"),
        })
    }
}

/// Converts class indices of any integer type to int64.
fn classes(target: &tensor_core::Tensor) -> tensor_core::Result<tensor_core::Tensor> {
    if target.dtype().is_integer() { target.cast(DType::I64) } else { Ok(target.clone()) }
}
