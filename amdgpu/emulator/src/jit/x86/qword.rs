//! Templates of 64-bit operations.
//!
//! A 64-bit value is two registers of dwords. Interleaved, sixteen lanes are two registers of eight qwords, in an order that no
//! lane-local operation minds: the even and the odd pairs of lanes. Two shuffles take them apart again.

use iced_x86::Code::{self, *};
use iced_x86::Instruction;
use isa::Op;

use super::assembler::{Arg, broadcast, k, ymm, zmm};
use super::emit::{ACTIVE, Emit, SCALARS};
use super::template::{RANGE_MAX, RANGE_MIN, Template, top_bits};
use crate::SrcKind;

/// Eight qwords each, together sixteen lanes.
type Qwords = [Arg; 2];

pub fn of(op: Op) -> Option<Template> {
    Some(match op {
        Op::v_add_f64 => |e| binary(e, EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er),
        Op::v_mul_f64 => |e| binary(e, EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er),
        Op::v_min_f64 => |e| range(e, RANGE_MIN),
        Op::v_max_f64 => |e| range(e, RANGE_MAX),
        Op::v_fma_f64 | Op::v_fmac_f64 => |e| {
            let (a, b, c) = (source(e, 0), source(e, 1), source(e, 2));
            let results = [0, 1].map(|half| {
                let (factor, sum) = (qwords_in_register(e, a[half]), qwords_in_register(e, c[half]));
                let new = e.copy(sum);
                e.asm.op3(EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er, new, factor, b[half]);
                new
            });
            set(e, results);
        },
        Op::v_rcp_f64 => |e| {
            let a = source(e, 0);
            let one = e.asm.constant_64(1.0_f64.to_bits());
            let one = qwords_in_register(e, Arg::Memory(one));
            let results = a.map(|a| e.op(EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er, one, a));
            set(e, results);
        },
        Op::v_sqrt_f64 => |e| {
            let a = source(e, 0);
            let results = a.map(|a| e.unary(EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er, a));
            set(e, results);
        },
        Op::v_cvt_f32_f64 => |e| {
            let a = source(e, 0);
            // Each half gives eight floats, which go to the low dwords of qwords to be taken apart as all others.
            let results = a.map(|a| {
                let narrow = e.fresh();
                let cut = match a {
                    Arg::Zmm(a) => {
                        Instruction::with2(EVEX_Vcvtpd2ps_ymm_k1z_zmmm512b64_er, ymm(narrow), zmm(a))
                    }
                    Arg::Memory(a) => {
                        Instruction::with2(EVEX_Vcvtpd2ps_ymm_k1z_zmmm512b64_er, ymm(narrow), a)
                    }
                };
                e.asm.push(cut);
                let new = e.fresh();
                e.asm.push(Instruction::with2(EVEX_Vpmovzxdq_zmm_k1z_ymmm256, zmm(new), ymm(narrow)));
                new
            });
            let low = low_dwords(e, results);
            e.set(low);
        },
        Op::v_cvt_f64_f32 => |e| from_dwords(e, EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae),
        Op::v_cvt_f64_i32 => |e| from_dwords(e, EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er),
        Op::v_cvt_f64_u32 => |e| from_dwords(e, EVEX_Vcvtudq2pd_zmm_k1z_ymmm256b32_er),

        Op::v_lshlrev_b64 => |e| {
            let new = shifted(e, 1, 0, 63, LEFT);
            set(e, new);
        },
        Op::v_lshrrev_b64 => |e| {
            let new = shifted(e, 1, 0, 63, RIGHT);
            set(e, new);
        },
        Op::v_ashrrev_i64 => |e| {
            let new = shifted(e, 1, 0, 63, RIGHT_SIGNED);
            set(e, new);
        },
        Op::v_lshl_add_u64 => |e| {
            let shifted = shifted(e, 0, 1, 7, LEFT);
            let c = source(e, 2);
            let results = [0, 1].map(|half| e.op(EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64, shifted[half], c[half]));
            set(e, results);
        },
        Op::v_mul_hi_u32 => |e| {
            let product = product(e, EVEX_Vpmuludq_zmm_k1z_zmm_zmmm512b64);
            let high = high_dwords(e, product);
            e.set(high);
        },
        Op::v_mul_hi_i32 => |e| {
            let product = product(e, EVEX_Vpmuldq_zmm_k1z_zmm_zmmm512b64);
            let high = high_dwords(e, product);
            e.set(high);
        },
        Op::v_mad_u64_u32 => |e| {
            let product = product(e, EVEX_Vpmuludq_zmm_k1z_zmm_zmmm512b64);
            let c = source(e, 2);
            let sums = [0, 1].map(|half| e.op(EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64, product[half], c[half]));
            // The sum wrapped where it is below a summand.
            let wrapped = [0, 1].map(|half| {
                let (mask, lanes) = (e.fresh_mask(), e.fresh());
                let product = zmm(product[half]);
                let compare = Instruction::with4(
                    EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8,
                    k(mask),
                    zmm(sums[half]),
                    product,
                    1,
                );
                e.asm.push(compare);
                e.asm.push(Instruction::with2(EVEX_Vpmovm2q_zmm_kr, zmm(lanes), k(mask)));
                lanes
            });
            let wrapped = low_dwords(e, wrapped);
            let over = top_bits(e, wrapped);
            set(e, sums);
            e.set_mask(over);
        },
        Op::v_cmp_eq_u64 | Op::v_cmp_eq_i64 => |e| compare(e, EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8, 0),
        Op::v_cmp_ne_u64 | Op::v_cmp_ne_i64 => |e| compare(e, EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8, 4),
        Op::v_cmp_lt_u64 => |e| compare(e, EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8, 1),
        Op::v_cmp_le_u64 => |e| compare(e, EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8, 2),
        Op::v_cmp_gt_u64 => |e| compare(e, EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8, 6),
        Op::v_cmp_ge_u64 => |e| compare(e, EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8, 5),
        Op::v_cmp_lt_i64 => |e| compare(e, EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8, 1),
        Op::v_cmp_le_i64 => |e| compare(e, EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8, 2),
        Op::v_cmp_gt_i64 => |e| compare(e, EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8, 6),
        Op::v_cmp_ge_i64 => |e| compare(e, EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8, 5),
        Op::v_cmp_lt_f64 => |e| compare(e, EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae, 0x11),
        Op::v_cmp_eq_f64 => |e| compare(e, EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae, 0x00),
        Op::v_cmp_le_f64 => |e| compare(e, EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae, 0x12),
        Op::v_cmp_gt_f64 => |e| compare(e, EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae, 0x1e),
        Op::v_cmp_lg_f64 => |e| compare(e, EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae, 0x0c),
        Op::v_cmp_ge_f64 => |e| compare(e, EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae, 0x1d),
        Op::v_cmp_neq_f64 => |e| compare(e, EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae, 0x04),
        _ => return None,
    })
}

