//! Micro-ops: instructions with a chosen handler and resolved operands.

use crate::Wave;

/// Function that executes one micro-op of one wave.
///
/// `unsafe` because handlers use target features. Call only handlers built for a CPU level that this machine has, and only with a
/// micro-op compiled for the wave's program: register and constant indices are checked at compile time, not here.
pub type Handler = unsafe fn(&mut Wave, &Uop) -> Flow;

/// What the run loop does after a micro-op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Flow {
    /// Continue with the next micro-op.
    Next,
    /// The micro-ops up to `wave.pc`, further ahead in the same straight-line code, were executed as well.
    Skip,
    /// `wave.pc` was set.
    Jump,
    /// `wave.far` holds the address of code in another program.
    Far,
    /// The wave waits at `s_barrier`; it resumes at the next micro-op.
    Barrier,
    /// Let other waves (and other workgroups) run; resume at the next micro-op.
    Yield,
    /// Let other waves (and other workgroups) run; resume at this micro-op.
    Retry,
    /// `s_endpgm`.
    End,
    /// The fault is in `wave.fault`; the grid is aborted.
    Fault,
}

/// Kind of a source operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum SrcKind {
    /// The source does not exist.
    #[default]
    None,
    /// `wave.vgprs[index]` (AccVGPRs are already offset).
    Vector,
    /// `wave.sgprs[index]`, equal for all lanes.
    Scalar,
    /// `wave.constants[index]`, broadcast once at compile time.
    Constant,
}

/// A resolved source. A 64-bit source of any kind uses `index` and `index + 1`, low dword first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Src {
    /// Where the source is.
    pub kind: SrcKind,
    /// Index there.
    pub index: u16,
}

impl Src {
    /// Dword `k` of a scalar or constant source.
    #[inline(always)]
    pub(crate) fn dword(&self, wave: &Wave, k: usize) -> u32 {
        let index = usize::from(self.index) + k;
        let scalars = wave.sgprs.as_ptr().wrapping_add(index);
        let constants = wave.constants.wrapping_add(index).cast::<u32>();
        let from = if self.kind == SrcKind::Constant { constants } else { scalars };
        // SAFETY: `Compiler::source` checked scalar indices against the size of the scalar file, constant indices against the
        // program's constant table.
        unsafe { *from }
    }
}

/// One micro-op. Each handler defines the meaning of `imm` and `flags`.
#[derive(Clone, Copy, Debug)]
pub struct Uop {
    /// The handler.
    pub run: Handler,
    /// Vector destinations: index into `wave.vgprs`. Scalar destinations: index into `wave.sgprs`.
    pub dst: u16,
    /// Scalar destination of carry-outs and compares (index into `wave.sgprs`).
    pub sdst: u16,
    /// Resolved sources.
    pub src: [Src; 4],
    /// Immediate; defined by the handler.
    pub imm: i64,
    /// Flags; defined by the handler.
    pub flags: u32,
    /// Index of the decoded instruction in the program, for modifiers, traces and faults.
    pub inst: u32,
}
