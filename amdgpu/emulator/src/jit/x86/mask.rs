//! Lane masks of a slice: comparisons that produce them, selects that use them, and transfer from and to scalar registers.
//!
//! With AVX-512 a mask is in a mask register. With AVX2 it is a vector whose lanes are all-ones or all-zeros. The bits of
//! inactive lanes are undefined until the mask is written to scalar registers, where they are zero.

use iced_x86::{Code, Instruction, Register};

use super::assembler::{Arg, Assembler, Error, at, k};
use super::emit::{ACTIVE, ACTIVE_LANES, Emit, MASKS};
use super::target::{ADD_I32, AND, MAX_U32, MIN_U32, OR, SUB_I32, Target, XOR, XOR_64};
use super::value::Name;

/// A lane mask: the number of a mask register (AVX-512) or of a vector register (AVX2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask(pub u8);

/// Allocator for AVX-512 mask registers.
#[derive(Debug, Default)]
pub struct Masks {
    /// Scalar register pairs whose slice is cached in a mask register.
    named: Vec<(u16, u8)>,
    next: u8,
    /// Bit mask of the mask registers used by the current operation.
    kept: u8,
}

/// Integer comparison predicate, with AVX-512's encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Equal = 0,
    Less = 1,
    LessEqual = 2,
    NotEqual = 4,
    GreaterEqual = 5,
    Greater = 6,
}

/// A comparison: operand type and predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Float comparison with an x86 predicate (`vcmpps` immediate).
    Float(u32),
    Signed(Order),
    Unsigned(Order),
}

impl Masks {
    /// Allocates a mask register that is not in use, until [`Masks::release`].
    fn take(&mut self) -> Option<u8> {
        let mask = (0..6).map(|n| 2 + (self.next + n) % 6).find(|mask| self.kept >> mask & 1 == 0)?;
        self.next = (mask - 1) % 6;
        self.named.retain(|(_, other)| *other != mask);
        self.kept |= 1 << mask;
        Some(mask)
    }

    /// Ends the current operation: frees its mask registers.
    pub fn release(&mut self) {
        self.kept = 0;
    }
}

/// Expands the bits of a byte, which is broadcast in `register`, to lanes of all-ones or all-zeros.
pub fn lanes_of_bits(asm: &mut Assembler, register: u8) {
    let bits = Arg::Memory(asm.constants(&[1, 2, 4, 8, 16, 32, 64, 128]));
    asm.op3(AND, register, register, bits);
    vex(asm, Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256, register, register, bits);
}

/// Emits an AVX2 instruction.
fn vex(asm: &mut Assembler, code: Code, dst: u8, a: u8, b: Arg) {
    let target = Target::Avx2;
    asm.push(match b {
        Arg::Register(b) => Instruction::with3(code, target.whole(dst), target.whole(a), target.whole(b)),
        Arg::Memory(b) => Instruction::with3(code, target.whole(dst), target.whole(a), b),
    });
}

