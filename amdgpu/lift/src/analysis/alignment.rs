//! Alignment of addresses: the power of two that divides a value, as far as it is known.

use rustc_hash::FxHashMap;

use crate::Assumptions;
use crate::form::{Binary, Function, Kind, Operation, Space, Value};

/// Values that are zero have this many zero bits.
const MOST: u8 = 64;

/// Sets [`crate::form::Access::align`] of every access.
pub fn infer(function: &mut Function, assumptions: &Assumptions) {
    let order = super::dominators::reverse_post_order(function);
    let mut zeros: FxHashMap<Value, u8> = FxHashMap::default();
    // Phis start as zero and lose bits until nothing changes.
    let mut changed = true;
    while changed {
        changed = false;
        for &number in &order {
            for &index in &function.blocks[number].instructions {
                let instruction = &function.instructions[index as usize];
                for (n, &result) in instruction.results.iter().enumerate() {
                    let found = trailing(function, assumptions, &zeros, index, n);
                    if zeros.get(&result) != Some(&found) {
                        zeros.insert(result, found);
                        changed = true;
                    }
                }
            }
        }
    }
    for &number in &order {
        for &index in &function.blocks[number].instructions {
            let instruction = &mut function.instructions[index as usize];
            let (Operation::Load(access) | Operation::Store(access) | Operation::Atomic(_, access, _)) =
                &mut instruction.operation
            else {
                continue;
            };
            let address = zeros.get(&instruction.operands[1]).copied().unwrap_or(0);
            let offset = if access.offset == 0 { MOST } else { access.offset.trailing_zeros() as u8 };
            // The argument block is aligned to 16 bytes.
            let base = if access.space == Space::Kernarg { 4 } else { MOST };
            access.align = access.align.max(address.min(offset).min(base).min(31));
        }
    }
}

fn trailing(
    function: &Function,
    assumptions: &Assumptions,
    zeros: &FxHashMap<Value, u8>,
    index: u32,
    result: usize,
) -> u8 {
    let instruction = &function.instructions[index as usize];
    let operands = &instruction.operands;
    let of = |n: usize| operands.get(n).and_then(|value| zeros.get(value)).copied().unwrap_or(MOST);
    let constant = |n: usize| operands.get(n).and_then(|value| function.constant(*value));
    let size = match function.kind(instruction.results[result]) {
        Kind::Double => 64,
        _ => 32,
    };
    let count = match &instruction.operation {
        Operation::Constant(0) => MOST,
        Operation::Constant(bits) => bits.trailing_zeros() as u8,
        Operation::Phi => (0..operands.len()).map(of).min().unwrap_or(0),
        Operation::Binary(Binary::Add | Binary::Subtract | Binary::Or | Binary::Xor) => of(0).min(of(1)),
        Operation::Binary(Binary::And) => of(0).max(of(1)),
        Operation::Binary(Binary::Multiply) | Operation::MultiplyWide { .. } => of(0).saturating_add(of(1)),
        Operation::Binary(Binary::ShiftLeft) => match constant(1) {
            Some(amount) => of(0).saturating_add((amount % size) as u8),
            None => of(0),
        },
        Operation::Binary(Binary::ShiftRight | Binary::ShiftRightSigned) => match constant(1) {
            Some(amount) => of(0).saturating_sub((amount % size) as u8),
            None => 0,
        },
        Operation::Select => of(1).min(of(2)),
        Operation::Pack if of(0) >= 32 => of(1).saturating_add(32),
        Operation::Pack | Operation::Low => of(0),
        Operation::High => of(0).saturating_sub(32),
        Operation::Extract { offset, .. } => of(0).saturating_sub(*offset),
        Operation::Input(crate::form::Input::KernargPointer) => 4,
        Operation::Load(access) if access.space == Space::Kernarg => {
            let at = access.offset as u32 + 4 * result as u32;
            let known = assumptions.alignments.iter().find(|(offset, _)| *offset == at);
            // Only the low word of a pointer is known.
            known.map_or(0, |(_, log2)| *log2)
        }
        _ => 0,
    };
    count.min(MOST)
}
