//! Text of a function, for logs and tests.

use std::fmt;

use super::{Block, Function, Instruction, Kind, Operation, Shape, Terminator, Value};

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}", self.0)
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "kernel {} (lds {}, private {})", self.name, self.lds_bytes, self.private_bytes)?;
        for (block, number) in self.blocks.iter().zip(0..) {
            write!(f, "{}:", Block(number))?;
            for from in &block.predecessors {
                write!(f, " <- {from}")?;
            }
            writeln!(f, "  // {:#x}", block.address)?;
            for index in &block.instructions {
                writeln!(f, "    {}", self.line(&self.instructions[*index as usize]))?;
            }
            match &block.terminator {
                Terminator::End => writeln!(f, "    end")?,
                Terminator::Jump(to) => writeln!(f, "    jump {to}")?,
                Terminator::Branch { condition, then, otherwise } => {
                    writeln!(f, "    branch {condition} {then} {otherwise}")?;
                }
                Terminator::Switch { address, targets } => writeln!(f, "    switch {address} {targets:x?}")?,
                Terminator::Trap(code) => writeln!(f, "    trap {code}")?,
            }
        }
        Ok(())
    }
}

impl Function {
    /// One instruction as text.
    pub fn line(&self, instruction: &Instruction) -> String {
        let list = |values: &[Value]| values.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
        let results = instruction.results.iter().map(|value| {
            let shape = if self.shape(*value) == Shape::Lane { "v" } else { "s" };
            let kind = match self.kind(*value) {
                Kind::Bit => "1",
                Kind::Word => "32",
                Kind::Double => "64",
            };
            format!("{value}:{shape}{kind}")
        });
        let results = results.collect::<Vec<_>>().join(", ");
        let operation = match instruction.operation {
            Operation::Constant(bits) => format!("constant {bits:#x}"),
            ref other => format!("{other:?}"),
        };
        let equals = if results.is_empty() { "" } else { " = " };
        format!("{results}{equals}{operation} {}", list(&instruction.operands)).trim_end().to_owned()
    }
}
