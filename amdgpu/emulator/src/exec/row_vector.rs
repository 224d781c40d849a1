//! Sixteen lanes in vector registers: for the matrix products and the most frequent operations.
//!
//! Left to the compiler, sums that live across a loop end up in memory, and a destination that may be a source costs a copy; this
//! names the registers for each CPU level.

use super::lane_mask::{Cpu, Portable};

/// Arithmetic on sixteen 32-bit lanes, or eight 64-bit ones.
///
/// # Safety
/// All methods: only from handlers built for the level, with pointers valid for the lanes they name.
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
    /// Bits of `b` where `mask` is set, else of `a`.
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
    /// Shifts take the low five bits of `b`.
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
    /// Bit `j` is set where lane `j` of `a` is below that of `b`.
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
    /// One more in the lanes of `mask`.
    ///
    /// # Safety
    /// See the trait.
    unsafe fn increment(mask: u16, a: Self::Dwords) -> Self::Dwords;
    /// One less in the lanes of `mask`.
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
        // SAFETY: by contract.
        unsafe { from.cast::<[u32; 16]>().read() }
    }

    #[inline(always)]
    unsafe fn store(value: [u32; 16], to: *mut u32) {
        // SAFETY: by contract.
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
                // SAFETY: by contract.
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
        // SAFETY: by contract.
        unsafe { from.cast::<[f64; 8]>().read() }
    }

    #[inline(always)]
    unsafe fn store_f64(value: [f64; 8], to: *mut f64) {
        // SAFETY: by contract.
        unsafe { to.cast::<[f64; 8]>().write(value) }
    }

    #[inline(always)]
    unsafe fn multiply_f64(a: f64, b: [f64; 8], sum: [f64; 8]) -> [f64; 8] {
        std::array::from_fn(|j| a.mul_add(b[j], sum[j]))
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::super::lane_mask::{Avx2, Avx512};
    use super::RowVector;

    impl RowVector for Avx512 {
        type Dwords = __m512i;
        type Doubles = __m512d;

        #[inline(always)]
        unsafe fn load(from: *const u32) -> __m512i {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_loadu_si512(from.cast()) }
        }

        #[inline(always)]
        unsafe fn store(value: __m512i, to: *mut u32) {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_storeu_si512(to.cast(), value) }
        }

        #[inline(always)]
        unsafe fn multiply_f32(a: u32, b: __m512i, sum: __m512i) -> __m512i {
            // SAFETY: AVX-512 by contract.
            unsafe {
                let a = _mm512_castsi512_ps(_mm512_set1_epi32(a as i32));
                _mm512_castps_si512(_mm512_fmadd_ps(a, _mm512_castsi512_ps(b), _mm512_castsi512_ps(sum)))
            }
        }

        #[inline(always)]
        unsafe fn multiply_i32(a: u32, b: __m512i, sum: __m512i) -> __m512i {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_add_epi32(_mm512_mullo_epi32(_mm512_set1_epi32(a as i32), b), sum) }
        }

        #[inline(always)]
        unsafe fn store_masked(mask: u16, value: __m512i, to: *mut u32) {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_mask_storeu_epi32(to.cast(), mask, value) }
        }

        #[inline(always)]
        unsafe fn select(mask: u16, a: __m512i, b: __m512i) -> __m512i {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_mask_blend_epi32(mask, a, b) }
        }

        #[inline(always)]
        unsafe fn fma_f32(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
            // SAFETY: AVX-512 by contract.
            unsafe {
                let ps =
                    _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), _mm512_castsi512_ps(c));
                _mm512_castps_si512(ps)
            }
        }

        #[inline(always)]
        unsafe fn add_f32(a: __m512i, b: __m512i) -> __m512i {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b))) }
        }

        #[inline(always)]
        unsafe fn sub_f32(a: __m512i, b: __m512i) -> __m512i {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_castps_si512(_mm512_sub_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b))) }
        }

        #[inline(always)]
        unsafe fn mul_f32(a: __m512i, b: __m512i) -> __m512i {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_castps_si512(_mm512_mul_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b))) }
        }

        #[inline(always)]
        unsafe fn add_u32(a: __m512i, b: __m512i) -> __m512i {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_add_epi32(a, b) }
        }

        #[inline(always)]
        unsafe fn sub_u32(a: __m512i, b: __m512i) -> __m512i {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_sub_epi32(a, b) }
        }

        #[inline(always)]
        unsafe fn and(a: __m512i, b: __m512i) -> __m512i {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_and_si512(a, b) }
        }

        #[inline(always)]
        unsafe fn or(a: __m512i, b: __m512i) -> __m512i {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_or_si512(a, b) }
        }

        #[inline(always)]
        unsafe fn xor(a: __m512i, b: __m512i) -> __m512i {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_xor_si512(a, b) }
        }

        #[inline(always)]
        unsafe fn shift_left(a: __m512i, b: __m512i) -> __m512i {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_sllv_epi32(a, _mm512_and_si512(b, _mm512_set1_epi32(31))) }
        }

        #[inline(always)]
        unsafe fn shift_right(a: __m512i, b: __m512i) -> __m512i {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_srlv_epi32(a, _mm512_and_si512(b, _mm512_set1_epi32(31))) }
        }

        #[inline(always)]
        unsafe fn shift_right_signed(a: __m512i, b: __m512i) -> __m512i {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_srav_epi32(a, _mm512_and_si512(b, _mm512_set1_epi32(31))) }
        }

        #[inline(always)]
        unsafe fn less_u32(a: __m512i, b: __m512i) -> u16 {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_cmplt_epu32_mask(a, b) }
        }

        #[inline(always)]
        unsafe fn less_i32(a: __m512i, b: __m512i) -> u16 {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_cmplt_epi32_mask(a, b) }
        }

        #[inline(always)]
        unsafe fn equal(a: __m512i, b: __m512i) -> u16 {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_cmpeq_epi32_mask(a, b) }
        }

        #[inline(always)]
        unsafe fn increment(mask: u16, a: __m512i) -> __m512i {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_mask_add_epi32(a, mask, a, _mm512_set1_epi32(1)) }
        }

        #[inline(always)]
        unsafe fn decrement(mask: u16, a: __m512i) -> __m512i {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_mask_sub_epi32(a, mask, a, _mm512_set1_epi32(1)) }
        }

        #[inline(always)]
        unsafe fn splat(value: u32) -> __m512i {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_set1_epi32(value as i32) }
        }

        #[inline(always)]
        unsafe fn load_f64(from: *const f64) -> __m512d {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_loadu_pd(from) }
        }

        #[inline(always)]
        unsafe fn store_f64(value: __m512d, to: *mut f64) {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_storeu_pd(to, value) }
        }

        #[inline(always)]
        unsafe fn multiply_f64(a: f64, b: __m512d, sum: __m512d) -> __m512d {
            // SAFETY: AVX-512 by contract.
            unsafe { _mm512_fmadd_pd(_mm512_set1_pd(a), b, sum) }
        }
    }

    /// All-ones lanes for the bits of a byte.
    ///
    /// # Safety
    /// As for [`RowVector`].
    #[inline(always)]
    unsafe fn byte_mask(mask: u8) -> __m256i {
        // SAFETY: AVX2 by contract.
        unsafe {
            let bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(i32::from(mask)), bits), bits)
        }
    }

    /// The sign bits of sixteen lanes.
    ///
    /// # Safety
    /// As for [`RowVector`].
    #[inline(always)]
    unsafe fn signs(lanes: [__m256i; 2]) -> u16 {
        // SAFETY: AVX2 by contract.
        unsafe {
            let low = _mm256_movemask_ps(_mm256_castsi256_ps(lanes[0]));
            let high = _mm256_movemask_ps(_mm256_castsi256_ps(lanes[1]));
            low as u16 | (high as u16) << 8
        }
    }

    impl RowVector for Avx2 {
        type Dwords = [__m256i; 2];
        type Doubles = [__m256d; 2];

        #[inline(always)]
        unsafe fn load(from: *const u32) -> [__m256i; 2] {
            // SAFETY: AVX2 by contract.
            unsafe { [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(8).cast())] }
        }

        #[inline(always)]
        unsafe fn store(value: [__m256i; 2], to: *mut u32) {
            // SAFETY: AVX2 by contract.
            unsafe {
                _mm256_storeu_si256(to.cast(), value[0]);
                _mm256_storeu_si256(to.add(8).cast(), value[1]);
            }
        }

        #[inline(always)]
        unsafe fn multiply_f32(a: u32, b: [__m256i; 2], sum: [__m256i; 2]) -> [__m256i; 2] {
            // SAFETY: AVX2 and FMA by contract.
            unsafe {
                let a = _mm256_castsi256_ps(_mm256_set1_epi32(a as i32));
                let one = |b, sum| {
                    _mm256_castps_si256(_mm256_fmadd_ps(a, _mm256_castsi256_ps(b), _mm256_castsi256_ps(sum)))
                };
                [one(b[0], sum[0]), one(b[1], sum[1])]
            }
        }

        #[inline(always)]
        unsafe fn multiply_i32(a: u32, b: [__m256i; 2], sum: [__m256i; 2]) -> [__m256i; 2] {
            // SAFETY: AVX2 by contract.
            unsafe {
                let a = _mm256_set1_epi32(a as i32);
                let one = |b, sum| _mm256_add_epi32(_mm256_mullo_epi32(a, b), sum);
                [one(b[0], sum[0]), one(b[1], sum[1])]
            }
        }

        #[inline(always)]
        unsafe fn store_masked(mask: u16, value: [__m256i; 2], to: *mut u32) {
            // SAFETY: AVX2 by contract.
            unsafe {
                _mm256_maskstore_epi32(to.cast(), byte_mask(mask as u8), value[0]);
                _mm256_maskstore_epi32(to.add(8).cast(), byte_mask((mask >> 8) as u8), value[1]);
            }
        }

        #[inline(always)]
        unsafe fn select(mask: u16, a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
            // SAFETY: AVX2 by contract.
            unsafe {
                [
                    _mm256_blendv_epi8(a[0], b[0], byte_mask(mask as u8)),
                    _mm256_blendv_epi8(a[1], b[1], byte_mask((mask >> 8) as u8)),
                ]
            }
        }

        #[inline(always)]
        unsafe fn fma_f32(a: [__m256i; 2], b: [__m256i; 2], c: [__m256i; 2]) -> [__m256i; 2] {
            // SAFETY: AVX2 and FMA by contract.
            unsafe {
                let (a0, b0, c0) =
                    (_mm256_castsi256_ps(a[0]), _mm256_castsi256_ps(b[0]), _mm256_castsi256_ps(c[0]));
                let (a1, b1, c1) =
                    (_mm256_castsi256_ps(a[1]), _mm256_castsi256_ps(b[1]), _mm256_castsi256_ps(c[1]));
                [
                    _mm256_castps_si256(_mm256_fmadd_ps(a0, b0, c0)),
                    _mm256_castps_si256(_mm256_fmadd_ps(a1, b1, c1)),
                ]
            }
        }

        #[inline(always)]
        unsafe fn add_f32(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
            // SAFETY: AVX2 by contract.
            unsafe {
                [
                    _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(a[0]), _mm256_castsi256_ps(b[0]))),
                    _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(a[1]), _mm256_castsi256_ps(b[1]))),
                ]
            }
        }

        #[inline(always)]
        unsafe fn sub_f32(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
            // SAFETY: AVX2 by contract.
            unsafe {
                [
                    _mm256_castps_si256(_mm256_sub_ps(_mm256_castsi256_ps(a[0]), _mm256_castsi256_ps(b[0]))),
                    _mm256_castps_si256(_mm256_sub_ps(_mm256_castsi256_ps(a[1]), _mm256_castsi256_ps(b[1]))),
                ]
            }
        }

        #[inline(always)]
        unsafe fn mul_f32(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
            // SAFETY: AVX2 by contract.
            unsafe {
                [
                    _mm256_castps_si256(_mm256_mul_ps(_mm256_castsi256_ps(a[0]), _mm256_castsi256_ps(b[0]))),
                    _mm256_castps_si256(_mm256_mul_ps(_mm256_castsi256_ps(a[1]), _mm256_castsi256_ps(b[1]))),
                ]
            }
        }

        #[inline(always)]
        unsafe fn add_u32(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
            // SAFETY: AVX2 by contract.
            unsafe { [_mm256_add_epi32(a[0], b[0]), _mm256_add_epi32(a[1], b[1])] }
        }

        #[inline(always)]
        unsafe fn sub_u32(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
            // SAFETY: AVX2 by contract.
            unsafe { [_mm256_sub_epi32(a[0], b[0]), _mm256_sub_epi32(a[1], b[1])] }
        }

        #[inline(always)]
        unsafe fn and(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
            // SAFETY: AVX2 by contract.
            unsafe { [_mm256_and_si256(a[0], b[0]), _mm256_and_si256(a[1], b[1])] }
        }

        #[inline(always)]
        unsafe fn or(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
            // SAFETY: AVX2 by contract.
            unsafe { [_mm256_or_si256(a[0], b[0]), _mm256_or_si256(a[1], b[1])] }
        }

        #[inline(always)]
        unsafe fn xor(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
            // SAFETY: AVX2 by contract.
            unsafe { [_mm256_xor_si256(a[0], b[0]), _mm256_xor_si256(a[1], b[1])] }
        }

        #[inline(always)]
        unsafe fn shift_left(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
            // SAFETY: AVX2 by contract.
            unsafe {
                [
                    _mm256_sllv_epi32(a[0], _mm256_and_si256(b[0], _mm256_set1_epi32(31))),
                    _mm256_sllv_epi32(a[1], _mm256_and_si256(b[1], _mm256_set1_epi32(31))),
                ]
            }
        }

        #[inline(always)]
        unsafe fn shift_right(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
            // SAFETY: AVX2 by contract.
            unsafe {
                [
                    _mm256_srlv_epi32(a[0], _mm256_and_si256(b[0], _mm256_set1_epi32(31))),
                    _mm256_srlv_epi32(a[1], _mm256_and_si256(b[1], _mm256_set1_epi32(31))),
                ]
            }
        }

        #[inline(always)]
        unsafe fn shift_right_signed(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
            // SAFETY: AVX2 by contract.
            unsafe {
                [
                    _mm256_srav_epi32(a[0], _mm256_and_si256(b[0], _mm256_set1_epi32(31))),
                    _mm256_srav_epi32(a[1], _mm256_and_si256(b[1], _mm256_set1_epi32(31))),
                ]
            }
        }

        #[inline(always)]
        unsafe fn less_u32(a: [__m256i; 2], b: [__m256i; 2]) -> u16 {
            // SAFETY: AVX2 by contract. With the sign bit flipped, unsigned order is signed order.
            unsafe {
                let sign = _mm256_set1_epi32(i32::MIN);
                let flip = |x: [__m256i; 2]| [_mm256_xor_si256(x[0], sign), _mm256_xor_si256(x[1], sign)];
                Self::less_i32(flip(a), flip(b))
            }
        }

        #[inline(always)]
        unsafe fn less_i32(a: [__m256i; 2], b: [__m256i; 2]) -> u16 {
            // SAFETY: AVX2 by contract.
            unsafe { signs([_mm256_cmpgt_epi32(b[0], a[0]), _mm256_cmpgt_epi32(b[1], a[1])]) }
        }

        #[inline(always)]
        unsafe fn equal(a: [__m256i; 2], b: [__m256i; 2]) -> u16 {
            // SAFETY: AVX2 by contract.
            unsafe { signs([_mm256_cmpeq_epi32(a[0], b[0]), _mm256_cmpeq_epi32(a[1], b[1])]) }
        }

        #[inline(always)]
        unsafe fn increment(mask: u16, a: [__m256i; 2]) -> [__m256i; 2] {
            // SAFETY: AVX2 by contract. A set lane is minus one.
            unsafe {
                let (low, high) = (byte_mask(mask as u8), byte_mask((mask >> 8) as u8));
                [_mm256_sub_epi32(a[0], low), _mm256_sub_epi32(a[1], high)]
            }
        }

        #[inline(always)]
        unsafe fn decrement(mask: u16, a: [__m256i; 2]) -> [__m256i; 2] {
            // SAFETY: AVX2 by contract.
            unsafe {
                let (low, high) = (byte_mask(mask as u8), byte_mask((mask >> 8) as u8));
                [_mm256_add_epi32(a[0], low), _mm256_add_epi32(a[1], high)]
            }
        }

        #[inline(always)]
        unsafe fn splat(value: u32) -> [__m256i; 2] {
            // SAFETY: AVX2 by contract.
            unsafe { [_mm256_set1_epi32(value as i32); 2] }
        }

        #[inline(always)]
        unsafe fn load_f64(from: *const f64) -> [__m256d; 2] {
            // SAFETY: AVX2 by contract.
            unsafe { [_mm256_loadu_pd(from), _mm256_loadu_pd(from.add(4))] }
        }

        #[inline(always)]
        unsafe fn store_f64(value: [__m256d; 2], to: *mut f64) {
            // SAFETY: AVX2 by contract.
            unsafe {
                _mm256_storeu_pd(to, value[0]);
                _mm256_storeu_pd(to.add(4), value[1]);
            }
        }

        #[inline(always)]
        unsafe fn multiply_f64(a: f64, b: [__m256d; 2], sum: [__m256d; 2]) -> [__m256d; 2] {
            // SAFETY: AVX2 and FMA by contract.
            unsafe {
                let a = _mm256_set1_pd(a);
                [_mm256_fmadd_pd(a, b[0], sum[0]), _mm256_fmadd_pd(a, b[1], sum[1])]
            }
        }
    }
}
