//! Simplification of a whole function: folding, common subexpressions, phis with one value, branches that are decided.

use rustc_hash::FxHashMap;

use super::dominators::{Dominators, reverse_post_order};
use crate::builder::Builder;
use crate::form::{Block, Function, Operation, Terminator, UNEXPECTED_JUMP, Value};

/// Rebuilds every block from its instructions.
pub fn simplify(function: &mut Function) {
    decide_branches(function);
    let order = reverse_post_order(function);
    let dominators = Dominators::of(function);
    let mut pass = Pass { replaced: FxHashMap::default(), known: FxHashMap::default(), dominators };
    pass.phis(function);
    for number in order {
        pass.block(function, Block(number as u32));
    }
    // Operands that come over back edges.
    for block in &function.blocks {
        for &index in &block.instructions {
            let operands = &mut function.instructions[index as usize].operands;
            for operand in operands {
                *operand = pass.resolve(*operand);
            }
        }
    }
}

/// Results of pure instructions by operation and operands, and the blocks that define them.
type Known = FxHashMap<(Operation, Vec<Value>), Vec<(Value, Block)>>;

struct Pass {
    replaced: FxHashMap<Value, Value>,
    /// Pure operations that were built, with the blocks they are in.
    known: Known,
    dominators: Dominators,
}

impl Pass {
    fn resolve(&self, mut value: Value) -> Value {
        while let Some(&next) = self.replaced.get(&value) {
            value = next;
        }
        value
    }

    /// Removes phis that always have one value.
    fn phis(&mut self, function: &mut Function) {
        self.replaced = super::phis::redundant(function);
        let Function { blocks, instructions, .. } = function;
        for block in blocks {
            block.instructions.retain(|index| {
                let instruction = &instructions[*index as usize];
                instruction.operation != Operation::Phi
                    || !self.replaced.contains_key(&instruction.results[0])
            });
        }
    }

    fn block(&mut self, function: &mut Function, block: Block) {
        let number = block.0 as usize;
        let old = std::mem::take(&mut function.blocks[number].instructions);
        for index in old {
            for n in 0..function.instructions[index as usize].operands.len() {
                let operand = self.resolve(function.instructions[index as usize].operands[n]);
                function.instructions[index as usize].operands[n] = operand;
            }
            let instruction = &function.instructions[index as usize];
            if instruction.operation == Operation::Require
                && function.constant(instruction.operands[0]) == Some(1)
            {
                continue;
            }
            let simple = instruction.operation.is_pure() && instruction.results.len() == 1;
            if instruction.operation == Operation::Phi || !simple {
                function.blocks[number].instructions.push(index);
                continue;
            }
            let instruction = instruction.clone();
            let result = instruction.results[0];
            let kind = function.kind(result);
            let start = function.blocks[number].instructions.len();
            let mut b = Builder { function: &mut *function, block, address: instruction.address };
            let folded = crate::fold::simplify(&mut b, &instruction.operation, &instruction.operands, kind);
            if let Some(value) = folded {
                self.replaced.insert(result, value);
            } else {
                function.blocks[number].instructions.push(index);
            }
            self.merge(function, block, start);
        }
        match &mut function.blocks[number].terminator {
            Terminator::Branch { condition: value, .. } | Terminator::Switch { address: value, .. } => {
                *value = self.resolve(*value);
            }
            _ => {}
        }
    }

    /// Replaces the instructions from `start` on by equal ones that dominate them.
    fn merge(&mut self, function: &mut Function, block: Block, start: usize) {
        let number = block.0 as usize;
        let added = function.blocks[number].instructions.split_off(start);
        for index in added {
            let mut instruction = function.instructions[index as usize].clone();
            for operand in &mut instruction.operands {
                *operand = self.resolve(*operand);
            }
            let result = instruction.results[0];
            function.instructions[index as usize].operands.clone_from(&instruction.operands);
            // Constants of different kinds have equal operations.
            let operation = instruction.operation.clone();
            let key = (operation, instruction.operands);
            let found = self.known.get(&key).and_then(|same| {
                same.iter().find(|(value, at)| {
                    function.values[value.0 as usize].kind == function.values[result.0 as usize].kind
                        && self.dominators.dominates(*at, block)
                })
            });
            match found {
                Some(&(value, _)) if value != result => {
                    self.replaced.insert(result, value);
                }
                Some(_) => {}
                None => {
                    self.known.entry(key).or_default().push((result, block));
                    function.blocks[number].instructions.push(index);
                }
            }
        }
    }
}

/// Turns branches and switches on constants into jumps and empties the blocks that nothing reaches any more.
fn decide_branches(function: &mut Function) {
    let mut changed = false;
    for number in 0..function.blocks.len() {
        let terminator = &function.blocks[number].terminator;
        let Some(value) = terminator.operand().and_then(|value| function.constant(value)) else { continue };
        let taken = match terminator {
            Terminator::Branch { then, otherwise, .. } => Some(if value == 1 { *then } else { *otherwise }),
            Terminator::Switch { targets, .. } => {
                targets.iter().find(|(address, _)| *address == value).map(|(_, to)| *to)
            }
            _ => continue,
        };
        let dropped: Vec<Block> =
            terminator.successors().into_iter().filter(|to| Some(*to) != taken).collect();
        function.blocks[number].terminator =
            taken.map_or(Terminator::Trap(UNEXPECTED_JUMP), Terminator::Jump);
        for to in dropped {
            drop_edge(function, Block(number as u32), to);
        }
        changed = true;
    }
    if !changed {
        return;
    }
    let mut reached = vec![false; function.blocks.len()];
    for block in reverse_post_order(function) {
        reached[block] = true;
    }
    for number in (0..function.blocks.len()).filter(|number| !reached[*number]) {
        for to in function.blocks[number].terminator.successors() {
            drop_edge(function, Block(number as u32), to);
        }
        function.blocks[number].instructions.clear();
        function.blocks[number].predecessors.clear();
        function.blocks[number].terminator = Terminator::End;
    }
}

/// Removes one edge and the phi operands that belong to it.
fn drop_edge(function: &mut Function, from: Block, to: Block) {
    let block = &mut function.blocks[to.0 as usize];
    let Some(place) = block.predecessors.iter().position(|block| *block == from) else { return };
    block.predecessors.remove(place);
    for &index in &block.instructions {
        let instruction = &mut function.instructions[index as usize];
        if instruction.operation == Operation::Phi && place < instruction.operands.len() {
            instruction.operands.remove(place);
        }
    }
}
