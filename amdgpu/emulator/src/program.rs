//! A compiled function: its micro-ops, and the mapping between micro-ops and code addresses.
//!
//! A program is built once and is immutable. An unknown or unsupported instruction becomes a micro-op that faults with the
//! instruction's name, but only when a wave reaches it.

use isa::{Arch, Format, Inst, Op, Operand};

use crate::compile::Compiler;
use crate::exec;
use crate::exec::format::sopp;
use crate::fault::FaultKind;
use crate::jit::Native;
use crate::{Body, Flow, Lanes, Level, Uop, Wave, gate, handler};

/// The micro-ops of one function.
#[derive(Debug)]
pub struct Program {
    /// Micro-ops in code order; the last one is a jump.
    pub uops: Box<[Uop]>,
    /// Decoded instructions, indexed by `Uop::inst`.
    pub insts: Box<[Inst]>,
    /// Broadcast constants, indexed by constant sources.
    pub constants: Box<[Lanes]>,
    /// Micro-ops that are executed through a wrapper micro-op, see `gate.rs`.
    pub(crate) inner: Box<[Uop]>,
    /// Instructions without a micro-op, because they do not affect results, with their byte offsets in ascending order.
    pub(crate) dropped: Box<[(u32, Inst)]>,
    /// Byte offset of each instruction.
    offsets: Box<[u32]>,
    /// Micro-op at each word of the code; `u32::MAX` inside an instruction.
    starts: Box<[u32]>,
    /// Why instructions are unsupported; `Uop::imm` of a trap is an index into it.
    reasons: Box<[String]>,
    /// Address of the first byte.
    base: u64,
    size: u64,
    /// Runs of micro-ops that are compiled to native code when they are hot.
    pub(crate) native: Native,
}

/// Compilation options of a program.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Instruction set.
    pub arch: Arch,
    /// CPU level of the handlers.
    pub level: Level,
    /// Index of the first AccVGPR.
    pub accum_offset: u16,
    /// Number of vector registers of a wave.
    pub vgpr_count: u16,
}

impl Program {
    /// Compiles `code`, which is loaded at `base`. Never fails: instructions that cannot be compiled fault when a wave reaches
    /// them.
    pub fn compile(options: Options, base: u64, code: &[u8]) -> Program {
        let Options { arch, level, accum_offset, vgpr_count } = options;
        let mut compiler = Compiler::new(arch, level, accum_offset, vgpr_count, base);
        let mut uops: Vec<Uop> = Vec::with_capacity(code.len() / 6);
        let mut inner = Vec::new();
        let mut dropped = Vec::new();
        let mut offsets = Vec::new();
        let mut starts = vec![u32::MAX; code.len().div_ceil(4)];
        let mut reasons = Vec::new();
        let mut branches = Vec::new();
        // Whether each micro-op does exactly what its instruction says (so that it can become native code).
        let mut plain = Vec::new();
        let mut guarded = false;
        let mut vectors = Vec::new();
        let mut at = 0;
        while at + 4 <= code.len() {
            starts[at / 4] = uops.len() as u32;
            let decoded = isa::decode(arch, &code[at..]);
            let inst = decoded.unwrap_or_else(|_| unknown());
            if decoded.is_ok() && sopp::is_dropped(inst.op) {
                dropped.push((at as u32, inst));
                at += usize::from(inst.size);
                continue;
            }
            let inst_index = compiler.insts.len() as u32;
            compiler.insts.push(inst);
            offsets.push(at as u32);
            compiler.offset = at as u32;
            let compiled = match decoded {
                Ok(inst) => {
                    exec::compile(&mut compiler, &inst, inst_index).map_err(|error| error.to_string())
                }
                Err(error) => Err(error.to_string()),
            };
            uops.append(&mut compiler.before);
            plain.resize(uops.len(), false);
            plain.push(compiled.is_ok());
            match compiled {
                Ok(uop) => {
                    if sopp::is_branch(inst.op) {
                        let target = at as i64 + i64::from(inst.size) + i64::from(inst.imm as i16) * 4;
                        branches.push((uops.len(), target));
                    }
                    guarded |= matches!(inst.op, Op::s_set_gpr_idx_on | Op::s_setvskip);
                    if gate::applies(&inst) {
                        vectors.push(uops.len());
                    }
                    uops.push(uop);
                }
                Err(reason) => {
                    let imm = reasons.len() as i64;
                    reasons.push(reason);
                    uops.push(Uop { imm, ..compiler.uop(handler::<Trap>(Level::Base), inst_index) });
                }
            }
            at += usize::from(inst.size);
        }
        if guarded {
            plain.fill(false);
            for at in vectors {
                let imm = inner.len() as i64;
                inner.push(uops[at]);
                uops[at] = Uop { imm, flags: accum_offset.into(), run: gate::handler(), ..uops[at] };
            }
        }
        // Code that runs past the end continues at the next address, which may be in another program.
        let inst_index = compiler.insts.len() as u32;
        compiler.insts.push(unknown());
        offsets.push(code.len() as u32);
        let far = |address: u64| Uop {
            imm: address as i64,
            ..compiler.uop(handler::<FarJump>(Level::Base), inst_index)
        };
        uops.push(far(base.wrapping_add(code.len() as u64)));
        for (branch, target) in branches {
            let known = usize::try_from(target).ok().filter(|t| t % 4 == 0).and_then(|t| starts.get(t / 4));
            uops[branch].imm = match known.filter(|start| **start != u32::MAX) {
                Some(start) => i64::from(*start),
                None => {
                    uops.push(far(base.wrapping_add_signed(target)));
                    uops.len() as i64 - 1
                }
            };
        }
        plain.resize(uops.len(), false);
        let native = Native::install(level, &mut uops, &compiler.insts, &plain);
        Program {
            uops: uops.into(),
            insts: compiler.insts.into(),
            constants: compiler.constants.into(),
            inner: inner.into(),
            dropped: dropped.into(),
            offsets: offsets.into(),
            starts: starts.into(),
            reasons: reasons.into(),
            base,
            size: code.len() as u64,
            native,
        }
    }

