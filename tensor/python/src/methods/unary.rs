//! Elementwise functions of one tensor.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use tensor_core::dtype::DType;
use tensor_core::ops::{activation, elementwise, softmax};
use tensor_core::program::Unary;

use crate::autocast::raised;
use crate::device;
use crate::error::raise;
use crate::operand::{Operand, apply, apply_some};
use crate::tensor::PyTensor;

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident $code:expr;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                $(#[$doc])*
                fn $name(&self) -> PyResult<PyTensor> {
                    self.map(|x| elementwise::unary($code, x))
                }
            )*
        }
    };
}

unary! {
    /// The negative of each element.
    neg Unary::Neg;
    /// The negative of each element.
    negative Unary::Neg;
    /// The absolute value of each element; real for complex numbers.
    abs Unary::Abs;
    /// The absolute value of each element; real for complex numbers.
    absolute Unary::Abs;
    /// Minus one, zero or one, by the sign of each element; complex numbers are divided by their absolute value.
    sign Unary::Sign;
    /// Whether each element is zero.
    logical_not Unary::Not;
    /// The complement of the bits of each integer, or the negation of each bool.
    bitwise_not Unary::BitNot;
    /// The square root of each element.
    sqrt Unary::Sqrt;
    /// One divided by the square root of each element.
    rsqrt Unary::Rsqrt;
    /// One divided by each element.
    reciprocal Unary::Recip;
    /// The exponential of each element.
    exp Unary::Exp;
    /// Two to the power of each element.
    exp2 Unary::Exp2;
    /// The exponential of each element minus one, accurate near zero.
    expm1 Unary::Expm1;
    /// The natural logarithm of each element.
    log Unary::Log;
    /// The logarithm to base 2 of each element.
    log2 Unary::Log2;
    /// The logarithm to base 10 of each element.
    log10 Unary::Log10;
    /// The natural logarithm of one plus each element, accurate near zero.
    log1p Unary::Log1p;
    /// The sine of each element.
    sin Unary::Sin;
    /// The cosine of each element.
    cos Unary::Cos;
    /// The tangent of each element.
    tan Unary::Tan;
    /// The arc sine of each element.
    asin Unary::Asin;
    /// The arc cosine of each element.
    acos Unary::Acos;
    /// The arc tangent of each element.
    atan Unary::Atan;
    /// The arc sine of each element.
    arcsin Unary::Asin;
    /// The arc cosine of each element.
    arccos Unary::Acos;
    /// The arc tangent of each element.
    arctan Unary::Atan;
    /// The hyperbolic sine of each element.
    sinh Unary::Sinh;
    /// The hyperbolic cosine of each element.
    cosh Unary::Cosh;
    /// The hyperbolic tangent of each element.
    tanh Unary::Tanh;
    /// The inverse hyperbolic sine of each element.
    asinh Unary::Asinh;
    /// The inverse hyperbolic cosine of each element.
    acosh Unary::Acosh;
    /// The inverse hyperbolic tangent of each element.
    atanh Unary::Atanh;
    /// The error function of each element.
    erf Unary::Erf;
    /// The logistic function of each element: 1 / (1 + exp(-x)).
    sigmoid Unary::Sigmoid;
    /// Each element rounded down.
    floor Unary::Floor;
    /// Each element rounded up.
    ceil Unary::Ceil;
    /// Each element rounded towards zero.
    trunc Unary::Trunc;
    /// Whether each element is not a number.
    isnan Unary::IsNan;
    /// Whether each element is infinite.
    isinf Unary::IsInf;
    /// The complex conjugate of each element.
    conj Unary::Conj;
}

#[pymethods]
impl PyTensor {
    /// The real parts.
    #[getter]
    fn real(&self) -> PyResult<PyTensor> {
        self.map(|x| if x.dtype().is_complex() { elementwise::unary(Unary::Real, x) } else { Ok(x.clone()) })
    }

