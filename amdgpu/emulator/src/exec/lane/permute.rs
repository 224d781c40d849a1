//! Cross-lane moves in the DS format, which access no memory.

use crate::exec::access::checked::{vector, vector_mut};
use crate::exec::access::element::blend;
use crate::{Body, Flow, Uop, Wave};

/// `ds_bpermute_b32`: each active lane reads the lane given by its address; inactive source lanes read as zero.
pub(crate) struct Bpermute;
impl Body for Bpermute {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        let mut out = [0u32; 64];
        // SAFETY: registers were checked at compile time.
        unsafe {
            let from = &(*vector(wave, uop.src[0].index)).0;
            let mut data = (*vector(wave, uop.src[1].index)).0;
            if exec != !0 {
                for lane in 0..64 {
                    data[lane] = if exec >> lane & 1 != 0 { data[lane] } else { 0 };
                }
            }
            for lane in 0..64 {
                out[lane] = data[(from[lane].wrapping_add(uop.imm as u32) >> 2 & 63) as usize];
            }
            blend(exec, &out, &mut (*vector_mut(wave, uop.dst)).0);
        }
        Flow::Next
    }
}

/// `ds_permute_b32`: each active lane writes to the lane given by its address; lanes that are not written get zero.
pub(crate) struct Permute;
impl Body for Permute {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        let mut out = [0u32; 64];
        // SAFETY: registers were checked at compile time.
        unsafe {
            let to = &(*vector(wave, uop.src[0].index)).0;
            let data = &(*vector(wave, uop.src[1].index)).0;
            for lane in (0..64).filter(|lane| exec >> lane & 1 != 0) {
                out[(to[lane].wrapping_add(uop.imm as u32) >> 2 & 63) as usize] = data[lane];
            }
            blend(exec, &out, &mut (*vector_mut(wave, uop.dst)).0);
        }
        Flow::Next
    }
}

/// The lane that `lane` reads under a `ds_swizzle_b32` pattern; `None` for unsupported patterns (FFT).
pub(crate) fn swizzled(pattern: u32, lane: u32) -> Option<u32> {
    let within = lane & 31;
    let source = match pattern {
        0xe000.. => return None,
        0xc000..=0xdfff => {
            let (mask, count) = (pattern & 31, pattern >> 5 & 31);
            let turned =
                if pattern >> 10 & 1 == 0 { within.wrapping_add(count) } else { within.wrapping_sub(count) };
            within & mask | turned & !mask & 31
        }
        0x8000..=0xbfff => within & !3 | pattern >> (2 * (within & 3)) & 3,
        _ => (within & pattern & 31 | pattern >> 5 & 31) ^ pattern >> 10 & 31,
    };
    Some(lane & !31 | source)
}

pub(crate) struct Swizzle;
impl Body for Swizzle {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        let mut out = [0u32; 64];
        // SAFETY: registers were checked at compile time.
        unsafe {
            let data = &(*vector(wave, uop.src[0].index)).0;
            for lane in 0..64 {
                let source = swizzled(uop.imm as u32, lane as u32).unwrap_or(0);
                out[lane] = if exec >> source & 1 != 0 { data[source as usize] } else { 0 };
            }
            blend(exec, &out, &mut (*vector_mut(wave, uop.dst)).0);
        }
        Flow::Next
    }
}

#[cfg(test)]
mod tests {
    use super::swizzled;

    #[test]
    fn swizzle_patterns_name_the_documented_lanes() {
        // Butterfly by one: xor mask 1, and mask 31.
        let butterfly = 0x041f;
        assert_eq!((swizzled(butterfly, 0), swizzled(butterfly, 33)), (Some(1), Some(32)));
        // Broadcast of lane 3 within 32: and 0, or 3.
        assert_eq!(swizzled(3 << 5, 40), Some(35));
        // Quad permute 3, 2, 1, 0.
        assert_eq!((swizzled(0x801b, 4), swizzled(0x801b, 7)), (Some(7), Some(4)));
    }
}