/// A 64-bit source with its modifiers.
fn source(e: &mut Emit<'_>, n: usize) -> Qwords {
    let src = e.uop.src[n];
    let plain = match (src.kind, e.known(n, 0), e.known(n, 1)) {
        (SrcKind::Constant, Some(low), Some(high)) => {
            let memory = e.asm.constant_64(u64::from(low) | u64::from(high) << 32);
            [Arg::Memory(memory); 2]
        }
        (SrcKind::Scalar, ..) => [Arg::Memory(broadcast(SCALARS, 4 * i64::from(src.index))); 2],
        _ => {
            let (low, high) = (e.vector(src.index), e.vector(src.index + 1));
            interleaved(e, low, Arg::Zmm(high))
        }
    };
    let (neg, abs) = e.signs(n);
    if !neg && !abs {
        return plain;
    }
    let (code, bits) = match (neg, abs) {
        (true, false) => (EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64, 1 << 63),
        (true, true) => (EVEX_Vporq_zmm_k1z_zmm_zmmm512b64, 1 << 63),
        _ => (EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64, !(1 << 63)),
    };
    plain.map(|half| {
        let register = qwords_in_register(e, half);
        let bits = e.asm.constant_64(bits);
        Arg::Zmm(e.op(code, register, Arg::Memory(bits)))
    })
}

fn interleaved(e: &mut Emit<'_>, low: u8, high: Arg) -> Qwords {
    [
        Arg::Zmm(e.op(EVEX_Vpunpckldq_zmm_k1z_zmm_zmmm512b32, low, high)),
        Arg::Zmm(e.op(EVEX_Vpunpckhdq_zmm_k1z_zmm_zmmm512b32, low, high)),
    ]
}

fn qwords_in_register(e: &mut Emit<'_>, arg: Arg) -> u8 {
    match arg {
        Arg::Zmm(register) => register,
        Arg::Memory(mut memory) => {
            memory.is_broadcast = false;
            e.unary(EVEX_Vpbroadcastq_zmm_k1z_xmmm64, Arg::Memory(memory))
        }
    }
}

fn low_dwords(e: &mut Emit<'_>, [even, odd]: [u8; 2]) -> u8 {
    e.op_imm(EVEX_Vshufps_zmm_k1z_zmm_zmmm512b32_imm8, even, Arg::Zmm(odd), 0x88)
}

