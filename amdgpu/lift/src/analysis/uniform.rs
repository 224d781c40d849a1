//! Uniformity: values that are equal in all lanes, because all they are made of is. Branches are uniform, so a phi of uniform values
//! is uniform.

use crate::form::{Function, Operation, Shape, Space};

/// Sets shapes: first everything is taken for uniform, then what depends on a lane's own data is not.
pub fn infer(function: &mut Function) {
    let mut users: Vec<Vec<u32>> = vec![Vec::new(); function.values.len()];
    let mut work = Vec::new();
    for block in &function.blocks {
        for &index in &block.instructions {
            let instruction = &function.instructions[index as usize];
            for operand in &instruction.operands {
                users[operand.0 as usize].push(index);
            }
            if !follows(&instruction.operation) {
                continue;
            }
            for result in &instruction.results {
                function.values[result.0 as usize].shape = Shape::Uniform;
            }
        }
    }
    for block in &function.blocks {
        for &index in &block.instructions {
            let instruction = &function.instructions[index as usize];
            if !follows(&instruction.operation) {
                work.extend(
                    instruction.results.iter().copied().filter(|value| function.shape(*value) == Shape::Lane),
                );
            }
        }
    }
    while let Some(value) = work.pop() {
        for &index in &users[value.0 as usize] {
            let instruction = &function.instructions[index as usize];
            if !follows(&instruction.operation) {
                continue;
            }
            for result in &instruction.results {
                let shape = &mut function.values[result.0 as usize].shape;
                if *shape == Shape::Uniform {
                    *shape = Shape::Lane;
                    work.push(*result);
                }
            }
        }
    }
}

/// Whether the shape of the results follows from the operands.
fn follows(operation: &Operation) -> bool {
    match operation {
        Operation::Input(_)
        | Operation::Constant(_)
        | Operation::Ballot
        | Operation::MaskOf
        | Operation::AnyLane
        | Operation::ReadLane
        | Operation::ReadFirstLane
        | Operation::Shuffle
        | Operation::Push
        | Operation::Move(_)
        | Operation::Atomic(..)
        | Operation::AppendConsume { .. }
        | Operation::Matrix(_) => false,
        // A masked load gives 0 in other lanes, so the mask counts; it is among the operands. Scratch differs between lanes.
        Operation::Load(access) => !matches!(access.space, Space::Private | Space::Flat),
        other => other.is_pure(),
    }
}
