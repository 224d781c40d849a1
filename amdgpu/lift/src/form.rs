//! The SSA form: functions, blocks, instructions, values.
//!
//! A value has a [`Kind`] (its size) and a [`Shape`] (uniform, or one per lane). A lane mask is a value of kind `Bit` and shape
//! `Lane`. An operand of shape `Uniform` may stand wherever a lane operand is expected: every lane reads the same value.
//!
//! Instructions of a block that have effects run in their order in the block. Pure instructions have no other order than that
//! of definition and use.

mod input;
mod operation;
mod refusal;
mod text;

pub use input::{Input, Register};
pub use operation::*;
pub use refusal::Refusal;

/// A value: the result of one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub u32);

/// A basic block, by its index in [`Function::blocks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Block(pub u32);

/// Size of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// One bit.
    Bit,
    /// 32 bits. Smaller numbers are in the low bits; each operation says what the others are.
    Word,
    /// 64 bits.
    Double,
}

/// How many copies of a value a wave has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shape {
    /// One for the wave.
    Uniform,
    /// One per lane.
    Lane,
}

/// What is known of a value where it is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueData {
    /// Size.
    pub kind: Kind,
    /// Uniform or per lane.
    pub shape: Shape,
    /// The defining instruction.
    pub instruction: u32,
    /// Which of its results this is.
    pub result: u8,
}

/// An operation with its operands and results.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// The operation.
    pub operation: Operation,
    /// Operands, in the order that the operation documents.
    pub operands: Vec<Value>,
    /// Results; most operations have one.
    pub results: Vec<Value>,
    /// Address of the machine instruction, relative to the code object's base.
    pub address: u64,
}

/// Instructions that run one after the other.
#[derive(Clone, Debug, Default)]
pub struct BlockData {
    /// Indices in [`Function::instructions`], in order. Phis come first.
    pub instructions: Vec<u32>,
    /// Predecessors; the operands of a phi are in the same order.
    pub predecessors: Vec<Block>,
    /// How the block ends.
    pub terminator: Terminator,
    /// Address of the first machine instruction, relative to the code object's base.
    pub address: u64,
}

/// Trap code of a jump through a register that went elsewhere than the lifter had concluded.
pub const UNEXPECTED_JUMP: u8 = 0xff;

/// How a block ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Terminator {
    /// The wave ends.
    #[default]
    End,
    /// Continues in a block.
    Jump(Block),
    /// Continues in `then` if the uniform bit is set, else in `otherwise`.
    Branch {
        /// A uniform bit. For `s_cbranch_execz` and the like it is the result of [`Operation::AnyLane`].
        condition: Value,
        /// The block if the bit is set.
        then: Block,
        /// The block if it is clear.
        otherwise: Block,
    },
    /// Continues in the block whose address equals the uniform double. If there is none, the grid stops with
    /// [`UNEXPECTED_JUMP`].
    Switch {
        /// A uniform double: the address of the next machine instruction.
        address: Value,
        /// Possible addresses and their blocks, all different.
        targets: Vec<(u64, Block)>,
    },
    /// Stops the grid with a fault.
    Trap(u8),
}

impl Terminator {
    /// The blocks that may follow.
    pub fn successors(&self) -> Vec<Block> {
        match self {
            Terminator::End | Terminator::Trap(_) => Vec::new(),
            Terminator::Jump(block) => vec![*block],
            Terminator::Branch { then, otherwise, .. } => vec![*then, *otherwise],
            Terminator::Switch { targets, .. } => targets.iter().map(|(_, block)| *block).collect(),
        }
    }

    /// The value that decides, if there is one.
    pub fn operand(&self) -> Option<Value> {
        match self {
            Terminator::Branch { condition: value, .. } | Terminator::Switch { address: value, .. } => {
                Some(*value)
            }
            _ => None,
        }
    }
}

/// A kernel in SSA form. Block 0 is the entry; it has no predecessors.
#[derive(Clone, Debug, Default)]
pub struct Function {
    /// Name of the kernel.
    pub name: String,
    /// Blocks, in an order in which a block's dominators precede it.
    pub blocks: Vec<BlockData>,
    /// Instructions. Those of no block are dead.
    pub instructions: Vec<Instruction>,
    /// Values.
    pub values: Vec<ValueData>,
    /// LDS bytes of statically sized arrays. Dynamic LDS follows them.
    pub lds_bytes: u32,
    /// Scratch bytes per lane.
    pub private_bytes: u32,
    /// The compiler could not determine how much scratch is needed: accesses beyond it must stop the grid.
    pub dynamic_stack: bool,
    /// Bytes of the kernel argument block.
    pub kernarg_bytes: u32,
}

impl Function {
    /// Kind of a value.
    pub fn kind(&self, value: Value) -> Kind {
        self.values[value.0 as usize].kind
    }

    /// Shape of a value.
    pub fn shape(&self, value: Value) -> Shape {
        self.values[value.0 as usize].shape
    }

    /// The instruction that defines a value.
    pub fn definition(&self, value: Value) -> &Instruction {
        &self.instructions[self.values[value.0 as usize].instruction as usize]
    }

    /// The bits of a constant.
    pub fn constant(&self, value: Value) -> Option<u64> {
        match self.definition(value).operation {
            Operation::Constant(bits) => Some(bits),
            _ => None,
        }
    }

    /// Appends a block.
    pub fn add_block(&mut self, address: u64) -> Block {
        self.blocks.push(BlockData { address, ..BlockData::default() });
        Block(self.blocks.len() as u32 - 1)
    }

    /// A constant that is defined wherever anything else is.
    pub fn constant_at_entry(&mut self, kind: Kind, bits: u64) -> Value {
        let entry = &self.blocks[0];
        let equal = |index: &u32| {
            let instruction = &self.instructions[*index as usize];
            instruction.operation == Operation::Constant(bits) && self.kind(instruction.results[0]) == kind
        };
        if let Some(index) = entry.instructions.iter().copied().find(equal) {
            return self.instructions[index as usize].results[0];
        }
        let address = entry.address;
        let index = self.create(Operation::Constant(bits), Vec::new(), &[(kind, Shape::Uniform)], address);
        self.blocks[0].instructions.push(index);
        self.instructions[index as usize].results[0]
    }

    /// Creates an instruction without putting it into a block. Kinds and shapes of the results are given by the caller.
    pub fn create(
        &mut self,
        operation: Operation,
        operands: Vec<Value>,
        results: &[(Kind, Shape)],
        address: u64,
    ) -> u32 {
        let instruction = self.instructions.len() as u32;
        let first = self.values.len() as u32;
        let data = results.iter().zip(0..).map(|((kind, shape), result)| ValueData {
            kind: *kind,
            shape: *shape,
            instruction,
            result,
        });
        self.values.extend(data);
        let results = (first..self.values.len() as u32).map(Value).collect();
        self.instructions.push(Instruction { operation, operands, results, address });
        instruction
    }
}
