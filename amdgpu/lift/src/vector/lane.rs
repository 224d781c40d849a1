//! One instruction that is being lifted: its sources, MODE, and short names for the operations of the form.

use std::cell::RefCell;

use isa::{Flags, Mode, Op};

use crate::evaluate::is_signalling;
use crate::form::{
    Binary, Compare, Float, FloatCompare, FloatType, Input, Kind, NumberType, Operation, Rounding, Unary,
};
use crate::{Builder, Function, Instruction, Value};

/// An instruction that is being lifted. The builder is in a cell so that calls nest.
#[derive(Debug)]
pub struct Lane<'a, 'f> {
    b: RefCell<&'a mut Builder<'f>>,
    /// The operation.
    pub op: Op,
    /// Sources; those that do not exist repeat the first.
    pub s: [Value; 3],
    /// Carry-in or condition.
    pub carry: Option<Value>,
    /// The MODE register.
    pub mode: Mode,
    /// The integer result saturates.
    pub saturates: bool,
}

impl<'a, 'f> Lane<'a, 'f> {
    pub fn new(
        b: &'a mut Builder<'f>,
        op: Op,
        s: [Value; 3],
        carry: Option<Value>,
        mode: Mode,
        saturates: bool,
    ) -> Lane<'a, 'f> {
        Lane { b: RefCell::new(b), op, s, carry, mode, saturates }
    }

    pub fn word(&self, bits: u32) -> Value {
        self.b.borrow_mut().word(bits)
    }

    pub fn double(&self, bits: u64) -> Value {
        self.b.borrow_mut().double(bits)
    }

    pub fn bit(&self, bit: bool) -> Value {
        self.b.borrow_mut().bit(bit)
    }

    /// A constant of the kind of a float type.
    pub fn bits(&self, of: FloatType, bits: u64) -> Value {
        self.b.borrow_mut().constant(of.kind(), bits)
    }

    /// A constant of the kind of another value.
    pub fn like(&self, value: Value, bits: u64) -> Value {
        let kind = self.kind(value);
        self.b.borrow_mut().constant(kind, bits)
    }

    pub fn kind(&self, value: Value) -> Kind {
        self.b.borrow().function.kind(value)
    }

    /// The bits, if the value is a constant.
    pub fn constant(&self, value: Value) -> Option<u64> {
        self.b.borrow().function.constant(value)
    }

    pub fn input(&self, input: Input) -> Value {
        self.b.borrow_mut().input(input)
    }

    pub fn pure(&self, operation: Operation, operands: &[Value], kind: Kind) -> Value {
        self.b.borrow_mut().pure(operation, operands, kind)
    }

    pub fn unary(&self, operation: Unary, a: Value) -> Value {
        self.b.borrow_mut().unary(operation, a)
    }

    pub fn not(&self, a: Value) -> Value {
        self.unary(Unary::Not, a)
    }

    pub fn binary(&self, operation: Binary, a: Value, b: Value) -> Value {
        self.b.borrow_mut().binary(operation, a, b)
    }

    pub fn add(&self, a: Value, b: Value) -> Value {
        self.binary(Binary::Add, a, b)
    }

    pub fn sub(&self, a: Value, b: Value) -> Value {
        self.binary(Binary::Subtract, a, b)
    }

    pub fn mul(&self, a: Value, b: Value) -> Value {
        self.binary(Binary::Multiply, a, b)
    }

    pub fn and(&self, a: Value, b: Value) -> Value {
        self.binary(Binary::And, a, b)
    }

    pub fn or(&self, a: Value, b: Value) -> Value {
        self.binary(Binary::Or, a, b)
    }

    pub fn xor(&self, a: Value, b: Value) -> Value {
        self.binary(Binary::Xor, a, b)
    }

    pub fn shl(&self, a: Value, amount: Value) -> Value {
        self.binary(Binary::ShiftLeft, a, amount)
    }

    pub fn shr(&self, a: Value, amount: Value) -> Value {
        self.binary(Binary::ShiftRight, a, amount)
    }

    pub fn sar(&self, a: Value, amount: Value) -> Value {
        self.binary(Binary::ShiftRightSigned, a, amount)
    }

    /// `a & bits`
    pub fn mask(&self, a: Value, bits: u32) -> Value {
        self.and(a, self.word(bits))
    }

    /// Shifts left by a constant.
    pub fn up(&self, a: Value, amount: u32) -> Value {
        self.shl(a, self.word(amount))
    }

