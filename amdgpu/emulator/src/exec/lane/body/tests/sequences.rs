//! Tests of instruction sequences that compilers emit, by their results.

use fastrand::Rng;
use isa::{Arch, Format, Inst, Op, Operand};

use super::{inst, levels, run};
use crate::Wave;
use crate::wave::sreg;

fn vop3(op: Op, dst: u8, src: &[Operand]) -> Inst {
    inst(op, Format::Vop3, Operand::Vgpr(dst), src)
}

fn negated(mut inst: Inst, n: u8) -> Inst {
    inst.modifiers.neg |= 1 << n;
    inst
}

fn to_vcc(mut inst: Inst) -> Inst {
    inst.sdst = Operand::VccLo;
    inst
}

const V: fn(u8) -> Operand = Operand::Vgpr;

#[test]
fn f32_division_is_correctly_rounded() {
    let one = Operand::Float(1.0_f32.to_bits());
    // v0 / v1; v2 is the scaled denominator, v3 the scaled numerator.
    let insts = [
        vop3(Op::v_div_scale_f32, 2, &[V(1), V(1), V(0)]),
        to_vcc(vop3(Op::v_div_scale_f32, 3, &[V(0), V(1), V(0)])),
        inst(Op::v_rcp_f32, Format::Vop1, V(4), &[V(2)]),
        negated(vop3(Op::v_fma_f32, 5, &[V(2), V(4), one]), 0),
        vop3(Op::v_fma_f32, 4, &[V(5), V(4), V(4)]),
        vop3(Op::v_mul_f32, 5, &[V(3), V(4)]),
        negated(vop3(Op::v_fma_f32, 6, &[V(2), V(5), V(3)]), 0),
        vop3(Op::v_fma_f32, 5, &[V(6), V(4), V(5)]),
        negated(vop3(Op::v_fma_f32, 6, &[V(2), V(5), V(3)]), 0),
        vop3(Op::v_div_fmas_f32, 7, &[V(6), V(4), V(5)]),
        vop3(Op::v_div_fixup_f32, 7, &[V(7), V(1), V(0)]),
    ];
    for level in levels() {
        let mut random = Rng::with_seed(1);
        for _ in 0..100 {
            let mut wave = Wave::new(16);
            for register in 0..2 {
                for lane in 0..64 {
                    wave.vgprs[register].0[lane] = random.u32(..);
                }
            }
            run(level, Arch::Gfx90a, &mut wave, &insts);
            for lane in 0..64 {
                let value = |register: usize| f32::from_bits(wave.vgprs[register].0[lane]);
                let (got, want) = (value(7), value(0) / value(1));
                assert!(
                    got == want || got.is_nan() && want.is_nan(),
                    "{:e} / {:e}: {got:e}",
                    value(0),
                    value(1)
                );
            }
        }
    }
}

#[test]
fn f64_division_is_correctly_rounded() {
    let one = Operand::Float(1.0_f32.to_bits());
    let insts = [
        vop3(Op::v_div_scale_f64, 4, &[V(2), V(2), V(0)]),
        to_vcc(vop3(Op::v_div_scale_f64, 6, &[V(0), V(2), V(0)])),
        inst(Op::v_rcp_f64, Format::Vop1, V(8), &[V(4)]),
        negated(vop3(Op::v_fma_f64, 10, &[V(4), V(8), one]), 0),
        vop3(Op::v_fma_f64, 8, &[V(8), V(10), V(8)]),
        vop3(Op::v_mul_f64, 10, &[V(6), V(8)]),
        negated(vop3(Op::v_fma_f64, 12, &[V(4), V(10), V(6)]), 0),
        vop3(Op::v_div_fmas_f64, 14, &[V(12), V(8), V(10)]),
        vop3(Op::v_div_fixup_f64, 14, &[V(14), V(2), V(0)]),
    ];
    for level in levels() {
        let mut random = Rng::with_seed(2);
        for _ in 0..100 {
            let mut wave = Wave::new(16);
            for register in 0..4 {
                for lane in 0..64 {
                    wave.vgprs[register].0[lane] = random.u32(..);
                }
            }
            run(level, Arch::Gfx90a, &mut wave, &insts);
            for lane in 0..64 {
                let value = |register: usize| {
                    let (low, high) = (wave.vgprs[register].0[lane], wave.vgprs[register + 1].0[lane]);
                    f64::from_bits(u64::from(low) | u64::from(high) << 32)
                };
                let (got, want) = (value(14), value(0) / value(2));
                assert!(
                    got == want || got.is_nan() && want.is_nan(),
                    "{:e} / {:e}: {got:e}",
                    value(0),
                    value(2)
                );
            }
        }
    }
}

