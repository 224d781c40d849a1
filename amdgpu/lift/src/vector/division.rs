//! The division sequence: `v_div_scale`, `v_div_fmas`, `v_div_fixup`, and `v_trig_preop_f64`.
//!
//! Its steps are operations of the form at first. [`expand`] replaces those that no quotient was made of.

use isa::{Mode, Op};
use rustc_hash::FxHashMap;

use super::lane::{Lane, number};
use super::{Outcome, scale};
use crate::form::{Compare, Division, Float, FloatCompare, FloatType, Kind, Operation, Rounding, Terminator};
use crate::{Block, Builder, Function, Value};

use FloatType::{F16, F32, F64};

/// The result of a step of a division.
pub fn lift(l: &Lane<'_, '_>) -> Option<Outcome> {
    let [a, b, c] = l.s;
    let step = |step: Division, of: FloatType, rounding: Rounding, operands: &[Value], kind: Kind| {
        l.pure(Operation::Division(step, of, rounding), operands, kind)
    };
    Some(match l.op {
        Op::v_div_scale_f32 | Op::v_div_scale_f64 => {
            let of = if l.op == Op::v_div_scale_f32 { F32 } else { F64 };
            let [a, b, c] = [a, b, c].map(|source| l.read(of, source));
            let value = step(Division::Scale, of, Rounding::Nearest, &[a, b, c], of.kind());
            let mask = step(Division::Scaled, of, Rounding::Nearest, &[b, c], Kind::Bit);
            Outcome::both(l.write(of, value), mask)
        }
        Op::v_div_fmas_f32 | Op::v_div_fmas_f64 => {
            let of = if l.op == Op::v_div_fmas_f32 { F32 } else { F64 };
            let [a, b, c] = [a, b, c].map(|source| l.read(of, source));
            let value = step(Division::Fmas, of, l.rounding(of), &[a, b, c, l.carry?], of.kind());
            Outcome::value(l.write(of, value))
        }
        Op::v_div_fixup_f32 | Op::v_div_fixup_f64 => {
            let of = if l.op == Op::v_div_fixup_f32 { F32 } else { F64 };
            let sources = [a, b, c].map(|source| l.read(of, source));
            let value = step(Division::Fixup, of, Rounding::Nearest, &sources, of.kind());
            Outcome::value(l.write(of, value))
        }
        Op::v_div_fixup_f16 | Op::v_div_fixup_legacy_f16 => {
            let wide = [a, b, c]
                .map(|source| l.convert(number(F16), number(F32), Rounding::Nearest, l.read(F16, source)));
            let value = step(Division::Fixup, F32, Rounding::Nearest, &wide, Kind::Word);
            Outcome::value(l.write(F16, l.convert(number(F32), number(F16), Rounding::Nearest, value)))
        }
        Op::v_trig_preop_f64 => Outcome::value(l.write(F64, scale::trig_preop(l, l.read(F64, a), b))),
        _ => return None,
    })
}

/// Replaces every [`Operation::Division`] by other operations.
pub fn expand(function: &mut Function) {
    expanded(function);
}

/// Like [`expand`]; returns what replaces each result.
pub(super) fn expanded(function: &mut Function) -> FxHashMap<Value, Value> {
    let mut replaced: FxHashMap<Value, Value> = FxHashMap::default();
    for block in 0..function.blocks.len() {
        let old = std::mem::take(&mut function.blocks[block].instructions);
        for index in old {
            let instruction = &function.instructions[index as usize];
            let Operation::Division(step, of, rounding) = instruction.operation else {
                function.blocks[block].instructions.push(index);
                continue;
            };
            let (operands, result, address) =
                (instruction.operands.clone(), instruction.results[0], instruction.address);
            let mut builder = Builder { function, block: Block(block as u32), address };
            let sources = [operands[0], operands[1], *operands.get(2).unwrap_or(&operands[0])];
            // The steps are explicit about MODE, which the operation's name does not matter for.
            let l = Lane::new(&mut builder, Op::v_div_fixup_f32, sources, None, Mode::default(), false);
            let steps = Steps { l: &l, of, rounding };
            let value = match step {
                Division::Scale => steps.scale(operands[0], operands[1], operands[2]),
                Division::Scaled => steps.scaled(operands[0], operands[1]),
                Division::Fmas => steps.fmas(operands[0], operands[1], operands[2], operands[3]),
                Division::Fixup => steps.fixup(operands[0], operands[1], operands[2]),
            };
            replaced.insert(result, value);
        }
    }
    if !replaced.is_empty() {
        substitute(function, &replaced);
    }
    replaced
}

