//! [`RowVector`] for AVX-512 registers and for pairs of AVX2 registers.

use std::arch::x86_64::*;

use super::RowVector;
use crate::exec::lane::mask::{Avx2, Avx512};

impl RowVector for Avx512 {
    type Dwords = __m512i;
    type Doubles = __m512d;

    #[inline(always)]
    unsafe fn load(from: *const u32) -> __m512i {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(value: __m512i, to: *mut u32) {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_storeu_si512(to.cast(), value) }
    }

    #[inline(always)]
    unsafe fn multiply_f32(a: u32, b: __m512i, sum: __m512i) -> __m512i {
        // SAFETY: the caller guarantees AVX-512.
        unsafe {
            let a = _mm512_castsi512_ps(_mm512_set1_epi32(a as i32));
            _mm512_castps_si512(_mm512_fmadd_ps(a, _mm512_castsi512_ps(b), _mm512_castsi512_ps(sum)))
        }
    }

    #[inline(always)]
    unsafe fn multiply_i32(a: u32, b: __m512i, sum: __m512i) -> __m512i {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_add_epi32(_mm512_mullo_epi32(_mm512_set1_epi32(a as i32), b), sum) }
    }

    #[inline(always)]
    unsafe fn store_masked(mask: u16, value: __m512i, to: *mut u32) {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_mask_storeu_epi32(to.cast(), mask, value) }
    }

    #[inline(always)]
    unsafe fn select(mask: u16, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_mask_blend_epi32(mask, a, b) }
    }

    #[inline(always)]
    unsafe fn fma_f32(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
        // SAFETY: the caller guarantees AVX-512.
        unsafe {
            let ps = _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), _mm512_castsi512_ps(c));
            _mm512_castps_si512(ps)
        }
    }

    #[inline(always)]
    unsafe fn add_f32(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b))) }
    }

    #[inline(always)]
    unsafe fn sub_f32(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_castps_si512(_mm512_sub_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b))) }
    }

    #[inline(always)]
    unsafe fn mul_f32(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_castps_si512(_mm512_mul_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b))) }
    }

    #[inline(always)]
    unsafe fn add_u32(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_add_epi32(a, b) }
    }

    #[inline(always)]
    unsafe fn sub_u32(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_sub_epi32(a, b) }
    }

    #[inline(always)]
    unsafe fn and(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_and_si512(a, b) }
    }

    #[inline(always)]
    unsafe fn or(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_or_si512(a, b) }
    }

    #[inline(always)]
    unsafe fn xor(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_xor_si512(a, b) }
    }

    #[inline(always)]
    unsafe fn shift_left(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_sllv_epi32(a, _mm512_and_si512(b, _mm512_set1_epi32(31))) }
    }

    #[inline(always)]
    unsafe fn shift_right(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_srlv_epi32(a, _mm512_and_si512(b, _mm512_set1_epi32(31))) }
    }

    #[inline(always)]
    unsafe fn shift_right_signed(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_srav_epi32(a, _mm512_and_si512(b, _mm512_set1_epi32(31))) }
    }

    #[inline(always)]
    unsafe fn less_u32(a: __m512i, b: __m512i) -> u16 {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_cmplt_epu32_mask(a, b) }
    }

    #[inline(always)]
    unsafe fn less_i32(a: __m512i, b: __m512i) -> u16 {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_cmplt_epi32_mask(a, b) }
    }

    #[inline(always)]
    unsafe fn equal(a: __m512i, b: __m512i) -> u16 {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_cmpeq_epi32_mask(a, b) }
    }

    #[inline(always)]
    unsafe fn increment(mask: u16, a: __m512i) -> __m512i {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_mask_add_epi32(a, mask, a, _mm512_set1_epi32(1)) }
    }

    #[inline(always)]
    unsafe fn decrement(mask: u16, a: __m512i) -> __m512i {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_mask_sub_epi32(a, mask, a, _mm512_set1_epi32(1)) }
    }

    #[inline(always)]
    unsafe fn splat(value: u32) -> __m512i {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_set1_epi32(value as i32) }
    }

    #[inline(always)]
    unsafe fn load_f64(from: *const f64) -> __m512d {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_loadu_pd(from) }
    }

    #[inline(always)]
    unsafe fn store_f64(value: __m512d, to: *mut f64) {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_storeu_pd(to, value) }
    }

    #[inline(always)]
    unsafe fn multiply_f64(a: f64, b: __m512d, sum: __m512d) -> __m512d {
        // SAFETY: the caller guarantees AVX-512.
        unsafe { _mm512_fmadd_pd(_mm512_set1_pd(a), b, sum) }
    }
}

