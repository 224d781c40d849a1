//! Operand types: how many registers an operand spans, and how an inline constant expands in it.

macro_rules! data_types {
    ($($name:ident $element:ident $bits:literal $count:literal)*) => {
        /// An element type, possibly repeated (`F16x2` is two halves in one register).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum DataType {
            /// The operand does not exist.
            None,
            $(
                #[doc = concat!("`", stringify!($element), "`, ", $bits, " bits, ", $count, " times.")]
                $name
            ),*
        }

        impl DataType {
            /// Size of one element in bits.
            pub const fn element_bits(self) -> u32 {
                match self {
                    Self::None => 0,
                    $(Self::$name => $bits),*
                }
            }

            /// Number of elements.
            pub const fn count(self) -> u32 {
                match self {
                    Self::None => 0,
                    $(Self::$name => $count),*
                }
            }

            /// The type of one element.
            pub const fn element(self) -> Element {
                match self {
                    Self::None => Element::Bits,
                    $(Self::$name => Element::$element),*
                }
            }
        }
    };
}

data_types! {
    // name  element  bits count
    B16      Bits       16  1
    B32      Bits       32  1
    B64      Bits       64  1
    B96      Bits       32  3
    B128     Bits       32  4
    B256     Bits       32  8
    B512     Bits       32 16
    B16x2    Bits       16  2
    B32x2    Bits       32  2
    U16      Unsigned   16  1
    U32      Unsigned   32  1
    U64      Unsigned   64  1
    U4x8     Unsigned    4  8
    U8x4     Unsigned    8  4
    U16x2    Unsigned   16  2
    I16      Signed     16  1
    I32      Signed     32  1
    I64      Signed     64  1
    I4x8     Signed      4  8
    I8x4     Signed      8  4
    I8x8     Signed      8  8
    I8x16    Signed      8 16
    I16x2    Signed     16  2
    I32x4    Signed     32  4
    I32x16   Signed     32 16
    I32x32   Signed     32 32
    F16      Float      16  1
    F32      Float      32  1
    F64      Float      64  1
    F16x2    Float      16  2
    F16x4    Float      16  4
    F16x8    Float      16  8
    F32x2    Float      32  2
    F32x4    Float      32  4
    F32x16   Float      32 16
    F32x32   Float      32 32
    F64x4    Float      64  4
    BF16x2   Brain      16  2
    BF16x4   Brain      16  4
    BF16x8   Brain      16  8
    XF32x2   Xf32       32  2
    FP8x8    Fp8         8  8
    FP8x16   Fp8         8 16
    BF8x8    Bf8         8  8
    BF8x16   Bf8         8 16
}

/// Interpretation of an element's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// No interpretation.
    Bits,
    /// Unsigned integer.
    Unsigned,
    /// Signed integer, two's complement.
    Signed,
    /// IEEE binary16, binary32 or binary64.
    Float,
    /// bfloat16.
    Brain,
    /// binary32 with the mantissa truncated to 10 bits.
    Xf32,
    /// 8-bit float, E4M3.
    Fp8,
    /// 8-bit float, E5M2.
    Bf8,
}

impl DataType {
    /// Number of 32-bit registers.
    pub const fn dwords(self) -> u32 {
        (self.element_bits() * self.count()).div_ceil(32)
    }

    /// Whether source modifiers mean negation and absolute value, instead of sign extension.
    pub const fn is_float(self) -> bool {
        matches!(self.element(), Element::Float | Element::Brain | Element::Xf32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_the_names() {
        assert_eq!(DataType::None.dwords(), 0);
        assert_eq!(DataType::F16.dwords(), 1);
        assert_eq!(DataType::F64x4.dwords(), 8);
        assert_eq!(DataType::I8x16.dwords(), 4);
        assert_eq!(DataType::B96.dwords(), 3);
        assert_eq!(DataType::F32x32.dwords(), 32);
    }
}
