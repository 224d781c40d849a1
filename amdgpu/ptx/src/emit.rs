//! Text of each family of operations.

pub(crate) mod atomic;
pub(crate) mod control;
pub(crate) mod convert;
pub(crate) mod cross_lane;
pub(crate) mod float;
pub(crate) mod integer;
pub(crate) mod matrix;
pub(crate) mod memory;
pub(crate) mod permutation;
pub(crate) mod prologue;
pub(crate) mod synchronization;

use lift::form::*;

use crate::generator::{Generator, Reason};

/// Writes one instruction.
pub(crate) fn instruction(g: &mut Generator<'_>, instruction: &Instruction) -> Result<(), Reason> {
    match &instruction.operation {
        // Immediates, registers of the prologue, and copies on edges.
        Operation::Constant(_) | Operation::Input(_) | Operation::Phi => Ok(()),
        Operation::Unary(_)
        | Operation::Binary(_)
        | Operation::Compare(_)
        | Operation::Select
        | Operation::Pack
        | Operation::Low
        | Operation::High
        | Operation::Extract { .. }
        | Operation::MultiplyWide { .. }
        | Operation::FunnelShift
        | Operation::Bytes(_)
        | Operation::Dot4 { .. } => by_halves(g, instruction, integer::emit),
        Operation::Float(..) | Operation::FloatCompare(..) | Operation::Approximate(..) => {
            by_halves(g, instruction, float::emit)
        }
        Operation::Convert { .. } => by_halves(g, instruction, convert::emit),
        Operation::Ballot
        | Operation::MaskOf
        | Operation::AnyLane
        | Operation::ReadLane
        | Operation::ReadFirstLane
        | Operation::Shuffle
        | Operation::Push
        | Operation::Move(_) => cross_lane::emit(g, instruction),
        Operation::Load(access) => memory::load(g, instruction, access),
        Operation::Store(access) => memory::store(g, instruction, access),
        Operation::Atomic(atomic, access, _) => atomic::emit(g, instruction, *atomic, access),
        Operation::AppendConsume { consume, offset } => {
            atomic::append_consume(g, instruction, *consume, *offset)
        }
        Operation::Division(..) => Err("a step of a division that was not expanded".into()),
        Operation::Barrier
        | Operation::Fence(_)
        | Operation::Clock(_)
        | Operation::Sleep
        | Operation::Require
        | Operation::GridBarrier
        | Operation::Observe(_) => synchronization::emit(g, instruction),
        Operation::Matrix(matrix) => matrix::emit(g, instruction, matrix),
    }
}

/// Writes an operation that works lane by lane, once for each half of its result.
fn by_halves(
    g: &mut Generator<'_>,
    instruction: &Instruction,
    one: fn(&mut Generator<'_>, &Instruction, usize) -> Result<(), Reason>,
) -> Result<(), Reason> {
    for half in 0..g.halves_of(instruction.results[0]) {
        one(g, instruction, half)?;
    }
    Ok(())
}
