//! Separation: a function for one lane on its own, whose branches on masks are branches on the lane's bit.

use rustc_hash::FxHashMap;

use super::deviation::{self, Obstacle};
use super::dominators::Dominators;
use super::{dead, rebuild, skip};
use crate::form::*;

/// Rounds of simplification; each may decide masks that the next one uses.
const ROUNDS: usize = 4;

/// The function of one lane: it does what the lane does in the wave's function, but decides every branch by its own bit. Branches
/// of the result may have conditions of shape `Lane`.
///
/// Lanes are not in step any more. The order of one lane's accesses and another's is only what barriers and fences say.
///
/// # Errors
/// An obstacle, where the lane's effects could differ.
pub fn separate(function: &Function) -> Result<Function, Obstacle> {
    deviation::check(function)?;
    let mut function = function.clone();
    let own: FxHashMap<Value, Value> = function
        .blocks
        .iter()
        .flat_map(|block| &block.instructions)
        .map(|index| &function.instructions[*index as usize])
        .filter(|instruction| instruction.operation == Operation::AnyLane)
        .map(|instruction| (instruction.results[0], instruction.operands[0]))
        .collect();
    replace(&mut function, |_, value| own.get(&value).copied());
    dead::remove(&mut function);
    for _ in 0..ROUNDS {
        assume(&mut function);
        rebuild::simplify(&mut function);
        dead::remove(&mut function);
    }
    skip::straighten(&mut function);
    Ok(function)
}

/// Replaces operands, by the block that uses them; for a phi, the block that the operand comes from.
fn replace(function: &mut Function, by: impl Fn(Block, Value) -> Option<Value>) {
    for number in 0..function.blocks.len() {
        let block = &mut function.blocks[number];
        let here = Block(number as u32);
        if let Terminator::Branch { condition: value, .. } | Terminator::Switch { address: value, .. } =
            &mut block.terminator
        {
            *value = by(here, *value).unwrap_or(*value);
        }
        for index in &block.instructions {
            let instruction = &mut function.instructions[*index as usize];
            let is_phi = instruction.operation == Operation::Phi;
            for (n, operand) in instruction.operands.iter_mut().enumerate() {
                let user = if is_phi { block.predecessors[n] } else { here };
                *operand = by(user, *operand).unwrap_or(*operand);
            }
        }
    }
}

/// Bits that are known where a branch has gone one way.
fn implied(function: &Function, bit: Value, is: bool, known: &mut Vec<(Value, bool)>) {
    known.push((bit, is));
    let definition = function.definition(bit);
    let all = match (&definition.operation, is) {
        (Operation::Unary(Unary::Not), _) => return implied(function, definition.operands[0], !is, known),
        (Operation::Binary(Binary::And), true) | (Operation::Binary(Binary::Or), false) => {
            &definition.operands
        }
        _ => return,
    };
    for operand in all {
        implied(function, *operand, is, known);
    }
}

/// Uses what branches say: behind an edge that is the only way to a block, and in the phis at the end of an edge.
fn assume(function: &mut Function) {
    let dominators = Dominators::of(function);
    let constant = |function: &mut Function, bit: bool| {
        let index =
            function.create(Operation::Constant(bit.into()), Vec::new(), &[(Kind::Bit, Shape::Uniform)], 0);
        function.blocks[0].instructions.insert(0, index);
        function.instructions[index as usize].results[0]
    };
    let bits = [constant(function, false), constant(function, true)];
    // By value: the block from which on it is known, and its bit.
    let mut behind: FxHashMap<Value, Vec<(Block, bool)>> = FxHashMap::default();
    for number in 0..function.blocks.len() {
        let from = Block(number as u32);
        let Terminator::Branch { condition, then, otherwise } = function.blocks[number].terminator else {
            continue;
        };
        if then == otherwise {
            continue;
        }
        for (to, is) in [(then, true), (otherwise, false)] {
            let mut known = Vec::new();
            implied(function, condition, is, &mut known);
            known.retain(|(value, _)| function.constant(*value).is_none());
            let target = &function.blocks[to.0 as usize];
            if target.predecessors == [from] {
                for (value, bit) in &known {
                    behind.entry(*value).or_default().push((to, *bit));
                }
            }
            let Some(place) = target.predecessors.iter().position(|block| *block == from) else { continue };
            for index in target.instructions.clone() {
                let instruction = &function.instructions[index as usize];
                if instruction.operation != Operation::Phi {
                    break;
                }
                let mut operand = instruction.operands[place];
                let is = |value: Value| known.iter().find(|(other, _)| *other == value).map(|(_, bit)| *bit);
                while function.definition(operand).operation == Operation::Select {
                    let [condition, x, y] = function.definition(operand).operands[..] else { break };
                    operand = match is(condition) {
                        Some(true) => x,
                        Some(false) => y,
                        None => break,
                    };
                }
                if let Some(bit) = is(operand) {
                    operand = bits[usize::from(bit)];
                }
                function.instructions[index as usize].operands[place] = operand;
            }
        }
    }
    replace(function, |user, value| {
        let known = behind.get(&value)?;
        let (_, bit) = known.iter().find(|(from, _)| dominators.dominates(*from, user))?;
        Some(bits[usize::from(*bit)])
    });
}

#[cfg(test)]
mod tests;
