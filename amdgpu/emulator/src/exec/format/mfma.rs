//! Matrix instructions: MFMA on both architectures and the sparse SMFMAC on gfx942.
//!
//! One routine handles all shapes, driven by the published register layouts. A row of the result is `n` adjacent lanes of one
//! register, so each step of the product is a vector multiply-add of a row of B with one element of A. Sums accumulate over k in
//! ascending order, in f32 for the small float types (the hardware's order is not documented).

#![expect(
    clippy::needless_range_loop,
    reason = "lanes, rows and vectors of several operands are walked together"
)]

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use isa::{Arch, Inst, Op};

use crate::compile::{Compiler, Type, Unsupported};
use crate::exec::lane::body::per_level;
use crate::exec::lane::row_vector::RowVector;
use crate::exec::lane::source::lanes;
use crate::exec::math::float::{flush, half_to_f32};
use crate::exec::math::float8::{bf8_to_f32, fp8_to_f32};
use crate::{Body, Flow, Lanes, Src, Uop, Wave};

/// The type of a matrix element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Element {
    F32,
    /// f32 rounded to its ten upper mantissa bits.
    Xf32,
    F16,
    Bf16,
    Fp8,
    Bf8,
    I8,
    F64,
}

impl Element {
    const ALL: [Element; 8] = [
        Element::F32,
        Element::Xf32,
        Element::F16,
        Element::Bf16,
        Element::Fp8,
        Element::Bf8,
        Element::I8,
        Element::F64,
    ];

    fn bits(self) -> usize {
        match self {
            Element::F64 => 64,
            Element::F32 | Element::Xf32 => 32,
            Element::F16 | Element::Bf16 => 16,
            Element::Fp8 | Element::Bf8 | Element::I8 => 8,
        }
    }
}

/// The shape of a matrix operation: `blocks` products of `m x k` and `k x n` matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    pub m: u8,
    pub n: u8,
    pub k: u8,
    pub blocks: u8,
    pub a: Element,
    pub b: Element,
    /// A stores two of every four elements along k; the third source holds their indices.
    pub sparse: bool,
}

const fn dense(m: u8, n: u8, k: u8, blocks: u8, element: Element) -> Matrix {
    Matrix { m, n, k, blocks, a: element, b: element, sparse: false }
}

const fn mixed(m: u8, n: u8, k: u8, a: Element, b: Element) -> Matrix {
    Matrix { m, n, k, blocks: 1, a, b, sparse: false }
}

const fn sparse(m: u8, n: u8, k: u8, a: Element, b: Element) -> Matrix {
    Matrix { m, n, k, blocks: 1, a, b, sparse: true }
}