    /// First address of the code.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Whether `address` is inside the code.
    #[inline]
    pub fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.base) < self.size
    }

    /// Index of the micro-op at an instruction's address.
    #[inline]
    pub fn index_of(&self, address: u64) -> Option<usize> {
        let offset = address.checked_sub(self.base)?;
        if offset % 4 != 0 {
            return None;
        }
        let start = *self.starts.get(usize::try_from(offset / 4).ok()?)?;
        (start != u32::MAX).then_some(start as usize)
    }

    /// Address of the instruction that a micro-op belongs to.
    pub fn address_of(&self, uop: usize) -> u64 {
        let inst = self.uops.get(uop).map_or(0, |uop| uop.inst as usize);
        self.base + u64::from(self.offsets.get(inst).copied().unwrap_or(0))
    }

    /// Byte offset of an instruction.
    pub(crate) fn offset_of(&self, inst: usize) -> u32 {
        self.offsets.get(inst).copied().unwrap_or(u32::MAX)
    }

    /// Whether a micro-op is the main one of its instruction, not a preparation for it or a jump added by the emulator.
    pub fn is_whole(&self, uop: usize) -> bool {
        let inst = |at: usize| self.uops.get(at).map(|uop| uop.inst as usize);
        inst(uop).is_some_and(|own| own + 1 < self.insts.len() && inst(uop + 1) != Some(own))
    }

    /// Target address of a branch, if it is known and inside the code.
    pub fn target_of(&self, uop: usize) -> Option<u64> {
        let branch = self.uops.get(uop).filter(|_| {
            self.is_whole(uop) && self.inst_of(uop).is_some_and(|inst| sopp::is_branch(inst.op))
        })?;
        let target = usize::try_from(branch.imm).ok()?;
        (target < self.uops.len()).then(|| self.address_of(target))
    }

    /// The instruction that a micro-op belongs to.
    pub fn inst_of(&self, uop: usize) -> Option<&Inst> {
        self.insts.get(self.uops.get(uop)?.inst as usize)
    }

    /// Reasons why instructions of this program are unsupported.
    pub fn unsupported(&self) -> &[String] {
        &self.reasons
    }

    /// The program that a wave runs.
    ///
    /// # Safety
    /// The wave must have entered a program, and the program must still exist.
    #[inline(always)]
    pub(crate) unsafe fn of<'a>(wave: &Wave) -> &'a Program {
        // SAFETY: `enter` is the only function that sets the pointer; the caller guarantees the rest.
        unsafe { &*wave.program.cast::<Program>() }
    }

    /// Points `wave` at micro-op `at` of this program.
    pub fn enter(&self, wave: &mut Wave, at: usize) {
        wave.program = std::ptr::from_ref(self).cast();
        wave.constants = self.constants.as_ptr();
        wave.insts = self.insts.as_ptr();
        wave.pc = at;
    }
}

#[cfg(test)]
impl Program {
    /// Creates a program from instructions that were never encoded.
    pub(crate) fn from_insts(options: Options, insts: &[Inst]) -> Program {
        let mut program = Program::compile(options, 0x1000, &[]);
        let Options { arch, level, accum_offset, vgpr_count } = options;
        let mut compiler = Compiler::new(arch, level, accum_offset, vgpr_count, 0x1000);
        let mut uops = Vec::new();
        for (index, inst) in insts.iter().enumerate() {
            compiler.insts.push(*inst);
            let uop = exec::compile(&mut compiler, inst, index as u32);
            assert!(compiler.before.is_empty());
            uops.push(uop.unwrap_or_else(|error| panic!("{inst:?}: {error}")));
        }
        let plain = vec![true; uops.len()];
        program.native = Native::install(level, &mut uops, &compiler.insts, &plain);
        program.uops = uops.into();
        program.insts = compiler.insts.into();
        program.constants = compiler.constants.into();
        program
    }
}

/// Placeholder for an encoding that is not an instruction.
fn unknown() -> Inst {
    Inst {
        op: Op::s_trap,
        format: Format::Sopp,
        size: 4,
        dst: Operand::None,
        sdst: Operand::None,
        src: [Operand::None; 4],
        imm: 0,
        modifiers: Default::default(),
        memory: Default::default(),
        dpp: None,
        sdwa: None,
    }
}

struct Trap;
impl Body for Trap {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        // SAFETY: a wave that executes a trap micro-op runs the program that owns the micro-op.
        let program = unsafe { Program::of(wave) };
        let text = program.reasons[uop.imm as usize].clone();
        wave.fault = Some((FaultKind::IllegalInstruction { text }, None));
        Flow::Fault
    }
}

struct FarJump;
impl Body for FarJump {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        wave.far = uop.imm as u64;
        Flow::Far
    }
}
