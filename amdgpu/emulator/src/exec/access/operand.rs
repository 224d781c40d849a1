//! Operands of vector memory instructions: the element that a mnemonic names, and the data registers.

use isa::{Inst, Operand};

use super::atomic::atomic_by_suffix;
use super::checked::put_element;
use super::element::{load_by_suffix, store_by_suffix};
use crate::compile::{Compiler, Unsupported};
use crate::{Src, SrcKind, Uop};

/// Sets element and destination of a load. A load to LDS has no destination register.
pub(crate) fn put_load(
    compiler: &Compiler,
    inst: &Inst,
    uop: &mut Uop,
    suffix: &str,
    to_local: bool,
) -> Result<(), Unsupported> {
    let element = load_by_suffix(suffix, compiler.level).ok_or(Unsupported::Instruction(inst.op.name()))?;
    put_element(uop, element, inst.imm);
    if !to_local {
        uop.dst = compiler.vector(inst, &inst.dst, element.registers as u16)?;
    }
    Ok(())
}

/// Sets element and data of a store.
pub(crate) fn put_store(
    compiler: &Compiler,
    inst: &Inst,
    uop: &mut Uop,
    suffix: &str,
) -> Result<(), Unsupported> {
    let element = store_by_suffix(suffix, compiler.level).ok_or(Unsupported::Instruction(inst.op.name()))?;
    put_element(uop, element, inst.imm);
    let index = compiler.vector(inst, &inst.src[1], element.registers as u16)?;
    uop.src[1] = Src { kind: SrcKind::Vector, index };
    Ok(())
}

/// Sets element, data and destination of an atomic; sets the flag `returns` if it returns the old value.
pub(crate) fn put_atomic(
    compiler: &Compiler,
    inst: &Inst,
    uop: &mut Uop,
    suffix: &str,
    returns: u32,
) -> Result<(), Unsupported> {
    let element = atomic_by_suffix(suffix).ok_or(Unsupported::Instruction(inst.op.name()))?;
    put_element(uop, element, inst.imm);
    let registers = element.registers as u16;
    let width = if element.pair { 2 * registers } else { registers };
    uop.src[1] = Src { kind: SrcKind::Vector, index: compiler.vector(inst, &inst.src[1], width)? };
    if inst.memory.glc && inst.dst != Operand::None {
        uop.flags |= returns;
        uop.dst = compiler.vector(inst, &inst.dst, registers)?;
    }
    Ok(())
}
