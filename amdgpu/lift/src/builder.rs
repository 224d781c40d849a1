//! Appends instructions to a block, computing kinds and shapes, and folding constants.

use crate::form::*;

/// Appends instructions to the end of one block.
#[derive(Debug)]
pub struct Builder<'a> {
    /// The function.
    pub function: &'a mut Function,
    /// The block that grows.
    pub block: Block,
    /// Address of the machine instruction that is lifted.
    pub address: u64,
}

impl Builder<'_> {
    /// Appends an instruction whose results the caller describes.
    pub fn append(
        &mut self,
        operation: Operation,
        operands: &[Value],
        results: &[(Kind, Shape)],
    ) -> Vec<Value> {
        let index = self.function.create(operation, operands.to_vec(), results, self.address);
        self.function.blocks[self.block.0 as usize].instructions.push(index);
        self.function.instructions[index as usize].results.clone()
    }

    /// A constant.
    pub fn constant(&mut self, kind: Kind, bits: u64) -> Value {
        let bits = match kind {
            Kind::Bit => bits & 1,
            Kind::Word => bits & 0xffff_ffff,
            Kind::Double => bits,
        };
        self.append(Operation::Constant(bits), &[], &[(kind, Shape::Uniform)])[0]
    }

    /// A word constant.
    pub fn word(&mut self, bits: u32) -> Value {
        self.constant(Kind::Word, bits.into())
    }

    /// A double constant.
    pub fn double(&mut self, bits: u64) -> Value {
        self.constant(Kind::Double, bits)
    }

    /// A bit constant.
    pub fn bit(&mut self, bit: bool) -> Value {
        self.constant(Kind::Bit, bit.into())
    }

    /// A value that the kernel starts with.
    pub fn input(&mut self, input: Input) -> Value {
        self.append(Operation::Input(input), &[], &[input.data()])[0]
    }

    /// Appends a pure operation that works lane by lane and has one result.
    pub fn pure(&mut self, operation: Operation, operands: &[Value], kind: Kind) -> Value {
        let shape = operands.iter().map(|value| self.function.shape(*value)).max();
        self.append(operation, operands, &[(kind, shape.unwrap_or(Shape::Uniform))])[0]
    }

    /// An operation with one operand.
    pub fn unary(&mut self, operation: Unary, a: Value) -> Value {
        let kind = match operation {
            Unary::Not | Unary::ReverseBits => self.function.kind(a),
            Unary::Popcount | Unary::LeadingZeros | Unary::TrailingZeros => Kind::Word,
        };
        self.pure(Operation::Unary(operation), &[a], kind)
    }

    /// An integer operation.
    pub fn binary(&mut self, operation: Binary, a: Value, b: Value) -> Value {
        let kind = self.function.kind(a);
        self.pure(Operation::Binary(operation), &[a, b], kind)
    }

    /// An integer comparison.
    pub fn compare(&mut self, compare: Compare, a: Value, b: Value) -> Value {
        self.pure(Operation::Compare(compare), &[a, b], Kind::Bit)
    }

    /// `x` where the condition holds, else `y`.
    pub fn select(&mut self, condition: Value, x: Value, y: Value) -> Value {
        match self.function.constant(condition) {
            Some(0) => y,
            Some(_) => x,
            None if x == y => x,
            None => {
                let kind = self.function.kind(x);
                self.pure(Operation::Select, &[condition, x, y], kind)
            }
        }
    }

    /// A double of two words.
    pub fn pack(&mut self, low: Value, high: Value) -> Value {
        let (a, b) = (self.function.definition(low), self.function.definition(high));
        if a.operation == Operation::Low && b.operation == Operation::High && a.operands == b.operands {
            return a.operands[0];
        }
        match (self.function.constant(low), self.function.constant(high)) {
            (Some(low), Some(high)) => self.double(low | high << 32),
            _ => self.pure(Operation::Pack, &[low, high], Kind::Double),
        }
    }

    /// The low word of a double.
    pub fn low(&mut self, double: Value) -> Value {
        let definition = self.function.definition(double);
        match definition.operation {
            Operation::Pack => definition.operands[0],
            Operation::Constant(bits) => self.word(bits as u32),
            _ => self.pure(Operation::Low, &[double], Kind::Word),
        }
    }

    /// The high word of a double.
    pub fn high(&mut self, double: Value) -> Value {
        let definition = self.function.definition(double);
        match definition.operation {
            Operation::Pack => definition.operands[1],
            Operation::Constant(bits) => self.word((bits >> 32) as u32),
            _ => self.pure(Operation::High, &[double], Kind::Word),
        }
    }

    /// Bits of a word.
    pub fn extract(&mut self, word: Value, offset: u8, width: u8, signed: bool) -> Value {
        if width == 32 {
            return word;
        }
        self.pure(Operation::Extract { signed, offset, width }, &[word], Kind::Word)
    }

    /// Float arithmetic.
    pub fn float(
        &mut self,
        operation: Float,
        of: FloatType,
        rounding: Rounding,
        operands: &[Value],
    ) -> Value {
        self.pure(Operation::Float(operation, of, rounding), operands, of.kind())
    }

    /// A float comparison.
    pub fn float_compare(&mut self, compare: FloatCompare, of: FloatType, a: Value, b: Value) -> Value {
        self.pure(Operation::FloatCompare(compare, of), &[a, b], Kind::Bit)
    }

    /// A conversion between number types.
    pub fn convert(&mut self, from: NumberType, to: NumberType, rounding: Rounding, a: Value) -> Value {
        self.pure(Operation::Convert { from, to, rounding }, &[a], to.kind())
    }
}
