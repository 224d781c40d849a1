//! Appends instructions to a block, computing kinds and shapes, and folding constants.

use crate::fold;
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

    /// Appends a pure operation that works lane by lane and has one result, or returns a simpler equal.
    pub fn pure(&mut self, operation: Operation, operands: &[Value], kind: Kind) -> Value {
        if let Some(value) = fold::simplify(self, &operation, operands, kind) {
            return value;
        }
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

    /// Inverts all bits.
    pub fn not(&mut self, a: Value) -> Value {
        self.unary(Unary::Not, a)
    }

    /// An integer operation.
    pub fn binary(&mut self, operation: Binary, a: Value, b: Value) -> Value {
        let kind = self.function.kind(a);
        self.pure(Operation::Binary(operation), &[a, b], kind)
    }

    /// Bitwise and.
    pub fn and(&mut self, a: Value, b: Value) -> Value {
        self.binary(Binary::And, a, b)
    }

    /// Bitwise or.
    pub fn or(&mut self, a: Value, b: Value) -> Value {
        self.binary(Binary::Or, a, b)
    }

    /// An integer comparison.
    pub fn compare(&mut self, compare: Compare, a: Value, b: Value) -> Value {
        self.pure(Operation::Compare(compare), &[a, b], Kind::Bit)
    }

    /// `x` where the condition holds, else `y`.
    pub fn select(&mut self, condition: Value, x: Value, y: Value) -> Value {
        let kind = self.function.kind(x);
        self.pure(Operation::Select, &[condition, x, y], kind)
    }

    /// 1 or 0.
    pub fn word_of(&mut self, bit: Value) -> Value {
        let (one, zero) = (self.word(1), self.word(0));
        self.select(bit, one, zero)
    }

    /// Whether a number is not 0.
    pub fn nonzero(&mut self, a: Value) -> Value {
        let zero = self.constant(self.function.kind(a), 0);
        self.compare(Compare::NotEqual, a, zero)
    }

    /// A double of two words.
    pub fn pack(&mut self, low: Value, high: Value) -> Value {
        self.pure(Operation::Pack, &[low, high], Kind::Double)
    }

    /// The low word of a double.
    pub fn low(&mut self, double: Value) -> Value {
        self.pure(Operation::Low, &[double], Kind::Word)
    }

    /// The high word of a double.
    pub fn high(&mut self, double: Value) -> Value {
        self.pure(Operation::High, &[double], Kind::Word)
    }

    /// Bits of a word.
    pub fn extract(&mut self, word: Value, offset: u8, width: u8, signed: bool) -> Value {
        self.pure(Operation::Extract { signed, offset, width }, &[word], Kind::Word)
    }

    /// The number whose bits are those of a lane mask.
    pub fn ballot(&mut self, mask: Value) -> Value {
        self.across(Operation::Ballot, &[mask], (Kind::Double, Shape::Uniform))
    }

    /// The lane mask whose bits are those of a number.
    pub fn mask_of(&mut self, number: Value) -> Value {
        self.across(Operation::MaskOf, &[number], (Kind::Bit, Shape::Lane))
    }

    /// Whether any lane's bit is set.
    pub fn any_lane(&mut self, mask: Value) -> Value {
        self.across(Operation::AnyLane, &[mask], (Kind::Bit, Shape::Uniform))
    }

    /// Appends a pure operation whose result has another shape than its operands, or returns a simpler equal.
    pub fn across(&mut self, operation: Operation, operands: &[Value], result: (Kind, Shape)) -> Value {
        if let Some(value) = fold::simplify(self, &operation, operands, result.0) {
            return value;
        }
        self.append(operation, operands, &[result])[0]
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
