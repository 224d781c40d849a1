//! MODE other than the usual: subnormals flushed, results rounded another way.

use crate::exec::lane_op::{Kind, Shape};
use crate::exec::lane_source::Results;
use crate::{Lanes, Mode};

/// The rounding field that an operation follows: that of f32 where all is f32, else the one of f64 and f16.
pub fn rounding(shape: Shape, mode: &Mode) -> u8 {
    match shape.dst {
        Kind::F32 | Kind::PkF32 if shape.src[0] != Kind::F64 => mode.round_f32,
        _ => mode.round_f64,
    }
}

/// The rounding field for scaling a result of a kind.
pub fn scaling(kind: Kind, mode: &Mode) -> u8 {
    if matches!(kind, Kind::F32 | Kind::PkF32) { mode.round_f32 } else { mode.round_f64 }
}

/// Flushes subnormal sources where MODE asks for it.
pub fn flush_source(kind: Kind, mode: &Mode, lo: &mut Lanes, hi: &mut Lanes) {
    flush(kind, mode.denorm_f32 & 1 == 0, mode.denorm_f64 & 1 == 0, lo, hi);
}

/// Flushes subnormal results where MODE asks for it.
pub fn flush_result(kind: Kind, mode: &Mode, results: &mut Results) {
    flush(kind, mode.denorm_f32 & 2 == 0, mode.denorm_f64 & 2 == 0, &mut results.lo, &mut results.hi);
}

fn flush(kind: Kind, flush_f32: bool, flush_others: bool, lo: &mut Lanes, hi: &mut Lanes) {
    let dword = |value: &mut u32| {
        if *value & 0x7f80_0000 == 0 {
            *value &= 0x8000_0000;
        }
    };
    let half = |value: &mut u32, shift: u32| {
        if *value >> shift & 0x7c00 == 0 {
            *value &= !(0x3ff << shift);
        }
    };
    match kind {
        Kind::F32 | Kind::Mix if flush_f32 => lo.0.iter_mut().for_each(dword),
        Kind::PkF32 if flush_f32 => lo.0.iter_mut().chain(&mut hi.0).for_each(dword),
        Kind::F16 if flush_others => lo.0.iter_mut().for_each(|value| half(value, 0)),
        Kind::PkF16 if flush_others => lo.0.iter_mut().for_each(|value| {
            half(value, 0);
            half(value, 16);
        }),
        Kind::F64 if flush_others => {
            for (lo, hi) in lo.0.iter_mut().zip(&mut hi.0) {
                if *hi & 0x7ff0_0000 == 0 {
                    (*lo, *hi) = (0, *hi & 0x8000_0000);
                }
            }
        }
        _ => {}
    }
}

/// Runs `body` with the host's rounding set to MODE's: 0 nearest even, 1 up, 2 down, 3 towards zero.
///
/// Only x86-64 hosts have the one register that rules all vector arithmetic; elsewhere results are rounded to nearest.
pub fn with_rounding(rounding: u8, body: impl FnOnce()) {
    if rounding & 3 == 0 {
        return body();
    }
    #[cfg(target_arch = "x86_64")]
    {
        let field = [0, 0b10, 0b01, 0b11][usize::from(rounding & 3)];
        let mut old = 0_u32;
        // SAFETY: reads and writes only the control register and the two locals. The kernel between the two is reached through a
        // pointer, so none of its arithmetic is moved out, and the register is as before when it ends.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut old, options(nostack));
            let new = old & !(0b11 << 13) | field << 13;
            std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const new, options(nostack));
            body();
            std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const old, options(nostack));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    body();
}
