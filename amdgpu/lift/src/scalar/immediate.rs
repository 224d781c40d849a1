//! SOPK: a 16-bit immediate, and hardware registers.

use isa::{DataType, Inst, Mode, Op, Operand};

use super::binary::negative;
use super::compare::relation;
use crate::form::{Binary, Input};
use crate::translator::{Translated, Translator, unsupported};

/// Numbers of hardware registers.
const MODE: u32 = 1;
const LDS_ALLOC: u32 = 6;
const SH_MEM_BASES: u32 = 15;

/// Translates an instruction.
pub fn immediate(t: &mut Translator, inst: &Inst) -> Translated<()> {
    match inst.op {
        Op::s_getreg_b32 => return read(t, inst),
        Op::s_setreg_b32 | Op::s_setreg_imm32_b32 => return write(t, inst),
        Op::s_cbranch_i_fork => return unsupported(inst),
        _ => {}
    }
    let signed = i32::from(inst.imm as i16) as u32;
    if inst.op == Op::s_movk_i32 {
        let value = t.b().word(signed);
        return t.set_number(&inst.dst, value);
    }
    let old = t.source(&inst.dst, DataType::B32)?;
    match inst.op {
        Op::s_cmovk_i32 => {
            let scc = t.scc();
            let new = t.b().word(signed);
            let value = t.b().select(scc, new, old);
            t.set_number(&inst.dst, value)
        }
        Op::s_addk_i32 => {
            let mut b = t.b();
            let addend = b.word(signed);
            let sum = b.binary(Binary::Add, old, addend);
            let (p, q) = (b.binary(Binary::Xor, old, sum), b.binary(Binary::Xor, addend, sum));
            let overflow = negative(&mut b, p, q);
            t.set_scc(overflow);
            t.set_number(&inst.dst, sum)
        }
        Op::s_mulk_i32 => {
            let mut b = t.b();
            let factor = b.word(signed);
            let product = b.binary(Binary::Multiply, old, factor);
            t.set_number(&inst.dst, product)
        }
        op => {
            let unsigned = op.name().ends_with("u32");
            let mut b = t.b();
            let other = b.word(if unsigned { signed & 0xffff } else { signed });
            let Some(bit) = relation(&mut b, op, old, other) else { return unsupported(inst) };
            t.set_scc(bit);
            Ok(())
        }
    }
}

/// Register, first bit, and mask at bit 0 of a `hwreg(...)` immediate.
fn fields(inst: &Inst) -> (u32, u32, u32) {
    let field = u32::from(inst.imm as u16);
    let size = (field >> 11 & 31) + 1;
    (field & 0x3f, field >> 6 & 31, u32::MAX >> (32 - size))
}

fn read(t: &mut Translator, inst: &Inst) -> Translated<()> {
    let (register, offset, mask) = fields(inst);
    let mode = t.mode.to_bits();
    let mut b = t.b();
    let whole = match register {
        MODE => b.word(mode),
        LDS_ALLOC => {
            let bytes = b.input(Input::LdsBytes);
            let (more, unit, place) = (b.word(511), b.word(9), b.word(12));
            let sum = b.binary(Binary::Add, bytes, more);
            let count = b.binary(Binary::ShiftRight, sum, unit);
            b.binary(Binary::ShiftLeft, count, place)
        }
        SH_MEM_BASES => {
            let (shared, private) = (b.input(Input::SharedBase), b.input(Input::PrivateBase));
            let (shared, private) = (b.high(shared), b.high(private));
            let (kept, amount) = (b.word(0xffff_0000), b.word(16));
            let shared = b.and(shared, kept);
            let private = b.binary(Binary::ShiftRight, private, amount);
            b.or(shared, private)
        }
        // The number of the compute die: there is one.
        20 => b.word(0),
        _ => return Err("this hardware register cannot be read".to_owned()),
    };
    let (amount, kept) = (b.word(offset), b.word(mask));
    let shifted = b.binary(Binary::ShiftRight, whole, amount);
    let value = b.and(shifted, kept);
    t.set_number(&inst.dst, value)
}

fn write(t: &mut Translator, inst: &Inst) -> Translated<()> {
    let (register, offset, mask) = fields(inst);
    let from = if inst.src[0] == Operand::None { inst.dst } else { inst.src[0] };
    let value = t.source(&from, DataType::B32)?;
    if register != MODE {
        return Err("this hardware register cannot be written".to_owned());
    }
    let value = t.function.constant(value).ok_or("MODE is set to a value that is not constant")? as u32;
    let bits = t.mode.to_bits() & !(mask << offset) | (value & mask) << offset;
    t.mode = Mode::from_bits(bits);
    Ok(())
}
