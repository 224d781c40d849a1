//! Registers as SSA variables: Braun et al., "Simple and Efficient Construction of Static Single Assignment Form".
//!
//! A scalar register pair has two forms, a number (two words) and a lane mask. A write defines one of them; the other is derived
//! when something reads it. The two forms of a pair cross block borders as separate variables.

use rustc_hash::FxHashMap;

use crate::builder::Builder;
use crate::form::{Block, Function, Input, Kind, Operation, Register, Shape, Value};

/// Operand number of VCC.
pub const VCC: u8 = 106;
/// Operand number of FLAT_SCRATCH.
pub const FLAT_SCRATCH: u8 = 102;
/// Operand number of M0.
pub const M0: u8 = 124;
/// Operand number of EXEC.
pub const EXEC: u8 = 126;

/// A variable: something that a block can define.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Variable {
    /// A scalar register, as a number.
    Scalar(u8),
    /// The mask form of the pair that starts at this even scalar register.
    Mask(u8),
    /// A vector register; 256.. are accumulation registers.
    Vector(u16),
    /// The scalar condition code.
    Scc,
}

impl Variable {
    fn data(self) -> (Kind, Shape) {
        match self {
            Variable::Scalar(_) => (Kind::Word, Shape::Uniform),
            Variable::Mask(_) => (Kind::Bit, Shape::Lane),
            Variable::Vector(_) => (Kind::Word, Shape::Lane),
            Variable::Scc => (Kind::Bit, Shape::Uniform),
        }
    }
}

/// What a block knows of a variable.
#[derive(Clone, Copy, Debug)]
enum Definition {
    Value(Value),
    /// The pair's other form is newer.
    Derived,
}

/// What registers hold before the first instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Zero, unless the entry block defines them.
    Zero,
    /// Unknown values, for fragments.
    Unknown,
}

/// The variables of a function that is being built.
#[derive(Debug)]
pub struct Registers {
    start: Start,
    definitions: Vec<FxHashMap<Variable, Definition>>,
    /// Phis of each block.
    phis: Vec<Vec<u32>>,
    /// Whether all predecessors of a block are known and built.
    sealed: Vec<bool>,
    /// Phis of blocks that are not sealed.
    incomplete: Vec<Vec<(Variable, u32)>>,
    /// Phis without operands in sealed blocks.
    pending: Vec<(Variable, u32, Block)>,
}

impl Registers {
    /// No definitions; no block is sealed.
    pub fn new(blocks: usize, start: Start) -> Registers {
        Registers {
            start,
            definitions: vec![FxHashMap::default(); blocks],
            phis: vec![Vec::new(); blocks],
            sealed: vec![false; blocks],
            incomplete: vec![Vec::new(); blocks],
            pending: Vec::new(),
        }
    }

    /// A scalar register as a number.
    pub fn scalar(&mut self, b: &mut Builder<'_>, register: u8) -> Value {
        self.read(b, Variable::Scalar(register))
    }

    /// Writes a scalar register.
    pub fn set_scalar(&mut self, b: &mut Builder<'_>, register: u8, value: Value) {
        let pair = register & !1;
        // The other word may exist only as a part of the mask, which ends here.
        let other = Variable::Scalar(register ^ 1);
        if let Some(Definition::Derived) = self.definitions[b.block.0 as usize].get(&other) {
            self.read(b, other);
        }
        self.define(b.block, Variable::Scalar(register), Definition::Value(value));
        self.define(b.block, Variable::Mask(pair), Definition::Derived);
    }

    /// A pair of scalar registers as a lane mask.
    pub fn mask(&mut self, b: &mut Builder<'_>, register: u8) -> Value {
        if register % 2 == 1 {
            let (low, high) = (self.scalar(b, register), self.scalar(b, register + 1));
            let number = b.pack(low, high);
            return b.mask_of(number);
        }
        self.read(b, Variable::Mask(register))
    }

    /// Writes a pair of scalar registers as a lane mask.
    pub fn set_mask(&mut self, b: &mut Builder<'_>, register: u8, mask: Value) {
        if register % 2 == 1 {
            let number = b.ballot(mask);
            let (low, high) = (b.low(number), b.high(number));
            self.set_scalar(b, register, low);
            self.set_scalar(b, register + 1, high);
            return;
        }
        self.define(b.block, Variable::Mask(register), Definition::Value(mask));
        self.define(b.block, Variable::Scalar(register), Definition::Derived);
        self.define(b.block, Variable::Scalar(register + 1), Definition::Derived);
    }

    /// Writes both forms of an even pair, which the caller computed.
    pub fn set_both(&mut self, b: &mut Builder<'_>, register: u8, words: [Value; 2], mask: Value) {
        self.define(b.block, Variable::Mask(register), Definition::Value(mask));
        self.define(b.block, Variable::Scalar(register), Definition::Value(words[0]));
        self.define(b.block, Variable::Scalar(register + 1), Definition::Value(words[1]));
    }

    /// A vector register.
    pub fn vector(&mut self, b: &mut Builder<'_>, register: u16) -> Value {
        self.read(b, Variable::Vector(register))
    }

    /// Writes a vector register in all lanes.
    pub fn set_vector(&mut self, b: &mut Builder<'_>, register: u16, value: Value) {
        self.define(b.block, Variable::Vector(register), Definition::Value(value));
    }

