//! Intrinsics on rows of 16 lanes, for matrix products and the most frequent operations.
//!
//! With auto-vectorised loops, accumulators that live across a loop spill to memory, and a destination that may alias a source
//! costs a copy. These types keep rows in explicit vector registers, with one implementation per CPU level.

#[cfg(target_arch = "x86_64")]
mod x86;

use crate::exec::lane::mask::{Cpu, Portable};

/// Arithmetic on sixteen 32-bit lanes, or eight 64-bit ones.
///
/// # Safety
/// All methods must be called only from handlers built for the level, with pointers valid for the accessed lanes.
pub trait RowVector: Cpu {
    /// Sixteen lanes of 32 bits.
    type Dwords: Copy;
    /// Eight lanes of 64 bits.
    type Doubles: Copy;

    /// # Safety
    /// See the trait.
    unsafe fn load(from: *const u32) -> Self::Dwords;
    /// # Safety
    /// See the trait.
    unsafe fn store(value: Self::Dwords, to: *mut u32);
    /// `a * b + sum` of f32 bits, rounded once.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn multiply_f32(a: u32, b: Self::Dwords, sum: Self::Dwords) -> Self::Dwords;
    /// `a * b + sum` of i32.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn multiply_i32(a: u32, b: Self::Dwords, sum: Self::Dwords) -> Self::Dwords;
    /// # Safety
    /// See the trait.
    unsafe fn store_masked(mask: u16, value: Self::Dwords, to: *mut u32);
    /// Lanes of `b` where `mask` is set, else of `a`.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn select(mask: u16, a: Self::Dwords, b: Self::Dwords) -> Self::Dwords;
    /// `a * b + c` of f32, rounded once.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn fma_f32(a: Self::Dwords, b: Self::Dwords, c: Self::Dwords) -> Self::Dwords;
    /// # Safety
    /// See the trait.
    unsafe fn add_f32(a: Self::Dwords, b: Self::Dwords) -> Self::Dwords;
    /// # Safety
    /// See the trait.
    unsafe fn sub_f32(a: Self::Dwords, b: Self::Dwords) -> Self::Dwords;
    /// # Safety
    /// See the trait.
    unsafe fn mul_f32(a: Self::Dwords, b: Self::Dwords) -> Self::Dwords;
    /// # Safety
    /// See the trait.
    unsafe fn add_u32(a: Self::Dwords, b: Self::Dwords) -> Self::Dwords;
    /// # Safety
    /// See the trait.
    unsafe fn sub_u32(a: Self::Dwords, b: Self::Dwords) -> Self::Dwords;
    /// # Safety
    /// See the trait.
    unsafe fn and(a: Self::Dwords, b: Self::Dwords) -> Self::Dwords;
    /// # Safety
    /// See the trait.
    unsafe fn or(a: Self::Dwords, b: Self::Dwords) -> Self::Dwords;
    /// # Safety
    /// See the trait.
    unsafe fn xor(a: Self::Dwords, b: Self::Dwords) -> Self::Dwords;
    /// Shifts by the low five bits of `b`.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn shift_left(a: Self::Dwords, b: Self::Dwords) -> Self::Dwords;
    /// # Safety
    /// See the trait.
    unsafe fn shift_right(a: Self::Dwords, b: Self::Dwords) -> Self::Dwords;
    /// # Safety
    /// See the trait.
    unsafe fn shift_right_signed(a: Self::Dwords, b: Self::Dwords) -> Self::Dwords;
    /// Sets bit `j` if lane `j` of `a` is less than that of `b`.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn less_u32(a: Self::Dwords, b: Self::Dwords) -> u16;
    /// # Safety
    /// See the trait.
    unsafe fn less_i32(a: Self::Dwords, b: Self::Dwords) -> u16;
    /// # Safety
    /// See the trait.
    unsafe fn equal(a: Self::Dwords, b: Self::Dwords) -> u16;
    /// Adds one in the lanes of `mask`.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn increment(mask: u16, a: Self::Dwords) -> Self::Dwords;
    /// Subtracts one in the lanes of `mask`.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn decrement(mask: u16, a: Self::Dwords) -> Self::Dwords;
    /// # Safety
    /// See the trait.
    unsafe fn splat(value: u32) -> Self::Dwords;
    /// # Safety
    /// See the trait.
    unsafe fn load_f64(from: *const f64) -> Self::Doubles;
    /// # Safety
    /// See the trait.
    unsafe fn store_f64(value: Self::Doubles, to: *mut f64);
    /// `a * b + sum`, rounded once.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn multiply_f64(a: f64, b: Self::Doubles, sum: Self::Doubles) -> Self::Doubles;
}

impl RowVector for Portable {
    type Dwords = [u32; 16];
    type Doubles = [f64; 8];

    #[inline(always)]
    unsafe fn load(from: *const u32) -> [u32; 16] {
        // SAFETY: guaranteed by the caller.
        unsafe { from.cast::<[u32; 16]>().read() }
    }

    #[inline(always)]
    unsafe fn store(value: [u32; 16], to: *mut u32) {
        // SAFETY: guaranteed by the caller.
        unsafe { to.cast::<[u32; 16]>().write(value) }
    }

    #[inline(always)]
    unsafe fn multiply_f32(a: u32, b: [u32; 16], sum: [u32; 16]) -> [u32; 16] {
        let a = f32::from_bits(a);
        std::array::from_fn(|j| a.mul_add(f32::from_bits(b[j]), f32::from_bits(sum[j])).to_bits())
    }

