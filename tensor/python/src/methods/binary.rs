//! Elementwise functions of two tensors, and Python's operators.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use tensor_core::dtype::{DType, Scalar};
use tensor_core::ops::elementwise;
use tensor_core::program::{Binary, Unary};

use crate::operand::{Operand, apply};
use crate::tensor::PyTensor;

/// Applies a binary function to a tensor and another operand.
pub fn compute(code: Binary, x: &PyTensor, other: Operand, reflected: bool) -> PyResult<PyTensor> {
    match other {
        Operand::Number(value) => x.map(|x| elementwise::binary_scalar(code, x, value, reflected)),
        other if reflected => apply(&[other, Operand::from(x)], |x| elementwise::binary(code, &x[0], &x[1])),
        Operand::Tensor(y, y_placed) => {
            let own = x.tensor();
            // Fast path: both on the current device, or both placed on one device.
            if std::sync::Arc::ptr_eq(own.device(), y.device())
                && (x.is_placed() || y_placed || crate::device::is_current(own.device()))
            {
                let result = elementwise::binary(code, &own, &y).map_err(crate::error::raise)?;
                return Ok(PyTensor::new(result, x.is_placed() || y_placed));
            }
            apply(&[Operand::from(x), Operand::Tensor(y, y_placed)], |x| {
                elementwise::binary(code, &x[0], &x[1])
            })
        }
    }
}

// PyO3 needs the literal operator names, so a macro cannot generate them.
#[pymethods]
impl PyTensor {
    fn __add__(&self, other: Operand) -> PyResult<PyTensor> {
        compute(Binary::Add, self, other, false)
    }

    fn __radd__(&self, other: Operand) -> PyResult<PyTensor> {
        compute(Binary::Add, self, other, true)
    }

    fn __sub__(&self, other: Operand) -> PyResult<PyTensor> {
        compute(Binary::Sub, self, other, false)
    }

    fn __rsub__(&self, other: Operand) -> PyResult<PyTensor> {
        compute(Binary::Sub, self, other, true)
    }

    fn __mul__(&self, other: Operand) -> PyResult<PyTensor> {
        compute(Binary::Mul, self, other, false)
    }

    fn __rmul__(&self, other: Operand) -> PyResult<PyTensor> {
        compute(Binary::Mul, self, other, true)
    }

    fn __truediv__(&self, other: Operand) -> PyResult<PyTensor> {
        compute(Binary::Div, self, other, false)
    }

    fn __rtruediv__(&self, other: Operand) -> PyResult<PyTensor> {
        compute(Binary::Div, self, other, true)
    }

    fn __floordiv__(&self, other: Operand) -> PyResult<PyTensor> {
        compute(Binary::FloorDiv, self, other, false)
    }

    fn __rfloordiv__(&self, other: Operand) -> PyResult<PyTensor> {
        compute(Binary::FloorDiv, self, other, true)
    }

    fn __mod__(&self, other: Operand) -> PyResult<PyTensor> {
        compute(Binary::Rem, self, other, false)
    }

    fn __rmod__(&self, other: Operand) -> PyResult<PyTensor> {
        compute(Binary::Rem, self, other, true)
    }

    fn __and__(&self, other: Operand) -> PyResult<PyTensor> {
        compute(Binary::And, self, other, false)
    }

    fn __rand__(&self, other: Operand) -> PyResult<PyTensor> {
        compute(Binary::And, self, other, true)
    }

    fn __or__(&self, other: Operand) -> PyResult<PyTensor> {
        compute(Binary::Or, self, other, false)
    }

    fn __ror__(&self, other: Operand) -> PyResult<PyTensor> {
        compute(Binary::Or, self, other, true)
    }

    fn __xor__(&self, other: Operand) -> PyResult<PyTensor> {
        compute(Binary::Xor, self, other, false)
    }

    fn __rxor__(&self, other: Operand) -> PyResult<PyTensor> {
        compute(Binary::Xor, self, other, true)
    }

    fn __lshift__(&self, other: Operand) -> PyResult<PyTensor> {
        compute(Binary::Shl, self, other, false)
    }