/// Replaces uses of values.
fn substitute(function: &mut Function, replaced: &FxHashMap<Value, Value>) {
    let replace = |value: &mut Value| {
        while let Some(other) = replaced.get(value) {
            *value = *other;
        }
    };
    for instruction in &mut function.instructions {
        instruction.operands.iter_mut().for_each(replace);
    }
    for block in &mut function.blocks {
        match &mut block.terminator {
            Terminator::Branch { condition: value, .. } | Terminator::Switch { address: value, .. } => {
                replace(value);
            }
            _ => {}
        }
    }
}

/// The steps in other operations of the form.
struct Steps<'l, 'a, 'f> {
    l: &'l Lane<'a, 'f>,
    of: FloatType,
    rounding: Rounding,
}

/// Cases of `v_div_scale`, as bits.
struct Cases {
    undefined: Value,
    near_max: Value,
    denominator_small: Value,
    reciprocal_small: Value,
    quotient_small: Value,
}

impl Steps<'_, '_, '_> {
    /// The type's value: f32's or f64's.
    fn pick<T>(&self, single: T, double: T) -> T {
        if self.of == F64 { double } else { single }
    }

    fn fraction(&self) -> u32 {
        self.pick(23, 52)
    }

    fn bias(&self) -> i64 {
        self.pick(127, 1023)
    }

    /// Power of two that operands and quotients are scaled by.
    fn step(&self) -> i64 {
        self.pick(64, 128)
    }

    fn bits(&self, bits: u64) -> Value {
        self.l.bits(self.of, bits)
    }

    fn power(&self, n: i64) -> Value {
        self.bits(((self.bias() + n) as u64) << self.fraction())
    }

    fn sign_bit(&self) -> u64 {
        self.pick(1 << 31, 1 << 63)
    }

    fn infinity(&self) -> u64 {
        self.pick(0x7f80_0000, 0x7ff << 52)
    }

    fn magnitude(&self, a: Value) -> Value {
        self.l.and(a, self.bits(self.sign_bit() - 1))
    }

    /// Whether the magnitude is below that of the smallest normal number.
    fn is_small(&self, a: Value) -> Value {
        self.l.less(self.magnitude(a), self.bits(1 << self.fraction()))
    }

    fn is_zero(&self, a: Value) -> Value {
        self.l.equal(self.magnitude(a), 0)
    }

    fn is_infinite(&self, a: Value) -> Value {
        self.l.equal(self.magnitude(a), self.infinity())
    }

    fn is_nan(&self, a: Value) -> Value {
        self.l.float_compare(FloatCompare::Unordered, self.of, a, a)
    }

    /// The exponent field, a word.
    fn exponent(&self, a: Value) -> Value {
        match self.of {
            F64 => self.l.extract(self.l.high(a), 20, 11),
            _ => self.l.extract(a, 23, 8),
        }
    }

    fn float(&self, operation: Float, operands: &[Value]) -> Value {
        self.l.float(operation, self.of, self.rounding, operands)
    }

    fn add(&self, a: Value, b: Value) -> Value {
        self.float(Float::Add, &[a, b])
    }

    fn subtract(&self, a: Value, b: Value) -> Value {
        self.add(a, self.l.negated(self.of, b))
    }

    fn times_power(&self, a: Value, n: i64) -> Value {
        self.float(Float::Multiply, &[a, self.power(n)])
    }

    fn cases(&self, denominator: Value, numerator: Value) -> Cases {
        let l = self.l;
        let distance = l.sub(self.exponent(numerator), self.exponent(denominator));
        let near_max = l.word(self.pick(96, 768));
        // The reciprocal is denormal or zero if the magnitude is above this power of two, up to infinity.
        let limit = ((2 * self.bias() - 1) as u64) << self.fraction();
        let above = l.sub(self.magnitude(denominator), self.bits(limit + 1));
        let quotient = l.exact(Float::Divide, self.of, &[numerator, denominator]);
        Cases {
            undefined: l.or(self.is_zero(numerator), self.is_zero(denominator)),
            near_max: l.compare(Compare::LessEqualSigned, near_max, distance),
            denominator_small: self.is_small(denominator),
            reciprocal_small: l.less(above, self.bits(self.infinity() - limit)),
            quotient_small: self.is_small(quotient),
        }
    }

    fn scale(&self, a: Value, denominator: Value, numerator: Value) -> Value {
        let l = self.l;
        let cases = self.cases(denominator, numerator);
        let is = |other: Value| l.float_compare(FloatCompare::Equal, self.of, a, other);
        let (up, down) = (self.times_power(a, self.step()), self.times_power(a, -self.step()));
        let tiny = l.compare(Compare::LessEqualUnsigned, self.exponent(numerator), l.word(self.pick(23, 53)));
        let value = l.select(tiny, up, a);
        let value = l.select(cases.quotient_small, l.select(is(numerator), up, a), value);
        let if_quotient = l.select(is(denominator), down, a);
        let value =
            l.select(cases.reciprocal_small, l.select(cases.quotient_small, if_quotient, down), value);
        let value = l.select(cases.denominator_small, up, value);
        let value = l.select(cases.near_max, l.select(is(denominator), up, a), value);
        let nan = self.bits(self.infinity() | 1 << (self.fraction() - 1));
        l.select(cases.undefined, nan, value)
    }

    fn scaled(&self, denominator: Value, numerator: Value) -> Value {
        let l = self.l;
        let cases = self.cases(denominator, numerator);
        let later = l.and(cases.quotient_small, l.not(cases.denominator_small));
        l.and(l.or(cases.near_max, later), l.not(cases.undefined))
    }

    fn fmas(&self, a: Value, b: Value, c: Value, scaled: Value) -> Value {
        let l = self.l;
        let plain = self.float(Float::MultiplyAdd, &[a, b, c]);
        let bias = l.word(self.bias() as u32);
        let large = l.less(bias, self.exponent(c));
        let up = self.times_power(plain, self.step());
        let down = self.times_power(self.round_to_subnormal(plain, a, b, c), -self.step());
        l.select(scaled, l.select(large, up, down), plain)
    }

    /// Rounds `plain`, which is `a * b + c` already rounded, to the precision of the subnormal that it becomes when scaled down. In
    /// a tie, the part lost by the first rounding decides.
    fn round_to_subnormal(&self, plain: Value, a: Value, b: Value, c: Value) -> Value {
        let l = self.l;
        let fraction = i64::from(self.fraction());
        // The ULP of a subnormal, scaled up, and the power of two that has this ULP.
        let quantum = 1 - self.bias() - fraction + self.step();
        let (half, magic) = (self.power(quantum - 1), self.power(quantum + fraction));
        let product = self.float(Float::Multiply, &[a, b]);
        let sum = self.add(product, c);
        let part = self.subtract(sum, product);
        let low = self.add(self.subtract(product, self.subtract(sum, part)), self.subtract(c, part));
        let rest = self.float(Float::MultiplyAdd, &[a, b, l.negated(self.of, product)]);
        let residual = self.add(self.add(self.subtract(sum, plain), low), rest);
        let sign = l.and(plain, self.bits(self.sign_bit()));
        let outward = l.xor(residual, sign);
        let magnitude = self.magnitude(plain);
        let nearest = self.subtract(self.add(magnitude, magic), magic);
        let distance = self.magnitude(self.subtract(magnitude, nearest));
        let tie = l.compare(Compare::Equal, distance, half);
        let zero = self.bits(0);
        let above = l.and(tie, l.float_compare(FloatCompare::Less, self.of, zero, outward));
        let below = l.and(tie, l.float_compare(FloatCompare::Less, self.of, outward, zero));
        let rounded = l.select(below, self.subtract(magnitude, half), nearest);
        let rounded = l.select(above, self.add(magnitude, half), rounded);
        l.select(l.less(magnitude, magic), l.or(self.magnitude(rounded), sign), plain)
    }

    fn fixup(&self, quotient: Value, denominator: Value, numerator: Value) -> Value {
        let l = self.l;
        let sign = l.and(l.xor(denominator, numerator), self.bits(self.sign_bit()));
        let distance = l.sub(self.exponent(numerator), self.exponent(denominator));
        let underflow = l.compare(Compare::LessSigned, distance, l.word(self.pick(-150_i32, -1075) as u32));
        let (zero_n, zero_d) = (self.is_zero(numerator), self.is_zero(denominator));
        let (infinite_n, infinite_d) = (self.is_infinite(numerator), self.is_infinite(denominator));
        let infinity = self.bits(self.infinity());
        // Magnitudes first; the sign is common to all that are no NaN.
        let value = l.select(self.is_nan(quotient), infinity, self.magnitude(quotient));
        let vanishes = l.or(l.or(infinite_d, zero_n), underflow);
        let value = l.select(vanishes, self.bits(0), value);
        let value = l.select(l.or(zero_d, infinite_n), infinity, value);
        let value = l.or(value, sign);
        let undefined = l.or(l.and(zero_n, zero_d), l.and(infinite_n, infinite_d));
        let quiet = 1 << (self.fraction() - 1);
        let indefinite = self.bits(self.sign_bit() | self.infinity() | quiet);
        let value = l.select(undefined, indefinite, value);
        let quieted = |a: Value| l.or(a, self.bits(quiet));
        let value = l.select(self.is_nan(denominator), quieted(denominator), value);
        l.select(self.is_nan(numerator), quieted(numerator), value)
    }
}
