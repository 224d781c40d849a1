//! Functions of one tensor, element by element.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tensor_core::dtype::DType;
use tensor_core::ops::elementwise;
use tensor_core::program::Unary;

use crate::device;
use crate::error::raise;
use crate::operand::{Operand, apply, apply_some};
use crate::tensor::PyTensor;

macro_rules! unary {
    ($($name:ident $code:expr;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                fn $name(&self) -> PyResult<PyTensor> {
                    self.map(|x| elementwise::unary($code, x))
                }
            )*
        }
    };
}

unary! {
    neg Unary::Neg;
    negative Unary::Neg;
    abs Unary::Abs;
    absolute Unary::Abs;
    sign Unary::Sign;
    logical_not Unary::Not;
    bitwise_not Unary::BitNot;
    sqrt Unary::Sqrt;
    rsqrt Unary::Rsqrt;
    reciprocal Unary::Recip;
    exp Unary::Exp;
    exp2 Unary::Exp2;
    expm1 Unary::Expm1;
    log Unary::Log;
    log2 Unary::Log2;
    log10 Unary::Log10;
    log1p Unary::Log1p;
    sin Unary::Sin;
    cos Unary::Cos;
    tan Unary::Tan;
    asin Unary::Asin;
    acos Unary::Acos;
    atan Unary::Atan;
    arcsin Unary::Asin;
    arccos Unary::Acos;
    arctan Unary::Atan;
    sinh Unary::Sinh;
    cosh Unary::Cosh;
    tanh Unary::Tanh;
    asinh Unary::Asinh;
    acosh Unary::Acosh;
    atanh Unary::Atanh;
    erf Unary::Erf;
    sigmoid Unary::Sigmoid;
    floor Unary::Floor;
    ceil Unary::Ceil;
    trunc Unary::Trunc;
    round Unary::Round;
    isnan Unary::IsNan;
    isinf Unary::IsInf;
    conj Unary::Conj;
}

#[pymethods]
impl PyTensor {
    #[getter]
    fn real(&self) -> PyResult<PyTensor> {
        self.map(|x| if x.dtype() == DType::C64 { elementwise::unary(Unary::Real, x) } else { Ok(x.clone()) })
    }

    #[getter]
    fn imag(&self) -> PyResult<PyTensor> {
        self.map(|x| elementwise::unary(Unary::Imag, x))
    }

    fn isfinite(&self) -> PyResult<PyTensor> {
        self.map(|x| {
            let infinite = elementwise::unary(Unary::IsInf, x)?;
            let none = elementwise::unary(Unary::IsNan, x)?;
            let either = elementwise::binary(tensor_core::program::Binary::Or, &infinite, &none)?;
            elementwise::unary(Unary::Not, &either)
        })
    }

    fn square(&self) -> PyResult<PyTensor> {
        self.map(|x| elementwise::mul(x, x))
    }

    fn relu(&self) -> PyResult<PyTensor> {
        self.map(elementwise::relu)
    }

    fn silu(&self) -> PyResult<PyTensor> {
        self.map(elementwise::silu)
    }

    /// Exactly, or by its approximation with approximate='tanh'.
    #[pyo3(signature = (approximate="none"))]
    fn gelu(&self, approximate: &str) -> PyResult<PyTensor> {
        let by_tanh = match approximate {
            "none" => false,
            "tanh" => true,
            other => {
                return Err(PyValueError::new_err(format!("gelu: approximate is 'none' or 'tanh', not {other:?}")));
            }
        };
        self.map(|x| elementwise::gelu(x, by_tanh))
    }

    #[pyo3(signature = (negative_slope=0.01))]
    fn leaky_relu(&self, negative_slope: f64) -> PyResult<PyTensor> {
        self.map(|x| elementwise::leaky_relu(x, negative_slope))
    }

    #[pyo3(signature = (alpha=1.0))]
    fn elu(&self, alpha: f64) -> PyResult<PyTensor> {
        self.map(|x| elementwise::elu(x, alpha))
    }

    #[pyo3(signature = (beta=1.0, threshold=20.0))]
    fn softplus(&self, beta: f64, threshold: f64) -> PyResult<PyTensor> {
        self.map(|x| elementwise::softplus(x, beta, threshold))
    }