impl Matrix {
    /// Returns the shape of a matrix instruction, or `None` for any other opcode.
    #[rustfmt::skip]
    pub fn of(op: Op) -> Option<Matrix> {
        use Element::{Bf8, Bf16, F16, F32, F64, Fp8, I8, Xf32};
        Some(match op {
            Op::v_mfma_f32_32x32x1f32      | Op::v_mfma_f32_32x32x1_2b_f32  => dense(32, 32,  1,  2, F32),
            Op::v_mfma_f32_16x16x1f32      | Op::v_mfma_f32_16x16x1_4b_f32  => dense(16, 16,  1,  4, F32),
            Op::v_mfma_f32_4x4x1f32        | Op::v_mfma_f32_4x4x1_16b_f32   => dense( 4,  4,  1, 16, F32),
            Op::v_mfma_f32_32x32x2f32      | Op::v_mfma_f32_32x32x2_f32     => dense(32, 32,  2,  1, F32),
            Op::v_mfma_f32_16x16x4f32      | Op::v_mfma_f32_16x16x4_f32     => dense(16, 16,  4,  1, F32),
            Op::v_mfma_f32_32x32x4_xf32                                     => dense(32, 32,  4,  1, Xf32),
            Op::v_mfma_f32_16x16x8_xf32                                     => dense(16, 16,  8,  1, Xf32),
            Op::v_mfma_f32_32x32x4f16      | Op::v_mfma_f32_32x32x4_2b_f16  => dense(32, 32,  4,  2, F16),
            Op::v_mfma_f32_16x16x4f16      | Op::v_mfma_f32_16x16x4_4b_f16  => dense(16, 16,  4,  4, F16),
            Op::v_mfma_f32_4x4x4f16        | Op::v_mfma_f32_4x4x4_16b_f16   => dense( 4,  4,  4, 16, F16),
            Op::v_mfma_f32_32x32x8f16      | Op::v_mfma_f32_32x32x8_f16     => dense(32, 32,  8,  1, F16),
            Op::v_mfma_f32_16x16x16f16     | Op::v_mfma_f32_16x16x16_f16    => dense(16, 16, 16,  1, F16),
            Op::v_mfma_f32_32x32x4bf16_1k  | Op::v_mfma_f32_32x32x4_2b_bf16 => dense(32, 32,  4,  2, Bf16),
            Op::v_mfma_f32_16x16x4bf16_1k  | Op::v_mfma_f32_16x16x4_4b_bf16 => dense(16, 16,  4,  4, Bf16),
            Op::v_mfma_f32_4x4x4bf16_1k    | Op::v_mfma_f32_4x4x4_16b_bf16  => dense( 4,  4,  4, 16, Bf16),
            Op::v_mfma_f32_32x32x8bf16_1k  | Op::v_mfma_f32_32x32x8_bf16    => dense(32, 32,  8,  1, Bf16),
            Op::v_mfma_f32_16x16x16bf16_1k | Op::v_mfma_f32_16x16x16_bf16   => dense(16, 16, 16,  1, Bf16),
            Op::v_mfma_f32_32x32x2bf16                                      => dense(32, 32,  2,  2, Bf16),
            Op::v_mfma_f32_16x16x2bf16                                      => dense(16, 16,  2,  4, Bf16),
            Op::v_mfma_f32_4x4x2bf16                                        => dense( 4,  4,  2, 16, Bf16),
            Op::v_mfma_f32_32x32x4bf16                                      => dense(32, 32,  4,  1, Bf16),
            Op::v_mfma_f32_16x16x8bf16                                      => dense(16, 16,  8,  1, Bf16),
            Op::v_mfma_i32_32x32x4i8       | Op::v_mfma_i32_32x32x4_2b_i8   => dense(32, 32,  4,  2, I8),
            Op::v_mfma_i32_16x16x4i8       | Op::v_mfma_i32_16x16x4_4b_i8   => dense(16, 16,  4,  4, I8),
            Op::v_mfma_i32_4x4x4i8         | Op::v_mfma_i32_4x4x4_16b_i8    => dense( 4,  4,  4, 16, I8),
            Op::v_mfma_i32_32x32x8i8                                        => dense(32, 32,  8,  1, I8),
            Op::v_mfma_i32_16x16x16i8                                       => dense(16, 16, 16,  1, I8),
            Op::v_mfma_i32_32x32x16_i8                                      => dense(32, 32, 16,  1, I8),
            Op::v_mfma_i32_16x16x32_i8                                      => dense(16, 16, 32,  1, I8),
            Op::v_mfma_f64_16x16x4f64      | Op::v_mfma_f64_16x16x4_f64     => dense(16, 16,  4,  1, F64),
            Op::v_mfma_f64_4x4x4f64        | Op::v_mfma_f64_4x4x4_4b_f64    => dense( 4,  4,  4,  4, F64),
            Op::v_mfma_f32_16x16x32_bf8_bf8                                 => mixed(16, 16, 32, Bf8, Bf8),
            Op::v_mfma_f32_16x16x32_bf8_fp8                                 => mixed(16, 16, 32, Bf8, Fp8),
            Op::v_mfma_f32_16x16x32_fp8_bf8                                 => mixed(16, 16, 32, Fp8, Bf8),
            Op::v_mfma_f32_16x16x32_fp8_fp8                                 => mixed(16, 16, 32, Fp8, Fp8),
            Op::v_mfma_f32_32x32x16_bf8_bf8                                 => mixed(32, 32, 16, Bf8, Bf8),
            Op::v_mfma_f32_32x32x16_bf8_fp8                                 => mixed(32, 32, 16, Bf8, Fp8),
            Op::v_mfma_f32_32x32x16_fp8_bf8                                 => mixed(32, 32, 16, Fp8, Bf8),
            Op::v_mfma_f32_32x32x16_fp8_fp8                                 => mixed(32, 32, 16, Fp8, Fp8),
            Op::v_smfmac_f32_16x16x32_f16                                   => sparse(16, 16, 32, F16, F16),
            Op::v_smfmac_f32_32x32x16_f16                                   => sparse(32, 32, 16, F16, F16),
            Op::v_smfmac_f32_16x16x32_bf16                                  => sparse(16, 16, 32, Bf16, Bf16),
            Op::v_smfmac_f32_32x32x16_bf16                                  => sparse(32, 32, 16, Bf16, Bf16),
            Op::v_smfmac_i32_16x16x64_i8                                    => sparse(16, 16, 64, I8, I8),
            Op::v_smfmac_i32_32x32x32_i8                                    => sparse(32, 32, 32, I8, I8),
            Op::v_smfmac_f32_16x16x64_bf8_bf8                               => sparse(16, 16, 64, Bf8, Bf8),
            Op::v_smfmac_f32_16x16x64_bf8_fp8                               => sparse(16, 16, 64, Bf8, Fp8),
            Op::v_smfmac_f32_16x16x64_fp8_bf8                               => sparse(16, 16, 64, Fp8, Bf8),
            Op::v_smfmac_f32_16x16x64_fp8_fp8                               => sparse(16, 16, 64, Fp8, Fp8),
            Op::v_smfmac_f32_32x32x32_bf8_bf8                               => sparse(32, 32, 32, Bf8, Bf8),
            Op::v_smfmac_f32_32x32x32_bf8_fp8                               => sparse(32, 32, 32, Bf8, Fp8),
            Op::v_smfmac_f32_32x32x32_fp8_bf8                               => sparse(32, 32, 32, Fp8, Bf8),
            Op::v_smfmac_f32_32x32x32_fp8_fp8                               => sparse(32, 32, 32, Fp8, Fp8),
            _ => return None,
        })
    }