    /// The imaginary parts.
    #[getter]
    fn imag(&self) -> PyResult<PyTensor> {
        self.map(|x| elementwise::unary(Unary::Imag, x))
    }

    /// Whether each element is neither infinite nor NaN.
    fn isfinite(&self) -> PyResult<PyTensor> {
        self.map(|x| {
            let infinite = elementwise::unary(Unary::IsInf, x)?;
            let none = elementwise::unary(Unary::IsNan, x)?;
            let either = elementwise::binary(tensor_core::program::Binary::Or, &infinite, &none)?;
            elementwise::unary(Unary::Not, &either)
        })
    }

    /// The square of each element.
    fn square(&self) -> PyResult<PyTensor> {
        self.map(|x| {
            let x = if x.dtype() == DType::Bool { x.cast(DType::I64)? } else { x.clone() };
            elementwise::mul(&x, &x)
        })
    }

    /// Rounds to integers, halves to even; or to a number of decimals, before the decimal point if it is negative.
    #[pyo3(signature = (*, decimals=0))]
    fn round(&self, decimals: i32) -> PyResult<PyTensor> {
        use tensor_core::dtype::Scalar;
        use tensor_core::program::Binary;
        self.map(|x| {
            if decimals == 0 || x.dtype().is_integer() {
                return elementwise::unary(Unary::Round, x);
            }
            let (there, back) =
                if decimals > 0 { (Binary::Mul, Binary::Div) } else { (Binary::Div, Binary::Mul) };
            let factor = Scalar::Float(10.0_f64.powi(decimals.abs()));
            let scaled = elementwise::binary_scalar(there, x, factor, false)?;
            elementwise::binary_scalar(back, &elementwise::unary(Unary::Round, &scaled)?, factor, false)
        })
    }

    /// Each element, or zero if it is negative.
    fn relu(&self) -> PyResult<PyTensor> {
        self.map(activation::relu)
    }

    /// Each element times its sigmoid.
    fn silu(&self) -> PyResult<PyTensor> {
        self.map(activation::silu)
    }

    /// Exact, or with approximate='tanh' the tanh approximation.
    #[pyo3(signature = (approximate="none"))]
    fn gelu(&self, approximate: &str) -> PyResult<PyTensor> {
        let by_tanh = match approximate {
            "none" => false,
            "tanh" => true,
            other => {
                return Err(PyValueError::new_err(format!(
                    "gelu: approximate must be 'none' or 'tanh', not {other:?}"
                )));
            }
        };
        self.map(|x| activation::gelu(x, by_tanh))
    }

    /// Each element, multiplied by `negative_slope` if it is negative.
    #[pyo3(signature = (negative_slope=0.01))]
    fn leaky_relu(&self, negative_slope: f64) -> PyResult<PyTensor> {
        self.map(|x| activation::leaky_relu(x, negative_slope))
    }

    /// Each element, or `alpha * (exp(x) - 1)` if it is negative.
    #[pyo3(signature = (alpha=1.0))]
    fn elu(&self, alpha: f64) -> PyResult<PyTensor> {
        self.map(|x| activation::elu(x, alpha))
    }

    /// log(1 + exp(beta x)) / beta; x itself above the threshold, where the two are equal.
    #[pyo3(signature = (beta=1.0, threshold=20.0))]
    fn softplus(&self, beta: f64, threshold: f64) -> PyResult<PyTensor> {
        use tensor_core::dtype::Scalar;
        use tensor_core::program::Binary;
        self.map(|x| {
            if beta == 1.0 && threshold == 20.0 {
                return activation::softplus(x);
            }
            let scaled = elementwise::binary_scalar(Binary::Mul, x, Scalar::Float(beta), false)?;
            let soft = activation::softplus(&scaled)?;
            let soft = elementwise::binary_scalar(Binary::Div, &soft, Scalar::Float(beta), false)?;
            let linear = elementwise::binary_scalar(Binary::Gt, &scaled, Scalar::Float(threshold), false)?;
            elementwise::where_(&linear, x, &soft)
        })
    }