    /// Between two numbers or tensors; either may be missing.
    #[pyo3(signature = (min=None, max=None))]
    fn clamp(&self, min: Option<Operand>, max: Option<Operand>) -> PyResult<PyTensor> {
        use tensor_core::program::Binary;
        if min.is_none() && max.is_none() {
            return Err(PyValueError::new_err("clamp: at least one of min and max is needed"));
        }
        let mut result = PyTensor::new(self.tensor(), self.is_placed());
        for (bound, code) in [(min, Binary::Max), (max, Binary::Min)] {
            result = match bound {
                None => result,
                Some(Operand::Number(value)) => result.map(|x| elementwise::binary_scalar(code, x, value, false))?,
                Some(bound) => apply(&[Operand::from(&result), bound], |x| elementwise::binary(code, &x[0], &x[1]))?,
            };
        }
        Ok(result)
    }

    #[pyo3(signature = (min=None, max=None))]
    fn clip(&self, min: Option<Operand>, max: Option<Operand>) -> PyResult<PyTensor> {
        self.clamp(min, max)
    }

    /// To a device, a type, or what another tensor has.
    #[pyo3(signature = (*arguments, **named))]
    fn to<'py>(
        &self,
        py: Python<'py>,
        arguments: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<PyTensor> {
        let (device, dtype) = crate::grad::parse_to(arguments, named)?;
        let mut tensor = self.tensor();
        if let Some(dtype) = dtype {
            tensor = tensor.cast(dtype.get().0).map_err(raise)?;
        }
        match device {
            Some(name) => {
                let device = device::named(py, &name)?;
                device::usable(tensor.device())?;
                tensor = py.detach(|| tensor.to_device(&device)).map_err(raise)?;
                Ok(PyTensor::new(tensor, true))
            }
            None => Ok(PyTensor::new(tensor, self.is_placed())),
        }
    }

    fn cpu(&self, py: Python<'_>) -> PyResult<PyTensor> {
        let tensor = self.tensor();
        device::usable(tensor.device())?;
        Ok(PyTensor::new(py.detach(|| tensor.to_device(device::cpu())).map_err(raise)?, true))
    }

    #[pyo3(signature = (device=0))]
    fn rocm(&self, py: Python<'_>, device: u32) -> PyResult<PyTensor> {
        let (tensor, device) = (self.tensor(), device::named(py, &format!("rocm:{device}"))?);
        Ok(PyTensor::new(py.detach(|| tensor.to_device(&device)).map_err(raise)?, true))
    }

    #[pyo3(name = "type")]
    fn typed(&self, dtype: crate::dtype::AnyDType) -> PyResult<PyTensor> {
        self.map(|x| x.cast(dtype.0))
    }

    fn type_as(&self, other: &Bound<'_, PyTensor>) -> PyResult<PyTensor> {
        let dtype = other.get().tensor().dtype();
        self.map(|x| x.cast(dtype))
    }
}

macro_rules! casts {
    ($($name:ident $dtype:expr;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                fn $name(&self) -> PyResult<PyTensor> {
                    self.map(|x| x.cast($dtype))
                }
            )*
        }
    };
}

casts! {
    float DType::F32;
    double DType::F64;
    half DType::F16;
    bfloat16 DType::BF16;
    int DType::I32;
    long DType::I64;
    short DType::I16;
    bool DType::Bool;
}

/// `x` where the condition holds, `y` elsewhere.
#[pyfunction]
#[pyo3(name = "where", signature = (condition, x, y))]
pub fn where_(condition: Operand, x: Operand, y: Operand) -> PyResult<PyTensor> {
    let (device, placed) = crate::operand::place([&condition, &x, &y].into_iter())?;
    let condition = condition.tensor(&device, None)?;
    let (x_type, y_type) = (x.dtype(), y.dtype());
    let natural = match (&x, &y) {
        (Operand::Number(a), Operand::Number(b)) => {
            Some(crate::element::natural(*a).promote(crate::element::natural(*b)))
        }
        _ => None,
    };
    let x = x.tensor(&device, y_type.or(natural))?;
    let y = y.tensor(&device, x_type.or(natural))?;
    Ok(PyTensor::new(elementwise::where_(&condition, &x, &y).map_err(raise)?, placed))
}

/// A number everywhere where the mask holds.
pub fn filled(x: &PyTensor, mask: Operand, value: Operand) -> PyResult<PyTensor> {
    let dtype = x.tensor().dtype();
    apply_some(&[Some(mask), Some(Operand::from(x)), Some(value)], |x| match x {
        [Some(mask), Some(x), Some(value)] => {
            elementwise::where_(&mask.cast(DType::Bool)?, &value.cast(dtype)?, &x.cast(dtype)?)
        }
        _ => unreachable!("three were given"),
    })
}

