//! Compares every matrix operation with a plain matrix product, through the published register layouts.

use fastrand::Rng;
use isa::{Arch, Format, Inst, Modifiers, Op, Operand};

use super::{Element, Matrix};
use crate::exec::lane::body::tests::{inst, levels, run};
use crate::wave::sreg;
use crate::{Level, Wave};

const A: u8 = 0;
const B: u8 = 8;
const INDEX: u8 = 24;
const C: u8 = 32;
const D: u8 = 64;

/// Location of element `at` of a row or column of an operand: the index among the lane's elements, and the lane.
///
/// Adjacent lanes hold a column of A (a row of B) of each block; further columns follow when a lane's elements are used up.
fn input_place(
    outer: usize,
    blocks: usize,
    inner: usize,
    i: usize,
    at: usize,
    block: usize,
) -> (usize, usize) {
    let columns = 64 / (outer * blocks);
    let per_lane = inner / columns;
    (at % per_lane, (at / per_lane * blocks + block) * outer + i)
}

/// Register (or register pair) and lane of element `[i][j]` of the result.
fn output_place(m: usize, n: usize, double: bool, i: usize, j: usize, block: usize) -> (usize, usize) {
    let height = if double { 1 } else { 4 };
    let groups_per_register = 64 / n;
    let blocks_per_register = usize::max(1, 64 * height / (n * m));
    let register = block * (m * n / 64) + i / (height * groups_per_register) * height + i % height;
    let lane =
        block % blocks_per_register * n + i / height % groups_per_register * blocks_per_register * n + j;
    (register, lane)
}

/// Converts an element's bits to a number.
fn decode(element: Element, bits: u64) -> f64 {
    let small = |bits: u64, mantissa: u32, bias: i32| {
        let fraction = (bits & ((1 << mantissa) - 1)) as f64 / f64::from(1 << mantissa);
        let exponent = (bits >> mantissa & (0x7f >> mantissa)) as i32;
        let magnitude = match exponent {
            0 => fraction * 2_f64.powi(1 - bias),
            _ => (1.0 + fraction) * 2_f64.powi(exponent - bias),
        };
        if bits & 0x80 != 0 { -magnitude } else { magnitude }
    };
    match element {
        Element::F64 => f64::from_bits(bits),
        Element::F32 | Element::Xf32 => f64::from(f32::from_bits(bits as u32)),
        Element::F16 => half::f16::from_bits(bits as u16).to_f64(),
        Element::Bf16 => half::bf16::from_bits(bits as u16).to_f64(),
        Element::Fp8 => small(bits, 3, 8),
        Element::Bf8 => small(bits, 2, 16),
        Element::I8 => f64::from(bits as u8 as i8),
    }
}

/// A random small element; sums of products are exact regardless of their order.
fn random_element(element: Element, random: &mut Rng) -> u64 {
    let value = random.u64(..17) as f64 - 8.0;
    match element {
        Element::F64 => value.to_bits(),
        Element::F32 | Element::Xf32 => u64::from((value as f32).to_bits()),
        Element::F16 => u64::from(half::f16::from_f64(value).to_bits()),
        Element::Bf16 => u64::from(half::bf16::from_f64(value).to_bits()),
        // Exact in three (fp8) and two (bf8) mantissa bits.
        Element::Fp8 => u64::from(crate::exec::math::float8::f32_to_fp8(value as f32, false)),
        Element::Bf8 => u64::from(crate::exec::math::float8::f32_to_bf8(value as f32 / 2.0, false)),
        Element::I8 => u64::from(random.u8(..)),
    }
}

fn bits_of(element: Element) -> usize {
    match element {
        Element::F64 => 64,
        Element::F32 | Element::Xf32 => 32,
        Element::F16 | Element::Bf16 => 16,
        _ => 8,
    }
}

