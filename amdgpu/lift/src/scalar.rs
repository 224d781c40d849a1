//! Scalar instructions.
//!
//! A 64-bit bitwise operation may work on numbers or on masks. Both forms of the result are computed; dead code elimination removes
//! the one that nothing reads.

mod binary;
mod compare;
mod control;
mod immediate;
mod unary;

pub use binary::two_sources;
pub use compare::compare;
pub use control::{condition, control};
pub use immediate::immediate;
pub use unary::one_source;

use isa::{Inst, Operand};

use crate::form::{Operation, Value};
use crate::register::EXEC;
use crate::translator::{Translated, Translator};

/// Operand number of a scalar register.
pub fn register(operand: &Operand) -> Option<u8> {
    Some(match *operand {
        Operand::Sgpr(register) => register,
        Operand::FlatScratchLo => 102,
        Operand::FlatScratchHi => 103,
        Operand::XnackMaskLo => 104,
        Operand::XnackMaskHi => 105,
        Operand::VccLo => 106,
        Operand::VccHi => 107,
        Operand::Ttmp(register) => 108 + register,
        Operand::M0 => 124,
        Operand::ExecLo => 126,
        Operand::ExecHi => 127,
        _ => return None,
    })
}

/// Both forms of a 64-bit operand.
#[derive(Clone, Copy, Debug)]
struct Both {
    number: Value,
    mask: Value,
}

impl Translator {
    /// Both forms of a 64-bit source.
    fn both(&mut self, inst: &Inst, n: usize) -> Translated<Both> {
        let (operand, data_type) = (inst.src[n], inst.src_type(n));
        Ok(Both { number: self.source(&operand, data_type)?, mask: self.source_mask(&operand, data_type)? })
    }

    /// Writes both forms to a register pair.
    fn set_both(&mut self, operand: &Operand, value: Both) -> Translated<()> {
        let first = register(operand).ok_or("the destination is not a scalar register")?;
        if first % 2 == 1 {
            return self.set_number(operand, value.number);
        }
        self.written.insert(crate::form::Register::Scalar(first));
        self.written.insert(crate::form::Register::Scalar(first + 1));
        let (mut b, registers) = self.parts();
        let words = [b.low(value.number), b.high(value.number)];
        registers.set_both(&mut b, first, words, value.mask);
        Ok(())
    }

    /// Sets SCC to whether a 64-bit result is not zero, by the form that the operand seems to have.
    fn set_scc_both(&mut self, inst: &Inst, value: Both) {
        let mut b = self.b();
        let number = matches!(b.function.definition(value.mask).operation, Operation::MaskOf);
        let exec = [inst.dst, inst.src[0], inst.src[1]].iter().any(|operand| register(operand) == Some(EXEC));
        let bit = if number && !exec { b.nonzero(value.number) } else { b.any_lane(value.mask) };
        self.set_scc(bit);
    }

    /// Sets SCC to whether a number is not zero.
    fn set_scc_nonzero(&mut self, value: Value) {
        let bit = self.b().nonzero(value);
        self.set_scc(bit);
    }
}