    /// Shifts right by a constant; zeros come in.
    pub fn down(&self, a: Value, amount: u32) -> Value {
        self.shr(a, self.word(amount))
    }

    /// The sign in all bits.
    pub fn sign(&self, a: Value) -> Value {
        let top = if self.kind(a) == Kind::Double { 63 } else { 31 };
        self.sar(a, self.word(top))
    }

    pub fn compare(&self, compare: Compare, a: Value, b: Value) -> Value {
        self.b.borrow_mut().compare(compare, a, b)
    }

    pub fn equal(&self, a: Value, bits: u64) -> Value {
        self.compare(Compare::Equal, a, self.like(a, bits))
    }

    /// Unsigned.
    pub fn less(&self, a: Value, b: Value) -> Value {
        self.compare(Compare::LessUnsigned, a, b)
    }

    pub fn negative(&self, a: Value) -> Value {
        self.compare(Compare::LessSigned, a, self.like(a, 0))
    }

    pub fn select(&self, condition: Value, x: Value, y: Value) -> Value {
        self.b.borrow_mut().select(condition, x, y)
    }

    pub fn pack(&self, low: Value, high: Value) -> Value {
        self.b.borrow_mut().pack(low, high)
    }

    pub fn low(&self, double: Value) -> Value {
        self.b.borrow_mut().low(double)
    }

    pub fn high(&self, double: Value) -> Value {
        self.b.borrow_mut().high(double)
    }

    pub fn extract(&self, word: Value, offset: u8, width: u8) -> Value {
        self.b.borrow_mut().extract(word, offset, width, false)
    }

    pub fn extract_signed(&self, word: Value, offset: u8, width: u8) -> Value {
        self.b.borrow_mut().extract(word, offset, width, true)
    }

    /// The low half, zero-extended.
    pub fn unsigned(&self, word: Value) -> Value {
        self.extract(word, 0, 16)
    }

    /// The low half, sign-extended.
    pub fn signed(&self, word: Value) -> Value {
        self.extract_signed(word, 0, 16)
    }

    /// Two halves in one word; the high halves of both do not matter.
    pub fn pair(&self, low: Value, high: Value) -> Value {
        self.pure(Operation::Bytes([0, 1, 4, 5]), &[low, high], Kind::Word)
    }

    pub fn wide(&self, a: Value, b: Value, signed: bool) -> Value {
        self.pure(Operation::MultiplyWide { signed }, &[a, b], Kind::Double)
    }

    pub fn zero_extended(&self, word: Value) -> Value {
        self.pack(word, self.word(0))
    }

    pub fn sign_extended(&self, word: Value) -> Value {
        self.pack(word, self.sign(word))
    }

    pub fn minimum(&self, a: Value, b: Value, signed: bool) -> Value {
        self.binary(if signed { Binary::MinimumSigned } else { Binary::MinimumUnsigned }, a, b)
    }

    pub fn maximum(&self, a: Value, b: Value, signed: bool) -> Value {
        self.binary(if signed { Binary::MaximumSigned } else { Binary::MaximumUnsigned }, a, b)
    }

    /// A signed number between two bounds.
    pub fn clamped(&self, a: Value, low: i32, high: i32) -> Value {
        let least = self.maximum(a, self.word(low as u32), true);
        self.minimum(least, self.word(high as u32), true)
    }

    pub fn float_compare(&self, compare: FloatCompare, of: FloatType, a: Value, b: Value) -> Value {
        self.b.borrow_mut().float_compare(compare, of, a, b)
    }

    pub fn convert(&self, from: NumberType, to: NumberType, rounding: Rounding, a: Value) -> Value {
        self.b.borrow_mut().convert(from, to, rounding, a)
    }

    /// Float arithmetic that rounds in a direction. f16 in another direction than nearest goes through f64, which rounds in the
    /// same direction: few GPUs have directed f16 arithmetic.
    pub fn float(&self, operation: Float, of: FloatType, rounding: Rounding, operands: &[Value]) -> Value {
        let rounds = matches!(operation, Float::Add | Float::Multiply | Float::MultiplyAdd);
        if of == FloatType::F16 && rounds && rounding != Rounding::Nearest {
            let convert = |a: &Value| self.convert(NumberType::F16, NumberType::F64, Rounding::Nearest, *a);
            let wide: Vec<Value> = operands.iter().map(convert).collect();
            let result = self.float(operation, FloatType::F64, rounding, &wide);
            return self.convert(NumberType::F64, NumberType::F16, rounding, result);
        }
        self.b.borrow_mut().float(operation, of, rounding, operands)
    }

