//! Tests of modifiers, DPP, SDWA, MODE and cross-lane instructions.

use fastrand::Rng;
use isa::{Arch, Dpp, Format, Modifiers, Op, Operand, Sdwa};

use super::{inst, levels, run};
use crate::wave::sreg;
use crate::{Lanes, Wave};

const EXEC: u64 = 0xfeff_7fff_ff0f_fff3;

/// A wave with random registers, reproducible by seed.
fn random_wave(seed: u64) -> Wave {
    let mut random = Rng::with_seed(seed);
    let mut wave = Wave::new(64);
    for lanes in &mut wave.vgprs {
        *lanes = Lanes(std::array::from_fn(|_| random.u32(..)));
    }
    for index in 0..100 {
        wave.sgprs[index] = random.u32(..);
    }
    wave.set_sgpr64(sreg::EXEC, EXEC);
    wave
}

/// A wave with floats of moderate magnitude in all registers.
fn float_wave(seed: u64) -> Wave {
    let mut wave = random_wave(seed);
    for lanes in &mut wave.vgprs {
        for value in &mut lanes.0 {
            *value = (*value as i32 as f32 / 536_870_912.0).to_bits();
        }
    }
    wave
}

fn f(wave: &Wave, register: usize, lane: usize) -> f32 {
    f32::from_bits(wave.vgprs[register].0[lane])
}

fn half(wave: &Wave, register: usize, lane: usize, high: bool) -> f64 {
    half::f16::from_bits((wave.vgprs[register].0[lane] >> if high { 16 } else { 0 }) as u16).to_f64()
}

fn active(lane: usize) -> bool {
    EXEC >> lane & 1 == 1
}

#[test]
fn negation_comes_after_the_absolute_value() {
    for level in levels() {
        for bits in 0..16 {
            let (neg, abs) = (bits & 3, bits >> 2);
            let mut wave = float_wave(1);
            let mut add =
                inst(Op::v_add_f32, Format::Vop3, Operand::Vgpr(2), &[Operand::Vgpr(0), Operand::Vgpr(1)]);
            add.modifiers = Modifiers { neg, abs, ..Modifiers::default() };
            let modified = |n: u8, value: f32| {
                let value = if abs >> n & 1 == 1 { value.abs() } else { value };
                if neg >> n & 1 == 1 { -value } else { value }
            };
            let old = float_wave(1);
            run(level, Arch::Gfx90a, &mut wave, &[add]);
            for lane in (0..64).filter(|&lane| active(lane)) {
                let want = modified(0, f(&old, 0, lane)) + modified(1, f(&old, 1, lane));
                assert_eq!(f(&wave, 2, lane), want);
            }
        }
    }
}

#[test]
fn output_modifier_scales_before_the_clamp() {
    for level in levels() {
        for (omod, factor) in [(0, 1.0), (1, 2.0), (2, 4.0), (3, 0.5)] {
            for clamp in [false, true] {
                let (mut wave, old) = (float_wave(2), float_wave(2));
                wave.vgprs[0].0[0] = f32::NAN.to_bits();
                // The hardware ignores omod in other modes.
                (wave.mode.ieee, wave.mode.denorm_f32) = (false, 0);
                let mut add = inst(
                    Op::v_add_f32,
                    Format::Vop3,
                    Operand::Vgpr(2),
                    &[Operand::Vgpr(0), Operand::Vgpr(1)],
                );
                add.modifiers = Modifiers { omod, clamp, ..Modifiers::default() };
                run(level, Arch::Gfx90a, &mut wave, &[add]);
                for lane in (1..64).filter(|&lane| active(lane)) {
                    let sum = (f(&old, 0, lane) + f(&old, 1, lane)) * factor;
                    assert_eq!(f(&wave, 2, lane), if clamp { sum.clamp(0.0, 1.0) } else { sum });
                }
                assert!(if clamp { f(&wave, 2, 0) == 0.0 } else { f(&wave, 2, 0).is_nan() });
            }
        }
    }
}

