//! Recognition of the compiler's division sequence as one quotient.
//!
//! The sequence computes the correctly rounded quotient from an approximate reciprocal; as one [`Float::Divide`] it is a few
//! instructions of a GPU instead of a hundred. A chain of steps without selects is a quotient in every lane. If the result is
//! used only under one mask, selects and conjunctions with this mask may be in between.

use rustc_hash::FxHashMap;

use crate::form::{Approximate, Binary, Division, Float, FloatType, Operation, Rounding};
use crate::{Function, Instruction, Value};

/// Replaces the last step of every division sequence by the quotient, and returns how many there were. The other steps become dead
/// if nothing else uses them. To be run after selects by EXEC have been removed where they do not matter.
pub fn recognise(function: &mut Function) -> usize {
    let users = users(function);
    let mut found = Vec::new();
    for block in &function.blocks {
        for index in &block.instructions {
            let instruction = &function.instructions[*index as usize];
            if let Operation::Division(Division::Fixup, of, Rounding::Nearest) = instruction.operation {
                let mask = only_mask(function, &users, instruction.results[0]);
                if is_quotient(&Chain { function, of, mask }, instruction).is_some() {
                    found.push((*index, of));
                }
            }
        }
    }
    for (index, of) in &found {
        let instruction = &mut function.instructions[*index as usize];
        let [_, denominator, numerator] = instruction.operands[..] else { continue };
        instruction.operation = Operation::Float(Float::Divide, *of, Rounding::Nearest);
        instruction.operands = vec![numerator, denominator];
    }
    found.len()
}

/// Instructions that use each value.
fn users(function: &Function) -> FxHashMap<Value, Vec<u32>> {
    let mut users: FxHashMap<Value, Vec<u32>> = FxHashMap::default();
    for index in function.blocks.iter().flat_map(|block| &block.instructions) {
        for operand in &function.instructions[*index as usize].operands {
            users.entry(*operand).or_default().push(*index);
        }
    }
    users
}

/// Steps of the search for a mask; a longer one is given up.
const MOST_USES: usize = 200;

/// The mask under which a value is used: by selects and memory operations, directly or through lane-local operations. No use goes
/// through a phi, so that every use sees the instance of the mask that the value's definition sees, if the mask dominates it.
fn only_mask(function: &Function, users: &FxHashMap<Value, Vec<u32>>, value: Value) -> Option<Value> {
    let mut mask = None;
    let mut values = vec![value];
    let mut steps = 0;
    let decides =
        |value: Value| function.blocks.iter().any(|block| block.terminator.operand() == Some(value));
    while let Some(value) = values.pop() {
        if decides(value) {
            return None;
        }
        for index in users.get(&value).map_or(&[][..], |users| users) {
            steps += 1;
            let user = &function.instructions[*index as usize];
            let under = match (&user.operation, &user.operands[..]) {
                (Operation::Select, [mask, x, y]) if *x == value && *y != value && *mask != value => *mask,
                (Operation::Store(_) | Operation::Load(_) | Operation::Atomic(..), [mask, ..])
                    if *mask != value =>
                {
                    *mask
                }
                (Operation::Phi, _) => return None,
                (operation, _) if operation.is_pure() && !operation.crosses_lanes() && steps < MOST_USES => {
                    let lane_local = !matches!(operation, Operation::AnyLane | Operation::MaskOf);
                    values.push(*user.results.first().filter(|_| lane_local)?);
                    continue;
                }
                _ => return None,
            };
            if mask.is_some_and(|mask| mask != under) {
                return None;
            }
            mask = Some(under);
        }
    }
    mask
}

/// The operations that lead to one `v_div_fixup`.
struct Chain<'f> {
    function: &'f Function,
    of: FloatType,
    /// The mask that contains all lanes that matter, if there is one.
    mask: Option<Value>,
}

