//! Upper bounds of words, to prove that LDS accesses are in range.

use lift::form::*;
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// Upper bounds of unsigned words, computed on demand.
#[derive(Debug)]
pub(crate) struct Ranges {
    block: Option<[u32; 3]>,
    known: RefCell<Vec<Option<u32>>>,
    /// The blocks of phis.
    homes: FxHashMap<Value, Block>,
}

/// How far definitions are followed.
const DEPTH: u32 = 24;

impl Ranges {
    pub(crate) fn new(function: &Function, block: Option<[u32; 3]>) -> Ranges {
        let mut homes = FxHashMap::default();
        for (number, data) in function.blocks.iter().enumerate() {
            for index in &data.instructions {
                let instruction = &function.instructions[*index as usize];
                if instruction.operation == Operation::Phi {
                    homes.insert(instruction.results[0], Block(number as u32));
                }
            }
        }
        Ranges { block, known: RefCell::new(vec![None; function.values.len()]), homes }
    }

    /// The largest value that a word can have.
    pub(crate) fn most(&self, function: &Function, value: Value) -> u32 {
        self.walk(function, value, DEPTH)
    }

    fn walk(&self, function: &Function, value: Value, depth: u32) -> u32 {
        if let Some(known) = self.known.borrow()[value.0 as usize] {
            return known;
        }
        if depth == 0 || function.kind(value) != Kind::Word {
            return u32::MAX;
        }
        let instruction = function.definition(value);
        let of = |at: usize| self.walk(function, instruction.operands[at], depth - 1);
        let constant = |at: usize| function.constant(instruction.operands[at]).map(|bits| bits as u32);
        let bits = |most: u32| (1u64 << (32 - most.leading_zeros())) as u32;
        let most = match &instruction.operation {
            Operation::Constant(bits) => *bits as u32,
            Operation::Input(Input::WorkitemId(axis)) => self
                .block
                .and_then(|block| block.get(usize::from(*axis)).copied())
                .map_or(1023, |size| size.saturating_sub(1)),
            Operation::Input(Input::LaneNumber) => 63,
            Operation::Input(Input::WaveId) => 15,
            Operation::Binary(Binary::And) => of(0).min(of(1)),
            Operation::Binary(Binary::Or | Binary::Xor) => {
                bits(of(0).max(of(1))).wrapping_sub(1).min(of(0).saturating_add(of(1)))
            }
            Operation::Binary(Binary::Add) => of(0).saturating_add(of(1)),
            Operation::Binary(Binary::Multiply) => of(0).saturating_mul(of(1)),
            Operation::Binary(Binary::ShiftLeft) => constant(1).map_or(u32::MAX, |amount| {
                let shifted = u64::from(of(0)) << (amount & 31);
                u32::try_from(shifted).unwrap_or(u32::MAX)
            }),
            Operation::Binary(Binary::ShiftRight) => {
                constant(1).map_or_else(|| of(0), |amount| of(0) >> (amount & 31))
            }
            Operation::Binary(Binary::MinimumUnsigned) => of(0).min(of(1)),
            Operation::Binary(Binary::MaximumUnsigned) => of(0).max(of(1)),
            Operation::Select => of(1).max(of(2)),
            Operation::Extract { signed: false, width, offset } => {
                (of(0) >> offset).min(((1u64 << width) - 1) as u32)
            }
            Operation::Unary(Unary::Popcount | Unary::LeadingZeros | Unary::TrailingZeros) => 64,
            Operation::Phi => self.counter(function, value).unwrap_or(u32::MAX),
            Operation::Load(Access { bytes: 1, signed: false, .. }) => 0xff,
            Operation::Load(Access { bytes: 2, signed: false, .. }) => 0xffff,
            _ => u32::MAX,
        };
        self.known.borrow_mut()[value.0 as usize] = Some(most);
        most
    }

