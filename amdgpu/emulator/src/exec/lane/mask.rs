//! Lane masks: conversion between a 64-bit mask and 64 lanes of all-zeros or all-ones, and masked copies.
//!
//! These few operations use intrinsics, one type per CPU level, because the portable loops are much slower. Other vector
//! instructions are mostly plain loops that the compiler vectorises.

use crate::Lanes;

/// Mask operations of one CPU level.
///
/// The methods are `unsafe` because they may use instructions of that level: call them only from handlers built for it.
pub trait Cpu: 'static {
    /// Packs the sign bits: bit `i` of the result is the sign bit of lane `i`.
    ///
    /// # Safety
    /// The machine must have this level.
    unsafe fn pack(lanes: &Lanes) -> u64;

    /// Sets lane `i` to `!0` if bit `i` is set, else to 0.
    ///
    /// # Safety
    /// The machine must have this level.
    unsafe fn expand(mask: u64, lanes: &mut Lanes);

    /// Copies the lanes whose bit is set.
    ///
    /// # Safety
    /// The machine must have this level.
    unsafe fn blend(mask: u64, from: &Lanes, to: &mut Lanes);
}

/// Plain loops.
#[derive(Debug)]
pub struct Portable;

impl Cpu for Portable {
    #[inline(always)]
    unsafe fn pack(lanes: &Lanes) -> u64 {
        let mut mask = 0;
        for (lane, value) in lanes.0.iter().enumerate() {
            mask |= u64::from(value >> 31) << lane;
        }
        mask
    }

    #[inline(always)]
    unsafe fn expand(mask: u64, lanes: &mut Lanes) {
        for half in 0..2 {
            let bits = (mask >> (32 * half)) as u32;
            for lane in 0..32 {
                lanes.0[32 * half + lane] = (bits >> lane & 1).wrapping_neg();
            }
        }
    }

    #[inline(always)]
    unsafe fn blend(mask: u64, from: &Lanes, to: &mut Lanes) {
        for half in 0..2 {
            let bits = (mask >> (32 * half)) as u32;
            for lane in 0..32 {
                let take = (bits >> lane & 1).wrapping_neg();
                let lane = 32 * half + lane;
                to.0[lane] = from.0[lane] & take | to.0[lane] & !take;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::Cpu;
    use crate::Lanes;

    /// AVX2: eight lanes at a time; masks are expanded by comparing broadcast bytes with one bit per lane.
    #[derive(Debug)]
    pub struct Avx2;

    impl Avx2 {
        #[inline(always)]
        unsafe fn byte_mask(mask: u64, group: usize) -> __m256i {
            // SAFETY: only reached from handlers built for AVX2.
            unsafe {
                let bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
                let byte = _mm256_set1_epi32((mask >> (8 * group)) as i32);
                _mm256_cmpeq_epi32(_mm256_and_si256(byte, bits), bits)
            }
        }
    }

    impl Cpu for Avx2 {
        #[inline(always)]
        unsafe fn pack(lanes: &Lanes) -> u64 {
            let mut mask = 0;
            for group in 0..8 {
                // SAFETY: the caller guarantees AVX2; the load stays inside the 64 lanes.
                let bits = unsafe {
                    _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_load_si256(
                        lanes.0.as_ptr().add(8 * group).cast(),
                    )))
                };
                mask |= u64::from(bits as u8) << (8 * group);
            }
            mask
        }

        #[inline(always)]
        unsafe fn expand(mask: u64, lanes: &mut Lanes) {
            for group in 0..8 {
                // SAFETY: the caller guarantees AVX2; the store stays inside the 64 lanes.
                unsafe {
                    _mm256_store_si256(
                        lanes.0.as_mut_ptr().add(8 * group).cast(),
                        Self::byte_mask(mask, group),
                    );
                }
            }
        }

        #[inline(always)]
        unsafe fn blend(mask: u64, from: &Lanes, to: &mut Lanes) {
            for group in 0..8 {
                // SAFETY: the caller guarantees AVX2; loads and stores stay inside the 64 lanes.
                unsafe {
                    let new = _mm256_load_si256(from.0.as_ptr().add(8 * group).cast());
                    let place: *mut __m256i = to.0.as_mut_ptr().add(8 * group).cast();
                    let old = _mm256_load_si256(place);
                    _mm256_store_si256(place, _mm256_blendv_epi8(old, new, Self::byte_mask(mask, group)));
                }
            }
        }
    }

    /// AVX-512: mask registers.
    #[derive(Debug)]
    pub struct Avx512;

    impl Cpu for Avx512 {
        #[inline(always)]
        unsafe fn pack(lanes: &Lanes) -> u64 {
            let mut mask = 0;
            for group in 0..4 {
                // SAFETY: the caller guarantees AVX-512 DQ; the load stays inside the 64 lanes.
                let bits = unsafe {
                    _mm512_movepi32_mask(_mm512_load_si512(lanes.0.as_ptr().add(16 * group).cast()))
                };
                mask |= u64::from(bits) << (16 * group);
            }
            mask
        }

        #[inline(always)]
        unsafe fn expand(mask: u64, lanes: &mut Lanes) {
            for group in 0..4 {
                // SAFETY: the caller guarantees AVX-512 DQ; the store stays inside the 64 lanes.
                unsafe {
                    let bits = _mm512_movm_epi32((mask >> (16 * group)) as u16);
                    _mm512_store_si512(lanes.0.as_mut_ptr().add(16 * group).cast(), bits);
                }
            }
        }

        #[inline(always)]
        unsafe fn blend(mask: u64, from: &Lanes, to: &mut Lanes) {
            for group in 0..4 {
                // SAFETY: the caller guarantees AVX-512 F; loads and stores stay inside the 64 lanes.
                unsafe {
                    let new = _mm512_load_si512(from.0.as_ptr().add(16 * group).cast());
                    let place = to.0.as_mut_ptr().add(16 * group).cast();
                    _mm512_mask_store_epi32(place, (mask >> (16 * group)) as u16, new);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    fn check<C: Cpu>() {
        let mut mask = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..200 {
            mask = mask.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let mut lanes = Lanes::ZERO;
            let from = Lanes(std::array::from_fn(|lane| 1000 + lane as u32));
            let mut to = Lanes(std::array::from_fn(|lane| lane as u32));
            // SAFETY: `check` is called only for levels this machine has.
            let packed = unsafe {
                C::expand(mask, &mut lanes);
                C::blend(mask, &from, &mut to);
                C::pack(&lanes)
            };
            assert_eq!(packed, mask);
            for lane in 0..64 {
                let set = mask >> lane & 1 == 1;
                assert_eq!(lanes.0[lane], if set { !0 } else { 0 });
                assert_eq!(to.0[lane], lane as u32 + if set { 1000 } else { 0 });
            }
        }
    }

    #[test]
    fn every_level_packs_expands_and_blends_alike() {
        check::<Portable>();
        #[cfg(target_arch = "x86_64")]
        {
            if Level::V3.available() {
                check::<Avx2>();
            }
            if Level::V4.available() {
                check::<Avx512>();
            }
        }
    }
}
