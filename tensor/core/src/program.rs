//! Programs: straight-line code for one element, which every device can run over whole tensors.
//!
//! Fusion turns chains of elementwise operations into programs. They are also the prologue and epilogue of reductions and
//! contractions. A device may interpret them block by block (CPU) or generate source code from them (ROCm).

use crate::dtype::{DType, Scalar};

/// The number of the instruction that produces a value.
pub type Value = u16;

/// The longest program; fusion stops before.
pub const MAX_INSTRUCTIONS: usize = 64;

/// Instructions in order; each may use the values of earlier ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Computed in order; an instruction reads the values of earlier ones.
    pub instructions: Vec<Instruction>,
    /// The values that are written, one per output.
    pub results: Vec<Value>,
}

/// One instruction of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Instruction {
    /// What it computes.
    pub code: Code,
    /// The type of its value.
    pub dtype: DType,
}

/// What an instruction computes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Code {
    /// The element of the step's nth input at the current index.
    Input(u16),
    /// The same value for every element.
    Constant(Scalar),
    /// The current index along an axis of the output (before any reduction: of the inputs).
    Index(u8),
    /// Converts to this instruction's type: floats to integers towards zero, to bool by "is not zero".
    Cast(Value),
    /// A function of one value.
    Unary(Unary, Value),
    /// Both operands have this instruction's type; comparisons have operands of one type and a bool result.
    Binary(Binary, Value, Value),
    /// The second value where the first (a bool) is true, else the third.
    Select(Value, Value, Value),
}

/// Unary functions. Integers support only a subset; the graph casts before the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the variants are named after the functions")]
pub enum Unary {
    Neg,
    Abs,
    Sign,
    Not,
    BitNot,
    Sqrt,
    Rsqrt,
    Recip,
    Exp,
    Exp2,
    Expm1,
    Log,
    Log2,
    Log10,
    Log1p,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Erf,
    Sigmoid,
    Floor,
    Ceil,
    Trunc,
    /// To the nearest integer, halves to even.
    Round,
    IsNan,
    IsInf,
    Real,
    Imag,
    Conj,
}

/// Functions of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the variants are named after the functions")]
pub enum Binary {
    Add,
    Sub,
    Mul,
    /// True division for floats and complex; integers truncate towards zero, and division by zero gives zero.
    Div,
    /// Rounds towards minus infinity.
    FloorDiv,
    /// The remainder with the sign of the divisor, like Python's.
    Rem,
    Pow,
    /// NaN if either operand is.
    Max,
    Min,
    Atan2,
    Hypot,
    Copysign,
    Nextafter,
    Logaddexp,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// A complex number from two floats.
    Complex,
    /// For i64: the first operand if it is from zero to below the second (see [`crate::bounds`]); else minus one, and the device
    /// reports the error at the next call that waits.
    Within,
}

impl Binary {
    /// Whether it is a comparison, with a bool result.
    pub fn compares(self) -> bool {
        use Binary::*;
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge)
    }
}

impl Program {
    /// The program that returns its first input unchanged.
    pub fn identity(dtype: DType) -> Program {
        Program { instructions: vec![Instruction { code: Code::Input(0), dtype }], results: vec![0] }
    }
}
