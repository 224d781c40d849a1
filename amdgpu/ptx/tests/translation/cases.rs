//! A case: a function, what it starts from, and what the evaluator says that it computes.

use lift::evaluate::{Bytes, Fragment, run_fragment};
use lift::form::*;
use lift::{Builder, Function};
use ptx::Mode;

/// How far a GPU's result may be from the evaluator's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// Not at all.
    Exact,
    /// A NaN may have another payload.
    Nan(FloatType),
    /// So many units in the last place, or this absolute difference.
    Near(FloatType, u64, f64),
    /// A relative difference of f32.
    Relative(f64),
}

/// The address of memory in the evaluator; on a GPU it is another one. Functions get it in s0 and s1.
pub const MEMORY: u64 = 0x1000_0000_0000;

/// Values of the registers that a wave starts with.
pub type Registers = Vec<(Register, Vec<u32>)>;

#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub function: Function,
    pub waves: Vec<Registers>,
    pub memory: Vec<u8>,
    pub lds_bytes: u32,
    pub modes: Vec<Mode>,
    pub tolerance: Tolerance,
    pub exact_matrix: bool,
}

/// What a case computes: the observed registers of each wave, and memory.
pub struct Expected {
    pub registers: Vec<Vec<(Register, Vec<u32>)>>,
    pub memory: Vec<u8>,
}

impl Case {
    pub fn new(name: impl Into<String>, waves: Vec<Registers>, build: impl FnOnce(&mut Builder<'_>)) -> Case {
        let mut function = Function { name: "k".into(), private_bytes: 64, ..Function::default() };
        let block = function.add_block(0);
        let mut b = Builder { function: &mut function, block, address: 0 };
        build(&mut b);
        Case {
            name: name.into(),
            function,
            waves,
            memory: Vec::new(),
            lds_bytes: 0,
            modes: vec![Mode::Pair],
            tolerance: Tolerance::Exact,
            exact_matrix: true,
        }
    }

    /// Runs the evaluator.
    pub fn expected(&self) -> Expected {
        let mut memory = Bytes::default();
        memory.add(MEMORY, self.memory.clone());
        let mut registers = Vec::new();
        for wave in &self.waves {
            let read = |register: Register, lane: usize| {
                let found = wave.iter().find(|(other, _)| *other == register);
                match (register, found) {
                    (Register::Scalar(0), _) => MEMORY & 0xffff_ffff,
                    (Register::Scalar(1), _) => MEMORY >> 32,
                    (_, Some((_, words))) => words[lane.min(words.len() - 1)].into(),
                    (_, None) => 0,
                }
            };
            let mut local = vec![0; self.lds_bytes as usize];
            let mut private = vec![vec![0; 64]; 64];
            let fragment =
                Fragment { register: &read, local: &mut local, private: &mut private, memory: &mut memory };
            let (observed, _) = run_fragment(&self.function, fragment, 1 << 24)
                .unwrap_or_else(|fault| panic!("{}: {fault}\n{}", self.name, self.function));
            let words = |values: Vec<u64>| values.into_iter().map(|value| value as u32).collect();
            registers
                .push(observed.into_iter().map(|(register, values)| (register, words(values))).collect());
        }
        Expected { registers, memory: memory.range(MEMORY).unwrap_or_default().to_vec() }
    }
}

impl Tolerance {
    /// Whether a result is near enough. The words of a double come together.
    pub fn accepts(self, got: u64, want: u64) -> bool {
        match self {
            _ if got == want => true,
            Tolerance::Exact => false,
            Tolerance::Nan(of) => is_nan(of, got) && is_nan(of, want),
            Tolerance::Near(of, units, absolute) => {
                if is_nan(of, got) && is_nan(of, want) {
                    return true;
                }
                let (a, b) = (value(of, got), value(of, want));
                (a.is_sign_negative() == b.is_sign_negative() && got.abs_diff(want) <= units)
                    || (a - b).abs() <= absolute
            }
            Tolerance::Relative(part) => {
                let (a, b) = (value(FloatType::F32, got), value(FloatType::F32, want));
                a.is_nan() && b.is_nan() || (a - b).abs() <= part * b.abs().max(1.0)
            }
        }
    }

    /// The result is a pair of words.
    pub fn is_wide(self) -> bool {
        matches!(self, Tolerance::Nan(FloatType::F64) | Tolerance::Near(FloatType::F64, ..))
    }
}

fn is_nan(of: FloatType, bits: u64) -> bool {
    match of {
        FloatType::F16 => bits & 0x7fff > 0x7c00 && bits >> 16 == 0,
        FloatType::F32 => f32::from_bits(bits as u32).is_nan(),
        FloatType::F64 => f64::from_bits(bits).is_nan(),
    }
}

fn value(of: FloatType, bits: u64) -> f64 {
    match of {
        FloatType::F16 => {
            let number = isa_reference::exact::Number::of(isa_reference::exact::F16, bits);
            f64::from_bits(number.bits(isa_reference::exact::F64, isa_reference::exact::NEAREST))
        }
        FloatType::F32 => f32::from_bits(bits as u32).into(),
        FloatType::F64 => f64::from_bits(bits),
    }
}

/// A vector register at the start.
pub fn vector(b: &mut Builder<'_>, number: u16) -> Value {
    b.input(Input::Register(Register::Vector(number)))
}

/// Two vector registers as a double.
pub fn wide_vector(b: &mut Builder<'_>, number: u16) -> Value {
    let (low, high) = (vector(b, number), vector(b, number + 1));
    b.pack(low, high)
}

/// The address of memory.
pub fn memory(b: &mut Builder<'_>) -> Value {
    let low = b.input(Input::Register(Register::Scalar(0)));
    let high = b.input(Input::Register(Register::Scalar(1)));
    b.pack(low, high)
}

/// Observes a value in a vector register (two for a double).
pub fn observe(b: &mut Builder<'_>, number: u16, value: Value) {
    let put = |b: &mut Builder<'_>, number: u16, word: Value| {
        b.append(Operation::Observe(Register::Vector(number)), &[word], &[]);
    };
    match b.function.kind(value) {
        Kind::Word => put(b, number, value),
        Kind::Double => {
            let (low, high) = (b.low(value), b.high(value));
            put(b, number, low);
            put(b, number + 1, high);
        }
        Kind::Bit => {
            let (one, zero) = (b.word(1), b.word(0));
            let word = b.pure(Operation::Select, &[value, one, zero], Kind::Word);
            put(b, number, word);
        }
    }
}
