//! Building blocks of templates: registers, operands and instructions of the slice that is being lowered.
//!
//! Within a slice, the wave's registers are held in host registers ([`Registers`]). EXEC is constant in a run and matters only
//! for stores, because results of inactive lanes are never visible. AVX-512 uses masked stores. With AVX2 a slice is compiled in
//! two versions: one for all lanes active, one whose stores blend with the old memory contents.

use iced_x86::{Code, Instruction, Register};
use isa::Inst;

use super::assembler::{Arg, Assembler, Error, at, broadcast};
use super::liveness::Liveness;
use super::mask::Masks;
use super::register::Registers;
use super::target::{AND, BROADCAST_32, COPY, LOAD, OR, Target, Vector, XOR};
use super::value::Name;
use crate::exec::lane::op::{Kind, Shape};
use crate::{Lanes, SrcKind, Uop};

/// Registers of the arguments of a compiled run, as in the calling convention, and other fixed registers.
pub const VECTORS: Register = Register::RDI;
pub const SCALARS: Register = Register::RSI;
pub const LDS: Register = Register::RCX;
pub const LDS_SIZE: Register = Register::R8;
/// Address of the current slice's bits of scalar register 0.
pub const MASKS: Register = Register::R11;
/// The mask register (AVX-512) and the vector register (AVX2) that hold the slice's EXEC.
pub const ACTIVE: u8 = 1;
pub const ACTIVE_LANES: u8 = 15;

/// State of lowering a run, including the current operation.
#[derive(Debug)]
pub struct Emit<'a> {
    pub target: Target,
    pub asm: Assembler,
    /// The version of the slice for all lanes active is being emitted.
    pub all_active: bool,
    /// The code being emitted may be jumped over.
    pub branching: bool,
    pub registers: Registers,
    pub masks: Masks,
    pub constants: &'a [Lanes],
    pub liveness: Liveness,
    /// Index of the item being lowered.
    pub item: usize,
    pub uop: &'a Uop,
    pub inst: &'a Inst,
}

