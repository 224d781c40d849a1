//! Bits of inline constants and literals for an operand type.

use crate::{DataType, Element, Operand};

impl Operand {
    /// Bits of a constant in an operand of type `data_type`, or `None` for registers and hardware values.
    ///
    /// Integers are sign-extended to the operand's width; floats are encoded in its precision. A literal is the upper half of an
    /// f64. For 64-bit integers it is sign-extended if the type is signed, else zero-extended. In packed halves the constant is
    /// the lower one.
    pub fn constant_bits(self, data_type: DataType) -> Option<u64> {
        let wide = data_type.element_bits() == 64;
        Some(match self {
            Operand::Int(value) if wide => i64::from(value) as u64,
            Operand::Int(value) => u64::from(i32::from(value) as u32),
            Operand::Float(bits) => float_bits(bits, data_type),
            Operand::Literal(value) if wide => match data_type.element() {
                Element::Float => u64::from(value) << 32,
                Element::Signed => i64::from(value as i32) as u64,
                _ => value.into(),
            },
            Operand::Literal(value) => value.into(),
            _ => return None,
        })
    }
}

/// An inline float in the precision of the operand. Packed integers use the f32 bits.
fn float_bits(bits: u32, data_type: DataType) -> u64 {
    // 1/(2*pi) is the only inline float that is not exact in every precision.
    const RECIPROCAL_OF_TWO_PI: u32 = 0x3e22_f983;
    let packed_integers = data_type.count() > 1 && !data_type.is_float();
    match data_type.element_bits() {
        64 if bits == RECIPROCAL_OF_TWO_PI => 0x3fc4_5f30_6dc9_c882,
        64 => f64::from(f32::from_bits(bits)).to_bits(),
        16 if bits == RECIPROCAL_OF_TWO_PI && !packed_integers => 0x3118,
        16 if !packed_integers => {
            // All others are powers of two: only sign and exponent, whose bias differs.
            let (sign, exponent) = (bits >> 31, bits >> 23 & 0xff);
            (sign << 15 | (exponent + 15 - 127) << 10).into()
        }
        _ => bits.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_take_the_precision_of_the_operand() {
        let float = |value: f32| Operand::Float(value.to_bits());
        assert_eq!(float(-4.0).constant_bits(DataType::F32), Some(0xc080_0000));
        assert_eq!(float(-4.0).constant_bits(DataType::F64), Some((-4.0f64).to_bits()));
        assert_eq!(float(0.5).constant_bits(DataType::F16), Some(0x3800));
        assert_eq!(float(-4.0).constant_bits(DataType::F16x2), Some(0xc400));
        assert_eq!(float(1.0).constant_bits(DataType::I16x2), Some(0x3f80_0000));
        assert_eq!(Operand::Float(0x3e22_f983).constant_bits(DataType::F16), Some(0x3118));
    }

    #[test]
    fn integers_are_sign_extended() {
        assert_eq!(Operand::Int(-1).constant_bits(DataType::U64), Some(u64::MAX));
        assert_eq!(Operand::Int(-1).constant_bits(DataType::U32), Some(0xffff_ffff));
        assert_eq!(Operand::Int(64).constant_bits(DataType::F32), Some(64));
    }

    #[test]
    fn literals_are_the_upper_half_of_doubles() {
        assert_eq!(Operand::Literal(0x3ff0_0000).constant_bits(DataType::F64), Some(1.0f64.to_bits()));
        assert_eq!(Operand::Literal(0x8000_0000).constant_bits(DataType::B64), Some(0x8000_0000));
        assert_eq!(Operand::Literal(0x8000_0000).constant_bits(DataType::I64), Some(0xffff_ffff_8000_0000));
        assert_eq!(Operand::Vgpr(0).constant_bits(DataType::F64), None);
    }
}