fn high_dwords(e: &mut Emit<'_>, [even, odd]: [u8; 2]) -> u8 {
    e.op_imm(EVEX_Vshufps_zmm_k1z_zmm_zmmm512b32_imm8, even, Arg::Zmm(odd), 0xdd)
}

fn set(e: &mut Emit<'_>, qwords: [u8; 2]) {
    let (low, high) = (low_dwords(e, qwords), high_dwords(e, qwords));
    e.set_pair(low, high);
}

fn binary(e: &mut Emit<'_>, code: Code) {
    let (a, b) = (source(e, 0), source(e, 1));
    let results = [0, 1].map(|half| {
        let a = qwords_in_register(e, a[half]);
        e.op(code, a, b[half])
    });
    set(e, results);
}

fn range(e: &mut Emit<'_>, range: u32) {
    let (a, b) = (source(e, 0), source(e, 1));
    let results = [0, 1].map(|half| {
        let a = qwords_in_register(e, a[half]);
        e.op_imm(EVEX_Vrangepd_zmm_k1z_zmm_zmmm512b64_imm8_sae, a, b[half], range)
    });
    set(e, results);
}

/// Converts dwords to qwords.
fn from_dwords(e: &mut Emit<'_>, code: Code) {
    let a = e.reg(0);
    let results = interleaved(e, a, Arg::Zmm(a)).map(|qwords| {
        let doubled = qwords_in_register(e, qwords);
        let narrow = e.fresh();
        e.asm.push(Instruction::with2(EVEX_Vpmovqd_ymmm256_k1z_zmm, ymm(narrow), zmm(doubled)));
        let new = e.fresh();
        e.asm.push(Instruction::with2(code, zmm(new), ymm(narrow)));
        new
    });
    set(e, results);
}

/// The 64-bit products of two 32-bit sources.
fn product(e: &mut Emit<'_>, code: Code) -> [u8; 2] {
    let (a, b) = (e.reg(0), e.reg(1));
    let (a, b) = (interleaved(e, a, Arg::Zmm(a)), interleaved(e, b, Arg::Zmm(b)));
    [0, 1].map(|half| {
        let a = qwords_in_register(e, a[half]);
        e.op(code, a, b[half])
    })
}

/// A shift by an immediate and by a register.
type Shift = (Code, Code);
const LEFT: Shift = (EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8, EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64);
const RIGHT: Shift = (EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8, EVEX_Vpsrlvq_zmm_k1z_zmm_zmmm512b64);
const RIGHT_SIGNED: Shift = (EVEX_Vpsraq_zmm_k1z_zmmm512b64_imm8, EVEX_Vpsravq_zmm_k1z_zmm_zmmm512b64);

/// Shifts 64-bit source `value` by those bits of source `count` that `low` has.
fn shifted(
    e: &mut Emit<'_>,
    value: usize,
    count: usize,
    low: u32,
    (by_immediate, by_register): Shift,
) -> [u8; 2] {
    let value = source(e, value);
    if let Some(count) = e.known(count, 0) {
        return value.map(|half| match count & low {
            0 => qwords_in_register(e, half),
            count => e.unary_imm(by_immediate, half, count),
        });
    }
    let count = e.reg(count);
    let low = e.constant(low);
    let count = e.op(EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, count, low);
    let zero = e.constant(0);
    let zero = e.in_register(zero);
    let count = interleaved(e, count, Arg::Zmm(zero));
    [0, 1].map(|half| {
        let value = qwords_in_register(e, value[half]);
        e.op(by_register, value, count[half])
    })
}

fn compare(e: &mut Emit<'_>, code: Code, predicate: u32) {
    let (a, b) = (source(e, 0), source(e, 1));
    let lanes = [0, 1].map(|half| {
        let a = qwords_in_register(e, a[half]);
        let (mask, lanes) = (e.fresh_mask(), e.fresh());
        let compare = match b[half] {
            Arg::Zmm(b) => Instruction::with4(code, k(mask), zmm(a), zmm(b), predicate),
            Arg::Memory(b) => Instruction::with4(code, k(mask), zmm(a), b, predicate),
        };
        e.asm.push(compare);
        e.asm.push(Instruction::with2(EVEX_Vpmovm2q_zmm_kr, zmm(lanes), k(mask)));
        lanes
    });
    let lanes = low_dwords(e, lanes);
    let mask = top_bits(e, lanes);
    debug_assert_ne!(mask, ACTIVE);
    e.set_mask(mask);
}