    /// The scalar condition code.
    pub fn scc(&mut self, b: &mut Builder<'_>) -> Value {
        self.read(b, Variable::Scc)
    }

    /// Writes the scalar condition code.
    pub fn set_scc(&mut self, b: &mut Builder<'_>, bit: Value) {
        self.define(b.block, Variable::Scc, Definition::Value(bit));
    }

    /// Whether a block is sealed.
    pub fn is_sealed(&self, block: Block) -> bool {
        self.sealed[block.0 as usize]
    }

    /// Adds a sealed block that defines nothing.
    pub fn add_block(&mut self) {
        self.definitions.push(FxHashMap::default());
        self.phis.push(Vec::new());
        self.sealed.push(true);
        self.incomplete.push(Vec::new());
    }

    /// Tells that all predecessors of a block are built.
    pub fn seal(&mut self, function: &mut Function, block: Block) {
        self.sealed[block.0 as usize] = true;
        for (variable, phi) in std::mem::take(&mut self.incomplete[block.0 as usize]) {
            self.pending.push((variable, phi, block));
        }
        self.complete(function);
    }

    /// Puts the phis at the start of their blocks. All blocks must be sealed.
    pub fn finish(mut self, function: &mut Function) {
        self.complete(function);
        for (block, mut phis) in function.blocks.iter_mut().zip(self.phis) {
            phis.append(&mut block.instructions);
            block.instructions = phis;
        }
    }

    fn define(&mut self, block: Block, variable: Variable, definition: Definition) {
        self.definitions[block.0 as usize].insert(variable, definition);
    }

    /// The value of a variable at the end of the builder's block.
    fn read(&mut self, b: &mut Builder<'_>, variable: Variable) -> Value {
        let value = self.find(b, variable);
        self.define(b.block, variable, Definition::Value(value));
        self.complete(b.function);
        value
    }

    /// Like [`Registers::read`], but may leave phis without operands.
    fn find(&mut self, b: &mut Builder<'_>, variable: Variable) -> Value {
        let mut block = b.block;
        loop {
            let number = block.0 as usize;
            match self.definitions[number].get(&variable) {
                Some(Definition::Value(value)) => return *value,
                Some(Definition::Derived) => {
                    let mut at = Builder { function: &mut *b.function, block, address: b.address };
                    let value = self.derive(&mut at, variable);
                    self.define(block, variable, Definition::Value(value));
                    return value;
                }
                None => {}
            }
            let predecessors = &b.function.blocks[number].predecessors;
            if self.sealed[number] && predecessors.is_empty() {
                let mut at = Builder { function: &mut *b.function, block, address: b.address };
                let value = self.initial(&mut at, variable);
                self.define(block, variable, Definition::Value(value));
                return value;
            }
            if self.sealed[number] && predecessors.len() == 1 {
                block = predecessors[0];
                continue;
            }
            let phi = b.function.create(Operation::Phi, Vec::new(), &[variable.data()], b.address);
            let value = b.function.instructions[phi as usize].results[0];
            self.phis[number].push(phi);
            self.define(block, variable, Definition::Value(value));
            if self.sealed[number] {
                self.pending.push((variable, phi, block));
            } else {
                self.incomplete[number].push((variable, phi));
            }
            return value;
        }
    }

    /// The form of a pair that is older, from the one that is newer.
    fn derive(&mut self, b: &mut Builder<'_>, variable: Variable) -> Value {
        match variable {
            Variable::Mask(pair) => {
                let low = self.find(b, Variable::Scalar(pair));
                let high = self.find(b, Variable::Scalar(pair + 1));
                let number = b.pack(low, high);
                b.mask_of(number)
            }
            Variable::Scalar(register) => {
                let mask = self.find(b, Variable::Mask(register & !1));
                let number = b.ballot(mask);
                if register % 2 == 0 { b.low(number) } else { b.high(number) }
            }
            Variable::Vector(_) | Variable::Scc => self.initial(b, variable),
        }
    }

    fn initial(&mut self, b: &mut Builder<'_>, variable: Variable) -> Value {
        match (self.start, variable) {
            (Start::Zero, Variable::Mask(_) | Variable::Scc) => b.bit(false),
            (Start::Zero, Variable::Scalar(_) | Variable::Vector(_)) => b.word(0),
            (Start::Unknown, Variable::Scalar(register)) => {
                b.input(Input::Register(Register::Scalar(register)))
            }
            (Start::Unknown, Variable::Vector(register)) => {
                b.input(Input::Register(Register::Vector(register)))
            }
            (Start::Unknown, Variable::Scc) => b.input(Input::Register(Register::Scc)),
            (Start::Unknown, Variable::Mask(_)) => self.derive(b, variable),
        }
    }

    /// Gives operands to phis of sealed blocks. A loop instead of a recursion: chains of blocks can be long.
    fn complete(&mut self, function: &mut Function) {
        while let Some((variable, phi, block)) = self.pending.pop() {
            let predecessors = function.blocks[block.0 as usize].predecessors.clone();
            let mut operands = Vec::with_capacity(predecessors.len());
            for from in predecessors {
                let address = function.instructions[phi as usize].address;
                let mut b = Builder { function: &mut *function, block: from, address };
                let value = self.find(&mut b, variable);
                self.define(from, variable, Definition::Value(value));
                operands.push(value);
            }
            function.instructions[phi as usize].operands = operands;
        }
    }
}
