//! Vector micro-ops of programs that index registers relatively (`s_set_gpr_idx`) or skip vector instructions (`s_setvskip`).
//!
//! Such programs are rare, so every vector micro-op of theirs runs through one that looks at the wave first; others pay nothing.

use isa::{Flags, Format, Inst, Operand};

use crate::wave::sreg;
use crate::{Body, Flow, Handler, Level, Src, SrcKind, Uop, Wave};

/// Whether an instruction is a vector one.
pub(crate) fn applies(inst: &Inst) -> bool {
    !matches!(
        inst.format,
        Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk | Format::Sopp | Format::Smem
    )
}

/// The handler of a micro-op behind the gate: `imm` is the number of that one, `flags` the first AccVGPR.
pub(crate) fn handler() -> Handler {
    crate::handler::<Gate>(Level::Base)
}

/// Bits of M0 that say which operands the index is added to.
const SOURCES: u32 = 12;
const DESTINATION: u32 = 15;

struct Gate;
impl Body for Gate {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        // SAFETY: a wave with this micro-op runs the program that owns it.
        let inner = unsafe { &(&(*wave.program).inner)[uop.imm as usize] };
        if wave.vskip {
            return Flow::Next;
        }
        // SAFETY: `insts` is the program's table and `uop.inst` an index into it.
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
        // SAFETY: as above, and its registers were just bounded.
        unsafe { (moved.run)(wave, &moved) }
    }
}

/// Adds the index to the operands that M0 names. A source past the last register is v0; a destination past it, and the
/// instruction does nothing.
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
            // The accumulator of a multiply-add is the destination, wherever that is.
            *src = Src { kind: SrcKind::Vector, index: src.index - old + uop.dst };
        } else if enabled(SOURCES + n as u32) && matches!(inst.src[n], Operand::Vgpr(_)) {
            src.index = moved(src.index, inst.src_width(n)).unwrap_or(0);
        }
    }
    true
}