#[test]
fn integer_clamp_saturates() {
    for level in levels() {
        let (mut wave, old) = (random_wave(3), random_wave(3));
        let insts = [Op::v_add_u32, Op::v_sub_u32, Op::v_add_i32, Op::v_sub_i32].map(|op| {
            let dst =
                10 + op as u16 as u8 % 2 + if matches!(op, Op::v_add_i32 | Op::v_sub_i32) { 20 } else { 0 };
            let mut inst = inst(op, Format::Vop3, Operand::Vgpr(dst), &[Operand::Vgpr(0), Operand::Vgpr(1)]);
            inst.modifiers.clamp = true;
            inst
        });
        for inst in insts {
            run(level, Arch::Gfx90a, &mut wave, &[inst]);
            let Operand::Vgpr(dst) = inst.dst else { unreachable!("the destination is a vector register") };
            for lane in (0..64).filter(|&lane| active(lane)) {
                let (a, b) = (old.vgprs[0].0[lane], old.vgprs[1].0[lane]);
                let want = match inst.op {
                    Op::v_add_u32 => a.saturating_add(b),
                    Op::v_sub_u32 => a.saturating_sub(b),
                    Op::v_add_i32 => (a as i32).saturating_add(b as i32) as u32,
                    _ => (a as i32).saturating_sub(b as i32) as u32,
                };
                assert_eq!(wave.vgprs[usize::from(dst)].0[lane], want, "{}", inst.op.name());
            }
        }
    }
}

#[test]
fn op_sel_chooses_halves_of_sources_and_destination() {
    for level in levels() {
        for op_sel in 0..16 {
            let (mut wave, old) = (random_wave(4), random_wave(4));
            let src = [Operand::Vgpr(0), Operand::Vgpr(1), Operand::Vgpr(2)];
            let mut mad = inst(Op::v_mad_u16, Format::Vop3, Operand::Vgpr(3), &src);
            mad.modifiers.op_sel = op_sel;
            run(level, Arch::Gfx90a, &mut wave, &[mad]);
            for lane in 0..64 {
                let part = |n: usize| (old.vgprs[n].0[lane] >> (16 * (op_sel >> n & 1))) as u16;
                let result = u32::from(part(0).wrapping_mul(part(1)).wrapping_add(part(2)));
                let before = old.vgprs[3].0[lane];
                let want = match (active(lane), op_sel & 8) {
                    (false, _) => before,
                    (true, 0) => before & 0xffff_0000 | result,
                    (true, _) => before & 0xffff | result << 16,
                };
                assert_eq!(wave.vgprs[3].0[lane], want);
            }
        }
    }
}

#[test]
fn packed_operations_take_any_halves_with_any_sign() {
    for level in levels() {
        for bits in 0..256 {
            // Finite f16 values only.
            let finite = || {
                let mut wave = random_wave(5);
                for value in wave.vgprs.iter_mut().flat_map(|lanes| &mut lanes.0) {
                    *value &= 0xbbff_bbff;
                }
                wave
            };
            let (mut wave, old) = (finite(), finite());
            let mut add = inst(
                Op::v_pk_add_f16,
                Format::Vop3p,
                Operand::Vgpr(3),
                &[Operand::Vgpr(0), Operand::Vgpr(1)],
            );
            add.modifiers = Modifiers {
                op_sel: bits as u8 & 3,
                op_sel_hi: (bits >> 2) as u8 & 3,
                neg: (bits >> 4) as u8 & 3,
                neg_hi: (bits >> 6) as u8 & 3,
                ..Modifiers::default()
            };
            let m = add.modifiers;
            run(level, Arch::Gfx90a, &mut wave, &[add]);
            for lane in (0..64).filter(|&lane| active(lane)) {
                let part = |n: usize, select: u8, negate: u8| {
                    let value = half(&old, n, lane, select >> n & 1 == 1);
                    if negate >> n & 1 == 1 { -value } else { value }
                };
                let low = part(0, m.op_sel, m.neg) + part(1, m.op_sel, m.neg);
                let high = part(0, m.op_sel_hi, m.neg_hi) + part(1, m.op_sel_hi, m.neg_hi);
                let rounded = |value: f64| half::f16::from_f64(value).to_f64();
                assert_eq!(half(&wave, 3, lane, false), rounded(low));
                assert_eq!(half(&wave, 3, lane, true), rounded(high));
            }
        }
    }
}

