//! DS: local memory (LDS). An element that does not end within LDS reads zero and is not written; the form says the same.

use isa::{AccessKind, Inst, Op};

use super::atomic::{self, AtomicElement};
use super::element::{Element, load, store};
use super::{Operands, Outcome, lane_of_local, local_access, unsupported, words};
use crate::Builder;
use crate::form::*;

pub fn lift(b: &mut Builder, inst: &Inst, operands: &Operands) -> Result<Outcome, String> {
    match inst.op {
        Op::ds_nop | Op::ds_gws_init => return Ok(Outcome::default()),
        Op::ds_gws_barrier => {
            b.append(Operation::GridBarrier, &[], &[]);
            return Ok(Outcome::default());
        }
        _ if inst.memory.gds => return unsupported("global data share"),
        Op::ds_append | Op::ds_consume => return Ok(count(b, inst, operands)),
        Op::ds_read_addtid_b32 => {
            let address = lane_of_local(b, operands.m0);
            return Ok(Outcome::lanes(load(b, operands.exec, address, local_access(4, inst.imm))));
        }
        Op::ds_write_addtid_b32 => {
            let address = lane_of_local(b, operands.m0);
            let data = words(operands, 1, 1)?;
            store(b, operands.exec, address, data, local_access(4, inst.imm));
            return Ok(Outcome::default());
        }
        _ => {}
    }
    let Some(access) = inst.op.memory_access() else { return unsupported("the operation") };
    let address = words(operands, 0, 1)?[0];
    let offsets: Vec<i32> = match access.offset_unit {
        // The two offsets count elements.
        Some(unit) => [inst.imm & 0xff, inst.imm >> 8 & 0xff].map(|offset| offset * unit as i32).to_vec(),
        None => vec![inst.imm],
    };
    let mut out = Vec::new();
    match access.kind {
        AccessKind::Load => {
            let Some(element) = Element::of(inst) else { return unsupported("the element") };
            for offset in offsets {
                let access = Access { signed: element.signed, ..local_access(element.bytes, offset) };
                let words = load(b, operands.exec, address, access);
                out.extend(words.into_iter().map(|word| element.widened(b, word)));
            }
        }
        AccessKind::Store => {
            let Some(element) = Element::of(inst) else { return unsupported("the element") };
            for (at, offset) in offsets.into_iter().enumerate() {
                let data = element.narrowed(b, words(operands, 1 + at, element.words())?);
                store(b, operands.exec, address, &data, local_access(element.bytes, offset));
            }
        }
        AccessKind::Atomic if access.offset_unit.is_some() => {
            let element =
                AtomicElement { atomic: Atomic::Swap, words: access.bytes as usize / 4, pair: false };
            for (at, offset) in offsets.into_iter().enumerate() {
                let data = words(operands, 1 + at, element.words)?;
                let access = local_access(element.bytes(), offset);
                out.extend(atomic::atomic(b, inst, operands.exec, address, data, (element, access)));
            }
        }
        AccessKind::Atomic => {
            let Some(element) = AtomicElement::of(inst.op) else {
                return unsupported("the atomic operation");
            };
            let mut data = words(operands, 1, element.words)?.to_vec();
            if element.pair {
                let second = words(operands, 2, element.words)?;
                // DS names the expected value first, the form the new one. A mask comes first in both.
                data = match element.atomic {
                    Atomic::MaskedOr => [&data[..], second].concat(),
                    _ => [second, &data[..]].concat(),
                };
            }
            let access = local_access(element.bytes(), inst.imm);
            out = atomic::atomic(b, inst, operands.exec, address, &data, (element, access));
        }
    }
    Ok(Outcome::lanes(out))
}

/// `ds_append` and `ds_consume`: all lanes together change one dword, whose address is in M0.
fn count(b: &mut Builder, inst: &Inst, operands: &Operands) -> Outcome {
    let low = b.word(0xffff);
    let address = b.binary(Binary::And, operands.m0, low);
    let operation =
        Operation::AppendConsume { consume: inst.op == Op::ds_consume, offset: inst.imm as u32 & 0xffff };
    let old = b.append(operation, &[operands.exec, address], &[(Kind::Word, Shape::Uniform)]);
    Outcome::lanes(old)
}