    #[inline(always)]
    fn dimensions(self) -> (usize, usize, usize, usize) {
        (usize::from(self.m), usize::from(self.n), usize::from(self.k), usize::from(self.blocks))
    }

    /// Number of elements of A (only the stored ones if sparse) and of B that one lane holds.
    #[inline(always)]
    fn elements_per_lane(self) -> (usize, usize) {
        let (m, n, k, blocks) = self.dimensions();
        let stored = if self.sparse { k / 2 } else { k };
        (stored * m * blocks / 64, k * n * blocks / 64)
    }

    /// Number of registers of A, of B and of the result.
    pub fn registers(self) -> (u16, u16, u16) {
        let (m, n, _, blocks) = self.dimensions();
        let (a, b) = self.elements_per_lane();
        let out = m * n * blocks / 64 * if self.a == Element::F64 { 2 } else { 1 };
        ((a * self.a.bits() / 32) as u16, (b * self.b.bits() / 32) as u16, out as u16)
    }

    fn pack(self) -> i64 {
        i64::from_le_bytes([
            self.m,
            self.n,
            self.k,
            self.blocks,
            self.a as u8,
            self.b as u8,
            u8::from(self.sparse),
            0,
        ])
    }

    #[inline(always)]
    fn unpack(bits: i64) -> Matrix {
        let [m, n, k, blocks, a, b, sparse, _] = bits.to_le_bytes();
        let element = |code: u8| Element::ALL[usize::from(code) % Element::ALL.len()];
        Matrix { m, n, k, blocks, a: element(a), b: element(b), sparse: sparse != 0 }
    }
}

/// Broadcast and rounding controls, packed into a micro-op's flags.
#[derive(Clone, Copy, Debug)]
struct Controls {
    cbsz: usize,
    abid: usize,
    blgp: usize,
    /// Subnormal f16/bf16 inputs and subnormal results are flushed to zero (gfx90a).
    flushes: bool,
}

