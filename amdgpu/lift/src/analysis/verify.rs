//! The check that a function is well formed.

use super::dominators::{Dominators, reverse_post_order};
use crate::form::{Block, Function, Kind, Operation, Shape, Value};

/// Checks blocks, edges, phis, definitions before uses, and the kinds of the most frequent operations.
pub fn verify(function: &Function) -> Result<(), String> {
    let mut place = vec![None; function.values.len()];
    for (number, block) in function.blocks.iter().enumerate() {
        for (at, &index) in block.instructions.iter().enumerate() {
            for result in &function.instructions[index as usize].results {
                if place[result.0 as usize].replace((Block(number as u32), at)).is_some() {
                    return Err(format!("{result} is defined twice"));
                }
            }
        }
    }
    if function.blocks.first().is_some_and(|block| !block.predecessors.is_empty()) {
        return Err("the entry has predecessors".to_owned());
    }
    let dominators = Dominators::of(function);
    let reached = reverse_post_order(function);
    for &number in &reached {
        let block = Block(number as u32);
        for to in function.blocks[number].terminator.successors() {
            let target = function.blocks.get(to.0 as usize).ok_or("a jump to a block that does not exist")?;
            if target.predecessors.iter().filter(|from| **from == block).count() != 1 {
                return Err(format!("{block} is not one predecessor of {to}"));
            }
        }
        for from in &function.blocks[number].predecessors {
            let terminator = &function.blocks[from.0 as usize].terminator;
            if !terminator.successors().contains(&block) {
                return Err(format!("{from} is a predecessor of {block} but does not jump there"));
            }
        }
        let defined = |value: Value, at: (Block, usize)| match place[value.0 as usize] {
            None => false,
            Some((home, position)) if home == at.0 => position < at.1,
            Some((home, _)) => dominators.dominates(home, at.0),
        };
        let mut phis = true;
        for (at, &index) in function.blocks[number].instructions.iter().enumerate() {
            let instruction = &function.instructions[index as usize];
            let text = || format!("{block}: {}", function.line(instruction));
            if instruction.operation == Operation::Phi {
                if !phis {
                    return Err(format!("a phi after other instructions: {}", text()));
                }
                let predecessors = &function.blocks[number].predecessors;
                if instruction.operands.len() != predecessors.len() {
                    return Err(format!("operands differ from predecessors in number: {}", text()));
                }
                for (operand, from) in instruction.operands.iter().zip(predecessors) {
                    if !defined(*operand, (*from, usize::MAX)) {
                        return Err(format!("{operand} is not defined at the end of {from}: {}", text()));
                    }
                    if function.kind(*operand) != function.kind(instruction.results[0]) {
                        return Err(format!("kinds differ: {}", text()));
                    }
                }
                continue;
            }
            phis = false;
            for operand in &instruction.operands {
                if !defined(*operand, (block, at)) {
                    return Err(format!("{operand} is not defined before its use: {}", text()));
                }
            }
            kinds(function, &instruction.operation, &instruction.operands, &instruction.results)
                .map_err(|reason| format!("{reason}: {}", text()))?;
        }
        if let Some(value) = function.blocks[number].terminator.operand() {
            if !defined(value, (block, usize::MAX)) {
                return Err(format!("{value} is not defined at the end of {block}"));
            }
            if function.shape(value) != Shape::Uniform {
                return Err(format!("{block} branches on {value}, which is not uniform"));
            }
        }
    }
    Ok(())
}

fn kinds(
    function: &Function,
    operation: &Operation,
    operands: &[Value],
    results: &[Value],
) -> Result<(), String> {
    let kind = |n: usize| operands.get(n).map(|value| function.kind(*value));
    let result = results.first().map(|value| function.kind(*value));
    let expected: &[(Option<Kind>, Option<Kind>)] = match operation {
        Operation::Select => &[(kind(0), Some(Kind::Bit)), (kind(1), result), (kind(2), result)],
        Operation::Binary(
            crate::form::Binary::ShiftLeft
            | crate::form::Binary::ShiftRight
            | crate::form::Binary::ShiftRightSigned,
        ) => &[(kind(0), result), (kind(1), Some(Kind::Word))],
        Operation::Binary(_) => &[(kind(0), result), (kind(1), result)],
        Operation::Compare(_) => &[(kind(0), kind(1)), (result, Some(Kind::Bit))],
        Operation::Pack => &[(kind(0), Some(Kind::Word)), (kind(1), Some(Kind::Word))],
        Operation::Low | Operation::High | Operation::MaskOf => &[(kind(0), Some(Kind::Double))],
        Operation::Ballot | Operation::AnyLane => &[(kind(0), Some(Kind::Bit))],
        Operation::Extract { .. } => &[(kind(0), Some(Kind::Word))],
        Operation::Load(_) | Operation::Store(_) | Operation::Atomic(..) => &[(kind(0), Some(Kind::Bit))],
        _ => &[],
    };
    for (found, wanted) in expected {
        if found != wanted {
            return Err(format!("kind {found:?} where {wanted:?} is needed"));
        }
    }
    Ok(())
}
