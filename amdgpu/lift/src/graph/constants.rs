//! Scalar registers with known contents, to follow jumps through registers and to recognise scratch.
//!
//! What is kept here is a guess that the lifter checks again in SSA form, so that a mistake makes a kernel trap or be refused,
//! but never run another function.

use isa::{Format, Inst, Op, Operand};
use rustc_hash::FxHashMap;

/// The first registers that functions keep.
const FIRST_KEPT_SCALAR: u8 = 34;
const FIRST_KEPT_VECTOR: u8 = 40;

/// Known words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Constants {
    scalars: FxHashMap<u8, u32>,
    /// Words that were written to single lanes of vector registers, where compilers keep return addresses.
    lanes: FxHashMap<(u8, u8), u32>,
    carry: Option<bool>,
}

/// Operand number of a scalar register.
pub fn scalar(operand: &Operand) -> Option<u8> {
    Some(match *operand {
        Operand::Sgpr(register) => register,
        Operand::FlatScratchLo => 102,
        Operand::FlatScratchHi => 103,
        Operand::XnackMaskLo => 104,
        Operand::XnackMaskHi => 105,
        Operand::VccLo => 106,
        Operand::VccHi => 107,
        Operand::Ttmp(register) => 108 + register,
        Operand::M0 => 124,
        Operand::ExecLo => 126,
        Operand::ExecHi => 127,
        _ => return None,
    })
}

impl Constants {
    /// Keeps what both know. Returns whether something was lost.
    pub fn meet(&mut self, other: &Constants) -> bool {
        let before = self.clone();
        self.scalars.retain(|register, word| other.scalars.get(register) == Some(word));
        self.lanes.retain(|lane, word| other.lanes.get(lane) == Some(word));
        if self.carry != other.carry {
            self.carry = None;
        }
        *self != before
    }

    /// Makes a register known.
    pub fn insert(&mut self, register: u8, word: u32) {
        self.scalars.insert(register, word);
    }

    /// The words of consecutive registers, if all are known.
    pub fn words<const N: usize>(&self, operand: &Operand) -> Option<[u32; N]> {
        let first = scalar(operand)?;
        let mut words = [0; N];
        for (word, register) in words.iter_mut().zip(first..) {
            *word = *self.scalars.get(&register)?;
        }
        Some(words)
    }

    /// What a called function keeps, by the calling convention.
    pub fn kept(&self) -> Constants {
        let scalars =
            self.scalars.iter().filter(|(register, _)| (FIRST_KEPT_SCALAR..102).contains(*register));
        let lanes = self.lanes.iter().filter(|((register, _), _)| *register >= FIRST_KEPT_VECTOR);
        Constants {
            scalars: scalars.map(|(register, word)| (*register, *word)).collect(),
            lanes: lanes.map(|(lane, word)| (*lane, *word)).collect(),
            carry: None,
        }
    }

    /// Adds what another one knows besides.
    pub fn fill(&mut self, other: &Constants) {
        for (register, word) in &other.scalars {
            self.scalars.entry(*register).or_insert(*word);
        }
        for (lane, word) in &other.lanes {
            self.lanes.entry(*lane).or_insert(*word);
        }
    }

    /// A register pair.
    pub fn pair(&self, operand: &Operand) -> Option<u64> {
        let [low, high] = self.words(operand)?;
        Some(u64::from(low) | u64::from(high) << 32)
    }

    fn word(&self, operand: &Operand) -> Option<u32> {
        match scalar(operand) {
            Some(register) => self.scalars.get(&register).copied(),
            None => operand.constant_bits(isa::DataType::B32).map(|bits| bits as u32),
        }
    }

    fn set(&mut self, operand: &Operand, word: Option<u32>) {
        let Some(register) = scalar(operand) else { return };
        match word {
            Some(word) => self.scalars.insert(register, word),
            None => self.scalars.remove(&register),
        };
    }

    fn set_pair(&mut self, operand: &Operand, pair: Option<u64>) {
        let Some(register) = scalar(operand) else { return };
        for (register, shift) in [(register, 0), (register.saturating_add(1), 32)] {
            match pair {
                Some(pair) => self.scalars.insert(register, (pair >> shift) as u32),
                None => self.scalars.remove(&register),
            };
        }
    }

    /// The effect of an instruction at an absolute address.
    pub fn step(&mut self, inst: &Inst, address: u64) {
        let next = address + u64::from(inst.size);
        let [a, b] = [self.word(&inst.src[0]), self.word(&inst.src[1])];
        match inst.op {
            Op::s_getpc_b64 | Op::s_swappc_b64 | Op::s_call_b64 => self.set_pair(&inst.dst, Some(next)),
            Op::s_mov_b32 => self.set(&inst.dst, a),
            Op::s_movk_i32 => self.set(&inst.dst, Some(inst.imm as i16 as i32 as u32)),
            Op::s_mov_b64 => {
                let pair = self.pair(&inst.src[0]);
                self.set_pair(&inst.dst, pair.or(inst.src[0].constant_bits(isa::DataType::B64)));
            }
            Op::s_add_u32 | Op::s_addc_u32 => {
                let carry = if inst.op == Op::s_add_u32 { Some(false) } else { self.carry };
                let sum =
                    a.zip(b).zip(carry).map(|((a, b), carry)| u64::from(a) + u64::from(b) + u64::from(carry));
                self.set(&inst.dst, sum.map(|sum| sum as u32));
                self.carry = sum.map(|sum| sum >> 32 != 0);
            }
            Op::v_writelane_b32 => {
                if let (Operand::Vgpr(register), Some(lane)) = (inst.dst, b) {
                    match a {
                        Some(word) => self.lanes.insert((register, lane as u8 & 63), word),
                        None => self.lanes.remove(&(register, lane as u8 & 63)),
                    };
                } else if let Operand::Vgpr(register) = inst.dst {
                    self.lanes.retain(|(other, _), _| *other != register);
                }
            }
            Op::v_readlane_b32 => {
                let word = match (inst.src[0], b) {
                    (Operand::Vgpr(register), Some(lane)) => {
                        self.lanes.get(&(register, lane as u8 & 63)).copied()
                    }
                    _ => None,
                };
                self.set(&inst.dst, word);
            }
            _ => self.forget(inst),
        }
    }

    /// Forgets what an instruction writes.
    fn forget(&mut self, inst: &Inst) {
        if matches!(inst.format, Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk) {
            self.carry = None;
        }
        if let Some(first) = scalar(&inst.dst) {
            let count = inst.dst_width().max(2) as u8;
            self.scalars.retain(|register, _| *register < first || *register >= first.saturating_add(count));
        }
        if let Some(first) = scalar(&inst.sdst) {
            self.scalars.retain(|register, _| *register < first || *register > first + 1);
        }
        if let Operand::Vgpr(first) = inst.dst {
            let count = u32::from(first) + inst.dst_width().max(1);
            self.lanes.retain(|(register, _), _| *register < first || u32::from(*register) >= count);
        }
        if inst.op == Op::v_swap_b32
            && let Operand::Vgpr(other) = inst.src[0]
        {
            self.lanes.retain(|(register, _), _| *register != other);
        }
    }
}
