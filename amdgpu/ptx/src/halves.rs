//! Lane values that are equal in both lanes of a thread, in pair mode: they need one register, one instruction and one load.
//!
//! The two lanes of a thread differ in one bit of their number. What is computed without that bit is equal: with workgroups of
//! 16 x 16, the x of a work-item, and everything that is loaded by it.

use lift::form::*;

use crate::Options;
use crate::lane_map::LaneMap;

/// Which values are equal in both lanes.
#[derive(Debug)]
pub(crate) struct Halves {
    equal: Vec<bool>,
}

impl Halves {
    /// Nothing is known: for lane mode, where there is one lane in a thread.
    pub(crate) fn unknown(function: &Function) -> Halves {
        Halves { equal: vec![false; function.values.len()] }
    }

    /// Starts with everything equal, and follows the bit that differs.
    pub(crate) fn of(function: &Function, options: &Options, map: LaneMap) -> Halves {
        let pass = Pass { function, block: options.block, half: 1 << map.half_bit() };
        let mut differs: Vec<u64> = vec![0; function.values.len()];
        let mut changed = true;
        while changed {
            changed = false;
            for index in function.blocks.iter().flat_map(|block| &block.instructions) {
                let instruction = &function.instructions[*index as usize];
                for &result in &instruction.results {
                    if function.shape(result) == Shape::Uniform {
                        continue;
                    }
                    let bits = pass.bits(instruction, result, &differs) & all(function.kind(result));
                    let old = &mut differs[result.0 as usize];
                    changed |= *old | bits != *old;
                    *old |= bits;
                }
            }
        }
        Halves { equal: differs.into_iter().map(|bits| bits == 0).collect() }
    }

    /// Whether a lane value is equal in both lanes of every thread.
    pub(crate) fn are_equal(&self, value: Value) -> bool {
        self.equal[value.0 as usize]
    }
}

/// All bits of a kind.
fn all(kind: Kind) -> u64 {
    match kind {
        Kind::Bit => 1,
        Kind::Word => u32::MAX.into(),
        Kind::Double => u64::MAX,
    }
}

/// The lowest set bit and those above it: what a sum may change.
fn from_lowest(bits: u64) -> u64 {
    if bits == 0 { 0 } else { u64::MAX << bits.trailing_zeros() }
}

struct Pass<'a> {
    function: &'a Function,
    block: Option<[u32; 3]>,
    /// The bit of a lane's number that tells its half.
    half: u64,
}

