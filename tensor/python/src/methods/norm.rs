//! Normalisation.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tensor_core::ops::norm::{self, Running};

use crate::autocast::raised;
use crate::error::raise;
use crate::operand::{Each, Operand, apply_some};
use crate::tensor::PyTensor;

#[pymethods]
impl PyTensor {
    /// Normalises over the last axes, which have the given shape.
    #[pyo3(signature = (normalized_shape, weight=None, bias=None, eps=1e-5))]
    fn layer_norm(
        &self,
        normalized_shape: Each,
        weight: Option<Operand>,
        bias: Option<Operand>,
        eps: f64,
    ) -> PyResult<PyTensor> {
        let shape = match normalized_shape {
            Each::Same(length) => vec![length],
            Each::List(lengths) => lengths,
        };
        apply_some(&[Some(raised(self)?), weight, bias], |x| match x {
            [Some(x), weight, bias] => norm::layer_norm(x, &shape, *weight, *bias, eps),
            _ => unreachable!("the input was passed"),
        })
    }

    /// Normalises the channels (axis 1) in groups.
    #[pyo3(signature = (num_groups, weight=None, bias=None, eps=1e-5))]
    fn group_norm(
        &self,
        num_groups: usize,
        weight: Option<Operand>,
        bias: Option<Operand>,
        eps: f64,
    ) -> PyResult<PyTensor> {
        apply_some(&[Some(raised(self)?), weight, bias], |x| match x {
            [Some(x), weight, bias] => norm::group_norm(x, num_groups, *weight, *bias, eps),
            _ => unreachable!("the input was passed"),
        })
    }

    /// Normalises each channel (axis 1) of each sample.
    #[pyo3(signature = (weight=None, bias=None, eps=1e-5))]
    fn instance_norm(&self, weight: Option<Operand>, bias: Option<Operand>, eps: f64) -> PyResult<PyTensor> {
        apply_some(&[Some(Operand::from(self)), weight, bias], |x| match x {
            [Some(x), weight, bias] => norm::instance_norm(x, *weight, *bias, eps),
            _ => unreachable!("the input was passed"),
        })
    }

    /// Normalises every channel: with the statistics of the batch while training, which updates the running ones, else with the
    /// running ones.
    #[expect(clippy::too_many_arguments, reason = "the parameters are PyTorch's")]
    #[pyo3(signature = (running_mean=None, running_var=None, weight=None, bias=None, training=false, momentum=0.1, eps=1e-5))]
    fn batch_norm(
        &self,
        running_mean: Option<&Bound<'_, PyTensor>>,
        running_var: Option<&Bound<'_, PyTensor>>,
        weight: Option<Operand>,
        bias: Option<Operand>,
        training: bool,
        momentum: f64,
        eps: f64,
    ) -> PyResult<PyTensor> {
        let operand = |tensor: Option<&Bound<'_, PyTensor>>| tensor.map(|tensor| Operand::from(tensor.get()));
        if running_mean.is_some() != running_var.is_some() {
            return Err(PyValueError::new_err(
                "batch_norm: pass both the running mean and variance, or neither",
            ));
        }
        let mut moved = None;
        let all = [Some(Operand::from(self)), operand(running_mean), operand(running_var), weight, bias];
        let result = apply_some(&all, |x| match x {
            [Some(x), mean, variance, weight, bias] => {
                let running = match (mean, variance) {
                    (Some(mean), Some(variance)) => Some(Running { mean, variance }),
                    _ => None,
                };
                moved = mean.zip(*variance).map(|(mean, variance)| (mean.clone(), variance.clone()));
                norm::batch_norm(x, running, *weight, *bias, training, momentum, eps)
            }
            _ => unreachable!("the input was passed"),
        })?;
        // Statistics on another device were copied and only the copies were updated, so copy them back.
        if let (true, Some((mean, variance)), Some(own_mean), Some(own_variance)) =
            (training, moved, running_mean, running_var)
        {
            for (copy, own) in [(mean, own_mean.get().tensor()), (variance, own_variance.get().tensor())] {
                if !std::sync::Arc::ptr_eq(copy.device(), own.device()) {
                    copy.detach()
                        .to_device(own.device())
                        .and_then(|copy| own.assign(&copy))
                        .map_err(raise)?;
                }
            }
        }
        Ok(result)
    }
}
