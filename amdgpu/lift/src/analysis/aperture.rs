//! Flat accesses of a known kind of memory: an address whose high word is that of an aperture is in LDS or in scratch.

use crate::form::{Access, Function, Input, MemoryScope, Operation, Space, Value};

/// Rewrites the accesses.
pub fn resolve(function: &mut Function) {
    for number in 0..function.blocks.len() {
        for place in 0..function.blocks[number].instructions.len() {
            let index = function.blocks[number].instructions[place] as usize;
            let instruction = &function.instructions[index];
            let is_atomic = matches!(instruction.operation, Operation::Atomic(..));
            let (Operation::Load(access) | Operation::Store(access) | Operation::Atomic(_, access, _)) =
                instruction.operation
            else {
                continue;
            };
            // A negative offset could lead out of the aperture.
            if access.space != Space::Flat || access.offset < 0 {
                continue;
            }
            let access = match aperture(function, instruction.operands[1]) {
                Some((Input::SharedBase, low)) => {
                    let scope = MemoryScope::Workgroup;
                    (Access { space: Space::Lds, scope, ..access }, low)
                }
                Some((Input::PrivateBase, low)) if !is_atomic => {
                    (Access { space: Space::Private, ..access }, low)
                }
                _ => continue,
            };
            let (access, address) = access;
            let instruction = &mut function.instructions[index];
            instruction.operands[1] = address;
            match &mut instruction.operation {
                Operation::Load(old) | Operation::Store(old) | Operation::Atomic(_, old, _) => *old = access,
                _ => {}
            }
        }
    }
}

/// The aperture that an address is in, and its low word.
fn aperture(function: &Function, address: Value) -> Option<(Input, Value)> {
    let pack = function.definition(address);
    let [low, high] = pack.operands[..] else { return None };
    let high = function.definition(high);
    if pack.operation != Operation::Pack || high.operation != Operation::High {
        return None;
    }
    match function.definition(high.operands[0]).operation {
        Operation::Input(input @ (Input::SharedBase | Input::PrivateBase)) => Some((input, low)),
        _ => None,
    }
}