#[test]
fn pairs_of_floats_take_any_dword_with_any_sign() {
    for level in levels() {
        for bits in 0..256 {
            let (mut wave, old) = (float_wave(6), float_wave(6));
            let mut mul = inst(
                Op::v_pk_mul_f32,
                Format::Vop3p,
                Operand::Vgpr(8),
                &[Operand::Vgpr(0), Operand::Vgpr(2)],
            );
            mul.modifiers = Modifiers {
                op_sel: bits as u8 & 3,
                op_sel_hi: (bits >> 2) as u8 & 3,
                neg: (bits >> 4) as u8 & 3,
                neg_hi: (bits >> 6) as u8 & 3,
                ..Modifiers::default()
            };
            let m = mul.modifiers;
            run(level, Arch::Gfx942, &mut wave, &[mul]);
            for lane in (0..64).filter(|&lane| active(lane)) {
                let part = |n: usize, select: u8, negate: u8| {
                    let value = f(&old, 2 * n + usize::from(select >> n & 1), lane);
                    if negate >> n & 1 == 1 { -value } else { value }
                };
                assert_eq!(f(&wave, 8, lane), part(0, m.op_sel, m.neg) * part(1, m.op_sel, m.neg));
                assert_eq!(
                    f(&wave, 9, lane),
                    part(0, m.op_sel_hi, m.neg_hi) * part(1, m.op_sel_hi, m.neg_hi)
                );
            }
        }
    }
}

#[test]
fn packed_moves_take_one_dword_of_each_source() {
    for level in levels() {
        for op_sel in 0..4 {
            let (mut wave, old) = (random_wave(7), random_wave(7));
            let mut mov = inst(
                Op::v_pk_mov_b32,
                Format::Vop3p,
                Operand::Vgpr(0),
                &[Operand::Vgpr(0), Operand::Sgpr(8)],
            );
            mov.modifiers.op_sel = op_sel;
            run(level, Arch::Gfx90a, &mut wave, &[mov]);
            for lane in (0..64).filter(|&lane| active(lane)) {
                assert_eq!(wave.vgprs[0].0[lane], old.vgprs[usize::from(op_sel & 1)].0[lane]);
                assert_eq!(wave.vgprs[1].0[lane], old.sgprs[8 + usize::from(op_sel >> 1)]);
            }
        }
    }
}