impl Controls {
    fn pack(inst: &Inst, flushes: bool) -> u32 {
        u32::from(inst.modifiers.cbsz & 7)
            | u32::from(inst.modifiers.abid & 15) << 4
            | u32::from(inst.modifiers.blgp & 7) << 8
            | u32::from(flushes) << 12
    }

    #[inline(always)]
    fn unpack(flags: u32) -> Controls {
        Controls {
            cbsz: (flags & 7) as usize,
            abid: (flags >> 4 & 15) as usize,
            blgp: (flags >> 8 & 7) as usize,
            flushes: flags >> 12 & 1 == 1,
        }
    }

    /// The block of A that the product of `block` reads: CBSZ broadcasts one block of A to 2^cbsz products.
    #[inline(always)]
    fn block_of_a(self, block: usize, blocks: usize) -> usize {
        ((block >> self.cbsz << self.cbsz) + self.abid) % blocks
    }

    /// The lane of B that `lane` reads, as selected by BLGP.
    #[inline(always)]
    fn lane_of_b(self, lane: usize) -> usize {
        match self.blgp {
            1 => lane % 32,
            2 => lane % 32 + 32,
            3 => (lane + 16) % 64,
            4..=7 => lane % 16 + 16 * (self.blgp - 4),
            _ => lane,
        }
    }
}

pub fn compile(c: &mut Compiler, inst: &Inst, index: u32, matrix: Matrix) -> Result<Uop, Unsupported> {
    let (a, b, out) = matrix.registers();
    let run = match (matrix.a, matrix.n) {
        (Element::F64, _) => per_level!(c.level, Double),
        (Element::I8, 4) => per_level!(c.level, Small, Integer),
        (Element::I8, 16) => per_level!(c.level, Wide, Integer, 1, 8),
        (Element::I8, _) => per_level!(c.level, Wide, Integer, 2, 4),
        (_, 4) => per_level!(c.level, Small, Float),
        (_, 16) => per_level!(c.level, Wide, Float, 1, 8),
        (_, _) => per_level!(c.level, Wide, Float, 2, 4),
    };
    let mut uop = c.uop(run, index);
    uop.dst = c.vector(inst, &inst.dst, out)?;
    let ty = if matrix.a == Element::F64 { Type::F64 } else { Type::F32 };
    uop.src[0] = c.source(inst, &inst.src[0], a, Type::B32)?;
    uop.src[1] = c.source(inst, &inst.src[1], b, Type::B32)?;
    uop.src[2] = if matrix.sparse {
        // The accumulator is the destination; the third source holds the indices.
        uop.src[3] = c.source(inst, &inst.src[2], 1, Type::B32)?;
        Src { kind: crate::SrcKind::Vector, index: uop.dst }
    } else {
        c.source(inst, &inst.src[2], out, ty)?
    };
    let flushes = c.arch == Arch::Gfx90a && matches!(matrix.a, Element::F16 | Element::Bf16);
    uop.flags = Controls::pack(inst, flushes);
    uop.imm = matrix.pack();
    Ok(uop)
}

/// Buffer for the elements of one operand: plane `e` holds element `e` of all 64 lanes.
type Planes = [MaybeUninit<Lanes>; 16];

