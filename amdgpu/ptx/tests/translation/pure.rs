//! Cases of operations that work lane by lane: special and random operands.

use isa_reference::exact::{F16, F32, F64};
use isa_reference::random::Random;
use lift::form::*;
use ptx::Mode;

use super::cases::{Case, Registers, Tolerance, observe, vector, wide_vector};

/// What an operand is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Is {
    Bit,
    Word,
    Double,
    F16,
    F32,
    F64,
}

impl Is {
    fn float(of: FloatType) -> Is {
        match of {
            FloatType::F16 => Is::F16,
            FloatType::F32 => Is::F32,
            FloatType::F64 => Is::F64,
        }
    }

    fn number(of: NumberType) -> Is {
        match of {
            NumberType::F16 => Is::F16,
            NumberType::F32 => Is::F32,
            NumberType::F64 => Is::F64,
            _ => Is::Word,
        }
    }

    fn kind(self) -> Kind {
        match self {
            Is::Bit => Kind::Bit,
            Is::Word | Is::F16 | Is::F32 => Kind::Word,
            Is::Double | Is::F64 => Kind::Double,
        }
    }

    fn random(self, random: &mut Random) -> u64 {
        const WORDS: [u32; 12] =
            [0, 1, 2, 31, 32, 33, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0xffff, 0x8000, 0x7fff];
        match self {
            Is::Bit => random.bits() & 1,
            Is::Word if random.below(3) == 0 => random.pick(&WORDS).into(),
            Is::Word => random.bits() & 0xffff_ffff,
            Is::Double if random.below(3) == 0 => {
                u64::from(random.pick(&WORDS)) | u64::from(random.pick(&WORDS)) << 32
            }
            Is::Double => random.bits(),
            Is::F16 => random.float(F16),
            Is::F32 => random.float(F32),
            Is::F64 => random.float(F64),
        }
    }
}

const FLOATS: [FloatType; 3] = [FloatType::F16, FloatType::F32, FloatType::F64];
const ROUNDINGS: [Rounding; 4] = [Rounding::Nearest, Rounding::Up, Rounding::Down, Rounding::Zero];

/// Four waves with random operands; v0 and v1 for the first operand, v2 and v3 for the second, and so on.
fn waves(name: &str, operands: &[Is]) -> Vec<Registers> {
    let seed = name.bytes().fold(7u64, |all, byte| all.wrapping_mul(31).wrapping_add(byte.into()));
    let mut random = Random::new(seed);
    let mut wave = || {
        let mut registers = Registers::new();
        for (at, is) in operands.iter().enumerate() {
            let values: Vec<u64> = (0..64).map(|_| is.random(&mut random)).collect();
            let register = |part: u16| Register::Vector(2 * at as u16 + part);
            registers.push((register(0), values.iter().map(|value| *value as u32).collect()));
            registers.push((register(1), values.iter().map(|value| (*value >> 32) as u32).collect()));
        }
        registers
    };
    (0..4).map(|_| wave()).collect()
}

fn case(operation: Operation, operands: &[Is], result: Kind, tolerance: Tolerance) -> Case {
    let name = format!("{operation:?} {operands:?}");
    let mut case = Case::new(name.clone(), waves(&name, operands), |b| {
        let values: Vec<Value> = operands
            .iter()
            .enumerate()
            .map(|(at, is)| match is.kind() {
                Kind::Double => wide_vector(b, 2 * at as u16),
                Kind::Word => vector(b, 2 * at as u16),
                Kind::Bit => {
                    let (word, zero) = (vector(b, 2 * at as u16), b.word(0));
                    b.compare(Compare::NotEqual, word, zero)
                }
            })
            .collect();
        let value = b.pure(operation, &values, result);
        observe(b, 16, value);
    });
    case.tolerance = tolerance;
    case.modes = vec![Mode::Pair, Mode::Lane];
    case
}

pub fn cases() -> Vec<Case> {
    let mut all = integers();
    all.extend(floats());
    all.extend(conversions());
    all
}

fn integers() -> Vec<Case> {
    let mut all = Vec::new();
    let mut add = |operation: Operation, operands: &[Is], result: Kind| {
        all.push(case(operation, operands, result, Tolerance::Exact));
    };
    for is in [Is::Bit, Is::Word, Is::Double] {
        add(Operation::Unary(Unary::Not), &[is], is.kind());
        for binary in [Binary::And, Binary::Or, Binary::Xor] {
            add(Operation::Binary(binary), &[is, is], is.kind());
        }
        add(Operation::Select, &[Is::Bit, is, is], is.kind());
        add(Operation::Compare(Compare::Equal), &[is, is], Kind::Bit);
        add(Operation::Compare(Compare::NotEqual), &[is, is], Kind::Bit);
    }
    for is in [Is::Word, Is::Double] {
        for unary in [Unary::Popcount, Unary::LeadingZeros, Unary::TrailingZeros] {
            add(Operation::Unary(unary), &[is], Kind::Word);
        }
        add(Operation::Unary(Unary::ReverseBits), &[is], is.kind());
        for binary in [
            Binary::Add,
            Binary::Subtract,
            Binary::Multiply,
            Binary::MinimumUnsigned,
            Binary::MaximumUnsigned,
            Binary::MinimumSigned,
            Binary::MaximumSigned,
        ] {
            add(Operation::Binary(binary), &[is, is], is.kind());
        }
        for binary in [Binary::ShiftLeft, Binary::ShiftRight, Binary::ShiftRightSigned] {
            add(Operation::Binary(binary), &[is, Is::Word], is.kind());
        }
        for compare in
            [Compare::LessUnsigned, Compare::LessEqualUnsigned, Compare::LessSigned, Compare::LessEqualSigned]
        {
            add(Operation::Compare(compare), &[is, is], Kind::Bit);
        }
    }
    for binary in [Binary::MultiplyHighUnsigned, Binary::MultiplyHighSigned] {
        add(Operation::Binary(binary), &[Is::Word, Is::Word], Kind::Word);
    }
    add(Operation::Pack, &[Is::Word, Is::Word], Kind::Double);
    add(Operation::Low, &[Is::Double], Kind::Word);
    add(Operation::High, &[Is::Double], Kind::Word);
    add(Operation::FunnelShift, &[Is::Word, Is::Word, Is::Word], Kind::Word);
    for signed in [false, true] {
        for (offset, width) in [(0, 8), (0, 31), (5, 7), (24, 8), (31, 1), (0, 32)] {
            add(Operation::Extract { signed, offset, width }, &[Is::Word], Kind::Word);
        }
        add(Operation::MultiplyWide { signed }, &[Is::Word, Is::Word], Kind::Double);
        for signed_b in [false, true] {
            let dot = Operation::Dot4 { signed_a: signed, signed_b };
            add(dot, &[Is::Word, Is::Word, Is::Word], Kind::Word);
        }
    }
    for bytes in [[0, 1, 2, 3], [7, 6, 5, 4], [4, 0, 4, 0], [3, 3, 7, 1]] {
        add(Operation::Bytes(bytes), &[Is::Word, Is::Word], Kind::Word);
    }
    all
}

