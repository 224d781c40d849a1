//! Loss functions.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tensor_core::dtype::{DType, Scalar};
use tensor_core::ops::elementwise;
use tensor_core::ops::loss::{self, ClassOptions, LossReduction};
use tensor_core::program::Binary;

use crate::autocast::{raised, raised_operand};
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
    ($($(#[$doc:meta])* $name:ident $function:path;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                $(#[$doc])*
                #[pyo3(signature = (target, reduction="mean"))]
                fn $name(&self, target: Operand, reduction: &str) -> PyResult<PyTensor> {
                    let reduction = self::reduction(reduction)?;
                    apply(&[raised(self)?, raised_operand(target)?], |x| $function(&x[0], &x[1], reduction))
                }
            )*
        }
    };
}

plain! {
    /// The squared difference from a target. `reduction`: 'mean', 'sum' or 'none'.
    mse_loss loss::mse_loss;
    /// The absolute difference from a target. `reduction`: 'mean', 'sum' or 'none'.
    l1_loss loss::l1_loss;
}

#[pymethods]
impl PyTensor {
    /// The absolute difference from a target, squared below `beta`.
    #[pyo3(signature = (target, reduction="mean", beta=1.0))]
    fn smooth_l1_loss(&self, target: Operand, reduction: &str, beta: f64) -> PyResult<PyTensor> {
        let reduction = self::reduction(reduction)?;
        apply(&[raised(self)?, raised_operand(target)?], |x| {
            loss::smooth_l1_loss(&x[0], &x[1], beta, reduction)
        })
    }

    /// Half the squared difference from a target, linear above `delta`.
    #[pyo3(signature = (target, reduction="mean", delta=1.0))]
    fn huber_loss(&self, target: Operand, reduction: &str, delta: f64) -> PyResult<PyTensor> {
        let reduction = self::reduction(reduction)?;
        apply(&[raised(self)?, raised_operand(target)?], |x| loss::huber_loss(&x[0], &x[1], delta, reduction))
    }

    /// The binary cross-entropy of probabilities.
    #[pyo3(signature = (target, weight=None, reduction="mean"))]
    fn bce_loss(&self, target: Operand, weight: Option<Operand>, reduction: &str) -> PyResult<PyTensor> {
        let reduction = self::reduction(reduction)?;
        apply_some(&[Some(raised(self)?), Some(raised_operand(target)?), weight], |x| match x {
            [Some(x), Some(target), weight] => loss::bce_loss(x, target, *weight, reduction),
            _ => unreachable!("both operands were passed"),
        })
    }

    /// The binary cross-entropy of the sigmoid of the elements, without loss of precision.
    #[pyo3(signature = (target, weight=None, reduction="mean", pos_weight=None))]
    fn bce_with_logits(
        &self,
        target: Operand,
        weight: Option<Operand>,
        reduction: &str,
        pos_weight: Option<Operand>,
    ) -> PyResult<PyTensor> {
        let reduction = self::reduction(reduction)?;
        apply_some(&[Some(raised(self)?), Some(raised_operand(target)?), weight, pos_weight], |x| match x {
            [Some(x), Some(target), weight, positive] => {
                loss::bce_with_logits(x, target, *weight, *positive, reduction)
            }
            _ => unreachable!("both operands were passed"),
        })
    }

    /// The Kullback-Leibler divergence of logarithms of probabilities from a target.
    #[pyo3(signature = (target, reduction="mean", log_target=false))]
    fn kl_div(&self, target: Operand, reduction: &str, log_target: bool) -> PyResult<PyTensor> {
        let batch = reduction == "batchmean";
        let reduction = if batch { LossReduction::Sum } else { self::reduction(reduction)? };
        apply(&[raised(self)?, raised_operand(target)?], |x| {
            let sum = loss::kl_div(&x[0], &x[1], log_target, reduction)?;
            let examples = x[0].shape().first().copied().unwrap_or(1);
            if batch {
                elementwise::binary_scalar(Binary::Div, &sum, Scalar::Float(examples as f64), false)
            } else {
                Ok(sum)
            }
        })
    }

    /// The cross-entropy of classes: the tensor has one score for each class along axis 1.
    #[pyo3(signature = (target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0), text_signature = "($self, target, weight=None, ignore_index=-100, reduction='mean', label_smoothing=0.0)")]
    fn cross_entropy(
        &self,
        target: Operand,
        weight: Option<Operand>,
        ignore_index: i64,
        reduction: &str,
        label_smoothing: f64,
    ) -> PyResult<PyTensor> {
        let reduction = self::reduction(reduction)?;
        apply_some(&[Some(raised(self)?), Some(raised_operand(target)?), weight], |x| match x {
            [Some(x), Some(target), weight] => {
                let options = ClassOptions { weight: *weight, ignore_index, label_smoothing, reduction };
                loss::cross_entropy(x, &classes(target)?, &options)
            }
            _ => unreachable!("both operands were passed"),
        })
    }

    /// The negative logarithm of the probability of each target class: the tensor has logarithms of probabilities along axis 1.
    #[pyo3(signature = (target, weight=None, ignore_index=-100, reduction="mean"), text_signature = "($self, target, weight=None, ignore_index=-100, reduction='mean')")]
    fn nll_loss(
        &self,
        target: Operand,
        weight: Option<Operand>,
        ignore_index: i64,
        reduction: &str,
    ) -> PyResult<PyTensor> {
        let reduction = self::reduction(reduction)?;
        apply_some(&[Some(raised(self)?), Some(raised_operand(target)?), weight], |x| match x {
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