fn put(wave: &mut Wave, first: u8, element: Element, (index, lane): (usize, usize), bits: u64) {
    let size = bits_of(element);
    let register = usize::from(first) + index * size / 32;
    if size == 64 {
        wave.vgprs[register].0[lane] = bits as u32;
        wave.vgprs[register + 1].0[lane] = (bits >> 32) as u32;
    } else {
        let (shift, mask) = (index * size % 32, u32::MAX >> (32 - size));
        let dword = &mut wave.vgprs[register].0[lane];
        *dword = *dword & !(mask << shift) | (bits as u32 & mask) << shift;
    }
}

fn get(wave: &Wave, first: u8, element: Element, (index, lane): (usize, usize)) -> u64 {
    let size = bits_of(element);
    let register = usize::from(first) + index * size / 32;
    if size == 64 {
        u64::from(wave.vgprs[register].0[lane]) | u64::from(wave.vgprs[register + 1].0[lane]) << 32
    } else {
        u64::from(wave.vgprs[register].0[lane] >> (index * size % 32) & (u32::MAX >> (32 - size)))
    }
}

/// The lane of B read for a lane, as described in the ISA manual.
fn lane_of_b(blgp: u8, lane: usize) -> usize {
    match blgp {
        0 => lane,
        1 => [lane, lane - lane / 32 * 32][1],
        2 => 32 + lane % 32,
        3 => (lane + 16) % 64,
        group => usize::from(group - 4) * 16 + lane % 16,
    }
}

fn output_element(matrix: Matrix) -> Element {
    match matrix.a {
        Element::F64 => Element::F64,
        // 32 bits in both cases; `output_value` reads I8 results as integers.
        _ => Element::F32,
    }
}

fn output_value(matrix: Matrix, bits: u64) -> f64 {
    match matrix.a {
        Element::I8 => f64::from(bits as u32 as i32),
        _ => decode(output_element(matrix), bits),
    }
}

struct Case {
    matrix: Matrix,
    inst: Inst,
    wave: Wave,
}

fn case(op: Op, modifiers: Modifiers, constant: bool, seed: u64) -> Case {
    let matrix = Matrix::of(op).unwrap();
    let mut random = Rng::with_seed(seed);
    let mut wave = Wave::new(128);
    let (m, n, k, blocks) = matrix.dimensions();
    let stored = if matrix.sparse { k / 2 } else { k };
    for block in 0..blocks {
        for i in 0..m {
            for at in 0..stored {
                let place = input_place(m, blocks, stored, i, at, block);
                put(&mut wave, A, matrix.a, place, random_element(matrix.a, &mut random));
            }
            for j in 0..n {
                let (register, lane) = output_place(m, n, matrix.a == Element::F64, i, j, block);
                let value = random.u64(..2001) as f64 - 1000.0;
                let bits = match matrix.a {
                    Element::F64 => value.to_bits(),
                    Element::I8 => u64::from(value as i32 as u32),
                    _ => u64::from((value as f32).to_bits()),
                };
                for first in [C, D] {
                    put(&mut wave, first, output_element(matrix), (register, lane), bits);
                }
            }
        }
        for j in 0..n {
            for at in 0..k {
                let place = input_place(n, blocks, k, j, at, block);
                put(&mut wave, B, matrix.b, place, random_element(matrix.b, &mut random));
            }
        }
    }
    for lane in 0..64 {
        // Two different positions out of every four.
        let mut indices = 0;
        for pair in 0..8 {
            let (first, second) = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)][random.usize(..6)];
            indices |= (first | second << 2) << (4 * pair);
        }
        wave.vgprs[usize::from(INDEX)].0[lane] = indices;
    }
    let third = match (matrix.sparse, constant) {
        (true, _) => Operand::Vgpr(INDEX),
        (false, true) => Operand::Int(0),
        (false, false) => Operand::Vgpr(C),
    };
    let src = [Operand::Vgpr(A), Operand::Vgpr(B), third];
    let mut inst = inst(op, Format::Vop3p, Operand::Vgpr(D), &src);
    inst.modifiers = modifiers;
    Case { matrix, inst, wave }
}