impl Emit<'_> {
    /// Stores a value to its vector register in memory. If this is the `last` use of the host register, it may be overwritten.
    pub fn write_home(&mut self, vector: u16, register: u8, last: bool) {
        let home = at(VECTORS, 256 * i64::from(vector));
        let value = self.target.whole(register);
        match self.target {
            Target::Avx512 => {
                let store = Instruction::with2(Code::EVEX_Vmovdqu32_zmmm512_k1z_zmm, home, value);
                self.asm.push_masked(ACTIVE, false, store);
            }
            Target::Avx2 if !self.all_active && !last => {
                let active = self.target.whole(ACTIVE_LANES);
                let store = Instruction::with3(Code::VEX_Vpmaskmovd_m256_ymm_ymm, home, active, value);
                self.asm.push(store);
            }
            Target::Avx2 => {
                if !self.all_active {
                    // Masked stores are slow on some CPUs: blend with the old value and store all lanes.
                    self.asm.op3(XOR, register, register, Arg::Memory(home));
                    self.asm.op3(AND, register, register, Arg::Register(ACTIVE_LANES));
                    self.asm.op3(XOR, register, register, Arg::Memory(home));
                }
                self.asm.push(Instruction::with2(Code::VEX_Vmovdqu_ymmm256_ymm, home, value));
            }
        }
    }

    pub fn push2(&mut self, code: Code, a: Register, b: Register) {
        self.asm.push(Instruction::with2(code, a, b));
    }

    /// Allocates a host register for a new value; may spill another value.
    pub fn fresh(&mut self) -> u8 {
        let (liveness, item) = (&self.liveness, self.item);
        let Some((register, evicted)) = self.registers.take(|name| liveness.next(name, item)) else {
            self.asm.fail(Error::Registers);
            return 0;
        };
        if self.branching && !evicted.is_empty() {
            self.asm.fail(Error::Registers);
        }
        for (n, vector) in evicted.iter().enumerate() {
            self.write_home(*vector, register, n + 1 == evicted.len());
        }
        register
    }

    /// Runs `compute` and frees the temporary registers it allocated, except the results.
    pub fn scope<const N: usize>(&mut self, compute: impl FnOnce(&mut Self) -> [u8; N]) -> [u8; N] {
        let before = self.registers.pinned();
        let results = compute(self);
        self.registers.release_since(before, &results);
        results
    }

    /// Frees `count` registers now, so that the next allocations do not spill.
    pub fn reserve(&mut self, count: usize) {
        self.scope(|e| {
            for _ in 0..count {
                e.fresh();
            }
            []
        });
    }

    /// The host register with the value of a vector register; loads it if necessary.
    pub fn vector(&mut self, vector: u16) -> u8 {
        let name = Name::Vector(vector);
        if let Some(register) = self.registers.find(name) {
            return register;
        }
        if self.registers.is_lost(vector) {
            self.asm.fail(Error::Lost);
        }
        let register = self.fresh();
        let home = at(VECTORS, 256 * i64::from(vector));
        self.asm.op2(LOAD, register, Arg::Memory(home));
        self.registers.name(name, register, false);
        register
    }

    /// Assigns a new value to a vector register.
    pub fn set_vector(&mut self, vector: u16, register: u8) {
        self.registers.name(Name::Vector(vector), register, true);
    }

    /// The value of dword `part` of source `n`, if it is a constant.
    pub fn known(&self, n: usize, part: u16) -> Option<u32> {
        let src = self.uop.src[n];
        (src.kind == SrcKind::Constant).then(|| self.constants[usize::from(src.index + part)].0[0])
    }

    /// Dword `part` of source `n`, without modifiers.
    pub fn raw(&mut self, n: usize, part: u16) -> Arg {
        let src = self.uop.src[n];
        let index = src.index + part;
        let (name, memory) = match src.kind {
            SrcKind::Vector => return Arg::Register(self.vector(index)),
            SrcKind::Constant => {
                let value = self.constants[usize::from(index)].0[0];
                (Name::Constant(value), self.asm.constant(value))
            }
            _ => (Name::Scalar(index), broadcast(SCALARS, 4 * i64::from(index))),
        };
        if let Some(register) = self.registers.find(name) {
            return Arg::Register(register);
        }
        // AVX2 has few registers, so constants stay in memory, where any instruction can read them.
        let few = self.target == Target::Avx2 && src.kind == SrcKind::Constant;
        if few || self.liveness.reads(name) < 2 {
            return Arg::Memory(memory);
        }
        let register = self.in_register(Arg::Memory(memory));
        self.registers.name(name, register, false);
        Arg::Register(register)
    }

    /// Loads an argument into a register unless it is already in one.
    pub fn in_register(&mut self, arg: Arg) -> u8 {
        let memory = match arg {
            Arg::Register(register) => return register,
            Arg::Memory(memory) => memory,
        };
        let register = self.fresh();
        match memory.is_broadcast {
            true => self.asm.spread(BROADCAST_32, register, arg),
            false => self.asm.op2(LOAD, register, arg),
        }
        register
    }

    /// Converts an argument to a form that is valid as the last operand of a dword instruction.
    pub fn operand(&mut self, arg: Arg) -> Arg {
        match arg {
            Arg::Memory(memory) if memory.is_broadcast && self.target == Target::Avx2 => {
                Arg::Register(self.in_register(arg))
            }
            _ => arg,
        }
    }

    /// The `neg` and `abs` modifiers of source `n`.
    pub fn signs(&self, n: usize) -> (bool, bool) {
        let modifiers = &self.inst.modifiers;
        let float = matches!(Shape::unpack(self.uop.flags).src[n], Kind::F32 | Kind::F64);
        (float && modifiers.neg >> n & 1 == 1, float && modifiers.abs >> n & 1 == 1)
    }

    /// A 32-bit source with its modifiers.
    pub fn arg(&mut self, n: usize) -> Arg {
        let raw = self.raw(n, 0);
        let (neg, abs) = self.signs(n);
        self.with_signs(raw, neg, abs)
    }

    /// A 32-bit source with its modifiers, in a register.
    pub fn reg(&mut self, n: usize) -> u8 {
        let arg = self.arg(n);
        self.in_register(arg)
    }

    /// Applies `abs`, then `neg`, to a 32-bit float.
    pub fn with_signs(&mut self, arg: Arg, neg: bool, abs: bool) -> Arg {
        if !neg && !abs {
            return arg;
        }
        let register = self.in_register(arg);
        let (code, bits) = match (neg, abs) {
            (true, false) => (XOR, 0x8000_0000),
            (true, true) => (OR, 0x8000_0000),
            _ => (AND, 0x7fff_ffff),
        };
        let bits = self.asm.constant(bits);
        Arg::Register(self.op(code, register, Arg::Memory(bits)))
    }

    /// The two sources of a commutative operation, the first in a register.
    pub fn commuting(&mut self) -> (u8, Arg) {
        match (self.arg(0), self.arg(1)) {
            (Arg::Register(a), b) => (a, b),
            (a, Arg::Register(b)) => (b, a),
            (a, b) => (self.in_register(a), b),
        }
    }

    /// `vector new, a, b`.
    pub fn op(&mut self, vector: Vector, a: u8, b: Arg) -> u8 {
        let b = self.operand(b);
        let new = self.fresh();
        self.asm.op3(vector, new, a, b);
        new
    }

    pub fn op_imm(&mut self, vector: Vector, a: u8, b: Arg, immediate: u32) -> u8 {
        let b = self.operand(b);
        let new = self.fresh();
        self.asm.op3_imm(vector.on(self.target), new, a, b, immediate);
        new
    }

    /// `vector new, a`.
    pub fn unary(&mut self, vector: Vector, a: Arg) -> u8 {
        let a = self.operand(a);
        let new = self.fresh();
        self.asm.op2(vector, new, a);
        new
    }

    /// `vector new, a, immediate`.
    pub fn unary_imm(&mut self, vector: Vector, a: Arg, immediate: u32) -> u8 {
        // AVX2 shifts take no memory operand.
        let a = if self.target == Target::Avx2 { Arg::Register(self.in_register(a)) } else { a };
        let new = self.fresh();
        self.asm.op2_imm(vector, new, a, immediate);
        new
    }

    /// `vector new, a`, reading only the low half of `a`.
    pub fn widened(&mut self, vector: Vector, a: u8) -> u8 {
        let new = self.fresh();
        self.push2(vector.on(self.target), self.target.whole(new), self.target.half(a));
        new
    }

    /// Copies a value to a new register that may be overwritten.
    pub fn copy(&mut self, a: u8) -> u8 {
        self.unary(COPY, Arg::Register(a))
    }

    pub fn constant(&mut self, value: u32) -> Arg {
        Arg::Memory(self.asm.constant(value))
    }

    /// Sets the destination, or the low dword of a wide one.
    pub fn set(&mut self, register: u8) {
        self.set_vector(self.uop.dst, register);
    }

    /// Sets both dwords of a wide destination.
    pub fn set_pair(&mut self, low: u8, high: u8) {
        self.set_vector(self.uop.dst, low);
        self.set_vector(self.uop.dst + 1, high);
    }

    /// Returns `register`, which holds dword `part` of source `n`, if the result for destination dword `to` may overwrite it.
    pub fn dying(&self, n: usize, part: u16, to: u16, register: u8) -> Option<u8> {
        let src = self.uop.src[n];
        let index = src.index + part;
        let dies = src.kind == SrcKind::Vector
            && index == self.uop.dst + to
            && self.registers.is_alone(Name::Vector(index));
        dies.then_some(register)
    }
}