/// Widens elements to 32 bits: floats to f32, integers to i32.
///
/// # Safety
/// As for [`lanes`], with scratch slot 0 free and `count` elements per lane checked at compile time.
#[inline(always)]
unsafe fn unpack(wave: &Wave, src: Src, element: Element, count: usize, flushes: bool, planes: &mut Planes) {
    let scratch = wave.scratch.as_ptr().cast_mut();
    for (e, plane) in planes.iter_mut().enumerate().take(count) {
        let bit = e * element.bits();
        // SAFETY: guaranteed by the caller.
        let from = unsafe { &*lanes(wave, src, bit / 32, scratch) };
        let shift = (bit % 32) as u32;
        let to = plane.write(*from);
        match element {
            Element::F32 | Element::F64 => {}
            Element::Xf32 => {
                for value in &mut to.0 {
                    *value = round_xf32(*value);
                }
            }
            Element::F16 if flushes => {
                for value in &mut to.0 {
                    let half = *value >> shift;
                    let half = if half & 0x7c00 == 0 { half & 0x8000 } else { half };
                    *value = half_to_f32(half).to_bits();
                }
            }
            Element::F16 => {
                for value in &mut to.0 {
                    *value = half_to_f32(*value >> shift).to_bits();
                }
            }
            Element::Bf16 => {
                for value in &mut to.0 {
                    let wide = *value >> shift << 16;
                    *value = if flushes { flush(f32::from_bits(wide)).to_bits() } else { wide };
                }
            }
            Element::Fp8 => {
                for value in &mut to.0 {
                    *value = fp8_to_f32((*value >> shift) as u8).to_bits();
                }
            }
            Element::Bf8 => {
                for value in &mut to.0 {
                    *value = bf8_to_f32((*value >> shift) as u8).to_bits();
                }
            }
            Element::I8 => {
                for value in &mut to.0 {
                    *value = ((*value << (24 - shift)) as i32 >> 24) as u32;
                }
            }
        }
    }
}

/// Rounds an f32 to ten mantissa bits, ties to even.
#[inline(always)]
fn round_xf32(bits: u32) -> u32 {
    let rounded = bits.wrapping_add(0xfff).wrapping_add(bits >> 13 & 1) & !0x1fff;
    if bits & 0x7fff_ffff > 0x7f80_0000 { bits } else { rounded }
}

/// Broadcasts or rotates the lanes of B as BLGP selects.
#[inline(always)]
fn broadcast(controls: Controls, planes: &mut Planes, count: usize) {
    if controls.blgp == 0 {
        return;
    }
    for plane in planes.iter_mut().take(count) {
        // SAFETY: the first `count` planes were written by `unpack`.
        let plane = unsafe { plane.assume_init_mut() };
        let old = *plane;
        for lane in 0..64 {
            plane.0[lane] = old.0[controls.lane_of_b(lane)];
        }
    }
}

/// Expands a sparse A to dense form: element `k` of row `i` is at `[k][i]`, elements that are not stored are zero.
///
/// # Safety
/// `planes` holds the stored elements of A, and the index source is a vector register.
unsafe fn spread(
    wave: &Wave,
    uop: &Uop,
    matrix: Matrix,
    controls: Controls,
    planes: &Planes,
) -> Box<[[u32; 32]; 64]> {
    let (m, _, k, _) = matrix.dimensions();
    let (per_lane, _) = matrix.elements_per_lane();
    let mut columns = Box::new([[0; 32]; 64]);
    let scratch = wave.scratch.as_ptr().cast_mut();
    // SAFETY: guaranteed by the caller; scratch slot 0 is free.
    let indices = unsafe { &*lanes(wave, uop.src[3], 0, scratch) };
    // ABID selects one of the index sets in the register; with a nonzero CBSZ the register holds only one set.
    let set = if controls.cbsz == 0 { controls.abid * per_lane * 2 % 32 } else { 0 };
    for i in 0..m {
        for stored in 0..k / 2 {
            let (e, lane) = (stored % per_lane, stored / per_lane * m + i);
            let place = indices.0[lane] >> (set + 2 * e) & 3;
            // SAFETY: `unpack` wrote all planes of a lane.
            columns[stored / 2 * 4 + place as usize][i] = unsafe { planes[e].assume_init_ref() }.0[lane];
        }
    }
    columns
}

/// Returns true if no element of a float operand is an infinity or a NaN.
///
/// # Safety
/// `unpack` wrote the first `count` planes.
unsafe fn finite(planes: &Planes, count: usize) -> bool {
    planes[..count].iter().all(|plane| {
        // SAFETY: guaranteed by the caller.
        unsafe { plane.assume_init_ref() }.0.iter().all(|value| value & 0x7f80_0000 != 0x7f80_0000)
    })
}