    /// Float arithmetic that is exact.
    pub fn exact(&self, operation: Float, of: FloatType, operands: &[Value]) -> Value {
        self.float(operation, of, Rounding::Nearest, operands)
    }

    pub fn negated(&self, of: FloatType, a: Value) -> Value {
        self.exact(Float::Negate, of, &[a])
    }

    /// The direction in which the operation's result is rounded: MODE's for a type, or nearest if the operation ignores MODE.
    pub fn rounding(&self, of: FloatType) -> Rounding {
        if !self.op.encoding().flags.has(Flags::ROUNDS) {
            return Rounding::Nearest;
        }
        direction(if of == FloatType::F32 { self.mode.round_f32 } else { self.mode.round_f64 })
    }

    /// Whether MODE flushes sources and results of a type.
    pub fn flushes(&self, of: FloatType) -> (bool, bool) {
        let kept = if of == FloatType::F32 { self.mode.denorm_f32 } else { self.mode.denorm_f64 };
        (kept & 1 == 0, kept & 2 == 0)
    }

    /// A float source as MODE shows it.
    pub fn read(&self, of: FloatType, value: Value) -> Value {
        if self.flushes(of).0 { self.exact(Float::Flush, of, &[value]) } else { value }
    }

    /// A float result as MODE writes it.
    pub fn write(&self, of: FloatType, value: Value) -> Value {
        if self.flushes(of).1 { self.exact(Float::Flush, of, &[value]) } else { value }
    }

    /// Like [`Lane::write`] for an f16; MODE may replace an overflow by the largest number. `sources` are the float operands that
    /// it came from: their infinities are no overflow.
    pub fn write_half(&self, value: Value, sources: &[(FloatType, Value)]) -> Value {
        let mut value = value;
        if self.mode.fp16_ovfl && !self.op.has_pole() {
            let infinite = |of: FloatType, value: Value| match of {
                FloatType::F16 => self.equal(self.mask(value, 0x7fff), 0x7c00),
                _ => self.equal(self.mask(value, 0x7fff_ffff), 0x7f80_0000),
            };
            let overflow = sources.iter().fold(infinite(FloatType::F16, value), |overflow, (of, source)| {
                self.and(overflow, self.not(infinite(*of, *source)))
            });
            value = self.select(overflow, self.sub(value, self.word(1)), value);
        }
        self.write(FloatType::F16, value)
    }

    /// Whether a float may be a signalling NaN, judged by what computes it.
    pub fn may_signal(&self, of: FloatType, value: Value) -> bool {
        may_signal(self.b.borrow().function, of, value, 6)
    }
}

fn may_signal(function: &Function, of: FloatType, value: Value, depth: u32) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return true };
    let Instruction { operation, operands, .. } = function.definition(value);
    let quiet = match of {
        FloatType::F16 => 1 << 9,
        FloatType::F32 => 1 << 22,
        FloatType::F64 => 1 << 51,
    };
    match *operation {
        Operation::Float(Float::Negate | Float::Absolute | Float::Flush, inner, _) if inner == of => {
            may_signal(function, of, operands[0], depth)
        }
        // Other results are quiet.
        Operation::Float(_, inner, _) | Operation::Approximate(_, inner) => inner != of,
        Operation::Convert { to, .. } => to != number(of),
        Operation::Constant(bits) => is_signalling(of, bits),
        Operation::Select => operands[1..].iter().any(|arm| may_signal(function, of, *arm, depth)),
        Operation::Binary(Binary::Or) => {
            !operands.iter().any(|part| function.constant(*part).is_some_and(|bits| bits & quiet != 0))
        }
        Operation::Extract { offset: 0, width: 16, .. } if of == FloatType::F16 => {
            may_signal(function, of, operands[0], depth)
        }
        _ => true,
    }
}

/// The direction of a rounding field of MODE.
pub fn direction(field: u8) -> Rounding {
    match field & 3 {
        0 => Rounding::Nearest,
        1 => Rounding::Up,
        2 => Rounding::Down,
        _ => Rounding::Zero,
    }
}

/// The number type of a float type.
pub fn number(of: FloatType) -> NumberType {
    match of {
        FloatType::F16 => NumberType::F16,
        FloatType::F32 => NumberType::F32,
        FloatType::F64 => NumberType::F64,
    }
}
