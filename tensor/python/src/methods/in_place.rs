//! In-place operations: the tensor, and all that share its elements, take the result of the operation.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tensor_core::autograd::in_place;
use tensor_core::dtype::Scalar;
use tensor_core::ops::create;
use tensor_core::program::Binary;

use super::binary::{compute, factor, scaled};
use crate::create::{Generator, draw_from};
use crate::error::raise;
use crate::operand::Operand;
use crate::tensor::PyTensor;

fn change(x: &PyTensor, code: Binary, other: Operand) -> PyResult<()> {
    let own = x.tensor();
    let _writing = in_place(&own);
    become_of(x, &compute(code, x, other, false)?)
}

/// Gives a tensor the elements of a result, converted to its type and device.
fn become_of(x: &PyTensor, result: &PyTensor) -> PyResult<()> {
    let own = x.tensor();
    let result = result.tensor().cast(own.dtype()).and_then(|x| x.to_device(own.device())).map_err(raise)?;
    if result.shape() != own.shape() {
        return Err(pyo3::exceptions::PyValueError::new_err(format!(
            "an operation in place cannot change the shape from {:?} to {:?}",
            own.shape(),
            result.shape()
        )));
    }
    x.replace(&result)
}

macro_rules! in_place {
    ($($(#[$doc:meta])* $name:ident $code:expr;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                $(#[$doc])*
                fn $name<'py>(slf: Bound<'py, Self>, other: Operand) -> PyResult<Bound<'py, Self>> {
                    change(slf.get(), $code, other)?;
                    Ok(slf)
                }
            )*
        }
    };
}

in_place! {
    /// Multiplies by another tensor or number in place.
    mul_ Binary::Mul;
    /// Raises to a power in place.
    pow_ Binary::Pow;
}

