//! Element types, their promotion rules, and scalars.

use std::fmt;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the variants are named after the types")]
#[repr(u8)]
pub enum DType {
    Bool,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F16,
    BF16,
    F32,
    F64,
    C64,
    C128,
}

/// The arithmetic category of an element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Truth values.
    Bool,
    /// Unsigned integers.
    Unsigned,
    /// Signed integers.
    Signed,
    /// Real floating-point numbers.
    Float,
    /// Complex numbers.
    Complex,
}

impl DType {
    /// All types, in the order of their declaration.
    pub const ALL: [DType; 15] = [
        DType::Bool,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
        DType::C64,
        DType::C128,
    ];

    /// The size of an element.
    pub fn bytes(self) -> usize {
        match self {
            DType::Bool | DType::U8 | DType::I8 => 1,
            DType::U16 | DType::I16 | DType::F16 | DType::BF16 => 2,
            DType::U32 | DType::I32 | DType::F32 => 4,
            DType::U64 | DType::I64 | DType::F64 | DType::C64 => 8,
            DType::C128 => 16,
        }
    }

    /// The arithmetic category.
    pub fn kind(self) -> Kind {
        match self {
            DType::Bool => Kind::Bool,
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => Kind::Unsigned,
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => Kind::Signed,
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => Kind::Float,
            DType::C64 | DType::C128 => Kind::Complex,
        }
    }

    /// Whether it is a real floating-point type.
    pub fn is_float(self) -> bool {
        self.kind() == Kind::Float
    }

    /// Whether it is a complex type.
    pub fn is_complex(self) -> bool {
        self.kind() == Kind::Complex
    }

    /// The type of the real and imaginary parts of a complex type; other types are their own.
    pub fn part(self) -> DType {
        match self {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            other => other,
        }
    }

    /// The complex type whose parts hold numbers of this type.
    pub fn with_imaginary(self) -> DType {
        match self {
            DType::F64 | DType::C128 => DType::C128,
            _ => DType::C64,
        }
    }

    /// Whether it is an integer type; booleans are not.
    pub fn is_integer(self) -> bool {
        matches!(self.kind(), Kind::Unsigned | Kind::Signed)
    }

    /// The name in Python.
    pub fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::U8 => "uint8",
            DType::U16 => "uint16",
            DType::U32 => "uint32",
            DType::U64 => "uint64",
            DType::I8 => "int8",
            DType::I16 => "int16",
            DType::I32 => "int32",
            DType::I64 => "int64",
            DType::F16 => "float16",
            DType::BF16 => "bfloat16",
            DType::F32 => "float32",
            DType::F64 => "float64",
            DType::C64 => "complex64",
            DType::C128 => "complex128",
        }
    }

    /// Returns the type that an operation on two types is computed in, by PyTorch's rules for tensors with dimensions.
    pub fn promote(self, other: DType) -> DType {
        use DType::*;
        if self == other {
            return self;
        }
        let (low, high) = if self.kind() <= other.kind() { (self, other) } else { (other, self) };
        match (low.kind(), high.kind()) {
            (Kind::Unsigned, Kind::Unsigned) | (Kind::Signed, Kind::Signed) => {
                if low.bytes() >= high.bytes() { low } else { high }
            }
            (Kind::Unsigned, Kind::Signed) => match (low, high) {
                (U8, I8) => I16,
                (U8, _) => high,
                (U16, I8 | I16) => I32,
                (U16, _) => high,
                (U32, I8 | I16 | I32 | I64) | (U64, _) => I64,
                _ => high,
            },
            (Kind::Float, Kind::Float) => match (low, high) {
                (F16, BF16) | (BF16, F16) => F32,
                _ if low.bytes() >= high.bytes() => low,
                _ => high,
            },
            (Kind::Float, Kind::Complex) if low == F64 => C128,
            (Kind::Complex, Kind::Complex) => C128,
            _ => high,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A scalar of any type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A real number.
    Float(f64),
    /// Real and imaginary part.
    Complex(f64, f64),
}

impl Scalar {
    /// The value as a float; the real part of a complex number.
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Bool(value) => f64::from(u8::from(value)),
            Scalar::Int(value) => value as f64,
            Scalar::UInt(value) => value as f64,
            Scalar::Float(value) => value,
            Scalar::Complex(real, _) => real,
        }
    }
}