/// Computes a sparse product element by element, for a B with infinities or NaNs. The dense path would multiply them by the zeros
/// that stand for elements of A that are not stored, which gives NaN.
///
/// # Safety
/// As for [`spread`], and `b` holds the elements of B.
#[cold]
unsafe fn sparse_exactly(
    wave: &mut Wave,
    uop: &Uop,
    matrix: Matrix,
    controls: Controls,
    a: &Planes,
    b: &Planes,
) {
    let (m, n, k, _) = matrix.dimensions();
    let (a_per_lane, b_per_lane) = matrix.elements_per_lane();
    let scratch = wave.scratch.as_ptr().cast_mut();
    // SAFETY: guaranteed by the caller; scratch slot 0 is free.
    let indices = unsafe { *lanes(wave, uop.src[3], 0, scratch) };
    let set = if controls.cbsz == 0 { controls.abid * a_per_lane * 2 % 32 } else { 0 };
    for i in 0..m {
        let (register, first) = row(n, i, 0);
        let register = usize::from(uop.dst) + register;
        for j in 0..n {
            let mut sum = f32::from_bits(wave.vgprs[register].0[first + j]);
            for stored in 0..k / 2 {
                let (e, lane) = (stored % a_per_lane, stored / a_per_lane * m + i);
                let step = stored / 2 * 4 + (indices.0[lane] >> (set + 2 * e) & 3) as usize;
                // SAFETY: `unpack` wrote all planes of a lane.
                let (left, right) = unsafe {
                    let b_lane = step / b_per_lane * n + j;
                    (a[e].assume_init_ref().0[lane], b[step % b_per_lane].assume_init_ref().0[b_lane])
                };
                sum = f32::from_bits(left).mul_add(f32::from_bits(right), sum);
            }
            wave.vgprs[register].0[first + j] = sum.to_bits();
        }
    }
}

/// One multiply-add of a matrix product on 32-bit lanes.
trait Step {
    /// # Safety
    /// As for [`RowVector`].
    unsafe fn vector<C: RowVector>(a: u32, b: C::Dwords, sum: C::Dwords) -> C::Dwords;
    fn lane(a: u32, b: u32, sum: u32) -> u32;
}

struct Float;

impl Step for Float {
    #[inline(always)]
    unsafe fn vector<C: RowVector>(a: u32, b: C::Dwords, sum: C::Dwords) -> C::Dwords {
        // SAFETY: guaranteed by the caller.
        unsafe { C::multiply_f32(a, b, sum) }
    }

    #[inline(always)]
    fn lane(a: u32, b: u32, sum: u32) -> u32 {
        f32::from_bits(a).mul_add(f32::from_bits(b), f32::from_bits(sum)).to_bits()
    }
}

struct Integer;

impl Step for Integer {
    #[inline(always)]
    unsafe fn vector<C: RowVector>(a: u32, b: C::Dwords, sum: C::Dwords) -> C::Dwords {
        // SAFETY: guaranteed by the caller.
        unsafe { C::multiply_i32(a, b, sum) }
    }

    #[inline(always)]
    fn lane(a: u32, b: u32, sum: u32) -> u32 {
        a.wrapping_mul(b).wrapping_add(sum)
    }
}

/// Register and first lane of row `i` in a result whose rows are `n` lanes wide (at least 16).
///
/// Rows are stored in groups of four, one row per register; groups fill all 64 lanes before the next four registers are used.
#[inline(always)]
const fn row(n: usize, i: usize, block: usize) -> (usize, usize) {
    let groups = 64 / n;
    (block * (n * n / 64) + i / (4 * groups) * 4 + i % 4, i / 4 % groups * n)
}

/// Products with result rows of `16 * V` lanes, `R` rows at a time.
struct Wide<C, S, const V: usize, const R: usize>(PhantomData<(C, S)>);