#[test]
fn carries_ripple_through_64_bit_additions() {
    let add = to_vcc(inst(Op::v_add_co_u32, Format::Vop2, V(4), &[V(0), V(2)]));
    let addc = to_vcc(inst(Op::v_addc_co_u32, Format::Vop2, V(5), &[V(1), V(3), Operand::VccLo]));
    let sub = to_vcc(inst(Op::v_sub_co_u32, Format::Vop2, V(6), &[V(4), V(2)]));
    let subb = to_vcc(inst(Op::v_subb_co_u32, Format::Vop2, V(7), &[V(5), V(3), Operand::VccLo]));
    for level in levels() {
        let mut random = Rng::with_seed(3);
        let mut wave = Wave::new(16);
        for register in 0..4 {
            for lane in 0..64 {
                wave.vgprs[register].0[lane] = random.u32(..);
            }
        }
        run(level, Arch::Gfx90a, &mut wave, &[add, addc, sub, subb]);
        for lane in 0..64 {
            let value =
                |at: usize| u64::from(wave.vgprs[at].0[lane]) | u64::from(wave.vgprs[at + 1].0[lane]) << 32;
            assert_eq!(value(4), value(0).wrapping_add(value(2)));
            assert_eq!(value(6), value(0));
        }
    }
}

#[test]
fn lane_numbers_come_from_counting_the_bits_below() {
    let lo = vop3(Op::v_mbcnt_lo_u32_b32, 0, &[Operand::Int(-1), Operand::Int(0)]);
    let hi = vop3(Op::v_mbcnt_hi_u32_b32, 0, &[Operand::Int(-1), V(0)]);
    for level in levels() {
        let mut wave = Wave::new(4);
        run(level, Arch::Gfx90a, &mut wave, &[lo, hi]);
        assert!(wave.vgprs[0].0.iter().enumerate().all(|(lane, &value)| value as usize == lane));
    }
}

#[test]
fn comparisons_narrow_exec_lane_by_lane() {
    let less = inst(Op::v_cmpx_lt_u32, Format::Vopc, Operand::None, &[V(0), Operand::Int(40)]);
    let more = inst(Op::v_cmpx_gt_u32, Format::Vopc, Operand::None, &[V(0), Operand::Int(7)]);
    for level in levels() {
        let mut wave = Wave::new(4);
        wave.vgprs[0] = crate::Lanes(std::array::from_fn(|lane| lane as u32));
        run(level, Arch::Gfx90a, &mut wave, &[less, more]);
        assert_eq!(wave.sgpr64(sreg::EXEC), 0x0000_00ff_ffff_ff00);
        assert_eq!(wave.sgpr64(30), 0x0000_00ff_ffff_ff00);
    }
}

#[test]
fn pieces_of_two_over_pi_add_up() {
    let x = Operand::Float(1.0_f32.to_bits());
    let insts = [0, 1, 2].map(|n| vop3(Op::v_trig_preop_f64, 2 * n, &[x, Operand::Int(n as i8)]));
    for level in levels() {
        let mut wave = Wave::new(8);
        run(level, Arch::Gfx90a, &mut wave, &insts);
        let value = |at: usize| {
            f64::from_bits(u64::from(wave.vgprs[at].0[5]) | u64::from(wave.vgprs[at + 1].0[5]) << 32)
        };
        assert!((value(0) - std::f64::consts::FRAC_2_PI).abs() <= 2_f64.powi(-53));
        // The first piece is truncated and the next continues where it ends, so pi times their sum is two.
        let pi_low = 1.224_646_799_147_353_2e-16;
        let pi = std::f64::consts::PI;
        let product = value(0) * pi;
        let error = value(0).mul_add(pi, -product);
        let rest = value(0) * pi_low + value(2) * pi + error;
        assert!((product - 2.0 + rest).abs() < 1e-30, "{:e}", product - 2.0 + rest);
        assert!(value(4) > 0.0 && value(4) < 2_f64.powi(-106));
    }
}
