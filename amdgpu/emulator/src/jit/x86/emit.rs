//! Lowering one run of micro-ops: the loop over slices of sixteen lanes, and what templates say an operation with.
//!
//! Inside a slice the wave's registers are values in registers of the host ([`Registers`]). EXEC is one mask for the whole run, and
//! matters only where something is stored: what inactive lanes compute is never seen.

use std::collections::HashMap;

use iced_x86::{Code, Instruction, Register};
use isa::Inst;

use super::assembler::{Arg, Assembler, Error, Label, at, broadcast, k, zmm};
use super::block::{Item, Run};
use super::register::{Name, Registers};
use super::{local_read, template};
use crate::exec::lane_op::{Kind, Shape};
use crate::{Lanes, SrcKind, Uop};

/// Arguments of a compiled run, in the order of the calling convention, and what else has a fixed register.
pub const VECTORS: Register = Register::RDI;
pub const SCALARS: Register = Register::RSI;
pub const LDS: Register = Register::RCX;
pub const LDS_SIZE: Register = Register::R8;
/// Where the slice's sixteen bits of scalar register 0 are.
const MASKS: Register = Register::R11;
const EXEC: Register = Register::R9;
const SLICES_LEFT: Register = Register::EDX;
/// The mask register that holds the slice's EXEC.
pub const ACTIVE: u8 = 1;

/// `vgprs, sgprs, exec, lds, lds_size`.
pub type Entry = unsafe extern "sysv64" fn(*mut Lanes, *mut u32, u64, *const u8, u64);

/// Machine code of a run, with the constants it refers to. `uops` are those of the run.
pub fn compile(
    run: &Run,
    uops: &[Uop],
    insts: &[Inst],
    constants: &[Lanes],
) -> Result<(Vec<u8>, Box<[u32]>), Error> {
    let mut emit = Emit {
        asm: Assembler::default(),
        registers: Registers::default(),
        masks: Vec::new(),
        next_mask: 0,
        constants,
        uses: HashMap::new(),
        uop: &uops[0],
        inst: &insts[uops[0].inst as usize],
    };
    emit.count_uses(run, uops);
    let top = emit.prologue();
    let done = emit.asm.label();
    if !run.writes_masks {
        emit.asm.push(Instruction::with2(Code::VEX_Kortestw_kr_kr, k(ACTIVE), k(ACTIVE)));
        emit.asm.jump(Code::Je_rel32_64, done);
    }
    for item in &run.items {
        match item {
            Item::Lanes(at) => {
                emit.uop = &uops[*at - run.start];
                emit.inst = &insts[emit.uop.inst as usize];
                if let Some(template) = template::of(emit.inst.op) {
                    template(&mut emit);
                }
            }
            Item::Reads(group) => {
                let reads = group.iter().filter_map(|at| {
                    let uop = &uops[*at - run.start];
                    local_read::Read::of(&insts[uop.inst as usize], uop)
                });
                local_read::emit(&mut emit, &reads.collect::<Vec<_>>());
            }
        }
        emit.registers.release();
    }
    for (vector, register) in emit.registers.dirty() {
        emit.write_home(vector, register);
    }
    emit.asm.place(done);
    emit.epilogue(top);
    emit.asm.finish(|pool| pool.as_ptr() as u64)
}

/// A run as it is lowered, with the operation at hand.
#[derive(Debug)]
pub struct Emit<'a> {
    pub asm: Assembler,
    registers: Registers,
    /// Scalar register pairs whose slice is in a mask register.
    masks: Vec<(u16, u8)>,
    next_mask: u8,
    constants: &'a [Lanes],
    /// How often scalars and constants are read: those read more than once get a register.
    uses: HashMap<Name, u32>,
    pub uop: &'a Uop,
    pub inst: &'a Inst,
}

