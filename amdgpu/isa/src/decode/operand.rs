//! Decoders for operand fields: scalar destinations, 8- and 9-bit sources, register tuples.

use super::{Code, Decoded, Fault, require};
use crate::{DataType, Operand};

/// Value of a source field that means a literal follows.
const LITERAL: u32 = 255;
/// First value of a 9-bit source field that is a vector register.
const FIRST_VGPR: u32 = 256;
/// Scalar registers that tuples may extend into: s0..s101 and the two that alias FLAT_SCRATCH.
const SGPRS: u32 = 104;
const TTMPS: u32 = 16;

/// Decodes a 7-bit scalar register field, a destination or source of `dwords` registers.
pub fn sgpr(value: u32, dwords: u32) -> Decoded<Operand> {
    let first_ttmp = 108;
    Ok(match value {
        0..=101 => {
            let first = aligned(value, dwords);
            require(first + dwords <= SGPRS)?;
            Operand::Sgpr(first as u8)
        }
        108..=123 => {
            let first = aligned(value - first_ttmp, dwords);
            require(first + dwords <= TTMPS)?;
            Operand::Ttmp(first as u8)
        }
        102 if dwords <= 2 => Operand::FlatScratchLo,
        104 if dwords <= 2 => Operand::XnackMaskLo,
        106 if dwords <= 2 => Operand::VccLo,
        126 if dwords <= 2 => Operand::ExecLo,
        103 if dwords == 1 => Operand::FlatScratchHi,
        105 if dwords == 1 => Operand::XnackMaskHi,
        107 if dwords == 1 => Operand::VccHi,
        124 if dwords == 1 => Operand::M0,
        127 if dwords == 1 => Operand::ExecHi,
        _ => return Err(Fault::Unknown),
    })
}

/// Scalar register tuples start at a multiple of their size, or of four for larger ones; the hardware ignores the low bits.
fn aligned(first: u32, dwords: u32) -> u32 {
    match dwords {
        1 => first,
        2 => first & !1,
        _ => first & !3,
    }
}

/// Decodes an 8-bit source field: scalar registers, constants, or a literal that follows the instruction.
pub fn scalar_source(value: u32, data_type: DataType, literal: &mut Literal) -> Decoded<Operand> {
    let dwords = data_type.dwords();
    Ok(match value {
        0..=127 => sgpr(value, dwords)?,
        128..=192 => Operand::Int((value - 128) as i8),
        193..=208 => Operand::Int((192 - value as i32) as i8),
        235 => Operand::SharedBase,
        236 => Operand::SharedLimit,
        237 => Operand::PrivateBase,
        238 => Operand::PrivateLimit,
        239 => Operand::PopsExitingWaveId,
        240..=248 => Operand::Float(INLINE_FLOATS[value as usize - 240].to_bits()),
        251 => Operand::Vccz,
        252 => Operand::Execz,
        253 => Operand::Scc,
        LITERAL => literal.operand()?,
        _ => return Err(Fault::Unknown),
    })
}

/// Decodes a 9-bit source field: like [`scalar_source`], plus vector registers.
pub fn vector_source(value: u32, data_type: DataType, literal: &mut Literal) -> Decoded<Operand> {
    if value >= FIRST_VGPR {
        return vgpr(value - FIRST_VGPR, data_type);
    }
    if value == 254 && data_type.dwords() == 1 {
        return Ok(Operand::LdsDirect);
    }
    scalar_source(value, data_type, literal)
}

/// Decodes an 8-bit vector register field.
pub fn vgpr(first: u32, data_type: DataType) -> Decoded<Operand> {
    require(first + data_type.dwords() <= 256)?;
    Ok(Operand::Vgpr(first as u8))
}

/// Decodes a register of the vector or the accumulation register file.
pub fn vgpr_or_agpr(first: u32, data_type: DataType, accumulation: bool) -> Decoded<Operand> {
    let Operand::Vgpr(first) = vgpr(first, data_type)? else { return Err(Fault::Unknown) };
    Ok(if accumulation { Operand::Agpr(first) } else { Operand::Vgpr(first) })
}

const INLINE_FLOATS: [f32; 9] =
    [0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0, std::f32::consts::FRAC_1_PI / 2.0];

/// Literal of an instruction, read once even if several sources use it.
pub struct Literal<'a, 'b> {
    code: Option<&'a mut Code<'b>>,
    value: Option<u32>,
}

impl<'a, 'b> Literal<'a, 'b> {
    /// For encodings that may be followed by a literal.
    pub fn of(code: &'a mut Code<'b>) -> Self {
        Literal { code: Some(code), value: None }
    }

    /// For encodings that cannot have a literal.
    pub fn none() -> Self {
        Literal { code: None, value: None }
    }

    pub fn operand(&mut self) -> Decoded<Operand> {
        if self.value.is_none() {
            self.value = Some(self.code.as_mut().ok_or(Fault::Unknown)?.word()?);
        }
        self.value.map(Operand::Literal).ok_or(Fault::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_are_aligned_and_bounded() {
        assert!(matches!(sgpr(7, 4), Ok(Operand::Sgpr(4))));
        assert!(matches!(sgpr(88, 16), Ok(Operand::Sgpr(88))));
        assert!(sgpr(92, 16).is_err());
        assert!(matches!(sgpr(106, 2), Ok(Operand::VccLo)));
        assert!(sgpr(107, 2).is_err());
        assert!(sgpr(125, 1).is_err());
    }

    #[test]
    fn the_last_inline_float_is_the_reciprocal_of_two_pi() {
        assert_eq!(INLINE_FLOATS[8].to_bits(), 0x3e22_f983);
    }
}