impl<C: RowVector, S: Step, const V: usize, const R: usize> Body for Wide<C, S, V, R> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let matrix = Matrix::unpack(uop.imm);
        let controls = Controls::unpack(uop.flags);
        let blocks = usize::from(matrix.blocks);
        // These shapes are square.
        let n = const { 16 * V };
        let (a_per_lane, b_per_lane) = matrix.elements_per_lane();
        let mut a: Planes = [const { MaybeUninit::uninit() }; 16];
        let mut b: Planes = [const { MaybeUninit::uninit() }; 16];
        let scratch = wave.scratch.as_mut_ptr();
        // SAFETY: the micro-op comes from `compile`, which checked all registers; `unpack` writes every plane that is read; rows
        // and columns stay inside 64 lanes because all shapes come from `Matrix::of`.
        unsafe {
            unpack(wave, uop.src[0], matrix.a, a_per_lane, controls.flushes, &mut a);
            unpack(wave, uop.src[1], matrix.b, b_per_lane, controls.flushes, &mut b);
            broadcast(controls, &mut b, b_per_lane);
            if matrix.sparse && matrix.a != Element::I8 && !finite(&b, b_per_lane) {
                sparse_exactly(wave, uop, matrix, controls, &a, &b);
                return Flow::Next;
            }
            let spread = matrix.sparse.then(|| spread(wave, uop, matrix, controls, &a));
            let groups = 64 / (n * blocks);
            for block in 0..blocks {
                let block_of_a = controls.block_of_a(block, blocks);
                for first in (0..n).step_by(R) {
                    let place = |r: usize| row(n, first + r, block);
                    // Plain loops: closures passed to library functions would not be compiled with this level's target features.
                    let mut sums = [[C::load(scratch.cast()); V]; R];
                    for r in 0..R {
                        let (register, lane) = place(r);
                        let from = lanes(wave, uop.src[2], register, scratch).cast::<u32>().add(lane);
                        for v in 0..V {
                            sums[r][v] = C::load(from.add(16 * v));
                        }
                    }
                    for group in 0..groups {
                        for e in 0..b_per_lane {
                            let row = b[e].as_ptr().cast::<u32>().add((group * blocks + block) * n);
                            let column = match &spread {
                                Some(columns) => columns[group * b_per_lane + e].as_ptr(),
                                None => a[e].as_ptr().cast::<u32>().add((group * blocks + block_of_a) * n),
                            };
                            for r in 0..R {
                                let left = *column.add(first + r);
                                for v in 0..V {
                                    sums[r][v] = S::vector::<C>(left, C::load(row.add(16 * v)), sums[r][v]);
                                }
                            }
                        }
                    }
                    for r in 0..R {
                        let (register, lane) = place(r);
                        let to = wave
                            .vgprs
                            .as_mut_ptr()
                            .add(usize::from(uop.dst) + register)
                            .cast::<u32>()
                            .add(lane);
                        for v in 0..V {
                            C::store(sums[r][v], to.add(16 * v));
                        }
                    }
                }
            }
        }
        if controls.flushes {
            flush_results(wave, uop, matrix);
        }
        Flow::Next
    }
}

/// Flushes subnormal results to zero.
fn flush_results(wave: &mut Wave, uop: &Uop, matrix: Matrix) {
    let (_, _, out) = matrix.registers();
    for register in &mut wave.vgprs[usize::from(uop.dst)..][..usize::from(out)] {
        for value in &mut register.0 {
            *value = flush(f32::from_bits(*value)).to_bits();
        }
    }
}

/// Products of 4x4 matrices, 16 blocks in 64 lanes: register `i` holds row `i` of all blocks.
struct Small<C, S>(PhantomData<(C, S)>);

