//! Where a vector operation's lanes come from: registers, broadcast scalars, constants.
//!
//! Owns the run-time half of operand resolution (the compile-time half is `Compiler::source`) and the layout of a wave's scratch
//! lanes during one micro-op. Refuses modifiers: those are `modifier.rs`.

use crate::{Lanes, Mode, Src, SrcKind, Wave};

/// What an operation reads: up to three sources, each with the high dwords of a 64-bit value behind it.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    pub lo: [&'a Lanes; 3],
    pub hi: [&'a Lanes; 3],
    pub mode: &'a Mode,
    /// VCC, for the operations that read it unasked.
    pub vcc: u64,
}

/// What an operation writes, always for all 64 lanes: the caller stores it under EXEC.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Results {
    pub lo: Lanes,
    pub hi: Lanes,
    /// Carry-out or comparison, `!0` or 0 per lane.
    pub mask: Lanes,
}

/// Places in `wave.scratch`: source `n` may use `2 * n` and `2 * n + 1`; the results are the last three.
pub const SPARE: usize = 6;
pub const RESULTS: usize = 13;

/// Lanes of a 32-bit source, or of the low (`part` 0) or high (`part` 1) dword of a wider one. Scalars are broadcast into `room`.
///
/// # Safety
/// `src` was compiled for the wave's program with a width above `part`, and `room` is one of the wave's scratch lanes that
/// nothing else refers to.
#[inline(always)]
pub unsafe fn lanes(wave: &Wave, src: Src, part: usize, room: *mut Lanes) -> *const Lanes {
    let index = usize::from(src.index) + part;
    // SAFETY: the index was checked when the source was compiled; `room` is exclusive by contract.
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

/// Value of a source that is the same for all lanes; lane 0 of a vector register.
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