impl Case {
    /// Computes the product by definition, from the registers.
    fn product(&self) -> Vec<((usize, usize), f64)> {
        let (m, n, k, blocks) = self.matrix.dimensions();
        let Modifiers { cbsz, abid, blgp, .. } = self.inst.modifiers;
        let double = self.matrix.a == Element::F64;
        let negate = |n: u8| if double && blgp >> n & 1 == 1 { -1.0 } else { 1.0 };
        let a = |i: usize, at: usize, block: usize| -> f64 {
            if !self.matrix.sparse {
                let group = 1 << cbsz;
                let block =
                    if cbsz == 0 && abid == 0 { block } else { block / group * group + usize::from(abid) };
                let place = input_place(m, blocks, k, i, at, block);
                return decode(self.matrix.a, get(&self.wave, A, self.matrix.a, place)) * negate(0);
            }
            // Two of every four elements are stored, each with a 2-bit index.
            let per_lane = 64 / bits_of(self.matrix.a);
            let mut sum = 0.0;
            for stored in [at / 4 * 2, at / 4 * 2 + 1] {
                let (element, lane) = input_place(m, blocks, k / 2, i, stored, 0);
                let set = if cbsz == 0 { usize::from(abid) * per_lane } else { 0 };
                let index = self.wave.vgprs[usize::from(INDEX)].0[lane] >> (2 * (set + element)) & 3;
                if index as usize == at % 4 {
                    sum += decode(self.matrix.a, get(&self.wave, A, self.matrix.a, (element, lane)));
                }
            }
            sum
        };
        let b = |j: usize, at: usize, block: usize| -> f64 {
            let (element, lane) = input_place(n, blocks, k, j, at, block);
            let lane = if double { lane } else { lane_of_b(blgp, lane) };
            decode(self.matrix.b, get(&self.wave, B, self.matrix.b, (element, lane))) * negate(1)
        };
        let mut all = Vec::new();
        for block in 0..blocks {
            for i in 0..m {
                for j in 0..n {
                    let place = output_place(m, n, double, i, j, block);
                    let c = match self.inst.src[2] {
                        Operand::Int(_) => 0.0,
                        _ => {
                            output_value(self.matrix, get(&self.wave, C, output_element(self.matrix), place))
                        }
                    };
                    let sum: f64 = (0..k).map(|at| a(i, at, block) * b(j, at, block)).sum();
                    all.push((place, c * negate(2) + sum));
                }
            }
        }
        all
    }

    fn check(mut self, level: Level, arch: Arch) {
        let want = self.product();
        // Matrix operations ignore EXEC.
        self.wave.set_sgpr64(sreg::EXEC, 0x5);
        run(level, arch, &mut self.wave, &[self.inst]);
        for (place, want) in want {
            let got = output_value(self.matrix, get(&self.wave, D, output_element(self.matrix), place));
            assert_eq!(got, want, "{} at {place:?} {level:?} {:?}", self.inst.op.name(), self.inst.modifiers);
        }
    }
}

fn matrix_operations() -> impl Iterator<Item = (Op, Matrix)> {
    Op::ALL.iter().filter_map(|&op| Some((op, Matrix::of(op)?)))
}

#[test]
fn every_matrix_operation_is_a_matrix_product() {
    let mut count = 0;
    for (op, _) in matrix_operations() {
        for level in levels() {
            case(op, Modifiers::default(), false, 1).check(level, Arch::Gfx942);
            case(op, Modifiers::default(), true, 2).check(level, Arch::Gfx90a);
        }
        count += 1;
    }
    // 27 mnemonics of CDNA2 and 46 of CDNA3.
    assert_eq!(count, 73);
}

#[test]
fn a_block_of_a_serves_several_products() {
    for (op, matrix) in
        matrix_operations().filter(|(_, matrix)| matrix.blocks > 1 && matrix.a != Element::F64)
    {
        for cbsz in 1..=matrix.blocks.ilog2() as u8 {
            for abid in [0, (1 << cbsz) - 1] {
                let modifiers = Modifiers { cbsz, abid, ..Modifiers::default() };
                for level in levels() {
                    case(op, modifiers, false, u64::from(cbsz)).check(level, Arch::Gfx90a);
                }
            }
        }
    }
}

