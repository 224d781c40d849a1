//! In-place operations: the tensor takes the result of the operation. Other tensors that were views of it keep the old elements.

use pyo3::prelude::*;
use tensor_core::dtype::Scalar;
use tensor_core::ops::create;
use tensor_core::program::Binary;

use super::binary::compute;
use crate::create::draw;
use crate::error::raise;
use crate::operand::Operand;
use crate::tensor::PyTensor;

fn change(x: &PyTensor, code: Binary, other: Operand) -> PyResult<()> {
    let own = x.tensor();
    let result = compute(code, x, other, false)?.tensor();
    let result = result.cast(own.dtype()).and_then(|x| x.to_device(own.device())).map_err(raise)?;
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
    ($($name:ident $code:expr;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                fn $name<'py>(slf: Bound<'py, Self>, other: Operand) -> PyResult<Bound<'py, Self>> {
                    change(slf.get(), $code, other)?;
                    Ok(slf)
                }
            )*
        }
    };
}

in_place! {
    add_ Binary::Add;
    sub_ Binary::Sub;
    mul_ Binary::Mul;
    div_ Binary::Div;
    pow_ Binary::Pow;
}

#[pymethods]
impl PyTensor {
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
        slf.get().replace(&source)?;
        Ok(slf)
    }

    fn fill_<'py>(slf: Bound<'py, Self>, value: &Bound<'_, PyAny>) -> PyResult<Bound<'py, Self>> {
        let value: Operand = value.extract()?;
        Self::copy_(slf, value, false)
    }

    fn zero_(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        Self::copy_(slf, Operand::Number(Scalar::Int(0)), false)
    }

    #[pyo3(signature = (min=None, max=None))]
    fn clamp_<'py>(
        slf: Bound<'py, Self>,
        min: Option<Bound<'py, PyAny>>,
        max: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        let result = slf.call_method1("clamp", (min, max))?;
        slf.get().replace(&result.cast::<PyTensor>()?.get().tensor())?;
        Ok(slf)
    }

    #[pyo3(signature = (low=0.0, high=1.0))]
    fn uniform_(slf: Bound<'_, Self>, low: f64, high: f64) -> PyResult<Bound<'_, Self>> {
        if low > high {
            return Err(pyo3::exceptions::PyValueError::new_err(format!(
                "uniform_: the range from {low} to {high} is empty"
            )));
        }
        random(slf, tensor_core::step::Distribution::Uniform, high - low, low)
    }

    #[pyo3(signature = (mean=0.0, std=1.0))]
    fn normal_(slf: Bound<'_, Self>, mean: f64, std: f64) -> PyResult<Bound<'_, Self>> {
        random(slf, tensor_core::step::Distribution::Normal, std, mean)
    }
}

fn random(
    slf: Bound<'_, PyTensor>,
    distribution: tensor_core::step::Distribution,
    scale: f64,
    shift: f64,
) -> PyResult<Bound<'_, PyTensor>> {
    use tensor_core::ops::elementwise::binary_scalar;
    let own = slf.get().tensor();
    let (seed, offset) = draw(create::random_blocks(own.elements(), own.dtype(), distribution));
    let numbers = create::random(own.device(), own.dtype(), own.shape(), distribution, seed, offset)
        .and_then(|x| binary_scalar(Binary::Mul, &x, Scalar::Float(scale), false))
        .and_then(|x| binary_scalar(Binary::Add, &x, Scalar::Float(shift), false))
        .map_err(raise)?;
    slf.get().replace(&numbers)?;
    Ok(slf)
}