    /// The largest value of a loop's counter: it starts at a constant, grows by a constant, and is compared with a constant
    /// before every further round.
    fn counter(&self, function: &Function, phi: Value) -> Option<u32> {
        let home = *self.homes.get(&phi)?;
        let [a, b] = function.definition(phi).operands[..] else { return None };
        let (back, next, start) = match (function.constant(a), function.constant(b)) {
            (Some(start), None) => (1, b, start as u32),
            (None, Some(start)) => (0, a, start as u32),
            _ => return None,
        };
        let sum = function.definition(next);
        if sum.operation != Operation::Binary(Binary::Add) || sum.operands[0] != phi {
            return None;
        }
        let step = function.constant(sum.operands[1])? as u32;
        let from = function.blocks[home.0 as usize].predecessors.get(back)?;
        let Terminator::Branch { condition, then, otherwise } = function.blocks[from.0 as usize].terminator
        else {
            return None;
        };
        if then == otherwise {
            return None;
        }
        let (mut condition, mut goes_on) = (function.definition(condition), then == home);
        if condition.operation == Operation::Unary(Unary::Not) {
            (condition, goes_on) = (function.definition(condition.operands[0]), !goes_on);
        }
        let Operation::Compare(compare) = condition.operation else { return None };
        if condition.operands[0] != next {
            return None;
        }
        let end = function.constant(condition.operands[1])? as u32;
        match (compare, goes_on) {
            // The counter meets the end exactly.
            (Compare::NotEqual, true) | (Compare::Equal, false)
                if step > 0 && end > start && (end - start).is_multiple_of(step) =>
            {
                Some(end - step)
            }
            (Compare::LessUnsigned, true) => Some(start.max(end.saturating_sub(1))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use lift::form::*;
    use lift::{Builder, Function};

    use super::Ranges;

    /// The largest value of a counter from 8 by 8 while it compares with a limit like this.
    fn counted(compare: Compare, limit: u32, inverted: bool) -> u32 {
        let mut f = Function::default();
        let (entry, body, end) = (f.add_block(0), f.add_block(4), f.add_block(8));
        let mut b = Builder { function: &mut f, block: entry, address: 0 };
        let (start, step, limit) = (b.word(8), b.word(8), b.word(limit));
        b.function.blocks[0].terminator = Terminator::Jump(body);
        b.block = body;
        let counter = b.append(Operation::Phi, &[start, start], &[(Kind::Word, Shape::Uniform)])[0];
        let next = b.binary(Binary::Add, counter, step);
        let condition = b.compare(compare, next, limit);
        let (then, otherwise) = if inverted { (end, body) } else { (body, end) };
        f.blocks[1].terminator = Terminator::Branch { condition, then, otherwise };
        f.blocks[1].predecessors = vec![entry, body];
        f.blocks[2].predecessors = vec![body];
        let index = f.values[counter.0 as usize].instruction;
        f.instructions[index as usize].operands[1] = next;
        Ranges::new(&f, None).most(&f, counter)
    }

    #[test]
    fn a_counter_is_below_its_end() {
        assert_eq!(counted(Compare::NotEqual, 64, false), 56);
        assert_eq!(counted(Compare::Equal, 64, true), 56);
        assert_eq!(counted(Compare::LessUnsigned, 60, false), 59);
        // It misses the end, or the loop ends where it should go on.
        assert_eq!(counted(Compare::NotEqual, 60, false), u32::MAX);
        assert_eq!(counted(Compare::NotEqual, 64, true), u32::MAX);
        assert_eq!(counted(Compare::LessUnsigned, 60, true), u32::MAX);
    }

    #[test]
    fn a_union_is_at_most_the_sum() {
        let mut f = Function::default();
        let block = f.add_block(0);
        let mut b = Builder { function: &mut f, block, address: 0 };
        let lane = b.input(Input::LaneNumber);
        let base = b.word(0x1000);
        let either = b.binary(Binary::Or, lane, base);
        assert_eq!(Ranges::new(&f, None).most(&f, either), 0x103f);
    }
}
