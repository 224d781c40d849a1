//! Gated vector micro-ops, for programs with relative register indexing (`s_set_gpr_idx`) or vector skip (`s_setvskip`).
//!
//! Such programs are rare. In them, every vector micro-op is wrapped by one that first checks the wave's mode; other programs
//! have no overhead.

use isa::{Flags, Format, Inst, Operand};

use crate::program::Program;
use crate::wave::sreg;
use crate::{Body, Flow, Handler, Level, Src, SrcKind, Uop, Wave};

/// Whether an instruction is a vector one.
pub(crate) fn applies(inst: &Inst) -> bool {
    !matches!(
        inst.format,
        Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk | Format::Sopp | Format::Smem
    )
}

/// Handler of a wrapper micro-op: `imm` is the index of the wrapped micro-op in `inner`, `flags` the first AccVGPR.
pub(crate) fn handler() -> Handler {
    crate::handler::<Gate>(Level::Base)
}

/// Bits of M0 that select the operands to which the index is added.
const SOURCES: u32 = 12;
const DESTINATION: u32 = 15;

struct Gate;
impl Body for Gate {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        // SAFETY: a wave that executes this micro-op runs the program that owns it.
        let inner = unsafe { &Program::of(wave).inner[uop.imm as usize] };
        if wave.vskip {
            return Flow::Next;
        }
        // SAFETY: `insts` is the program's table, and `uop.inst` is an index into it.
        let inst = unsafe { &*wave.insts.add(uop.inst as usize) };
        let vector =
            matches!(inst.format, Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3 | Format::Vop3p)
                && !inst.encoding().flags.has(Flags::MFMA | Flags::SMFMAC);
        if wave.gpr_index_mode == 0 || !vector {
            // SAFETY: the micro-op was compiled for this program and level.
            return unsafe { (inner.run)(wave, inner) };
        }
        let mut moved = *inner;
        if !relocate(wave, inst, uop.flags as u16, &mut moved) {
            return Flow::Next;
        }
        // SAFETY: as above, and `relocate` has just checked its registers.
        unsafe { (moved.run)(wave, &moved) }
    }
}

/// Adds the index to the operands that M0 selects. A source beyond the last register becomes v0. For a destination beyond it,
/// returns false: the instruction does nothing.
fn relocate(wave: &Wave, inst: &Inst, accum_offset: u16, uop: &mut Uop) -> bool {
    let m0 = wave.sgprs[sreg::M0];
    let index = (m0 & 0xff) as u16;
    let registers = accum_offset.min(wave.vgprs.len() as u16);
    let moved = |register: u16, width: u32| {
        // Accumulation registers are not indexed.
        let end = u32::from(register) + u32::from(index) + width;
        (end <= u32::from(registers)).then(|| register + index)
    };
    let enabled = |bit: u32| m0 >> bit & 1 != 0;
    let writes_vector = matches!(inst.dst, Operand::Vgpr(_));
    let old = uop.dst;
    if writes_vector && enabled(DESTINATION) {
        let Some(register) = moved(uop.dst, inst.dst_width()) else { return false };
        uop.dst = register;
    }
    for (n, src) in uop.src.iter_mut().enumerate().take(3) {
        if src.kind != SrcKind::Vector {
            continue;
        }
        if inst.src[n] == Operand::None {
            // The accumulator of a multiply-add is the destination register, so it moves with it.
            *src = Src { kind: SrcKind::Vector, index: src.index - old + uop.dst };
        } else if enabled(SOURCES + n as u32) && matches!(inst.src[n], Operand::Vgpr(_)) {
            src.index = moved(src.index, inst.src_width(n)).unwrap_or(0);
        }
    }
    true
}