#[test]
fn mixed_precision_reads_floats_or_halves() {
    for level in levels() {
        for bits in 0..64 {
            let mut wave = float_wave(8);
            for lanes in &mut wave.vgprs[20..24] {
                *lanes = Lanes(std::array::from_fn(|lane| 0x3c00_4200 + lane as u32 * 0x0003_0007));
            }
            let (op_sel, op_sel_hi) = (bits as u8 & 7, (bits >> 3) as u8);
            let register = |n: u8| if op_sel_hi >> n & 1 == 1 { 20 + n } else { n };
            let src = [0, 1, 2].map(|n| Operand::Vgpr(register(n)));
            let old = wave.vgprs.to_vec();
            let mut insts = [Op::v_fma_mix_f32, Op::v_fma_mixlo_f16, Op::v_fma_mixhi_f16].map(|op| {
                let dst = Operand::Vgpr(
                    30 + (op == Op::v_fma_mixlo_f16) as u8 + 2 * (op == Op::v_fma_mixhi_f16) as u8,
                );
                inst(op, Format::Vop3p, dst, &src)
            });
            for inst in &mut insts {
                inst.modifiers = Modifiers { op_sel, op_sel_hi, neg: 1, abs: 2, ..Modifiers::default() };
            }
            run(level, Arch::Gfx90a, &mut wave, &insts);
            for lane in (0..64).filter(|&lane| active(lane)) {
                let value = |n: u8| {
                    let bits = old[usize::from(register(n))].0[lane];
                    if op_sel_hi >> n & 1 == 1 {
                        half::f16::from_bits((bits >> (16 * u32::from(op_sel >> n & 1))) as u16).to_f32()
                    } else {
                        f32::from_bits(bits)
                    }
                };
                let want = (-value(0)).mul_add(value(1).abs(), value(2));
                let rounded = u32::from(half::f16::from_f32(want).to_bits());
                assert_eq!(f(&wave, 30, lane), want);
                assert_eq!(wave.vgprs[31].0[lane], old[31].0[lane] & 0xffff_0000 | rounded);
                assert_eq!(wave.vgprs[32].0[lane], old[32].0[lane] & 0xffff | rounded << 16);
            }
        }
    }
}

#[test]
fn dpp_adds_the_permuted_source_in_the_lanes_that_have_one() {
    for level in levels() {
        let (mut wave, old) = (random_wave(9), random_wave(9));
        let mut add =
            inst(Op::v_add_u32, Format::Vop2, Operand::Vgpr(2), &[Operand::Vgpr(0), Operand::Vgpr(1)]);
        add.dpp = Some(Dpp { ctrl: 0x112, row_mask: 0b1011, bank_mask: 0b0111, bound_ctrl: false });
        run(level, Arch::Gfx90a, &mut wave, &[add]);
        for lane in 0..64_usize {
            let (row, column) = (lane / 16, lane % 16);
            let source = column.checked_sub(2).map(|column| 16 * row + column).filter(|&lane| active(lane));
            let want = match source {
                Some(source) if active(lane) && row != 2 && column / 4 != 3 => {
                    old.vgprs[0].0[source].wrapping_add(old.vgprs[1].0[lane])
                }
                _ => old.vgprs[2].0[lane],
            };
            assert_eq!(wave.vgprs[2].0[lane], want, "lane {lane}");
        }
    }
}

#[test]
fn sdwa_selects_parts_of_sources_and_places_the_result() {
    let select = |value: u32, sel: u8, sext: bool| -> i64 {
        match (sel, sext) {
            (0..=3, false) => i64::from((value >> (8 * sel)) as u8),
            (0..=3, true) => i64::from((value >> (8 * sel)) as i8),
            (4 | 5, false) => i64::from((value >> (16 * (sel - 4))) as u16),
            (4 | 5, true) => i64::from((value >> (16 * (sel - 4))) as i16),
            _ => i64::from(value),
        }
    };
    for level in levels() {
        for src0_sel in 0..7 {
            for dst_sel in 0..7 {
                for dst_unused in 0..3 {
                    let (mut wave, old) = (random_wave(10), random_wave(10));
                    let src = [Operand::Vgpr(0), Operand::Vgpr(1)];
                    let mut add = inst(Op::v_add_u32, Format::Vop2, Operand::Vgpr(2), &src);
                    let src1_sel = (src0_sel + dst_sel) % 7;
                    add.sdwa = Some(Sdwa {
                        dst_sel,
                        dst_unused,
                        src0_sel,
                        src0_sext: true,
                        src1_sel,
                        src1_sext: false,
                    });
                    run(level, Arch::Gfx90a, &mut wave, &[add]);
                    for lane in (0..64).filter(|&lane| active(lane)) {
                        let a = select(old.vgprs[0].0[lane], src0_sel, true);
                        let b = select(old.vgprs[1].0[lane], src1_sel, false);
                        let sum = (a + b) as u32;
                        let before = old.vgprs[2].0[lane];
                        let (shift, mask) = match dst_sel {
                            0..=3 => (8 * dst_sel, 0xff),
                            4 | 5 => (16 * (dst_sel - 4), 0xffff),
                            _ => (0, u32::MAX),
                        };
                        let field = sum & mask;
                        let sign = field & (mask / 2 + 1) != 0 && mask != u32::MAX;
                        let above = !(u64::from(mask) << shift | ((1 << shift) - 1)) as u32;
                        let want = match dst_unused {
                            0 => field << shift,
                            1 => field << shift | if sign { above } else { 0 },
                            _ => field << shift | before & !(mask << shift),
                        };
                        assert_eq!(wave.vgprs[2].0[lane], want, "sel {src0_sel} to {dst_sel}, {dst_unused}");
                    }
                }
            }
        }
    }
}