fn floats() -> Vec<Case> {
    let mut all = Vec::new();
    for of in FLOATS {
        let is = Is::float(of);
        let nan = Tolerance::Nan(of);
        for compare in [
            FloatCompare::Less,
            FloatCompare::LessEqual,
            FloatCompare::Equal,
            FloatCompare::NotEqual,
            FloatCompare::Ordered,
            FloatCompare::Unordered,
        ] {
            all.push(case(Operation::FloatCompare(compare, of), &[is, is], Kind::Bit, Tolerance::Exact));
        }
        let exact = [
            (Float::Negate, 1),
            (Float::Absolute, 1),
            (Float::Minimum, 2),
            (Float::Maximum, 2),
            (Float::Flush, 1),
        ];
        for (float, count) in exact {
            let operation = Operation::Float(float, of, Rounding::Nearest);
            all.push(case(operation, &[is; 3][..count], of.kind(), nan));
        }
        let quiet = Operation::Float(Float::Quiet, of, Rounding::Nearest);
        all.push(case(quiet, &[is], of.kind(), Tolerance::Exact));
        for rounding in ROUNDINGS {
            for (float, count) in [
                (Float::Add, 2),
                (Float::Multiply, 2),
                (Float::MultiplyAdd, 3),
                (Float::Integral, 1),
                (Float::SquareRoot, 1),
                (Float::Divide, 2),
            ] {
                let operation = Operation::Float(float, of, rounding);
                all.push(case(operation, &[is; 3][..count], of.kind(), nan));
            }
        }
        let functions = [
            Approximate::Reciprocal,
            Approximate::ReciprocalSquareRoot,
            Approximate::SquareRoot,
            Approximate::Exponential,
            Approximate::Logarithm,
            Approximate::Sine,
            Approximate::Cosine,
        ];
        for function in functions.into_iter().take(if of == FloatType::F64 { 3 } else { 7 }) {
            let near = match (of, function) {
                (FloatType::F16, Approximate::Sine | Approximate::Cosine) => Tolerance::Near(of, 1, 1e-3),
                (FloatType::F16, _) => Tolerance::Near(of, 1, 0.0),
                (FloatType::F32, Approximate::Sine | Approximate::Cosine) => Tolerance::Near(of, 4, 1e-6),
                (FloatType::F32, _) => Tolerance::Near(of, 4, 1e-6),
                (FloatType::F64, _) => Tolerance::Near(of, 4, 0.0),
            };
            all.push(case(Operation::Approximate(function, of), &[is], of.kind(), near));
        }
    }
    all
}

fn conversions() -> Vec<Case> {
    use NumberType::{Bf8, Bf16, F8, F16, F32, F64, I16, I32, U16, U32};
    let mut all = Vec::new();
    let integers = [U16, I16, U32, I32];
    let floats = [F16, F32, F64];
    let mut add = |from: NumberType, to: NumberType, rounding: Rounding| {
        let tolerance = match to {
            F16 => Tolerance::Nan(FloatType::F16),
            F32 => Tolerance::Nan(FloatType::F32),
            F64 => Tolerance::Nan(FloatType::F64),
            // A bfloat16 is a word with the upper half of an f32 below: its NaN is not one of these.
            _ => Tolerance::Exact,
        };
        let operation = Operation::Convert { from, to, rounding };
        all.push(case(operation, &[Is::number(from)], to.kind(), tolerance));
    };
    for rounding in ROUNDINGS {
        for float in floats {
            for integer in integers {
                add(integer, float, rounding);
                add(float, integer, rounding);
            }
        }
        add(F32, F16, rounding);
        add(F64, F16, rounding);
        add(F64, F32, rounding);
    }
    add(F16, F32, Rounding::Nearest);
    add(F16, F64, Rounding::Nearest);
    add(F32, F64, Rounding::Nearest);
    add(Bf16, F32, Rounding::Nearest);
    for small in [F8, Bf8] {
        add(small, F32, Rounding::Nearest);
        add(F32, small, Rounding::Nearest);
    }
    all
}
