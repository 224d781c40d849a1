//! Lifts one memory instruction as a fragment, without the rest of the lifter.

use isa::{Arch, DataType, Inst, Operand};
use lift::form::*;
use lift::memory::{self, Operands};
use lift::{Builder, Function};

use super::machine::{EXEC, M0, Machine, scalar_index};

/// Register of the form for a vector operand.
fn vector(operand: Operand) -> Option<u16> {
    match operand {
        Operand::Vgpr(n) => Some(n.into()),
        Operand::Agpr(n) => Some(256 + u16::from(n)),
        _ => None,
    }
}

fn scalar(b: &mut Builder, at: usize) -> Value {
    b.input(Input::Register(Register::Scalar(at as u8)))
}

/// Words of an operand.
fn words(b: &mut Builder, machine: &Machine, operand: Operand, count: u32) -> Vec<Value> {
    if let Some(first) = vector(operand) {
        return (0..count as u16).map(|n| b.input(Input::Register(Register::Vector(first + n)))).collect();
    }
    if let Some(first) = scalar_index(operand) {
        return (0..count as usize).map(|n| scalar(b, first + n)).collect();
    }
    if operand == Operand::None {
        return Vec::new();
    }
    vec![b.word(machine.scalar_source(operand, DataType::U32) as u32)]
}

/// The instruction as a function that observes its destination.
pub fn lift(arch: Arch, inst: &Inst, machine: &Machine) -> Result<Function, String> {
    let mut function = Function::default();
    let block = function.add_block(0);
    let mut b = Builder::new(&mut function, block);
    let (low, high) = (scalar(&mut b, EXEC), scalar(&mut b, EXEC + 1));
    let exec = b.pack(low, high);
    let exec = b.append(Operation::MaskOf, &[exec], &[(Kind::Bit, Shape::Lane)])[0];
    let sources = [0, 1, 2, 3].map(|n| words(&mut b, machine, inst.src[n], inst.src_width(n)));
    let old = words(&mut b, machine, inst.dst, inst.dst_width());
    let m0 = scalar(&mut b, M0);
    let flat_scratch = [scalar(&mut b, 102), scalar(&mut b, 103)];
    let operands = Operands { exec, sources, old: old.clone(), m0, flat_scratch };
    let outcome = memory::lift(&mut b, arch, inst, &operands)?;
    if let Some(first) = vector(inst.dst) {
        for (n, word) in outcome.lanes.into_iter().enumerate() {
            let written = b.select(exec, word, old[n]);
            b.append(Operation::Observe(Register::Vector(first + n as u16)), &[written], &[]);
        }
    }
    if let Some(first) = scalar_index(inst.dst) {
        for (n, word) in outcome.scalars.into_iter().enumerate() {
            b.append(Operation::Observe(Register::Scalar((first + n) as u8)), &[word], &[]);
        }
    }
    Ok(function)
}