/// Expands the bits of a byte to eight lanes of all-ones or all-zeros.
///
/// # Safety
/// As for [`RowVector`].
#[inline(always)]
unsafe fn byte_mask(mask: u8) -> __m256i {
    // SAFETY: the caller guarantees AVX2.
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
    // SAFETY: the caller guarantees AVX2.
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
        // SAFETY: the caller guarantees AVX2.
        unsafe { [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(8).cast())] }
    }

    #[inline(always)]
    unsafe fn store(value: [__m256i; 2], to: *mut u32) {
        // SAFETY: the caller guarantees AVX2.
        unsafe {
            _mm256_storeu_si256(to.cast(), value[0]);
            _mm256_storeu_si256(to.add(8).cast(), value[1]);
        }
    }

    #[inline(always)]
    unsafe fn multiply_f32(a: u32, b: [__m256i; 2], sum: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller guarantees AVX2 and FMA.
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
        // SAFETY: the caller guarantees AVX2.
        unsafe {
            let a = _mm256_set1_epi32(a as i32);
            let one = |b, sum| _mm256_add_epi32(_mm256_mullo_epi32(a, b), sum);
            [one(b[0], sum[0]), one(b[1], sum[1])]
        }
    }

    #[inline(always)]
    unsafe fn store_masked(mask: u16, value: [__m256i; 2], to: *mut u32) {
        // SAFETY: the caller guarantees AVX2.
        unsafe {
            _mm256_maskstore_epi32(to.cast(), byte_mask(mask as u8), value[0]);
            _mm256_maskstore_epi32(to.add(8).cast(), byte_mask((mask >> 8) as u8), value[1]);
        }
    }

    #[inline(always)]
    unsafe fn select(mask: u16, a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller guarantees AVX2.
        unsafe {
            [
                _mm256_blendv_epi8(a[0], b[0], byte_mask(mask as u8)),
                _mm256_blendv_epi8(a[1], b[1], byte_mask((mask >> 8) as u8)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn fma_f32(a: [__m256i; 2], b: [__m256i; 2], c: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller guarantees AVX2 and FMA.
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
        // SAFETY: the caller guarantees AVX2.
        unsafe {
            [
                _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(a[0]), _mm256_castsi256_ps(b[0]))),
                _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(a[1]), _mm256_castsi256_ps(b[1]))),
            ]
        }
    }

    #[inline(always)]
    unsafe fn sub_f32(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller guarantees AVX2.
        unsafe {
            [
                _mm256_castps_si256(_mm256_sub_ps(_mm256_castsi256_ps(a[0]), _mm256_castsi256_ps(b[0]))),
                _mm256_castps_si256(_mm256_sub_ps(_mm256_castsi256_ps(a[1]), _mm256_castsi256_ps(b[1]))),
            ]
        }
    }

    #[inline(always)]
    unsafe fn mul_f32(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller guarantees AVX2.
        unsafe {
            [
                _mm256_castps_si256(_mm256_mul_ps(_mm256_castsi256_ps(a[0]), _mm256_castsi256_ps(b[0]))),
                _mm256_castps_si256(_mm256_mul_ps(_mm256_castsi256_ps(a[1]), _mm256_castsi256_ps(b[1]))),
            ]
        }
    }

    #[inline(always)]
    unsafe fn add_u32(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller guarantees AVX2.
        unsafe { [_mm256_add_epi32(a[0], b[0]), _mm256_add_epi32(a[1], b[1])] }
    }

    #[inline(always)]
    unsafe fn sub_u32(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller guarantees AVX2.
        unsafe { [_mm256_sub_epi32(a[0], b[0]), _mm256_sub_epi32(a[1], b[1])] }
    }

    #[inline(always)]
    unsafe fn and(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller guarantees AVX2.
        unsafe { [_mm256_and_si256(a[0], b[0]), _mm256_and_si256(a[1], b[1])] }
    }

    #[inline(always)]
    unsafe fn or(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller guarantees AVX2.
        unsafe { [_mm256_or_si256(a[0], b[0]), _mm256_or_si256(a[1], b[1])] }
    }

    #[inline(always)]
    unsafe fn xor(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller guarantees AVX2.
        unsafe { [_mm256_xor_si256(a[0], b[0]), _mm256_xor_si256(a[1], b[1])] }
    }

    #[inline(always)]
    unsafe fn shift_left(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller guarantees AVX2.
        unsafe {
            [
                _mm256_sllv_epi32(a[0], _mm256_and_si256(b[0], _mm256_set1_epi32(31))),
                _mm256_sllv_epi32(a[1], _mm256_and_si256(b[1], _mm256_set1_epi32(31))),
            ]
        }
    }

    #[inline(always)]
    unsafe fn shift_right(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller guarantees AVX2.
        unsafe {
            [
                _mm256_srlv_epi32(a[0], _mm256_and_si256(b[0], _mm256_set1_epi32(31))),
                _mm256_srlv_epi32(a[1], _mm256_and_si256(b[1], _mm256_set1_epi32(31))),
            ]
        }
    }

    #[inline(always)]
    unsafe fn shift_right_signed(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller guarantees AVX2.
        unsafe {
            [
                _mm256_srav_epi32(a[0], _mm256_and_si256(b[0], _mm256_set1_epi32(31))),
                _mm256_srav_epi32(a[1], _mm256_and_si256(b[1], _mm256_set1_epi32(31))),
            ]
        }
    }

    #[inline(always)]
    unsafe fn less_u32(a: [__m256i; 2], b: [__m256i; 2]) -> u16 {
        // Flipping the sign bits turns the unsigned comparison into a signed one.
        // SAFETY: the caller guarantees AVX2.
        unsafe {
            let sign = _mm256_set1_epi32(i32::MIN);
            let flip = |x: [__m256i; 2]| [_mm256_xor_si256(x[0], sign), _mm256_xor_si256(x[1], sign)];
            Self::less_i32(flip(a), flip(b))
        }
    }

    #[inline(always)]
    unsafe fn less_i32(a: [__m256i; 2], b: [__m256i; 2]) -> u16 {
        // SAFETY: the caller guarantees AVX2.
        unsafe { signs([_mm256_cmpgt_epi32(b[0], a[0]), _mm256_cmpgt_epi32(b[1], a[1])]) }
    }

    #[inline(always)]
    unsafe fn equal(a: [__m256i; 2], b: [__m256i; 2]) -> u16 {
        // SAFETY: the caller guarantees AVX2.
        unsafe { signs([_mm256_cmpeq_epi32(a[0], b[0]), _mm256_cmpeq_epi32(a[1], b[1])]) }
    }

    #[inline(always)]
    unsafe fn increment(mask: u16, a: [__m256i; 2]) -> [__m256i; 2] {
        // A set mask lane is -1, so subtracting it adds one.
        // SAFETY: the caller guarantees AVX2.
        unsafe {
            let (low, high) = (byte_mask(mask as u8), byte_mask((mask >> 8) as u8));
            [_mm256_sub_epi32(a[0], low), _mm256_sub_epi32(a[1], high)]
        }
    }

    #[inline(always)]
    unsafe fn decrement(mask: u16, a: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: the caller guarantees AVX2.
        unsafe {
            let (low, high) = (byte_mask(mask as u8), byte_mask((mask >> 8) as u8));
            [_mm256_add_epi32(a[0], low), _mm256_add_epi32(a[1], high)]
        }
    }

    #[inline(always)]
    unsafe fn splat(value: u32) -> [__m256i; 2] {
        // SAFETY: the caller guarantees AVX2.
        unsafe { [_mm256_set1_epi32(value as i32); 2] }
    }

    #[inline(always)]
    unsafe fn load_f64(from: *const f64) -> [__m256d; 2] {
        // SAFETY: the caller guarantees AVX2.
        unsafe { [_mm256_loadu_pd(from), _mm256_loadu_pd(from.add(4))] }
    }

    #[inline(always)]
    unsafe fn store_f64(value: [__m256d; 2], to: *mut f64) {
        // SAFETY: the caller guarantees AVX2.
        unsafe {
            _mm256_storeu_pd(to, value[0]);
            _mm256_storeu_pd(to.add(4), value[1]);
        }
    }

    #[inline(always)]
    unsafe fn multiply_f64(a: f64, b: [__m256d; 2], sum: [__m256d; 2]) -> [__m256d; 2] {
        // SAFETY: the caller guarantees AVX2 and FMA.
        unsafe {
            let a = _mm256_set1_pd(a);
            [_mm256_fmadd_pd(a, b[0], sum[0]), _mm256_fmadd_pd(a, b[1], sum[1])]
        }
    }
}