#[test]
fn lanes_of_b_are_broadcast() {
    for (op, _) in matrix_operations().filter(|(_, matrix)| !matrix.sparse && matrix.a != Element::F64) {
        for blgp in 1..8 {
            for level in levels() {
                case(op, Modifiers { blgp, ..Modifiers::default() }, false, u64::from(blgp))
                    .check(level, Arch::Gfx90a);
            }
        }
    }
}

#[test]
fn f64_operands_are_negated() {
    for op in [Op::v_mfma_f64_16x16x4_f64, Op::v_mfma_f64_4x4x4_4b_f64] {
        for blgp in 1..8 {
            for level in levels() {
                case(op, Modifiers { blgp, ..Modifiers::default() }, false, u64::from(blgp))
                    .check(level, Arch::Gfx942);
            }
        }
    }
}

#[test]
fn sparse_operations_use_the_chosen_set_of_indices() {
    for (op, matrix) in matrix_operations().filter(|(_, matrix)| matrix.sparse) {
        let sets = if bits_of(matrix.a) == 16 { 4 } else { 2 };
        for abid in 0..sets {
            for cbsz in 0..2 {
                for level in levels() {
                    let modifiers = Modifiers { cbsz, abid, ..Modifiers::default() };
                    case(op, modifiers, false, u64::from(abid)).check(level, Arch::Gfx942);
                }
            }
        }
    }
}

#[test]
fn the_accumulator_may_be_the_destination() {
    for level in levels() {
        let mut case = case(Op::v_mfma_f32_32x32x8f16, Modifiers::default(), false, 9);
        let want = case.product();
        case.inst.src[2] = Operand::Vgpr(D);
        run(level, Arch::Gfx90a, &mut case.wave, &[case.inst]);
        for (place, want) in want {
            assert_eq!(output_value(case.matrix, get(&case.wave, D, Element::F32, place)), want);
        }
    }
}

#[test]
fn subnormal_halves_count_on_gfx942_only() {
    for (arch, expected) in [(Arch::Gfx90a, 0.0), (Arch::Gfx942, 16.0 * 2_f64.powi(-24))] {
        for level in levels() {
            let mut wave = Wave::new(128);
            for register in 0..2 {
                wave.vgprs[usize::from(A) + register] = crate::Lanes::splat(0x0001_0001);
                wave.vgprs[usize::from(B) + register] = crate::Lanes::splat(0x3c00_3c00);
            }
            let src = [Operand::Vgpr(A), Operand::Vgpr(B), Operand::Int(0)];
            let mfma = inst(Op::v_mfma_f32_16x16x16f16, Format::Vop3p, Operand::Vgpr(D), &src);
            run(level, arch, &mut wave, &[mfma]);
            assert_eq!(f64::from(f32::from_bits(wave.vgprs[usize::from(D)].0[7])), expected, "{arch:?}");
        }
    }
}

#[test]
fn xf32_keeps_ten_mantissa_bits() {
    for level in levels() {
        let mut wave = Wave::new(128);
        for register in 0..2 {
            wave.vgprs[usize::from(A) + register] =
                crate::Lanes::splat((1.0 + 2_f32.powi(-11) + 2_f32.powi(-12)).to_bits());
            wave.vgprs[usize::from(B) + register] = crate::Lanes::splat((1.0 + 2_f32.powi(-12)).to_bits());
        }
        let src = [Operand::Vgpr(A), Operand::Vgpr(B), Operand::Int(0)];
        let mfma = inst(Op::v_mfma_f32_16x16x8_xf32, Format::Vop3p, Operand::Vgpr(D), &src);
        run(level, Arch::Gfx942, &mut wave, &[mfma]);
        assert_eq!(f32::from_bits(wave.vgprs[usize::from(D)].0[0]), 8.0 * (1.0 + 2_f32.powi(-10)));
    }
}