impl Emit<'_> {
    /// Allocates a mask.
    pub fn fresh_mask(&mut self) -> Mask {
        match self.target {
            Target::Avx2 => Mask(self.fresh()),
            Target::Avx512 => Mask(self.fresh_mask_register()),
        }
    }

    fn fresh_mask_register(&mut self) -> u8 {
        self.masks.take().unwrap_or_else(|| {
            self.asm.fail(Error::Registers);
            2
        })
    }

    /// Compares 32-bit values.
    pub fn compare(&mut self, comparison: Comparison, a: u8, b: Arg) -> Mask {
        if self.target == Target::Avx2 {
            let [lanes] = self.scope(|e| [e.compare_lanes(comparison, a, b)]);
            return Mask(lanes);
        }
        let (code, predicate) = match comparison {
            Comparison::Float(predicate) => (Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, predicate),
            Comparison::Signed(order) => (Code::EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8, order as u32),
            Comparison::Unsigned(order) => (Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8, order as u32),
        };
        let mask = self.fresh_mask_register();
        let zmm = |n| self.target.whole(n);
        let compare = match b {
            Arg::Register(b) => Instruction::with4(code, k(mask), zmm(a), zmm(b), predicate),
            Arg::Memory(b) => Instruction::with4(code, k(mask), zmm(a), b, predicate),
        };
        self.asm.push_masked(ACTIVE, false, compare);
        Mask(mask)
    }

    /// Compares 32-bit values; lanes are all-ones where the comparison holds.
    fn compare_lanes(&mut self, comparison: Comparison, a: u8, b: Arg) -> u8 {
        const EQUAL: Code = Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256;
        const GREATER: Code = Code::VEX_Vpcmpgtd_ymm_ymm_ymmm256;
        let (order, signed) = match comparison {
            Comparison::Float(predicate) => {
                let b = self.operand(b);
                let new = self.fresh();
                self.asm.op3_imm(Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8, new, a, b, predicate);
                return new;
            }
            Comparison::Signed(order) => (order, true),
            Comparison::Unsigned(order) => (order, false),
        };
        let between = match order {
            // a <= b if and only if min(a, b) == a; likewise >= with max.
            Order::LessEqual | Order::GreaterEqual if !signed => {
                let extreme = if order == Order::LessEqual { MIN_U32 } else { MAX_U32 };
                let extreme = self.op(extreme, a, b);
                return self.vex(EQUAL, a, Arg::Register(extreme));
            }
            Order::Equal | Order::NotEqual => self.vex(EQUAL, a, b),
            _ => {
                let b = self.in_register(b);
                let sign = self.constant(1 << 31);
                let (a, b) = if signed { (a, b) } else { (self.op(XOR, a, sign), self.op(XOR, b, sign)) };
                match order {
                    Order::Less | Order::GreaterEqual => self.vex(GREATER, b, Arg::Register(a)),
                    _ => self.vex(GREATER, a, Arg::Register(b)),
                }
            }
        };
        let negated = match order {
            Order::NotEqual => true,
            Order::LessEqual | Order::GreaterEqual => signed,
            _ => false,
        };
        if negated { self.inverse(between) } else { between }
    }

    /// Compares 64-bit values; qwords are all-ones where the comparison holds.
    pub fn compare_qwords(&mut self, comparison: Comparison, a: u8, b: Arg) -> u8 {
        if self.target == Target::Avx2 {
            return self.scope(|e| [e.compare_qwords_avx2(comparison, a, b)])[0];
        }
        let (code, predicate) = match comparison {
            Comparison::Float(predicate) => (Code::EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae, predicate),
            Comparison::Signed(order) => (Code::EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8, order as u32),
            Comparison::Unsigned(order) => (Code::EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8, order as u32),
        };
        let (mask, lanes) = (self.fresh_mask_register(), self.fresh());
        let zmm = |n| self.target.whole(n);
        let compare = match b {
            Arg::Register(b) => Instruction::with4(code, k(mask), zmm(a), zmm(b), predicate),
            Arg::Memory(b) => Instruction::with4(code, k(mask), zmm(a), b, predicate),
        };
        let spread = Instruction::with2(Code::EVEX_Vpmovm2q_zmm_kr, zmm(lanes), k(mask));
        self.asm.push(compare);
        self.asm.push(spread);
        lanes
    }

    fn compare_qwords_avx2(&mut self, comparison: Comparison, a: u8, b: Arg) -> u8 {
        const EQUAL: Code = Code::VEX_Vpcmpeqq_ymm_ymm_ymmm256;
        const GREATER: Code = Code::VEX_Vpcmpgtq_ymm_ymm_ymmm256;
        let (order, signed) = match comparison {
            Comparison::Float(predicate) => {
                let new = self.fresh();
                self.asm.op3_imm(Code::VEX_Vcmppd_ymm_ymm_ymmm256_imm8, new, a, b, predicate);
                return new;
            }
            Comparison::Signed(order) => (order, true),
            Comparison::Unsigned(order) => (order, false),
        };
        if let Order::Equal | Order::NotEqual = order {
            let equal = self.vex(EQUAL, a, b);
            return if order == Order::Equal { equal } else { self.inverse(equal) };
        }
        let b = self.in_register(b);
        let (a, b) = if signed {
            (a, b)
        } else {
            let sign = Arg::Memory(self.asm.constant_64(1 << 63));
            (self.op(XOR_64, a, sign), self.op(XOR_64, b, sign))
        };
        let swapped = matches!(order, Order::Less | Order::GreaterEqual);
        let (a, b) = if swapped { (b, a) } else { (a, b) };
        let greater = self.vex(GREATER, a, Arg::Register(b));
        match order {
            Order::LessEqual | Order::GreaterEqual => self.inverse(greater),
            _ => greater,
        }
    }

    /// Emits an instruction that exists in this form only on AVX2, with a new destination register.
    pub fn vex(&mut self, code: Code, a: u8, b: Arg) -> u8 {
        let b = self.operand(b);
        let new = self.fresh();
        vex(&mut self.asm, code, new, a, b);
        new
    }

    fn inverse(&mut self, lanes: u8) -> u8 {
        let ones = self.constant(!0);
        self.op(XOR, lanes, ones)
    }

    /// Converts dwords of all-ones or all-zeros to a mask.
    pub fn mask_of_lanes(&mut self, lanes: u8) -> Mask {
        if self.target == Target::Avx2 {
            return Mask(lanes);
        }
        let all = self.fresh_mask_register();
        self.push2(Code::EVEX_Vpmovd2m_kr_zmm, k(all), self.target.whole(lanes));
        self.mask_op(Code::VEX_Kandw_kr_kr_kr, all, ACTIVE)
    }

    fn mask_op(&mut self, code: Code, a: u8, b: u8) -> Mask {
        let mask = self.fresh_mask_register();
        self.asm.push(Instruction::with3(code, k(mask), k(a), k(b)));
        Mask(mask)
    }

    pub fn both(&mut self, Mask(a): Mask, Mask(b): Mask) -> Mask {
        match self.target {
            Target::Avx2 => Mask(self.op(AND, a, Arg::Register(b))),
            Target::Avx512 => self.mask_op(Code::VEX_Kandw_kr_kr_kr, a, b),
        }
    }

    pub fn either(&mut self, Mask(a): Mask, Mask(b): Mask) -> Mask {
        match self.target {
            Target::Avx2 => Mask(self.op(OR, a, Arg::Register(b))),
            Target::Avx512 => self.mask_op(Code::VEX_Korw_kr_kr_kr, a, b),
        }
    }

    /// `b` where the mask is set, else `a`.
    pub fn select(&mut self, Mask(mask): Mask, a: u8, b: Arg) -> u8 {
        let b = self.operand(b);
        let new = self.fresh();
        let whole = |n| self.target.whole(n);
        if self.target == Target::Avx2 {
            const BLEND: Code = Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm;
            let blend = match b {
                Arg::Register(b) => Instruction::with4(BLEND, whole(new), whole(a), whole(b), whole(mask)),
                Arg::Memory(b) => Instruction::with4(BLEND, whole(new), whole(a), b, whole(mask)),
            };
            self.asm.push(blend);
        } else {
            const BLEND: Code = Code::EVEX_Vpblendmd_zmm_k1z_zmm_zmmm512b32;
            let blend = match b {
                Arg::Register(b) => Instruction::with3(BLEND, whole(new), whole(a), whole(b)),
                Arg::Memory(b) => Instruction::with3(BLEND, whole(new), whole(a), b),
            };
            self.asm.push_masked(mask, false, blend);
        }
        new
    }

    /// `value` where the mask is set, else zero.
    pub fn only(&mut self, Mask(mask): Mask, value: u8) -> u8 {
        if self.target == Target::Avx2 {
            return self.op(AND, value, Arg::Register(mask));
        }
        let new = self.fresh();
        let (new_zmm, value) = (self.target.whole(new), self.target.whole(value));
        let copy = Instruction::with2(Code::EVEX_Vmovdqa32_zmm_k1z_zmmm512, new_zmm, value);
        self.asm.push_masked(mask, true, copy);
        new
    }

    /// Adds one (`up`) or subtracts one where the mask is set.
    pub fn step(&mut self, Mask(mask): Mask, value: u8, up: bool) -> u8 {
        // All-ones is -1.
        let vector = if up { SUB_I32 } else { ADD_I32 };
        if self.target == Target::Avx2 {
            return self.op(vector, value, Arg::Register(mask));
        }
        let new = self.copy(value);
        let minus_one = self.asm.constant(!0);
        let (new_zmm, value) = (self.target.whole(new), self.target.whole(value));
        let step = Instruction::with3(vector.on(self.target), new_zmm, value, minus_one);
        self.asm.push_masked(mask, false, step);
        new
    }

    /// The current slice of the lane mask in source `n`, a scalar register pair.
    pub fn mask(&mut self, n: usize) -> Mask {
        let index = self.uop.src[n].index;
        let place = at(MASKS, 4 * i64::from(index));
        if self.target == Target::Avx2 {
            let name = Name::Mask(index);
            let lanes = self.registers.find(name).unwrap_or_else(|| {
                let lanes = self.fresh();
                let load =
                    Instruction::with2(Code::VEX_Vpbroadcastb_ymm_xmmm8, self.target.whole(lanes), place);
                self.asm.push(load);
                lanes_of_bits(&mut self.asm, lanes);
                self.registers.name(name, lanes, false);
                lanes
            });
            return Mask(lanes);
        }
        if let Some((_, mask)) = self.masks.named.iter().find(|(scalar, _)| *scalar == index) {
            self.masks.kept |= 1 << mask;
            return Mask(*mask);
        }
        let mask = self.fresh_mask_register();
        self.asm.push(Instruction::with2(Code::VEX_Kmovw_kr_km16, k(mask), place));
        self.masks.named.push((index, mask));
        Mask(mask)
    }

    /// Writes the current slice of the scalar destination. With AVX-512, `mask` comes from comparisons, which are already limited
    /// to active lanes.
    pub fn set_mask(&mut self, Mask(mask): Mask) {
        let index = self.uop.sdst;
        let place = at(MASKS, 4 * i64::from(index));
        if self.target == Target::Avx2 {
            let lanes = match self.all_active {
                true => mask,
                false => self.op(AND, mask, Arg::Register(ACTIVE_LANES)),
            };
            for other in index.saturating_sub(1)..=index + 1 {
                self.registers.forget(Name::Mask(other));
            }
            self.registers.name(Name::Mask(index), lanes, false);
            self.push2(Code::VEX_Vmovmskps_r32_ymm, Register::EAX, self.target.whole(lanes));
            self.asm.push(Instruction::with2(Code::Mov_rm8_r8, place, Register::AL));
            return;
        }
        self.masks.named.retain(|(scalar, _)| scalar.abs_diff(index) > 1);
        self.masks.named.push((index, mask));
        self.asm.push(Instruction::with2(Code::VEX_Kmovw_m16_kr, place, k(mask)));
    }
}