    /// The scaled exponential linear unit of each element.
    fn selu(&self) -> PyResult<PyTensor> {
        self.map(activation::selu)
    }

    /// Each element times the hyperbolic tangent of its softplus.
    fn mish(&self) -> PyResult<PyTensor> {
        self.map(activation::mish)
    }

    /// Each element, limited to a range.
    #[pyo3(signature = (min_val=-1.0, max_val=1.0), text_signature = "($self, min_val=-1.0, max_val=1.0)")]
    fn hardtanh(&self, min_val: f64, max_val: f64) -> PyResult<PyTensor> {
        self.map(|x| activation::hardtanh(x, min_val, max_val))
    }

    /// The exponentials along an axis, divided by their sum. `dtype`: the type to compute in.
    #[pyo3(
        signature = (dim=-1, dtype=None, *, axis=None),
        text_signature = "($self, dim=-1, dtype=None, *, axis=None)"
    )]
    fn softmax(
        &self,
        dim: isize,
        dtype: Option<crate::dtype::AnyDType>,
        axis: Option<isize>,
    ) -> PyResult<PyTensor> {
        let dim = axis.unwrap_or(dim);
        apply(&[raised(self)?], |x| match &dtype {
            Some(dtype) => softmax::softmax(&x[0].cast(dtype.0)?, dim),
            None => softmax::softmax(&x[0], dim),
        })
    }

    /// The logarithm of the softmax along an axis, without loss of precision. `dtype`: the type to compute in.
    #[pyo3(
        signature = (dim=-1, dtype=None, *, axis=None),
        text_signature = "($self, dim=-1, dtype=None, *, axis=None)"
    )]
    fn log_softmax(
        &self,
        dim: isize,
        dtype: Option<crate::dtype::AnyDType>,
        axis: Option<isize>,
    ) -> PyResult<PyTensor> {
        let dim = axis.unwrap_or(dim);
        apply(&[raised(self)?], |x| match &dtype {
            Some(dtype) => softmax::log_softmax(&x[0].cast(dtype.0)?, dim),
            None => softmax::log_softmax(&x[0], dim),
        })
    }

    /// Zeroes elements with probability p while training, and scales the others so that the mean is kept.
    #[pyo3(signature = (p=0.5, training=true))]
    fn dropout(&self, p: f64, training: bool) -> PyResult<PyTensor> {
        if !(0.0..=1.0).contains(&p) {
            return Err(PyValueError::new_err(format!("dropout: p must be between 0 and 1, not {p}")));
        }
        if !training || p == 0.0 {
            return self.map_view(|x| Ok(x.clone()));
        }
        let x = self.tensor();
        let blocks = tensor_core::ops::create::random_blocks(
            x.elements(),
            DType::F32,
            tensor_core::step::Distribution::Uniform,
        );
        let (seed, offset) = crate::create::draw(blocks);
        self.map(|x| activation::dropout(x, p, seed, offset))
    }

    /// Clamps between two numbers or tensors; either may be missing.
    #[pyo3(signature = (min=None, max=None))]
    fn clamp(&self, min: Option<Operand>, max: Option<Operand>) -> PyResult<PyTensor> {
        use tensor_core::program::Binary;
        if min.is_none() && max.is_none() {
            return Err(PyValueError::new_err("clamp: at least one of min and max is needed"));
        }
        let number = |bound: &Option<Operand>| match bound {
            Some(Operand::Number(value)) => Some(*value),
            _ => None,
        };
        let (low, high) = (number(&min), number(&max));
        if min.is_some() == low.is_some() && max.is_some() == high.is_some() {
            return self.map(|x| elementwise::clamp(x, low, high));
        }
        let mut result = PyTensor::new(self.tensor(), self.is_placed());
        for (bound, code) in [(min, Binary::Max), (max, Binary::Min)] {
            result = match bound {
                None => result,
                Some(Operand::Number(value)) => {
                    result.map(|x| elementwise::binary_scalar(code, x, value, false))?
                }
                Some(bound) => {
                    apply(&[Operand::from(&result), bound], |x| elementwise::binary(code, &x[0], &x[1]))?
                }
            };
        }
        Ok(result)
    }

    /// Each element, limited to a range; another name of `clamp`.
    #[pyo3(signature = (min=None, max=None))]
    fn clip(&self, min: Option<Operand>, max: Option<Operand>) -> PyResult<PyTensor> {
        self.clamp(min, max)
    }

    /// Converts to a device, a type, or both of another tensor.
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

    /// The tensor on the CPU: itself if it is there, else a copy.
    fn cpu(&self, py: Python<'_>) -> PyResult<PyTensor> {
        let tensor = self.tensor();
        device::usable(tensor.device())?;
        Ok(PyTensor::new(py.detach(|| tensor.to_device(device::cpu())).map_err(raise)?, true))
    }

    /// The tensor on a GPU: itself if it is there, else a copy.
    #[pyo3(signature = (device=0))]
    fn rocm(&self, py: Python<'_>, device: u32) -> PyResult<PyTensor> {
        let (tensor, device) = (self.tensor(), device::named(py, &format!("rocm:{device}"))?);
        Ok(PyTensor::new(py.detach(|| tensor.to_device(&device)).map_err(raise)?, true))
    }

    /// The tensor converted to an element type.
    #[pyo3(name = "type")]
    fn typed(&self, dtype: crate::dtype::AnyDType) -> PyResult<PyTensor> {
        self.map_view(|x| x.cast(dtype.0))
    }

    /// The tensor converted to the element type of another.
    fn type_as(&self, other: &Bound<'_, PyTensor>) -> PyResult<PyTensor> {
        let dtype = other.get().tensor().dtype();
        self.map_view(|x| x.cast(dtype))
    }
}