#[test]
fn sdwa_comparisons_read_halves() {
    for level in levels() {
        let (mut wave, old) = (random_wave(11), random_wave(11));
        let mut compare =
            inst(Op::v_cmp_gt_i16, Format::Vopc, Operand::None, &[Operand::Vgpr(0), Operand::Vgpr(1)]);
        compare.sdwa = Some(Sdwa {
            dst_sel: 6,
            dst_unused: 0,
            src0_sel: 5,
            src0_sext: false,
            src1_sel: 4,
            src1_sext: false,
        });
        run(level, Arch::Gfx90a, &mut wave, &[compare]);
        for lane in 0..64 {
            let (a, b) = ((old.vgprs[0].0[lane] >> 16) as i16, old.vgprs[1].0[lane] as i16);
            assert_eq!(wave.sgpr64(30) >> lane & 1 == 1, active(lane) && a > b);
        }
    }
}

#[test]
fn lanes_are_read_and_written_whatever_exec_says() {
    for level in levels() {
        let (mut wave, old) = (random_wave(12), random_wave(12));
        wave.set_sgpr64(sreg::EXEC, 0xf0);
        wave.sgprs[7] = 64 + 9;
        let insts = [
            inst(Op::v_readfirstlane_b32, Format::Vop1, Operand::Sgpr(40), &[Operand::Vgpr(3)]),
            inst(Op::v_readlane_b32, Format::Vop3, Operand::Sgpr(41), &[Operand::Vgpr(3), Operand::Sgpr(7)]),
            inst(Op::v_writelane_b32, Format::Vop3, Operand::Vgpr(4), &[Operand::Sgpr(11), Operand::Int(63)]),
            inst(Op::v_swap_b32, Format::Vop1, Operand::Vgpr(5), &[Operand::Vgpr(6)]),
        ];
        run(level, Arch::Gfx90a, &mut wave, &insts);
        assert_eq!(wave.sgprs[40], old.vgprs[3].0[4]);
        assert_eq!(wave.sgprs[41], old.vgprs[3].0[9]);
        for lane in 0..64 {
            let written = if lane == 63 { old.sgprs[11] } else { old.vgprs[4].0[lane] };
            assert_eq!(wave.vgprs[4].0[lane], written);
            let (a, b) = if (4..8).contains(&lane) { (6, 5) } else { (5, 6) };
            assert_eq!(wave.vgprs[5].0[lane], old.vgprs[a].0[lane]);
            assert_eq!(wave.vgprs[6].0[lane], old.vgprs[b].0[lane]);
        }
        wave.set_sgpr64(sreg::EXEC, 0);
        run(level, Arch::Gfx90a, &mut wave, &insts[..1]);
        assert_eq!(wave.sgprs[40], old.vgprs[3].0[0]);
    }
}

