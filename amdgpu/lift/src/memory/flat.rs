//! FLAT, GLOBAL and SCRATCH: memory by 64-bit addresses, and private memory by offsets.

use isa::{AccessKind, Arch, Flags, Format, Inst};

use super::atomic::{self, AtomicElement};
use super::element::{Element, load, store};
use super::fence::{atomic_scope, scope};
use super::{Operands, Outcome, lane_of_local, local_access, unsupported, words};
use crate::Builder;
use crate::form::*;

pub fn lift(b: &mut Builder, arch: Arch, inst: &Inst, operands: &Operands) -> Result<Outcome, String> {
    let Some(access) = inst.op.memory_access() else { return unsupported("the operation") };
    let space = match inst.format {
        Format::Flat => Space::Flat,
        Format::Global => Space::Global,
        _ => Space::Private,
    };
    let address = address(b, inst, operands)?;
    let mut memory = Access {
        space,
        bytes: u8::try_from(access.bytes).map_err(|error| error.to_string())?,
        signed: false,
        offset: inst.imm,
        scope: scope(arch, inst),
        align: 0,
    };
    if access.kind == AccessKind::Atomic {
        let Some(element) = AtomicElement::of(inst.op) else { return unsupported("the atomic operation") };
        memory.scope = atomic_scope(inst);
        let data = words(operands, 1, element.words * if element.pair { 2 } else { 1 })?;
        return Ok(Outcome::lanes(atomic::atomic(b, inst, operands.exec, address, data, (element, memory))));
    }
    let Some(element) = Element::of(inst) else { return unsupported("the element") };
    if access.kind == AccessKind::Store {
        let data = element.narrowed(b, words(operands, 1, element.words())?);
        store(b, operands.exec, address, &data, memory);
        return Ok(Outcome::default());
    }
    memory.signed = element.signed;
    let loaded = load(b, operands.exec, address, memory);
    let loaded: Vec<Value> = loaded.into_iter().map(|word| element.widened(b, word)).collect();
    if inst.memory.lds || inst.encoding().flags.has(Flags::LDS_LOAD) {
        let to = lane_of_local(b, operands.m0);
        store(b, operands.exec, to, &loaded, local_access(4, inst.imm));
        return Ok(Outcome::default());
    }
    Ok(Outcome::lanes(loaded))
}

/// Address of an access, without the immediate offset.
fn address(b: &mut Builder, inst: &Inst, operands: &Operands) -> Result<Value, String> {
    let vector = &operands.sources[0];
    if inst.format == Format::Scratch {
        let scalar = if inst.memory.has_saddr { Some(words(operands, 2, 1)?[0]) } else { None };
        return Ok(match (scalar, vector.first()) {
            (Some(scalar), Some(vector)) => b.binary(Binary::Add, scalar, *vector),
            (Some(one), None) => one,
            (None, Some(one)) => *one,
            (None, None) => b.word(0),
        });
    }
    if inst.memory.has_saddr {
        let [low, high] = words(operands, 2, 2)? else { return unsupported("the base") };
        let base = b.pack(*low, *high);
        let zero = b.word(0);
        let offset = b.pack(words(operands, 0, 1)?[0], zero);
        return Ok(b.binary(Binary::Add, base, offset));
    }
    let [low, high] = words(operands, 0, 2)? else { return unsupported("the address") };
    Ok(b.pack(*low, *high))
}
