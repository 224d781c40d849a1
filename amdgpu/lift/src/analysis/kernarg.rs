//! Loads of kernel arguments: constant offsets from the kernel argument pointer become accesses of their own space.

use crate::form::{Binary, Function, Input, Operation, Space, Value};

/// Rewrites the loads.
pub fn recognise(function: &mut Function) {
    for number in 0..function.blocks.len() {
        for place in 0..function.blocks[number].instructions.len() {
            let index = function.blocks[number].instructions[place];
            let instruction = &function.instructions[index as usize];
            let Operation::Load(mut access) = instruction.operation else { continue };
            if !matches!(access.space, Space::Global | Space::Constant) {
                continue;
            }
            let Some(offset) = argument_offset(function, instruction.operands[1]) else { continue };
            let start = offset.wrapping_add(i64::from(access.offset));
            let end = start + i64::from(access.bytes);
            if start < 0 || end > i64::from(function.kernarg_bytes) {
                continue;
            }
            access.space = Space::Kernarg;
            access.offset = start as i32;
            let address = instruction.address;
            let zero = function.create(
                Operation::Constant(0),
                Vec::new(),
                &[(crate::Kind::Double, crate::Shape::Uniform)],
                address,
            );
            let value = function.instructions[zero as usize].results[0];
            function.blocks[number].instructions.insert(place, zero);
            let instruction = &mut function.instructions[index as usize];
            instruction.operation = Operation::Load(access);
            instruction.operands[1] = value;
        }
    }
}

/// The constant that is added to the kernel argument pointer.
fn argument_offset(function: &Function, address: Value) -> Option<i64> {
    let definition = function.definition(address);
    match definition.operation {
        Operation::Input(Input::KernargPointer) => Some(0),
        Operation::Binary(Binary::Add) => {
            let offset = function.constant(definition.operands[1])?;
            Some(argument_offset(function, definition.operands[0])?.wrapping_add(offset as i64))
        }
        _ => None,
    }
}