impl<C: RowVector, S: Step> Body for Small<C, S> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let matrix = Matrix::unpack(uop.imm);
        let controls = Controls::unpack(uop.flags);
        let (per_lane, _) = matrix.elements_per_lane();
        let mut a: Planes = [const { MaybeUninit::uninit() }; 16];
        let mut b: Planes = [const { MaybeUninit::uninit() }; 16];
        let scratch = wave.scratch.as_mut_ptr();
        // SAFETY: as for `Wide`.
        unsafe {
            unpack(wave, uop.src[0], matrix.a, per_lane, controls.flushes, &mut a);
            unpack(wave, uop.src[1], matrix.b, per_lane, controls.flushes, &mut b);
            broadcast(controls, &mut b, per_lane);
            // All rows are read before one is written: the destination may overlap the third source.
            let mut rows = [*scratch; 4];
            for i in 0..4 {
                rows[i] = *lanes(wave, uop.src[2], i, scratch);
            }
            for i in 0..4 {
                let sums = &mut rows[i];
                for e in 0..per_lane {
                    let (a, b) = (a[e].assume_init_ref(), b[e].assume_init_ref());
                    let mut column = [0; 64];
                    for lane in 0..64 {
                        column[lane] = a.0[4 * controls.block_of_a(lane / 4, 16) + i];
                    }
                    for lane in 0..64 {
                        sums.0[lane] = S::lane(column[lane], b.0[lane], sums.0[lane]);
                    }
                }
                *wave.vgprs.get_unchecked_mut(usize::from(uop.dst) + i) = *sums;
            }
        }
        if controls.flushes {
            flush_results(wave, uop, matrix);
        }
        Flow::Next
    }
}

/// Reads the f64 values of a register pair; `negate` flips their sign.
///
/// # Safety
/// As for [`lanes`], with scratch slots 0 and 1 free.
#[inline(always)]
unsafe fn read_f64(wave: &Wave, src: Src, pair: usize, negate: bool) -> [f64; 64] {
    let scratch = wave.scratch.as_ptr().cast_mut();
    let flip = u64::from(negate) << 63;
    // SAFETY: guaranteed by the caller.
    let (lo, hi) =
        unsafe { (&*lanes(wave, src, 2 * pair, scratch), &*lanes(wave, src, 2 * pair + 1, scratch.add(1))) };
    let mut values = [0.0; 64];
    for lane in 0..64 {
        values[lane] = f64::from_bits((u64::from(lo.0[lane]) | u64::from(hi.0[lane]) << 32) ^ flip);
    }
    values
}

/// Products of f64 matrices: every lane holds one element of A and one of B.
struct Double<C>(PhantomData<C>);

impl<C: RowVector> Body for Double<C> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let matrix = Matrix::unpack(uop.imm);
        let controls = Controls::unpack(uop.flags);
        let (m, n, k, blocks) = matrix.dimensions();
        // For f64, BLGP holds the negation bits of A, B and C instead of a broadcast of B.
        let negate = |n: usize| controls.blgp >> n & 1 == 1;
        // SAFETY: the micro-op comes from `compile`, which checked all registers.
        unsafe {
            let a = read_f64(wave, uop.src[0], 0, negate(0));
            let b = read_f64(wave, uop.src[1], 0, negate(1));
            for pair in 0..m * n * blocks / 64 {
                let mut sums = read_f64(wave, uop.src[2], pair, negate(2));
                if n == 16 {
                    for part in 0..4 {
                        let i = 4 * pair + part;
                        let sum = sums.as_mut_ptr().add(16 * part);
                        let mut halves = [C::load_f64(sum), C::load_f64(sum.add(8))];
                        for step in 0..k {
                            let row = b.as_ptr().add(16 * step);
                            halves[0] = C::multiply_f64(a[16 * step + i], C::load_f64(row), halves[0]);
                            halves[1] = C::multiply_f64(a[16 * step + i], C::load_f64(row.add(8)), halves[1]);
                        }
                        C::store_f64(halves[0], sum);
                        C::store_f64(halves[1], sum.add(8));
                    }
                } else {
                    for lane in 0..64 {
                        let (i, block, j) = (lane / 16, lane / 4 % 4, lane % 4);
                        for step in 0..k {
                            let at = 4 * (4 * step + block);
                            sums[lane] = a[at + i].mul_add(b[at + j], sums[lane]);
                        }
                    }
                }
                let dst = usize::from(uop.dst) + 2 * pair;
                for lane in 0..64 {
                    wave.vgprs.get_unchecked_mut(dst).0[lane] = sums[lane].to_bits() as u32;
                    wave.vgprs.get_unchecked_mut(dst + 1).0[lane] = (sums[lane].to_bits() >> 32) as u32;
                }
            }
        }
        Flow::Next
    }
}

#[cfg(test)]
mod tests;
