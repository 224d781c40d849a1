//! Templates of 32-bit comparisons.

use iced_x86::Code::*;
use isa::Op;

use super::emit::ACTIVE;
use super::template::Template;

macro_rules! compares {
    ($code:expr, $predicate:expr) => {
        |e| {
            let (a, b) = (e.reg(0), e.arg(1));
            let mask = e.fresh_mask();
            e.asm.compare($code, mask, ACTIVE, a, b, $predicate);
            e.set_mask(mask);
        }
    };
}

#[rustfmt::skip]
pub fn of(op: Op) -> Option<Template> {
    Some(match op {
        Op::v_cmp_lt_f32  => compares!(EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, 0x11),
        Op::v_cmp_eq_f32  => compares!(EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, 0x00),
        Op::v_cmp_le_f32  => compares!(EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, 0x12),
        Op::v_cmp_gt_f32  => compares!(EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, 0x1e),
        Op::v_cmp_lg_f32  => compares!(EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, 0x0c),
        Op::v_cmp_ge_f32  => compares!(EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, 0x1d),
        Op::v_cmp_o_f32   => compares!(EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, 0x07),
        Op::v_cmp_u_f32   => compares!(EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, 0x03),
        Op::v_cmp_nge_f32 => compares!(EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, 0x19),
        Op::v_cmp_nlg_f32 => compares!(EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, 0x08),
        Op::v_cmp_ngt_f32 => compares!(EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, 0x1a),
        Op::v_cmp_nle_f32 => compares!(EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, 0x16),
        Op::v_cmp_neq_f32 => compares!(EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, 0x04),
        Op::v_cmp_nlt_f32 => compares!(EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, 0x15),
        Op::v_cmp_lt_i32  => compares!(EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8, 1),
        Op::v_cmp_eq_i32  => compares!(EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8, 0),
        Op::v_cmp_le_i32  => compares!(EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8, 2),
        Op::v_cmp_gt_i32  => compares!(EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8, 6),
        Op::v_cmp_ne_i32  => compares!(EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8, 4),
        Op::v_cmp_ge_i32  => compares!(EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8, 5),
        Op::v_cmp_lt_u32  => compares!(EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8, 1),
        Op::v_cmp_eq_u32  => compares!(EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8, 0),
        Op::v_cmp_le_u32  => compares!(EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8, 2),
        Op::v_cmp_gt_u32  => compares!(EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8, 6),
        Op::v_cmp_ne_u32  => compares!(EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8, 4),
        Op::v_cmp_ge_u32  => compares!(EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8, 5),
        _ => return None,
    })
}
