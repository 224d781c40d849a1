//! What a branch says in the blocks behind it: its condition is known there, and a mask without lanes is empty.

use rustc_hash::FxHashMap;

use super::dominators::Dominators;
use crate::form::{Binary, Block, Function, Kind, Operation, Terminator, Unary, Value};

/// Replaces conditions and empty masks by constants in the blocks that only one side of a branch reaches.
pub fn substitute(function: &mut Function) {
    let facts = Facts::of(function);
    if facts.known.is_empty() {
        return;
    }
    let bits = [0, 1].map(|bit| function.constant_at_entry(Kind::Bit, bit));
    let Function { blocks, instructions, .. } = function;
    for (number, block) in blocks.iter_mut().enumerate() {
        let here = Block(number as u32);
        for &index in &block.instructions {
            let instruction = &mut instructions[index as usize];
            let is_phi = instruction.operation == Operation::Phi;
            for (n, operand) in instruction.operands.iter_mut().enumerate() {
                // A phi reads its operands at the end of the predecessors.
                let at = if is_phi { block.predecessors.get(n).copied() } else { Some(here) };
                if let Some(bit) = at.and_then(|at| facts.bit(*operand, at)) {
                    *operand = bits[usize::from(bit)];
                }
            }
            // A union with a part of the other mask.
            if let ([a, b], Operation::Binary(Binary::Or)) =
                (&mut instruction.operands[..], &instruction.operation)
            {
                if facts.is_part(*a, *b, here) {
                    *a = bits[0];
                } else if facts.is_part(*b, *a, here) {
                    *b = bits[0];
                }
            }
        }
        if let Terminator::Branch { condition, .. } = &mut block.terminator
            && let Some(bit) = facts.bit(*condition, here)
        {
            *condition = bits[usize::from(bit)];
        }
    }
}

struct Facts {
    dominators: Dominators,
    /// Bits, and masks of equal bits, that are known from the start of blocks on.
    known: FxHashMap<Value, Vec<(Block, bool)>>,
    /// Masks that are parts of others from the start of blocks on.
    parts: FxHashMap<(Value, Value), Vec<Block>>,
}

impl Facts {
    fn of(function: &Function) -> Facts {
        let dominators = Dominators::of(function);
        let mut facts = Facts { dominators, known: FxHashMap::default(), parts: FxHashMap::default() };
        for block in &function.blocks {
            let Terminator::Branch { condition, then, otherwise } = block.terminator else { continue };
            for (to, bit) in [(then, true), (otherwise, false)] {
                // With other predecessors the block is reached in other ways.
                if then != otherwise && function.blocks[to.0 as usize].predecessors.len() == 1 {
                    facts.add(function, condition, bit, to);
                }
            }
        }
        facts
    }

    /// Adds that a value is known in a block, and what follows for the values that it is made of.
    fn add(&mut self, function: &Function, mut value: Value, mut bit: bool, at: Block) {
        loop {
            if function.constant(value).is_none() {
                self.known.entry(value).or_default().push((at, bit));
            }
            let definition = function.definition(value);
            match definition.operation {
                Operation::Unary(Unary::Not) => bit = !bit,
                Operation::AnyLane if !bit => {}
                // `a & !b` is empty: `a` is a part of `b`.
                Operation::Binary(Binary::And) if !bit => {
                    let [a, b] = [definition.operands[0], definition.operands[1]];
                    for (part, other) in [(a, b), (b, a)] {
                        let other = function.definition(other);
                        if other.operation == Operation::Unary(Unary::Not) {
                            self.parts.entry((part, other.operands[0])).or_default().push(at);
                        }
                    }
                    return;
                }
                _ => return,
            }
            value = definition.operands[0];
        }
    }

    /// The bit that a value is at a block.
    fn bit(&self, value: Value, at: Block) -> Option<bool> {
        let found = self.known.get(&value)?.iter().find(|(home, _)| self.dominators.dominates(*home, at))?;
        Some(found.1)
    }

    /// Whether a mask is known to be a part of another at a block.
    fn is_part(&self, part: Value, of: Value, at: Block) -> bool {
        let homes = self.parts.get(&(part, of));
        homes.is_some_and(|homes| homes.iter().any(|home| self.dominators.dominates(*home, at)))
    }
}