impl Emit<'_> {
    fn prologue(&mut self) -> Label {
        let asm = &mut self.asm;
        asm.push(Instruction::with2(Code::Mov_r64_rm64, EXEC, Register::RDX));
        asm.push(Instruction::with2(Code::Mov_r64_rm64, MASKS, SCALARS));
        asm.push(Instruction::with2(Code::Mov_r32_imm32, SLICES_LEFT, 4));
        let top = asm.label();
        asm.place(top);
        asm.push(Instruction::with2(Code::VEX_Kmovw_kr_r32, k(ACTIVE), Register::R9D));
        top
    }

    fn epilogue(&mut self, top: Label) {
        let asm = &mut self.asm;
        asm.push(Instruction::with2(Code::Shr_rm64_imm8, EXEC, 16));
        asm.push(Instruction::with2(Code::Add_rm64_imm8, VECTORS, 64));
        asm.push(Instruction::with2(Code::Add_rm64_imm8, MASKS, 2));
        asm.push(Instruction::with2(Code::Sub_rm32_imm8, SLICES_LEFT, 1));
        asm.jump(Code::Jne_rel32_64, top);
        asm.push(Ok(Instruction::with(Code::VEX_Vzeroupper)));
        asm.push(Ok(Instruction::with(Code::Retnq)));
    }

    fn count_uses(&mut self, run: &Run, uops: &[Uop]) {
        for item in &run.items {
            let Item::Lanes(at) = item else { continue };
            let uop = &uops[*at - run.start];
            let shape = Shape::unpack(uop.flags);
            for (src, kind) in uop.src.iter().zip(shape.src) {
                let parts = match kind {
                    Kind::None | Kind::Mask => 0,
                    kind if kind.wide() => 2,
                    _ => 1,
                };
                for part in 0..parts {
                    let index = src.index + part;
                    let name = match src.kind {
                        SrcKind::Scalar => Name::Scalar(index),
                        SrcKind::Constant => Name::Constant(self.constants[usize::from(index)].0[0]),
                        _ => continue,
                    };
                    *self.uses.entry(name).or_default() += 1;
                }
            }
        }
    }

    fn write_home(&mut self, vector: u16, register: u8) {
        let home = at(VECTORS, 256 * i64::from(vector));
        let store = Instruction::with2(Code::EVEX_Vmovdqu32_zmmm512_k1z_zmm, home, zmm(register));
        self.asm.push_masked(ACTIVE, false, store);
    }

    /// A register for a new value.
    pub fn fresh(&mut self) -> u8 {
        let (register, evicted) = self.registers.take();
        for vector in evicted {
            self.write_home(vector, register);
        }
        register
    }

    /// The value of a vector register.
    pub fn vector(&mut self, vector: u16) -> u8 {
        let name = Name::Vector(vector);
        if let Some(register) = self.registers.find(name) {
            return register;
        }
        let register = self.fresh();
        let home = at(VECTORS, 256 * i64::from(vector));
        self.asm.op2(Code::EVEX_Vmovdqu32_zmm_k1z_zmmm512, register, Arg::Memory(home));
        self.registers.name(name, register, false);
        register
    }

    /// Gives a vector register a new value.
    pub fn set_vector(&mut self, vector: u16, register: u8) {
        self.registers.name(Name::Vector(vector), register, true);
    }

    /// The value of dword `part` of a source if it is a constant.
    pub fn known(&self, n: usize, part: u16) -> Option<u32> {
        let src = self.uop.src[n];
        (src.kind == SrcKind::Constant).then(|| self.constants[usize::from(src.index + part)].0[0])
    }

    /// Dword `part` of source `n`, without modifiers.
    pub fn raw(&mut self, n: usize, part: u16) -> Arg {
        let src = self.uop.src[n];
        let index = src.index + part;
        let (name, memory) = match src.kind {
            SrcKind::Vector => return Arg::Zmm(self.vector(index)),
            SrcKind::Constant => {
                let value = self.constants[usize::from(index)].0[0];
                (Name::Constant(value), self.asm.constant(value))
            }
            _ => (Name::Scalar(index), broadcast(SCALARS, 4 * i64::from(index))),
        };
        if let Some(register) = self.registers.find(name) {
            return Arg::Zmm(register);
        }
        if self.uses.get(&name).is_none_or(|uses| *uses < 2) {
            return Arg::Memory(memory);
        }
        let register = self.load_element(Arg::Memory(memory));
        self.registers.name(name, register, false);
        Arg::Zmm(register)
    }

    /// One dword of memory in all lanes.
    fn load_element(&mut self, from: Arg) -> u8 {
        let register = self.fresh();
        let from = match from {
            Arg::Memory(mut memory) => {
                memory.is_broadcast = false;
                Arg::Memory(memory)
            }
            register => register,
        };
        self.asm.op2(Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32, register, from);
        register
    }

    /// In a register, if it is not yet.
    pub fn in_register(&mut self, arg: Arg) -> u8 {
        match arg {
            Arg::Zmm(register) => register,
            memory => self.load_element(memory),
        }
    }

    /// Whether `neg` and `abs` are set for source `n`.
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

    /// Clears and flips the sign of a 32-bit float.
    pub fn with_signs(&mut self, arg: Arg, neg: bool, abs: bool) -> Arg {
        if !neg && !abs {
            return arg;
        }
        let register = self.in_register(arg);
        let (code, bits) = match (neg, abs) {
            (true, false) => (Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32, 0x8000_0000),
            (true, true) => (Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32, 0x8000_0000),
            _ => (Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, 0x7fff_ffff),
        };
        let bits = self.asm.constant(bits);
        Arg::Zmm(self.op(code, register, Arg::Memory(bits)))
    }

    /// Two sources of an operation that commutes: one in a register.
    pub fn commuting(&mut self) -> (u8, Arg) {
        match (self.arg(0), self.arg(1)) {
            (Arg::Zmm(a), b) => (a, b),
            (a, Arg::Zmm(b)) => (b, a),
            (a, b) => (self.in_register(a), b),
        }
    }

    /// `code new, a, b`.
    pub fn op(&mut self, code: Code, a: u8, b: Arg) -> u8 {
        let new = self.fresh();
        self.asm.op3(code, new, a, b);
        new
    }

    pub fn op_imm(&mut self, code: Code, a: u8, b: Arg, immediate: u32) -> u8 {
        let new = self.fresh();
        self.asm.op3_imm(code, new, a, b, immediate);
        new
    }

    /// `code new, a`.
    pub fn unary(&mut self, code: Code, a: Arg) -> u8 {
        let new = self.fresh();
        self.asm.op2(code, new, a);
        new
    }

    pub fn unary_imm(&mut self, code: Code, a: Arg, immediate: u32) -> u8 {
        let new = self.fresh();
        self.asm.op2_imm(code, new, a, immediate);
        new
    }

    /// A copy that may be overwritten.
    pub fn copy(&mut self, a: u8) -> u8 {
        self.unary(Code::EVEX_Vmovdqa32_zmm_k1z_zmmm512, Arg::Zmm(a))
    }

    pub fn constant(&mut self, value: u32) -> Arg {
        Arg::Memory(self.asm.constant(value))
    }

    /// The destination's value, or its low dword.
    pub fn set(&mut self, register: u8) {
        self.set_vector(self.uop.dst, register);
    }

    /// Both dwords of a wide destination.
    pub fn set_pair(&mut self, low: u8, high: u8) {
        self.set_vector(self.uop.dst, low);
        self.set_vector(self.uop.dst + 1, high);
    }

    /// The register of source `n`'s dword `part` if the operation's result in destination dword `to` may overwrite it.
    pub fn dying(&self, n: usize, part: u16, to: u16, register: u8) -> Option<u8> {
        let src = self.uop.src[n];
        let index = src.index + part;
        let dies = src.kind == SrcKind::Vector
            && index == self.uop.dst + to
            && self.registers.is_alone(Name::Vector(index));
        dies.then_some(register)
    }

    /// A mask register to compute in.
    pub fn fresh_mask(&mut self) -> u8 {
        let mask = 2 + self.next_mask;
        self.next_mask = (self.next_mask + 1) % 6;
        self.masks.retain(|(_, other)| *other != mask);
        mask
    }

    /// The slice of a lane mask in scalar registers.
    pub fn mask(&mut self, n: usize) -> u8 {
        let index = self.uop.src[n].index;
        if let Some((_, mask)) = self.masks.iter().find(|(scalar, _)| *scalar == index) {
            return *mask;
        }
        let mask = self.fresh_mask();
        let place = at(MASKS, 4 * i64::from(index));
        self.asm.push(Instruction::with2(Code::VEX_Kmovw_kr_km16, k(mask), place));
        self.masks.push((index, mask));
        mask
    }

    /// Writes the slice of the scalar destination. `mask` is zero where EXEC is.
    pub fn set_mask(&mut self, mask: u8) {
        let index = self.uop.sdst;
        self.masks.retain(|(scalar, _)| scalar.abs_diff(index) > 1);
        self.masks.push((index, mask));
        let place = at(MASKS, 4 * i64::from(index));
        self.asm.push(Instruction::with2(Code::VEX_Kmovw_m16_kr, place, k(mask)));
    }

    /// `code mask, a, b` on masks.
    pub fn mask_op(&mut self, code: Code, a: u8, b: u8) -> u8 {
        let mask = self.fresh_mask();
        self.asm.push(Instruction::with3(code, k(mask), k(a), k(b)));
        mask
    }
}
