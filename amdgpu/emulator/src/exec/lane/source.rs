//! Source operands of vector operations: vector registers, broadcast scalars, constants.
//!
//! Contains the run-time part of operand resolution (the compile-time part is `Compiler::source`) and the layout of a wave's
//! scratch lanes during one micro-op. Source modifiers are in `modifier.rs`.

use crate::{Lanes, Mode, Src, SrcKind, Wave};

/// Inputs of an operation: up to three sources, with the high dwords of 64-bit values in `hi`.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    pub lo: [&'a Lanes; 3],
    pub hi: [&'a Lanes; 3],
    pub mode: &'a Mode,
    /// VCC, for operations that read it implicitly.
    pub vcc: u64,
}

/// Outputs of an operation, always for all 64 lanes; the caller stores them under EXEC.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Results {
    pub lo: Lanes,
    pub hi: Lanes,
    /// Carry-out or comparison result, `!0` or 0 per lane.
    pub mask: Lanes,
}

/// Slots in `wave.scratch`: source `n` may use `2 * n` and `2 * n + 1`; the results use the last three.
pub const SPARE: usize = 6;
pub const RESULTS: usize = 13;

/// Lanes of a 32-bit source, or of the low (`part` 0) or high (`part` 1) dword of a 64-bit one. Scalars are broadcast into
/// `room`.
///
/// # Safety
/// `src` must be compiled for the wave's program with a width greater than `part`, and `room` must be a scratch slot of the wave
/// that nothing else references.
#[inline(always)]
pub unsafe fn lanes(wave: &Wave, src: Src, part: usize, room: *mut Lanes) -> *const Lanes {
    let index = usize::from(src.index) + part;
    // SAFETY: the index was checked when the source was compiled; the caller guarantees that `room` is exclusive.
    unsafe {
        match src.kind {
            SrcKind::Vector => wave.vgprs.as_ptr().add(index),
            SrcKind::Constant => wave.constants.add(index),
            SrcKind::Scalar => {
                *room = Lanes::splat(*wave.sgprs.get_unchecked(index));
                room
            }
            SrcKind::None => room,
        }
    }
}

/// Value of a uniform source; lane 0 of a vector register.
///
/// # Safety
/// As for [`lanes`].
#[inline(always)]
pub unsafe fn uniform(wave: &Wave, src: Src) -> u32 {
    let index = usize::from(src.index);
    // SAFETY: the index was checked when the source was compiled.
    unsafe {
        match src.kind {
            SrcKind::Vector => wave.vgprs.get_unchecked(index).0[0],
            SrcKind::Constant => (*wave.constants.add(index)).0[0],
            SrcKind::Scalar => *wave.sgprs.get_unchecked(index),
            SrcKind::None => 0,
        }
    }
}