#[pymethods]
impl PyTensor {
    /// Adds `alpha * other`.
    #[pyo3(signature = (other, *, alpha=None))]
    fn add_<'py>(
        slf: Bound<'py, Self>,
        other: Operand,
        alpha: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        let other = scaled(other, factor(alpha)?)?;
        change(slf.get(), Binary::Add, other)?;
        Ok(slf)
    }

    /// Subtracts `alpha * other`.
    #[pyo3(signature = (other, *, alpha=None))]
    fn sub_<'py>(
        slf: Bound<'py, Self>,
        other: Operand,
        alpha: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        let other = scaled(other, factor(alpha)?)?;
        change(slf.get(), Binary::Sub, other)?;
        Ok(slf)
    }

    /// Divides; `rounding_mode` is None, 'trunc' or 'floor'.
    #[pyo3(signature = (other, *, rounding_mode=None))]
    fn div_<'py>(
        slf: Bound<'py, Self>,
        other: Operand,
        rounding_mode: Option<&str>,
    ) -> PyResult<Bound<'py, Self>> {
        let own = slf.get().tensor();
        let _writing = in_place(&own);
        let result = slf.get().div(other, rounding_mode)?;
        become_of(slf.get(), &result)?;
        Ok(slf)
    }

    /// Calls a method and takes its result: what methods whose name ends in an underscore do.
    #[pyo3(signature = (method, *arguments, **named))]
    fn _in_place<'py>(
        slf: Bound<'py, Self>,
        method: Bound<'py, PyAny>,
        arguments: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, Self>> {
        let own = slf.get().tensor();
        let _writing = in_place(&own);
        let mut all = vec![slf.clone().into_any()];
        all.extend(arguments.iter());
        let result = method.call(PyTuple::new(slf.py(), all)?, named)?;
        become_of(slf.get(), result.cast::<PyTensor>()?.get())?;
        Ok(slf)
    }

    fn __iadd__(&self, other: Operand) -> PyResult<()> {
        change(self, Binary::Add, other)
    }

    fn __isub__(&self, other: Operand) -> PyResult<()> {
        change(self, Binary::Sub, other)
    }

    fn __imul__(&self, other: Operand) -> PyResult<()> {
        change(self, Binary::Mul, other)
    }

    fn __itruediv__(&self, other: Operand) -> PyResult<()> {
        change(self, Binary::Div, other)
    }

    /// Copies another tensor's elements, broadcast and converted to this tensor's type and device.
    #[pyo3(signature = (source, non_blocking=false))]
    fn copy_<'py>(slf: Bound<'py, Self>, source: Operand, non_blocking: bool) -> PyResult<Bound<'py, Self>> {
        let _ = non_blocking;
        let own = slf.get().tensor();
        let source = source.tensor(own.device(), Some(own.dtype()))?;
        let source = source.cast(own.dtype()).map_err(raise)?;
        let source = tensor_core::ops::shape::broadcast_to(&source, own.shape()).map_err(raise)?;
        // `x[0] += 1` ends with `x[0] = x[0]`.
        if !source.is_same_view(&own) {
            slf.get().replace(&source)?;
        }
        Ok(slf)
    }

    /// Sets all elements to a number.
    fn fill_<'py>(slf: Bound<'py, Self>, value: &Bound<'_, PyAny>) -> PyResult<Bound<'py, Self>> {
        let value: Operand = value.extract()?;
        Self::copy_(slf, value, false)
    }

    /// Sets all elements to zero.
    fn zero_(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        Self::copy_(slf, Operand::Number(Scalar::Int(0)), false)
    }

    /// Limits the elements to a range, in place.
    #[pyo3(signature = (min=None, max=None))]
    fn clamp_<'py>(
        slf: Bound<'py, Self>,
        min: Option<Bound<'py, PyAny>>,
        max: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        let writing = in_place(&slf.get().tensor());
        let result = slf.call_method1("clamp", (min, max))?;
        drop(writing);
        slf.get().replace(&result.cast::<PyTensor>()?.get().tensor())?;
        Ok(slf)
    }

    /// Uniform random numbers in [low, high).
    #[pyo3(signature = (low=0.0, high=1.0, *, generator=None))]
    fn uniform_<'py>(
        slf: Bound<'py, Self>,
        low: f64,
        high: f64,
        generator: Option<&Bound<'py, Generator>>,
    ) -> PyResult<Bound<'py, Self>> {
        if low > high {
            return Err(pyo3::exceptions::PyValueError::new_err(format!(
                "uniform_: the range from {low} to {high} is empty"
            )));
        }
        random(slf, tensor_core::step::Distribution::Uniform, high - low, low, generator)
    }

    /// Normal random numbers.
    #[pyo3(signature = (mean=0.0, std=1.0, *, generator=None))]
    fn normal_<'py>(
        slf: Bound<'py, Self>,
        mean: f64,
        std: f64,
        generator: Option<&Bound<'py, Generator>>,
    ) -> PyResult<Bound<'py, Self>> {
        random(slf, tensor_core::step::Distribution::Normal, std, mean, generator)
    }
}

fn random<'py>(
    slf: Bound<'py, PyTensor>,
    distribution: tensor_core::step::Distribution,
    scale: f64,
    shift: f64,
    generator: Option<&Bound<'py, Generator>>,
) -> PyResult<Bound<'py, PyTensor>> {
    use tensor_core::ops::elementwise::binary_scalar;
    let own = slf.get().tensor();
    let (seed, offset) =
        draw_from(generator, create::random_blocks(own.elements(), own.dtype(), distribution));
    let numbers = create::random(own.device(), own.dtype(), own.shape(), distribution, seed, offset)
        .and_then(|x| binary_scalar(Binary::Mul, &x, Scalar::Float(scale), false))
        .and_then(|x| binary_scalar(Binary::Add, &x, Scalar::Float(shift), false))
        .map_err(raise)?;
    slf.get().replace(&numbers)?;
    Ok(slf)
}