impl Pass<'_> {
    /// The bits of a result that may differ, by those of the operands.
    fn bits(&self, instruction: &Instruction, result: Value, differs: &[u64]) -> u64 {
        let operands = &instruction.operands;
        let of = |at: usize| differs[operands[at].0 as usize];
        let constant = |at: usize| self.function.constant(operands[at]);
        let any = operands.iter().any(|operand| differs[operand.0 as usize] != 0);
        let kind = self.function.kind(result);
        let size = if kind == Kind::Double { 64 } else { 32 };
        match &instruction.operation {
            Operation::Input(input) => self.input(*input),
            Operation::Phi => operands.iter().fold(0, |bits, operand| bits | differs[operand.0 as usize]),
            // Scratch is a lane's own; a flat address may be in it.
            Operation::Load(access) if !matches!(access.space, Space::Private | Space::Flat) => {
                if any {
                    u64::MAX
                } else {
                    0
                }
            }
            Operation::MaskOf => u64::MAX,
            operation if !operation.is_pure() || operation.crosses_lanes() => u64::MAX,
            _ if !any => 0,
            Operation::Binary(_) | Operation::Unary(Unary::Not) if kind == Kind::Bit => u64::MAX,
            Operation::Unary(Unary::Not) => of(0),
            Operation::Binary(Binary::And) => match (constant(0), constant(1)) {
                (Some(mask), _) => of(1) & mask,
                (_, Some(mask)) => of(0) & mask,
                _ => of(0) | of(1),
            },
            Operation::Binary(Binary::Or | Binary::Xor) => of(0) | of(1),
            Operation::Binary(Binary::Add | Binary::Subtract | Binary::Multiply)
            | Operation::MultiplyWide { .. } => from_lowest(of(0) | of(1)),
            Operation::Binary(Binary::ShiftLeft) => match constant(1) {
                Some(amount) => of(0) << (amount % size),
                None => u64::MAX,
            },
            Operation::Binary(Binary::ShiftRight) => match constant(1) {
                Some(amount) => of(0) >> (amount % size),
                None => u64::MAX,
            },
            Operation::Binary(Binary::ShiftRightSigned) => match constant(1) {
                Some(amount) if of(0) >> (size - 1) & 1 == 0 => of(0) >> (amount % size),
                _ => u64::MAX,
            },
            Operation::Extract { signed, offset, width } => {
                let bits = of(0) >> offset & (u64::MAX >> (64 - width));
                if *signed && bits >> (width - 1) & 1 == 1 { u64::MAX } else { bits }
            }
            Operation::Pack => of(0) & u64::from(u32::MAX) | of(1) << 32,
            Operation::Low => of(0),
            Operation::High => of(0) >> 32,
            Operation::Select if of(0) == 0 => of(1) | of(2),
            _ => u64::MAX,
        }
    }

    fn input(&self, input: Input) -> u64 {
        match input {
            Input::LaneNumber => self.half,
            Input::WorkitemId(axis) => {
                let Some(block) = self.block else { return u64::MAX };
                let axis = usize::from(axis).min(2);
                // Sizes of powers of two cut the number of the work-item in the workgroup into fields. In waves that are not full
                // there are lanes beyond.
                let full = block.iter().product::<u32>().is_multiple_of(64);
                if !full || block[..=axis].iter().any(|size| !size.is_power_of_two()) {
                    return u64::MAX;
                }
                let below: u32 = block[..axis].iter().map(|size| size.trailing_zeros()).sum();
                self.half >> below & u64::from(block[axis] - 1)
            }
            _ => u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use lift::form::*;
    use lift::{Builder, Function};

    use super::Halves;
    use crate::Options;
    use crate::lane_map::LaneMap;

    /// Whether the x and the y of a work-item are equal in both lanes of every thread.
    fn sides(block: [u32; 3], map: LaneMap) -> [bool; 2] {
        let mut function = Function::default();
        let at = function.add_block(0);
        let mut b = Builder { function: &mut function, block: at, address: 0 };
        let values = [0, 1].map(|axis| b.input(Input::WorkitemId(axis)));
        let options = Options { block: Some(block), ..Options::default() };
        let halves = Halves::of(&function, &options, map);
        values.map(|value| halves.are_equal(value))
    }

    #[test]
    fn a_work_items_place_is_equal_where_it_has_no_part_of_the_lanes_bit() {
        assert_eq!(sides([16, 16, 1], LaneMap::PLAIN), [true, false]);
        assert_eq!(sides([64, 4, 1], LaneMap::PLAIN), [false, true]);
        assert_eq!(sides([256, 1, 1], LaneMap::PLAIN), [false, true]);
        assert_eq!(sides([16, 16, 1], LaneMap::MATRIX), [false, true]);
        // Rows of 24, and a wave that is not full.
        assert_eq!(sides([24, 16, 1], LaneMap::PLAIN), [false, false]);
        assert_eq!(sides([32, 1, 1], LaneMap::PLAIN), [false, false]);
    }

    #[test]
    fn carries_spread_the_difference_upwards_only() {
        let mut function = Function::default();
        let at = function.add_block(0);
        let mut b = Builder { function: &mut function, block: at, address: 0 };
        let lane = b.input(Input::LaneNumber);
        let (five, low, bit) = (b.word(5), b.word(31), b.word(32));
        let sum = b.binary(Binary::Add, lane, five);
        let below = b.binary(Binary::And, sum, low);
        let above = b.binary(Binary::And, sum, bit);
        let mask = b.bit(true);
        let access = |space| Access {
            space,
            bytes: 4,
            signed: false,
            offset: 0,
            scope: MemoryScope::Workgroup,
            align: 0,
        };
        let word = [(Kind::Word, Shape::Lane)];
        let shared = b.append(Operation::Load(access(Space::Lds)), &[mask, below], &word)[0];
        let own = b.append(Operation::Load(access(Space::Private)), &[mask, below], &word)[0];
        let halves = Halves::of(&function, &Options::default(), LaneMap::PLAIN);
        let equal = [lane, sum, below, above, shared, own].map(|value| halves.are_equal(value));
        assert_eq!(equal, [false, false, true, false, true, false]);
    }
}