/// `Some` if the chain is the compiler's sequence.
fn is_quotient(chain: &Chain<'_>, fixup: &Instruction) -> Option<()> {
    let [fmas, denominator, numerator] = fixup.operands[..] else { return None };
    let fmas = chain.definition(fmas);
    let Operation::Division(Division::Fmas, of, Rounding::Nearest) = fmas.operation else { return None };
    let [error, reciprocal, quotient, flag] = fmas.operands[..] else { return None };
    if of != chain.of {
        return None;
    }
    // The last error: `n - d * quotient`, whose operands are the scaled ones.
    let (d, n) = chain.error(error, quotient)?;
    chain.is_scaled(d, [denominator, denominator, numerator])?;
    chain.is_scaled(n, [numerator, denominator, numerator])?;
    let first = match chain.of {
        FloatType::F32 => {
            // One step for the reciprocal, one for the quotient.
            let (step, factor, before) = chain.multiply_add(quotient)?;
            chain.is_product_of(step, factor, reciprocal, |step| chain.is_error(step, before, d, n))?;
            chain.is_product(before, n, reciprocal)?;
            chain.refined(reciprocal, d)?
        }
        _ => {
            // Two steps for the reciprocal.
            chain.is_product(quotient, n, reciprocal)?;
            let once = chain.refined(reciprocal, d)?;
            chain.refined(once, d)?
        }
    };
    let approximate = chain.definition(first);
    let reciprocal_of_d = approximate.operation == Operation::Approximate(Approximate::Reciprocal, chain.of)
        && chain.same(approximate.operands[0], d);
    (reciprocal_of_d && chain.is_flag(flag, denominator, numerator)).then_some(())
}

impl Chain<'_> {
    /// A value without the detour through its halves, and without selects by the mask that contains all lanes that matter.
    fn resolve(&self, value: Value) -> Value {
        let definition = self.function.definition(value);
        match (&definition.operation, &definition.operands[..]) {
            (Operation::Select, [mask, chosen, _]) if Some(*mask) == self.mask => self.resolve(*chosen),
            (Operation::Pack, [low, high]) => {
                let low = self.function.definition(self.resolve(*low));
                let high = self.function.definition(self.resolve(*high));
                let halves = low.operation == Operation::Low && high.operation == Operation::High;
                if halves && low.operands == high.operands { self.resolve(low.operands[0]) } else { value }
            }
            _ => value,
        }
    }

    fn definition(&self, value: Value) -> &Instruction {
        self.function.definition(self.resolve(value))
    }

    /// Whether two values are equal in every lane, as far as their definitions tell.
    fn same(&self, a: Value, b: Value) -> bool {
        let (a, b) = (self.resolve(a), self.resolve(b));
        if a == b {
            return true;
        }
        let (x, y) = (self.function.definition(a), self.function.definition(b));
        let simple = matches!(
            x.operation,
            Operation::Constant(_)
                | Operation::Float(Float::Negate | Float::Absolute, ..)
                | Operation::Division(Division::Scale, ..)
        );
        simple
            && x.operation == y.operation
            && x.operands.len() == y.operands.len()
            && x.operands.iter().zip(&y.operands).all(|(a, b)| self.same(*a, *b))
    }

    fn float(&self, value: Value, operation: Float) -> Option<&[Value]> {
        let definition = self.definition(value);
        (definition.operation == Operation::Float(operation, self.of, Rounding::Nearest))
            .then_some(&definition.operands[..])
    }

    fn multiply_add(&self, value: Value) -> Option<(Value, Value, Value)> {
        match self.float(value, Float::MultiplyAdd)? {
            [a, b, c] => Some((*a, *b, *c)),
            _ => None,
        }
    }

    /// For `-d * quotient + n`: `d` and `n`.
    fn error(&self, value: Value, quotient: Value) -> Option<(Value, Value)> {
        let (a, b, n) = self.multiply_add(value)?;
        let negated =
            |value: Value| self.float(value, Float::Negate).and_then(|operands| operands.first().copied());
        match (negated(a), negated(b)) {
            (Some(d), _) if self.same(b, quotient) => Some((d, n)),
            (_, Some(d)) if self.same(a, quotient) => Some((d, n)),
            _ => None,
        }
    }

    fn is_error(&self, value: Value, quotient: Value, d: Value, n: Value) -> bool {
        self.error(value, quotient).is_some_and(|(x, y)| self.same(x, d) && self.same(y, n))
    }

    fn is_product(&self, value: Value, a: Value, b: Value) -> Option<()> {
        let [x, y] = self.float(value, Float::Multiply)?[..] else { return None };
        self.is_product_of(x, y, a, |other| self.same(other, b))
    }

    /// Whether one factor is `known` and the other one fits.
    fn is_product_of(&self, x: Value, y: Value, known: Value, fits: impl Fn(Value) -> bool) -> Option<()> {
        (self.same(x, known) && fits(y) || self.same(y, known) && fits(x)).then_some(())
    }

    /// For `r + r * (1 - d * r)`: `r`.
    fn refined(&self, value: Value, d: Value) -> Option<Value> {
        let (a, b, r) = self.multiply_add(value)?;
        let error = |value: Value| {
            self.error(value, r)
                .is_some_and(|(x, one)| self.same(x, d) && self.function.constant(one) == Some(self.one()))
        };
        self.is_product_of(a, b, r, error)?;
        Some(r)
    }

    fn one(&self) -> u64 {
        match self.of {
            FloatType::F16 => 0x3c00,
            FloatType::F32 => 0x3f80_0000,
            FloatType::F64 => 0x3ff0_0000_0000_0000,
        }
    }

    fn is_scaled(&self, value: Value, operands: [Value; 3]) -> Option<()> {
        let definition = self.definition(value);
        let scale = Operation::Division(Division::Scale, self.of, Rounding::Nearest);
        let fits = definition.operands.iter().zip(operands).all(|(a, b)| self.same(*a, b));
        (definition.operation == scale && fits).then_some(())
    }

    /// Whether the bit is the mask of the scalings, in all lanes that matter.
    fn is_flag(&self, flag: Value, denominator: Value, numerator: Value) -> bool {
        let is_scaled = |value: Value| {
            let definition = self.definition(value);
            definition.operation == Operation::Division(Division::Scaled, self.of, Rounding::Nearest)
                && self.same(definition.operands[0], denominator)
                && self.same(definition.operands[1], numerator)
        };
        let definition = self.function.definition(flag);
        let contains = definition.operands.iter().any(|operand| Some(*operand) == self.mask);
        is_scaled(flag)
            || definition.operation == Operation::Binary(Binary::And)
                && contains
                && definition.operands.iter().any(|operand| is_scaled(*operand))
    }
}