    #[inline(always)]
    unsafe fn multiply_i32(a: u32, b: [u32; 16], sum: [u32; 16]) -> [u32; 16] {
        std::array::from_fn(|j| a.wrapping_mul(b[j]).wrapping_add(sum[j]))
    }

    #[inline(always)]
    unsafe fn store_masked(mask: u16, value: [u32; 16], to: *mut u32) {
        for (j, value) in value.into_iter().enumerate() {
            if mask >> j & 1 == 1 {
                // SAFETY: guaranteed by the caller.
                unsafe { to.add(j).write(value) };
            }
        }
    }

    #[inline(always)]
    unsafe fn select(mask: u16, a: [u32; 16], b: [u32; 16]) -> [u32; 16] {
        std::array::from_fn(|j| if mask >> j & 1 == 1 { b[j] } else { a[j] })
    }

    #[inline(always)]
    unsafe fn fma_f32(a: [u32; 16], b: [u32; 16], c: [u32; 16]) -> [u32; 16] {
        std::array::from_fn(|j| {
            f32::from_bits(a[j]).mul_add(f32::from_bits(b[j]), f32::from_bits(c[j])).to_bits()
        })
    }

    #[inline(always)]
    unsafe fn add_f32(a: [u32; 16], b: [u32; 16]) -> [u32; 16] {
        std::array::from_fn(|j| (f32::from_bits(a[j]) + f32::from_bits(b[j])).to_bits())
    }

    #[inline(always)]
    unsafe fn sub_f32(a: [u32; 16], b: [u32; 16]) -> [u32; 16] {
        std::array::from_fn(|j| (f32::from_bits(a[j]) - f32::from_bits(b[j])).to_bits())
    }

    #[inline(always)]
    unsafe fn mul_f32(a: [u32; 16], b: [u32; 16]) -> [u32; 16] {
        std::array::from_fn(|j| (f32::from_bits(a[j]) * f32::from_bits(b[j])).to_bits())
    }

    #[inline(always)]
    unsafe fn add_u32(a: [u32; 16], b: [u32; 16]) -> [u32; 16] {
        std::array::from_fn(|j| a[j].wrapping_add(b[j]))
    }

    #[inline(always)]
    unsafe fn sub_u32(a: [u32; 16], b: [u32; 16]) -> [u32; 16] {
        std::array::from_fn(|j| a[j].wrapping_sub(b[j]))
    }

    #[inline(always)]
    unsafe fn and(a: [u32; 16], b: [u32; 16]) -> [u32; 16] {
        std::array::from_fn(|j| a[j] & b[j])
    }

    #[inline(always)]
    unsafe fn or(a: [u32; 16], b: [u32; 16]) -> [u32; 16] {
        std::array::from_fn(|j| a[j] | b[j])
    }

    #[inline(always)]
    unsafe fn xor(a: [u32; 16], b: [u32; 16]) -> [u32; 16] {
        std::array::from_fn(|j| a[j] ^ b[j])
    }

    #[inline(always)]
    unsafe fn shift_left(a: [u32; 16], b: [u32; 16]) -> [u32; 16] {
        std::array::from_fn(|j| a[j] << (b[j] & 31))
    }

    #[inline(always)]
    unsafe fn shift_right(a: [u32; 16], b: [u32; 16]) -> [u32; 16] {
        std::array::from_fn(|j| a[j] >> (b[j] & 31))
    }

    #[inline(always)]
    unsafe fn shift_right_signed(a: [u32; 16], b: [u32; 16]) -> [u32; 16] {
        std::array::from_fn(|j| (a[j] as i32 >> (b[j] & 31)) as u32)
    }

    #[inline(always)]
    unsafe fn less_u32(a: [u32; 16], b: [u32; 16]) -> u16 {
        let mut mask = 0;
        for j in 0..16 {
            mask |= u16::from(a[j] < b[j]) << j;
        }
        mask
    }

    #[inline(always)]
    unsafe fn less_i32(a: [u32; 16], b: [u32; 16]) -> u16 {
        let mut mask = 0;
        for j in 0..16 {
            mask |= u16::from((a[j] as i32) < b[j] as i32) << j;
        }
        mask
    }

    #[inline(always)]
    unsafe fn equal(a: [u32; 16], b: [u32; 16]) -> u16 {
        let mut mask = 0;
        for j in 0..16 {
            mask |= u16::from(a[j] == b[j]) << j;
        }
        mask
    }

    #[inline(always)]
    unsafe fn increment(mask: u16, a: [u32; 16]) -> [u32; 16] {
        std::array::from_fn(|j| a[j].wrapping_add(u32::from(mask >> j & 1)))
    }

    #[inline(always)]
    unsafe fn decrement(mask: u16, a: [u32; 16]) -> [u32; 16] {
        std::array::from_fn(|j| a[j].wrapping_sub(u32::from(mask >> j & 1)))
    }

    #[inline(always)]
    unsafe fn splat(value: u32) -> [u32; 16] {
        [value; 16]
    }

    #[inline(always)]
    unsafe fn load_f64(from: *const f64) -> [f64; 8] {
        // SAFETY: guaranteed by the caller.
        unsafe { from.cast::<[f64; 8]>().read() }
    }

    #[inline(always)]
    unsafe fn store_f64(value: [f64; 8], to: *mut f64) {
        // SAFETY: guaranteed by the caller.
        unsafe { to.cast::<[f64; 8]>().write(value) }
    }

    #[inline(always)]
    unsafe fn multiply_f64(a: f64, b: [f64; 8], sum: [f64; 8]) -> [f64; 8] {
        std::array::from_fn(|j| a.mul_add(b[j], sum[j]))
    }
}