#[test]
fn small_floats_are_converted_into_the_chosen_byte_or_half() {
    use crate::exec::math::float8::{bf8_to_f32, f32_to_bf8, f32_to_fp8, fp8_to_f32};
    for level in levels() {
        let (mut wave, old) = (float_wave(13), float_wave(13));
        let src = [Operand::Vgpr(0), Operand::Vgpr(1)];
        let mut pack = inst(Op::v_cvt_pk_fp8_f32, Format::Vop3, Operand::Vgpr(8), &src);
        pack.modifiers.op_sel = 8;
        let mut byte =
            inst(Op::v_cvt_sr_bf8_f32, Format::Vop3, Operand::Vgpr(9), &[Operand::Vgpr(0), Operand::Int(0)]);
        byte.modifiers.op_sel = 8;
        let low = inst(Op::v_cvt_pk_bf8_f32, Format::Vop3, Operand::Vgpr(12), &src);
        let wide = inst(Op::v_cvt_pk_f32_bf8, Format::Vop1, Operand::Vgpr(10), &[Operand::Vgpr(12)]);
        let mut select = inst(Op::v_cvt_f32_fp8, Format::Vop1, Operand::Vgpr(14), &[Operand::Vgpr(8)]);
        select.sdwa = Some(Sdwa {
            dst_sel: 6,
            dst_unused: 0,
            src0_sel: 3,
            src0_sext: false,
            src1_sel: 6,
            src1_sext: false,
        });
        run(level, Arch::Gfx942, &mut wave, &[pack, byte, low, wide, select]);
        for lane in (0..64).filter(|&lane| active(lane)) {
            let (a, b) = (f(&old, 0, lane), f(&old, 1, lane));
            let fp8 = [f32_to_fp8(a, false), f32_to_fp8(b, false)];
            let bf8 = [f32_to_bf8(a, false), f32_to_bf8(b, false)];
            let packed = |pair: [u8; 2]| u32::from(u16::from_le_bytes(pair));
            assert_eq!(wave.vgprs[8].0[lane], old.vgprs[8].0[lane] & 0xffff | packed(fp8) << 16);
            assert_eq!(wave.vgprs[12].0[lane], old.vgprs[12].0[lane] & 0xffff_0000 | packed(bf8));
            assert_eq!((f(&wave, 10, lane), f(&wave, 11, lane)), (bf8_to_f32(bf8[0]), bf8_to_f32(bf8[1])));
            assert_eq!(f(&wave, 14, lane), fp8_to_f32(fp8[1]));
            let kept = 0xff00_ffff;
            assert_eq!(wave.vgprs[9].0[lane] & kept, old.vgprs[9].0[lane] & kept);
            let got = bf8_to_f32((wave.vgprs[9].0[lane] >> 16) as u8);
            assert!(got.abs() <= a.abs() && (got - a).abs() <= a.abs() / 4.0 + 1e-4, "{got} of {a}");
        }
    }
}

#[test]
fn masked_sums_slide_over_eight_bytes() {
    for level in levels() {
        let (mut wave, old) = (random_wave(14), random_wave(14));
        let src = [Operand::Vgpr(0), Operand::Vgpr(2), Operand::Vgpr(4)];
        run(
            level,
            Arch::Gfx90a,
            &mut wave,
            &[inst(Op::v_mqsad_u32_u8, Format::Vop3, Operand::Vgpr(4), &src)],
        );
        for lane in 0..64 {
            for n in 0..4 {
                let window = u64::from(old.vgprs[0].0[lane]) | u64::from(old.vgprs[1].0[lane]) << 32;
                let (window, reference) =
                    ((window >> (8 * n)).to_le_bytes(), old.vgprs[2].0[lane].to_le_bytes());
                let pairs = reference.iter().zip(window).filter(|(reference, _)| **reference != 0);
                let sum: u32 = pairs.map(|(&reference, value)| u32::from(value.abs_diff(reference))).sum();
                let before = old.vgprs[4 + n].0[lane];
                let want = if active(lane) { before.wrapping_add(sum) } else { before };
                assert_eq!(wave.vgprs[4 + n].0[lane], want);
            }
        }
    }
}