#[cfg(test)]
mod tests {
    use isa::{Mode, Op};
    use isa_reference::exact::{F32, F64};
    use isa_reference::random::Random;

    use super::*;
    use crate::evaluate::evaluate_pure;
    use crate::form::{Kind, Shape};
    use crate::vector::lift;
    use crate::{Builder, Function};

    /// How EXEC limits the instructions of a sequence.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Exec {
        /// All lanes are active.
        Full,
        /// Every result is selected.
        Selected,
    }

    /// The sequence for `numerator / denominator` as compilers emit it, each instruction at an address of its own.
    fn sequence(of: FloatType, exec: Exec) -> (Function, [Value; 2], Value) {
        let mut function = Function::default();
        let block = function.add_block(0);
        let mut b = Builder { function: &mut function, block, address: 0 };
        let [n, d] = [0; 2].map(|_| b.append(Operation::Phi, &[], &[(of.kind(), Shape::Lane)])[0]);
        let mask = b.append(Operation::Phi, &[], &[(Kind::Bit, Shape::Lane)])[0];
        let old = b.append(Operation::Phi, &[], &[(of.kind(), Shape::Lane)])[0];
        let mode = Mode::default();
        let mut flag = None;
        let mut emit = |b: &mut Builder<'_>, op: Op, sources: &[Value], carry: Option<Value>| {
            b.address += 8;
            let outcome = lift(b, op, sources, carry, &mode, false).expect("a decomposition");
            let limited = outcome.mask.map(|bit| match exec {
                Exec::Full => bit,
                _ => b.binary(Binary::And, mask, bit),
            });
            flag = limited.or(flag);
            let value = outcome.value.expect("a value");
            (if exec == Exec::Selected { b.select(mask, value, old) } else { value }, flag)
        };
        let result = match of {
            FloatType::F32 => {
                let one = b.word(0x3f80_0000);
                let (ds, _) = emit(&mut b, Op::v_div_scale_f32, &[d, d, n], None);
                let (r0, _) = emit(&mut b, Op::v_rcp_f32, &[ds], None);
                let minus = b.float(Float::Negate, of, Rounding::Nearest, &[ds]);
                let (e, _) = emit(&mut b, Op::v_fma_f32, &[minus, r0, one], None);
                let (r, _) = emit(&mut b, Op::v_fmac_f32, &[e, r0, r0], None);
                let (ns, flag) = emit(&mut b, Op::v_div_scale_f32, &[n, d, n], None);
                let (q0, _) = emit(&mut b, Op::v_mul_f32, &[ns, r], None);
                let minus = b.float(Float::Negate, of, Rounding::Nearest, &[ds]);
                let (e, _) = emit(&mut b, Op::v_fma_f32, &[minus, q0, ns], None);
                let (q, _) = emit(&mut b, Op::v_fmac_f32, &[e, r, q0], None);
                let (e, _) = emit(&mut b, Op::v_fma_f32, &[minus, q, ns], None);
                let (q, _) = emit(&mut b, Op::v_div_fmas_f32, &[e, r, q], flag);
                emit(&mut b, Op::v_div_fixup_f32, &[q, d, n], None).0
            }
            _ => {
                let one = b.double(0x3ff0_0000_0000_0000);
                let (ds, _) = emit(&mut b, Op::v_div_scale_f64, &[d, d, n], None);
                let (r0, _) = emit(&mut b, Op::v_rcp_f64, &[ds], None);
                let minus = b.float(Float::Negate, of, Rounding::Nearest, &[ds]);
                let (e, _) = emit(&mut b, Op::v_fma_f64, &[minus, r0, one], None);
                let (r1, _) = emit(&mut b, Op::v_fmac_f64, &[r0, e, r0], None);
                let (e, _) = emit(&mut b, Op::v_fma_f64, &[minus, r1, one], None);
                let (r, _) = emit(&mut b, Op::v_fmac_f64, &[r1, e, r1], None);
                let (ns, flag) = emit(&mut b, Op::v_div_scale_f64, &[n, d, n], None);
                let (q, _) = emit(&mut b, Op::v_mul_f64, &[ns, r], None);
                let (e, _) = emit(&mut b, Op::v_fma_f64, &[minus, q, ns], None);
                let (q, _) = emit(&mut b, Op::v_div_fmas_f64, &[e, r, q], flag);
                emit(&mut b, Op::v_div_fixup_f64, &[q, d, n], None).0
            }
        };
        (function, [n, d], result)
    }

    fn run(function: &Function, inputs: [(Value, u64); 2], result: Value) -> u64 {
        let mut values = vec![1; function.values.len()];
        for (value, bits) in inputs {
            values[value.0 as usize] = bits;
        }
        for index in &function.blocks[0].instructions {
            let instruction = &function.instructions[*index as usize];
            let result = instruction.results[0];
            let operands: Vec<u64> =
                instruction.operands.iter().map(|operand| values[operand.0 as usize]).collect();
            let kind = function.kind(*instruction.operands.first().unwrap_or(&result));
            if let Some(value) = evaluate_pure(&instruction.operation, kind, &operands) {
                values[result.0 as usize] = value;
            }
        }
        values[result.0 as usize]
    }

    #[test]
    fn a_recognised_sequence_has_the_value_of_the_quotient() {
        for (of, format) in [(FloatType::F32, F32), (FloatType::F64, F64)] {
            for exec in [Exec::Full, Exec::Selected] {
                let (steps, [n, d], result) = sequence(of, exec);
                let mut quotient = steps.clone();
                assert_eq!(recognise(&mut quotient), 1, "{of:?} {exec:?}");
                let mut random = Random::new(5);
                for _ in 0..60_000 {
                    let inputs = [(n, random.float(format)), (d, random.float(format))];
                    let (got, want) = (run(&quotient, inputs, result), run(&steps, inputs, result));
                    let nan = format.is_nan(got) && format.is_nan(want);
                    assert!(got == want || nan, "{of:?} {inputs:x?}: {got:#x}, not {want:#x}");
                }
            }
        }
    }

    #[test]
    fn a_sequence_with_another_operand_is_left() {
        let (mut function, [n, _], _) = sequence(FloatType::F32, Exec::Full);
        for instruction in &mut function.instructions {
            if matches!(instruction.operation, Operation::Division(Division::Fixup, ..)) {
                instruction.operands[1] = n;
            }
        }
        assert_eq!(recognise(&mut function), 0);
    }

    #[test]
    fn a_selected_sequence_that_is_also_used_elsewhere_is_left() {
        let (mut function, _, result) = sequence(FloatType::F32, Exec::Selected);
        let fixup = function.definition(result).operands[1];
        let index = function.create(Operation::AnyLane, vec![fixup], &[(Kind::Bit, Shape::Uniform)], 0);
        function.blocks[0].instructions.push(index);
        assert_eq!(recognise(&mut function), 0);
    }
}
