//! Branches that only skip code without active lanes. Short code is cheaper to run than to skip: the branch goes, and phis behind it
//! become selects.

use crate::form::{Block, Function, Instruction, Kind, Operation, Shape, Space, Terminator, Value};

/// Instructions that are run rather than skipped.
const MOST: usize = 32;

/// Removes the branches. Returns whether there were any.
pub fn remove(function: &mut Function) -> bool {
    let mut changed = false;
    for number in 0..function.blocks.len() {
        changed |= skip(function, Block(number as u32)).is_some();
    }
    changed
}

/// Removes the branch at the end of `from` around the block that follows it.
fn skip(function: &mut Function, from: Block) -> Option<()> {
    let Terminator::Branch { condition, then, otherwise } = function.blocks[from.0 as usize].terminator
    else {
        return None;
    };
    let definition = function.definition(condition);
    // The bit may say that a lane is active or that none is.
    let (any, body, join) = match definition.operation {
        Operation::Unary(crate::form::Unary::Not) => (definition.operands[0], otherwise, then),
        _ => (condition, then, otherwise),
    };
    let mask = match function.definition(any).operation {
        Operation::AnyLane => function.definition(any).operands[0],
        _ => return None,
    };
    let block = &function.blocks[body.0 as usize];
    let plain = block.predecessors == [from]
        && block.terminator == Terminator::Jump(join)
        && block.instructions.len() <= MOST
        && body != join
        && from != join;
    if !plain || !block.instructions.iter().all(|index| is_harmless(function, *index, mask)) {
        return None;
    }
    let target = &function.blocks[join.0 as usize];
    let without = target.predecessors.iter().position(|block| *block == from)?;
    let with = target.predecessors.iter().position(|block| *block == body)?;
    let phis = target.instructions.iter().copied();
    let phis: Vec<u32> =
        phis.filter(|index| function.instructions[*index as usize].operation == Operation::Phi).collect();
    for index in phis {
        let Instruction { operands, results, address, .. } = function.instructions[index as usize].clone();
        let (old, new) = (operands[without], operands[with]);
        let data = (function.kind(results[0]), function.shape(results[0]));
        // If no lane is active, the new value may be anything: the old one must be chosen.
        let value = if old == new || keeps(function, new, old, mask) {
            new
        } else {
            let select = function.create(Operation::Select, vec![any, new, old], &[data], address);
            function.blocks[body.0 as usize].instructions.push(select);
            function.instructions[select as usize].results[0]
        };
        let phi = &mut function.instructions[index as usize];
        phi.operands[with] = value;
        phi.operands.remove(without);
    }
    function.blocks[join.0 as usize].predecessors.remove(without);
    function.blocks[from.0 as usize].terminator = Terminator::Jump(body);
    Some(())
}

/// Whether an instruction has no effect if the mask has no lanes.
fn is_harmless(function: &Function, index: u32, mask: Value) -> bool {
    let instruction = &function.instructions[index as usize];
    match instruction.operation {
        Operation::Phi => false,
        Operation::Load(access) if access.space == Space::Kernarg => true,
        Operation::Load(_) | Operation::Store(_) => is_within(function, instruction.operands[0], mask),
        Operation::Matrix(_) => false,
        ref operation => operation.is_pure(),
    }
}

/// Whether a mask is a conjunction with another.
fn is_within(function: &Function, part: Value, mask: Value) -> bool {
    if part == mask {
        return true;
    }
    let definition = function.definition(part);
    definition.operation == Operation::Binary(crate::form::Binary::And)
        && function.kind(part) == Kind::Bit
        && definition.operands.iter().any(|operand| is_within(function, *operand, mask))
}

/// Whether a value is the old one outside of the mask.
fn keeps(function: &Function, new: Value, old: Value, mask: Value) -> bool {
    let definition = function.definition(new);
    definition.operation == Operation::Select
        && function.shape(definition.operands[0]) == Shape::Lane
        && is_within(function, definition.operands[0], mask)
        && (definition.operands[2] == old || keeps(function, definition.operands[2], old, mask))
}

/// Joins a block with its only predecessor, if that has no other successor.
pub fn straighten(function: &mut Function) {
    for number in 0..function.blocks.len() {
        let from = Block(number as u32);
        while let Terminator::Jump(to) = function.blocks[number].terminator {
            let target = &function.blocks[to.0 as usize];
            let has_phi = target
                .instructions
                .first()
                .is_some_and(|index| function.instructions[*index as usize].operation == Operation::Phi);
            if target.predecessors != [from] || to == from || has_phi || to.0 == 0 {
                break;
            }
            let moved = std::mem::take(&mut function.blocks[to.0 as usize]);
            let block = &mut function.blocks[number];
            block.instructions.extend(moved.instructions);
            block.terminator = moved.terminator;
            for next in function.blocks[number].terminator.successors() {
                for block in &mut function.blocks[next.0 as usize].predecessors {
                    if *block == to {
                        *block = from;
                    }
                }
            }
        }
    }
    compact(function);
}

/// Removes blocks that nothing reaches.
fn compact(function: &mut Function) {
    let mut number = vec![None; function.blocks.len()];
    let order = super::dominators::reverse_post_order(function);
    let reached: std::collections::BTreeSet<usize> = order.into_iter().collect();
    for (new, old) in reached.iter().enumerate() {
        number[*old] = Some(Block(new as u32));
    }
    let renamed = |block: Block| number[block.0 as usize].unwrap_or(Block(0));
    let old = std::mem::take(&mut function.blocks);
    for (index, mut block) in old.into_iter().enumerate() {
        if number[index].is_none() {
            continue;
        }
        block.predecessors.iter_mut().for_each(|from| *from = renamed(*from));
        match &mut block.terminator {
            Terminator::Jump(to) => *to = renamed(*to),
            Terminator::Branch { then, otherwise, .. } => {
                *then = renamed(*then);
                *otherwise = renamed(*otherwise);
            }
            Terminator::Switch { targets, .. } => {
                targets.iter_mut().for_each(|(_, to)| *to = renamed(*to));
            }
            Terminator::End | Terminator::Trap(_) => {}
        }
        function.blocks.push(block);
    }
}
