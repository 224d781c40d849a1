//! Which instructions are needed.

use lift::form::{Function, Operation, Value};

/// Instructions and values of a function that have an effect or that something needs.
#[derive(Debug)]
pub(crate) struct Liveness {
    instructions: Vec<bool>,
    uses: Vec<Vec<u32>>,
}

impl Liveness {
    /// Marks what effects and branches need.
    pub(crate) fn of(function: &Function) -> Liveness {
        let mut live = Liveness {
            instructions: vec![false; function.instructions.len()],
            uses: vec![Vec::new(); function.values.len()],
        };
        let mut work: Vec<u32> = Vec::new();
        for block in &function.blocks {
            for index in &block.instructions {
                if function.instructions[*index as usize].operation.has_effect() {
                    work.push(*index);
                }
            }
            if let Some(value) = block.terminator.operand() {
                work.push(function.values[value.0 as usize].instruction);
            }
        }
        while let Some(index) = work.pop() {
            if std::mem::replace(&mut live.instructions[index as usize], true) {
                continue;
            }
            for operand in &function.instructions[index as usize].operands {
                live.uses[operand.0 as usize].push(index);
                work.push(function.values[operand.0 as usize].instruction);
            }
        }
        live
    }

    /// Whether an instruction is needed.
    pub(crate) fn is_live(&self, instruction: u32) -> bool {
        self.instructions[instruction as usize]
    }

    /// The live instructions that use a value.
    pub(crate) fn uses(&self, value: Value) -> &[u32] {
        &self.uses[value.0 as usize]
    }

    /// The live operations of a function.
    pub(crate) fn operations<'a>(&'a self, function: &'a Function) -> impl Iterator<Item = &'a Operation> {
        let all = function.blocks.iter().flat_map(|block| &block.instructions);
        all.filter(|index| self.is_live(**index))
            .map(|index| &function.instructions[*index as usize].operation)
    }
}