macro_rules! casts {
    ($($(#[$doc:meta])* $name:ident $dtype:expr;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                $(#[$doc])*
                fn $name(&self) -> PyResult<PyTensor> {
                    self.map_view(|x| x.cast($dtype))
                }
            )*
        }
    };
}

casts! {
    /// The tensor converted to float32.
    float DType::F32;
    /// The tensor converted to float64.
    double DType::F64;
    /// The tensor converted to float16.
    half DType::F16;
    /// The tensor converted to bfloat16.
    bfloat16 DType::BF16;
    /// The tensor converted to int32.
    int DType::I32;
    /// The tensor converted to int64.
    long DType::I64;
    /// The tensor converted to int16.
    short DType::I16;
    /// The tensor converted to bool: whether each element is not zero.
    bool DType::Bool;
}

/// `x` where the condition is true, `y` elsewhere.
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

/// Sets elements to a number where the mask is true.
pub fn filled(x: &PyTensor, mask: Operand, value: Operand) -> PyResult<PyTensor> {
    let dtype = x.tensor().dtype();
    let complex = match &value {
        Operand::Tensor(value, _) if value.rank() > 0 => {
            return Err(PyValueError::new_err(format!(
                "masked_fill: the value must be one number, not a tensor of shape {:?}",
                value.shape()
            )));
        }
        Operand::Tensor(value, _) => value.dtype().is_complex(),
        Operand::Number(value) => matches!(value, tensor_core::dtype::Scalar::Complex(..)),
    };
    if complex && !dtype.is_complex() {
        return Err(PyTypeError::new_err(format!(
            "masked_fill: a complex number cannot be converted to {dtype}"
        )));
    }
    apply_some(&[Some(mask), Some(Operand::from(x)), Some(value)], |x| match x {
        [Some(mask), Some(x), Some(value)] => {
            elementwise::where_(&mask.cast(DType::Bool)?, &value.cast(dtype)?, &x.cast(dtype)?)
        }
        _ => unreachable!("all three operands were passed"),
    })
}
