//! Dead code elimination. Cycles of phis that only feed each other are dead.

use crate::Function;

/// Removes instructions whose results nothing needs.
pub fn remove(function: &mut Function) {
    let mut live = vec![false; function.instructions.len()];
    let mut work = Vec::new();
    for block in &function.blocks {
        for &index in &block.instructions {
            if function.instructions[index as usize].operation.has_effect() {
                work.push(index);
            }
        }
        if let Some(value) = block.terminator.operand() {
            work.push(function.values[value.0 as usize].instruction);
        }
    }
    while let Some(index) = work.pop() {
        if std::mem::replace(&mut live[index as usize], true) {
            continue;
        }
        for operand in &function.instructions[index as usize].operands {
            work.push(function.values[operand.0 as usize].instruction);
        }
    }
    for block in &mut function.blocks {
        block.instructions.retain(|index| live[*index as usize]);
    }
}
