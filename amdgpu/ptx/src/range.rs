//! Upper bounds of words, to prove that LDS accesses are in range.

use lift::form::*;
use std::cell::RefCell;

/// Upper bounds of unsigned words, computed on demand.
#[derive(Debug)]
pub(crate) struct Ranges {
    block: Option<[u32; 3]>,
    known: RefCell<Vec<Option<u32>>>,
}

/// How far definitions are followed.
const DEPTH: u32 = 24;

impl Ranges {
    pub(crate) fn new(function: &Function, block: Option<[u32; 3]>) -> Ranges {
        Ranges { block, known: RefCell::new(vec![None; function.values.len()]) }
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
            Operation::Binary(Binary::Or | Binary::Xor) => bits(of(0).max(of(1))).wrapping_sub(1),
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
            Operation::Load(Access { bytes: 1, signed: false, .. }) => 0xff,
            Operation::Load(Access { bytes: 2, signed: false, .. }) => 0xffff,
            _ => u32::MAX,
        };
        self.known.borrow_mut()[value.0 as usize] = Some(most);
        most
    }
}