    fn __rlshift__(&self, other: Operand) -> PyResult<PyTensor> {
        compute(Binary::Shl, self, other, true)
    }

    fn __rshift__(&self, other: Operand) -> PyResult<PyTensor> {
        compute(Binary::Shr, self, other, false)
    }

    fn __rrshift__(&self, other: Operand) -> PyResult<PyTensor> {
        compute(Binary::Shr, self, other, true)
    }

    fn __pow__(&self, other: Operand, modulo: Option<Bound<'_, PyAny>>) -> PyResult<PyTensor> {
        match modulo {
            Some(_) => Err(PyTypeError::new_err("pow() of tensors does not support a modulus")),
            None => compute(Binary::Pow, self, other, false),
        }
    }

    fn __rpow__(&self, other: Operand, _modulo: Option<Bound<'_, PyAny>>) -> PyResult<PyTensor> {
        compute(Binary::Pow, self, other, true)
    }

    fn __matmul__(&self, other: Operand) -> PyResult<PyTensor> {
        apply(&[Operand::from(self), other], |x| tensor_core::ops::matmul::matmul(&x[0], &x[1]))
    }

    fn __rmatmul__(&self, other: Operand) -> PyResult<PyTensor> {
        apply(&[other, Operand::from(self)], |x| tensor_core::ops::matmul::matmul(&x[0], &x[1]))
    }

    fn __neg__(&self) -> PyResult<PyTensor> {
        self.map(|x| elementwise::unary(Unary::Neg, x))
    }

    fn __pos__(&self) -> PyResult<PyTensor> {
        self.map_view(|x| Ok(x.clone()))
    }

    fn __abs__(&self) -> PyResult<PyTensor> {
        self.map(|x| elementwise::unary(Unary::Abs, x))
    }

    fn __invert__(&self) -> PyResult<PyTensor> {
        self.map(|x| {
            let code = if x.dtype() == DType::Bool { Unary::Not } else { Unary::BitNot };
            elementwise::unary(code, x)
        })
    }

    fn __richcmp__(
        &self,
        py: Python<'_>,
        other: &Bound<'_, PyAny>,
        operation: CompareOp,
    ) -> PyResult<Py<PyAny>> {
        let Ok(other) = other.extract::<Operand>() else { return Ok(py.NotImplemented()) };
        let code = match operation {
            CompareOp::Eq => Binary::Eq,
            CompareOp::Ne => Binary::Ne,
            CompareOp::Lt => Binary::Lt,
            CompareOp::Le => Binary::Le,
            CompareOp::Gt => Binary::Gt,
            CompareOp::Ge => Binary::Ge,
        };
        Ok(Py::new(py, compute(code, self, other, false)?)?.into_any())
    }

    /// Makes NumPy defer operators between its arrays and tensors to the tensors.
    #[classattr]
    fn __array_ufunc__() -> Option<bool> {
        None
    }
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident $code:expr;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                $(#[$doc])*
                fn $name(&self, other: Operand) -> PyResult<PyTensor> {
                    compute($code, self, other, false)
                }
            )*
        }
    };
}

binary! {
    /// The product with another tensor or number.
    mul Binary::Mul;
    /// The product with another tensor or number.
    multiply Binary::Mul;
    /// The quotient by another tensor or number, rounded down.
    floor_divide Binary::FloorDiv;
    /// The remainder of the division by another tensor or number, with the sign of the divisor.
    remainder Binary::Rem;
    /// Each element to the power of another tensor or number.
    pow Binary::Pow;
    /// The larger of each two elements.
    maximum Binary::Max;
    /// The smaller of each two elements.
    minimum Binary::Min;
    /// The angle of the point (other, self).
    atan2 Binary::Atan2;
    /// The length of the vector (self, other).
    hypot Binary::Hypot;
    /// Each element with the sign of the other.
    copysign Binary::Copysign;
    /// The next representable number towards the other.
    nextafter Binary::Nextafter;
    /// The logarithm of the sum of the exponentials of each two elements.
    logaddexp Binary::Logaddexp;
    /// The bits that both have.
    bitwise_and Binary::And;
    /// The bits that one of both has.
    bitwise_or Binary::Or;
    /// The bits that only one of both has.
    bitwise_xor Binary::Xor;
    /// Each integer with its bits shifted to the left.
    bitwise_left_shift Binary::Shl;
    /// Each integer with its bits shifted to the right.
    bitwise_right_shift Binary::Shr;
    /// Whether each two elements are equal.
    eq Binary::Eq;
    /// Whether each two elements differ.
    ne Binary::Ne;
    /// Whether each element is less than the other.
    lt Binary::Lt;
    /// Whether each element is at most the other.
    le Binary::Le;
    /// Whether each element is greater than the other.
    gt Binary::Gt;
    /// Whether each element is at least the other.
    ge Binary::Ge;
}

