//! What is computed for one element: a short straight program that every device can run over whole tensors.
//!
//! Programs are what fusion makes of chains of elementwise operations. They are the prologue and epilogue of reductions and contractions
//! too. A device may interpret them block by block (the CPU) or write source code for them (ROCm).

use crate::dtype::{DType, Scalar};

/// The number of an instruction whose value is used.
pub type Value = u16;

/// No program is longer; fusion stops before.
pub const MAX_INSTRUCTIONS: usize = 64;

/// Instructions in order; each may use the values of earlier ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    pub instructions: Vec<Instruction>,
    /// The values that are written, one per output.
    pub results: Vec<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Instruction {
    pub code: Code,
    /// Of the value it makes.
    pub dtype: DType,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Code {
    /// The element of the step's nth input at the current index.
    Input(u16),
    Constant(Scalar),
    /// The current index along an axis of the output (before any reduction: of the inputs).
    Index(u8),
    /// To this instruction's type: floats to integers towards zero, to bool by "is not zero".
    Cast(Value),
    Unary(Unary, Value),
    /// Both of this instruction's type, for comparisons both of one type and the result bool.
    Binary(Binary, Value, Value),
    /// The second where the first (a bool) holds, the third elsewhere.
    Select(Value, Value, Value),
}

/// Functions of one number. Integers have those that make sense for them; the graph casts before others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// To the nearest, halves to even.
    Round,
    IsNan,
    IsInf,
    Real,
    Imag,
    Conj,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    /// True division for floats and complex; integers are divided towards zero, by zero gives zero.
    Div,
    /// Towards minus infinity.
    FloorDiv,
    /// With the sign of the divisor, as Python's.
    Rem,
    Pow,
    /// NaN if either is.
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
    /// A complex number of two floats.
    Complex,
    /// Of i64: the first if it is from zero to below the second, see [`crate::bounds`]; else minus one, and the device tells of it when somebody waits.
    Within,
}

impl Binary {
    /// Whether the result is a bool whatever is compared.
    pub fn compares(self) -> bool {
        use Binary::*;
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge)
    }
}

impl Program {
    /// The nth input as it is.
    pub fn identity(dtype: DType) -> Program {
        Program { instructions: vec![Instruction { code: Code::Input(0), dtype }], results: vec![0] }
    }
}