#[test]
fn registers_past_the_allocation_are_refused() {
    let mut c = crate::compile::Compiler::new(Arch::Gfx90a, crate::Level::Base, 32, 32, 0);
    let wide = inst(Op::v_add_f64, Format::Vop3, Operand::Vgpr(31), &[Operand::Vgpr(0), Operand::Vgpr(2)]);
    assert!(super::compile(&mut c, &wide).is_err());
    let fits = inst(Op::v_add_f64, Format::Vop3, Operand::Vgpr(30), &[Operand::Vgpr(0), Operand::Vgpr(2)]);
    assert!(super::compile(&mut c, &fits).is_ok());
}

#[test]
fn mode_flushes_subnormal_sources_and_results() {
    let cases: [(u8, f32, f32, f32); 7] = [
        (3, 1.5e-39, 2.5e-39, 1.5e-39 + 2.5e-39),
        (0, 1.5e-39, 2.5e-39, 0.0),
        (0, 3e-38, -2.5e-38, 0.0),
        (1, 3e-38, -2.5e-38, 0.0),
        (2, 3e-38, -2.5e-38, 3e-38 - 2.5e-38),
        (2, 1.5e-39, 1.0, 1.0),
        (1, 1.5e-39, 1.4e-38, 1.5e-39 + 1.4e-38),
    ];
    for level in levels() {
        for (denorm, a, b, want) in cases {
            for format in [Format::Vop2, Format::Vop3] {
                let mut wave = Wave::new(8);
                wave.mode.denorm_f32 = denorm;
                wave.vgprs[0] = Lanes::splat(a.to_bits());
                wave.vgprs[1] = Lanes::splat(b.to_bits());
                let mut add =
                    inst(Op::v_add_f32, format, Operand::Vgpr(2), &[Operand::Vgpr(0), Operand::Vgpr(1)]);
                if format == Format::Vop3 {
                    add.modifiers.neg = 3;
                }
                let mov = inst(Op::v_mov_b32, Format::Vop1, Operand::Vgpr(3), &[Operand::Vgpr(0)]);
                run(level, Arch::Gfx90a, &mut wave, &[add, mov]);
                let got = f(&wave, 2, 63);
                assert_eq!(if format == Format::Vop3 { -got } else { got }, want, "{denorm} {a:e} {b:e}");
                assert_eq!(wave.vgprs[3].0[9], a.to_bits());
            }
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn mode_rounds_sums_and_products() {
    let third = 1.0_f32 / 3.0;
    let exact = f64::from(third) * f64::from(third);
    let nearest = exact as f32;
    let below = if f64::from(nearest) > exact { nearest.to_bits() - 1 } else { nearest.to_bits() };
    let (down, up) = (f32::from_bits(below), f32::from_bits(below + 1));
    assert!(f64::from(down) < exact && exact < f64::from(up));
    for level in levels() {
        for (round, want, negative) in [(0, nearest, nearest), (1, up, down), (2, down, up), (3, down, down)]
        {
            let mut wave = Wave::new(8);
            wave.mode.round_f32 = round;
            wave.vgprs[0] = Lanes::splat(third.to_bits());
            let src = [Operand::Vgpr(0), Operand::Vgpr(0)];
            let mul = inst(Op::v_mul_f32, Format::Vop2, Operand::Vgpr(2), &src);
            let mut minus = inst(Op::v_mul_f32, Format::Vop3, Operand::Vgpr(3), &src);
            minus.modifiers.neg = 1;
            run(level, Arch::Gfx90a, &mut wave, &[mul, minus]);
            assert_eq!((f(&wave, 2, 5), -f(&wave, 3, 5)), (want, negative), "{round}");
        }
        assert_eq!(1.0_f32 / 3.0, third, "the host's rounding mode was not restored");
    }
}