/// Returns `alpha * other`; `other` itself without alpha.
pub fn scaled(other: Operand, alpha: Option<Scalar>) -> PyResult<Operand> {
    let Some(alpha) = alpha else { return Ok(other) };
    let (device, placed) = crate::operand::place(std::iter::once(&other))?;
    let tensor = other.tensor(&device, None)?;
    let scaled =
        elementwise::binary_scalar(Binary::Mul, &tensor, alpha, false).map_err(crate::error::raise)?;
    Ok(Operand::Tensor(scaled, placed))
}

pub fn factor(alpha: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Scalar>> {
    match alpha {
        Some(alpha) => match crate::element::number(alpha)? {
            Some(number) => Ok(Some(number)),
            None => Err(PyTypeError::new_err("alpha must be a number")),
        },
        None => Ok(None),
    }
}

#[pymethods]
impl PyTensor {
    /// The sum with another tensor or number, which is multiplied by `alpha`.
    #[pyo3(signature = (other, *, alpha=None))]
    fn add(&self, other: Operand, alpha: Option<&Bound<'_, PyAny>>) -> PyResult<PyTensor> {
        compute(Binary::Add, self, scaled(other, factor(alpha)?)?, false)
    }

    /// The difference from another tensor or number, which is multiplied by `alpha`.
    #[pyo3(signature = (other, *, alpha=None))]
    fn sub(&self, other: Operand, alpha: Option<&Bound<'_, PyAny>>) -> PyResult<PyTensor> {
        compute(Binary::Sub, self, scaled(other, factor(alpha)?)?, false)
    }

    /// The quotient by another tensor or number. `rounding_mode`: None, 'trunc' or 'floor'.
    #[pyo3(signature = (other, *, rounding_mode=None))]
    pub fn div(&self, other: Operand, rounding_mode: Option<&str>) -> PyResult<PyTensor> {
        match rounding_mode {
            None => compute(Binary::Div, self, other, false),
            Some("floor") => compute(Binary::FloorDiv, self, other, false),
            Some("trunc") => {
                let quotient = compute(Binary::Div, self, other, false)?;
                let dtype = self.tensor().dtype();
                quotient.map(|x| {
                    let whole = elementwise::unary(Unary::Trunc, x)?;
                    if dtype.is_integer() { whole.cast(dtype) } else { Ok(whole) }
                })
            }
            Some(other) => Err(pyo3::exceptions::PyValueError::new_err(format!(
                "div: rounding_mode must be None, 'trunc' or 'floor', not {other:?}"
            ))),
        }
    }

    /// Whether both elements are not zero.
    fn logical_and(&self, other: Operand) -> PyResult<PyTensor> {
        logical(Binary::And, self, other)
    }

    /// Whether one of each two elements is not zero.
    fn logical_or(&self, other: Operand) -> PyResult<PyTensor> {
        logical(Binary::Or, self, other)
    }

    /// Whether exactly one of each two elements is not zero.
    fn logical_xor(&self, other: Operand) -> PyResult<PyTensor> {
        logical(Binary::Xor, self, other)
    }
}

fn logical(code: Binary, x: &PyTensor, other: Operand) -> PyResult<PyTensor> {
    apply(&[Operand::from(x), other], |x| {
        elementwise::binary(code, &x[0].cast(DType::Bool)?, &x[1].cast(DType::Bool)?)
    })
}
