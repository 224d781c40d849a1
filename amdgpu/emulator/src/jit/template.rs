//! The lowering table: what native code stands for which operation, on sixteen lanes.
//!
//! A template gives the bits the micro-op gives (a NaN may have another payload). It computes with values that are written once, and
//! names the results when all sources were read. Forms that no template here knows stay with micro-ops.

use iced_x86::Code::{self, *};
use iced_x86::Instruction;
use isa::{Inst, Op};

use super::assembler::{Arg, k, ymm, zmm};
use super::emit::{ACTIVE, Emit};
use super::qword;
use crate::exec::lane_op::{Kind, Shape};
use crate::wave::sreg;
use crate::{SrcKind, Uop};

pub type Template = fn(&mut Emit<'_>);

/// Whether this form of an operation has a template.
pub fn accepts(inst: &Inst, uop: &Uop) -> bool {
    let modifiers = &inst.modifiers;
    if of(inst.op).is_none() || inst.dpp.is_some() || inst.sdwa.is_some() {
        return false;
    }
    if modifiers.clamp || modifiers.omod != 0 {
        return false;
    }
    let shape = Shape::unpack(uop.flags);
    let packed = shape.dst == Kind::PkF32;
    let moves = inst.op == Op::v_pk_mov_b32;
    if modifiers.op_sel != 0 && !packed && !moves {
        return false;
    }
    // A half takes no modifiers here.
    let halves = (0..3).any(|n| {
        shape.src[n] == Kind::F16 && (modifiers.neg | modifiers.abs) >> n & 1 == 1
            || matches!(shape.src[n], Kind::B16 | Kind::Pk16 | Kind::PkF16 | Kind::Mix)
    });
    let constant = |n: usize| uop.src[n].kind == SrcKind::Constant;
    let fixed = match inst.op {
        Op::v_bfe_u32 | Op::v_bfe_i32 => constant(1) && constant(2),
        Op::v_alignbit_b32 | Op::v_alignbyte_b32 | Op::v_perm_b32 => constant(2),
        _ => true,
    };
    fixed && !halves && !(shape.mask_out && usize::from(uop.sdst) + 2 > sreg::EXEC)
}

/// The template of an operation.
pub fn of(op: Op) -> Option<Template> {
    float(op).or_else(|| integer(op)).or_else(|| compare(op)).or_else(|| qword::of(op))
}

macro_rules! commuting {
    ($code:expr) => {
        |e| {
            let (a, b) = e.commuting();
            let new = e.op($code, a, b);
            e.set(new);
        }
    };
}

macro_rules! ordered {
    ($code:expr) => {
        |e| {
            let (a, b) = (e.reg(0), e.arg(1));
            let new = e.op($code, a, b);
            e.set(new);
        }
    };
    ($code:expr, $immediate:expr) => {
        |e| {
            let (a, b) = (e.reg(0), e.arg(1));
            let new = e.op_imm($code, a, b, $immediate);
            e.set(new);
        }
    };
}

macro_rules! reversed {
    ($code:expr) => {
        |e| {
            let (b, a) = (e.reg(1), e.arg(0));
            let new = e.op($code, b, a);
            e.set(new);
        }
    };
}

macro_rules! unary {
    ($code:expr) => {
        |e| {
            let a = e.arg(0);
            let new = e.unary($code, a);
            e.set(new);
        }
    };
    ($code:expr, $immediate:expr) => {
        |e| {
            let a = e.arg(0);
            let new = e.unary_imm($code, a, $immediate);
            e.set(new);
        }
    };
}

/// `vrange`: the smaller or larger, with the sign of the result.
pub const RANGE_MIN: u32 = 0b0100;
pub const RANGE_MAX: u32 = 0b0101;

fn float(op: Op) -> Option<Template> {
    Some(match op {
        Op::v_add_f32 => |e| add_f32(e, false),
        Op::v_sub_f32 => |e| add_f32(e, true),
        Op::v_subrev_f32 => reversed!(EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er),
        Op::v_mul_f32 => commuting!(EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er),
        Op::v_fma_f32 | Op::v_fmac_f32 | Op::v_fmaak_f32 | Op::v_fmamk_f32 => fma_f32,
        Op::v_min_f32 => ordered!(EVEX_Vrangeps_zmm_k1z_zmm_zmmm512b32_imm8_sae, RANGE_MIN),
        Op::v_max_f32 => ordered!(EVEX_Vrangeps_zmm_k1z_zmm_zmmm512b32_imm8_sae, RANGE_MAX),
        Op::v_min3_f32 => |e| three_f32(e, RANGE_MIN),
        Op::v_max3_f32 => |e| three_f32(e, RANGE_MAX),
        Op::v_rcp_f32 | Op::v_rcp_iflag_f32 => |e| {
            let one = e.constant(1.0_f32.to_bits());
            let one = e.in_register(one);
            let a = e.arg(0);
            let new = e.op(EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er, one, a);
            e.set(new);
        },
        Op::v_rsq_f32 => |e| {
            let a = e.arg(0);
            let root = e.unary(EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er, a);
            let one = e.constant(1.0_f32.to_bits());
            let one = e.in_register(one);
            let new = e.op(EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er, one, Arg::Zmm(root));
            e.set(new);
        },
        Op::v_sqrt_f32 => unary!(EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er),
        Op::v_rndne_f32 => unary!(EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae, 8),
        Op::v_floor_f32 => unary!(EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae, 9),
        Op::v_ceil_f32 => unary!(EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae, 10),
        Op::v_trunc_f32 => unary!(EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae, 11),
        Op::v_fract_f32 => |e| {
            let a = e.reg(0);
            let floor = e.unary_imm(EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae, Arg::Zmm(a), 9);
            let fract = e.op(EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er, a, Arg::Zmm(floor));
            // The second source stays where the first is a NaN.
            let below_one = e.constant(0x3f7f_ffff);
            let below_one = e.in_register(below_one);
            let new = e.op(EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae, below_one, Arg::Zmm(fract));
            e.set(new);
        },
        Op::v_ldexp_f32 => |e| {
            let (a, exponent) = (e.reg(0), e.arg(1));
            let exponent = e.unary(EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er, exponent);
            let new = e.op(EVEX_Vscalefps_zmm_k1z_zmm_zmmm512b32_er, a, Arg::Zmm(exponent));
            e.set(new);
        },
        Op::v_cvt_f32_i32 => unary!(EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er),
        Op::v_cvt_f32_u32 => unary!(EVEX_Vcvtudq2ps_zmm_k1z_zmmm512b32_er),
        Op::v_cvt_f32_ubyte0 => |e| ubyte(e, 0),
        Op::v_cvt_f32_ubyte1 => |e| ubyte(e, 8),
        Op::v_cvt_f32_ubyte2 => |e| ubyte(e, 16),
        Op::v_cvt_f32_ubyte3 => |e| ubyte(e, 24),
        Op::v_cvt_i32_f32 => |e| {
            let a = e.reg(0);
            let number = compare_f32(e, a, Arg::Zmm(a), 7);
            let new = e.fresh();
            let cut = Instruction::with2(EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae, zmm(new), zmm(a));
            e.asm.push_masked(number, true, cut);
            let limit = e.constant(2_147_483_648_f32.to_bits());
            let large = compare_f32(e, a, limit, 0x1d);
            let most = e.asm.constant(i32::MAX as u32);
            let most = Arg::Memory(most);
            let clipped = select(e, large, new, most);
            e.set(clipped);
        },
        Op::v_cvt_u32_f32 => |e| {
            let a = e.reg(0);
            let zero = e.constant(0);
            let positive = compare_f32(e, a, zero, 0x1e);
            let new = e.fresh();
            let cut = Instruction::with2(EVEX_Vcvttps2udq_zmm_k1z_zmmm512b32_sae, zmm(new), zmm(a));
            e.asm.push_masked(positive, true, cut);
            e.set(new);
        },
        Op::v_cvt_f32_f16 => |e| {
            let a = e.reg(0);
            let half = e.fresh();
            let narrow = Instruction::with2(EVEX_Vpmovdw_ymmm256_k1z_zmm, ymm(half), zmm(a));
            e.asm.push(narrow);
            let new = e.fresh();
            let widen = Instruction::with2(EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae, zmm(new), ymm(half));
            e.asm.push(widen);
            e.set(new);
        },
        Op::v_cvt_f16_f32 => |e| {
            let a = e.reg(0);
            let new = half(e, a, 0);
            e.set(new);
        },
        Op::v_cvt_pkrtz_f16_f32 => |e| {
            let (a, b) = (e.reg(0), e.reg(1));
            let (low, high) = (half(e, a, 3), half(e, b, 3));
            let high = e.unary_imm(EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8, Arg::Zmm(high), 16);
            let new = e.op(EVEX_Vpord_zmm_k1z_zmm_zmmm512b32, low, Arg::Zmm(high));
            e.set(new);
        },
        Op::v_pk_fma_f32 => packed_fma_f32,
        Op::v_pk_mul_f32 => |e| packed_f32(e, EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er),
        Op::v_pk_add_f32 => |e| packed_f32(e, EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er),
        _ => return None,
    })
}

/// A mask of the active lanes where the comparison holds.
fn compare_f32(e: &mut Emit<'_>, a: u8, b: Arg, predicate: u32) -> u8 {
    let mask = e.fresh_mask();
    e.asm.compare(EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, mask, ACTIVE, a, b, predicate);
    mask
}

/// `b` where the mask is set, else `a`.
pub fn select(e: &mut Emit<'_>, mask: u8, a: u8, b: Arg) -> u8 {
    let new = e.fresh();
    let blend = match b {
        Arg::Zmm(b) => Instruction::with3(EVEX_Vpblendmd_zmm_k1z_zmm_zmmm512b32, zmm(new), zmm(a), zmm(b)),
        Arg::Memory(b) => Instruction::with3(EVEX_Vpblendmd_zmm_k1z_zmm_zmmm512b32, zmm(new), zmm(a), b),
    };
    e.asm.push_masked(mask, false, blend);
    new
}

/// Halves of floats, in the low half of each lane.
fn half(e: &mut Emit<'_>, a: u8, rounding: u32) -> u8 {
    let (narrow, new) = (e.fresh(), e.fresh());
    let narrow = ymm(narrow);
    e.asm.push(Instruction::with3(EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae, narrow, zmm(a), rounding));
    e.asm.push(Instruction::with2(EVEX_Vpmovzxwd_zmm_k1z_ymmm256, zmm(new), narrow));
    new
}

fn ubyte(e: &mut Emit<'_>, shift: u32) {
    let a = e.arg(0);
    let shifted =
        if shift == 0 { a } else { Arg::Zmm(e.unary_imm(EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8, a, shift)) };
    let shifted = e.in_register(shifted);
    let mask = e.constant(0xff);
    let byte = e.op(EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, shifted, mask);
    let new = e.unary(EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er, Arg::Zmm(byte));
    e.set(new);
}

/// Sum or difference, with `neg` as the other of the two.
fn add_f32(e: &mut Emit<'_>, subtract: bool) {
    let (raw_a, raw_b) = (e.raw(0, 0), e.raw(1, 0));
    let ((neg_a, abs_a), (neg_b, abs_b)) = (e.signs(0), e.signs(1));
    let (a, b) = (e.with_signs(raw_a, neg_a, abs_a), e.with_signs(raw_b, neg_b && abs_b, abs_b));
    // What is left of the second source's sign.
    let minus = subtract != (neg_b && !abs_b);
    let new = match (minus, a, b) {
        (false, Arg::Zmm(a), b) => e.op(EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er, a, b),
        (false, a, b) => {
            let b = e.in_register(b);
            e.op(EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er, b, a)
        }
        (true, a, b) => {
            let a = e.in_register(a);
            e.op(EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er, a, b)
        }
    };
    e.set(new);
}

fn three_f32(e: &mut Emit<'_>, range: u32) {
    let (a, b) = (e.reg(0), e.arg(1));
    let two = e.op_imm(EVEX_Vrangeps_zmm_k1z_zmm_zmmm512b32_imm8_sae, a, b, range);
    let c = e.arg(2);
    let new = e.op_imm(EVEX_Vrangeps_zmm_k1z_zmm_zmmm512b32_imm8_sae, two, c, range);
    e.set(new);
}

/// The instructions of a fused multiply-add: by which operand is overwritten (the sum, or a factor with the sum or the other factor
/// last), and by the signs of product and sum.
const FMA: [[Code; 4]; 3] = [
    [
        EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er,
        EVEX_Vfmsub231ps_zmm_k1z_zmm_zmmm512b32_er,
        EVEX_Vfnmadd231ps_zmm_k1z_zmm_zmmm512b32_er,
        EVEX_Vfnmsub231ps_zmm_k1z_zmm_zmmm512b32_er,
    ],
    [
        EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er,
        EVEX_Vfmsub213ps_zmm_k1z_zmm_zmmm512b32_er,
        EVEX_Vfnmadd213ps_zmm_k1z_zmm_zmmm512b32_er,
        EVEX_Vfnmsub213ps_zmm_k1z_zmm_zmmm512b32_er,
    ],
    [
        EVEX_Vfmadd132ps_zmm_k1z_zmm_zmmm512b32_er,
        EVEX_Vfmsub132ps_zmm_k1z_zmm_zmmm512b32_er,
        EVEX_Vfnmadd132ps_zmm_k1z_zmm_zmmm512b32_er,
        EVEX_Vfnmsub132ps_zmm_k1z_zmm_zmmm512b32_er,
    ],
];

/// A source of a multiply-add.
#[derive(Clone, Copy)]
struct Term {
    arg: Arg,
    negative: bool,
    /// The result may overwrite it.
    dies: bool,
}

fn fma_f32(e: &mut Emit<'_>) {
    let terms = [0, 1, 2].map(|n| {
        let raw = e.raw(n, 0);
        let (neg, abs) = e.signs(n);
        if abs {
            return Term { arg: e.with_signs(raw, neg, true), negative: false, dies: false };
        }
        let dies = matches!(raw, Arg::Zmm(register) if e.dying(n, 0, 0, register).is_some());
        Term { arg: raw, negative: neg, dies }
    });
    let new = fused(e, terms);
    e.set(new);
}

/// `a * b + c`.
fn fused(e: &mut Emit<'_>, [a, b, c]: [Term; 3]) -> u8 {
    let signs = 2 * usize::from(a.negative != b.negative) + usize::from(c.negative);
    // One of the three may stay in memory: the sum, if it does not die, else a factor.
    let (mut a, mut b, mut c) = (a, b, c);
    let is_memory = |term: &Term| matches!(term.arg, Arg::Memory(_));
    if is_memory(&a) {
        std::mem::swap(&mut a, &mut b);
    }
    if is_memory(&a) || is_memory(&b) && is_memory(&c) {
        let register = e.in_register(a.arg);
        a = Term { arg: Arg::Zmm(register), dies: is_memory(&a) || a.dies, ..a };
    }
    if is_memory(&b) && is_memory(&c) {
        let register = e.in_register(c.arg);
        c = Term { arg: Arg::Zmm(register), dies: true, ..c };
    }
    let register = |term: Term| match term.arg {
        Arg::Zmm(register) => register,
        Arg::Memory(_) => 0,
    };
    let (ra, rb, rc) = (register(a), register(b), register(c));
    let memory_b = is_memory(&b);
    let memory_c = is_memory(&c);
    if !memory_c && c.dies {
        e.asm.op3(FMA[0][signs], rc, ra, b.arg);
        return rc;
    }
    if a.dies && memory_b {
        e.asm.op3(FMA[2][signs], ra, rc, b.arg);
        return ra;
    }
    if a.dies {
        e.asm.op3(FMA[1][signs], ra, rb, c.arg);
        return ra;
    }
    if !memory_b && b.dies {
        e.asm.op3(FMA[1][signs], rb, ra, c.arg);
        return rb;
    }
    if memory_c {
        let new = e.copy(ra);
        e.asm.op3(FMA[1][signs], new, rb, c.arg);
        return new;
    }
    let new = e.copy(rc);
    e.asm.op3(FMA[0][signs], new, ra, b.arg);
    new
}

/// The dword and the sign that half `half` of a packed result takes from source `n`.
fn packed_choice(inst: &Inst, n: usize, half: u16) -> (u16, bool) {
    let modifiers = &inst.modifiers;
    let (select, neg) = match half {
        0 => (modifiers.op_sel, modifiers.neg),
        _ => (modifiers.op_sel_hi, modifiers.neg_hi),
    };
    (u16::from(select >> n & 1), neg >> n & 1 == 1)
}

fn packed_fma_f32(e: &mut Emit<'_>) {
    let inst = e.inst;
    let halves = [0, 1].map(|half| {
        [0, 1, 2].map(|n| {
            let (part, negative) = packed_choice(inst, n, half);
            let arg = e.raw(n, part);
            let dies = matches!(arg, Arg::Zmm(register) if e.dying(n, part, half, register).is_some());
            Term { arg, negative, dies }
        })
    });
    let [mut low, high] = halves;
    // The first result must not overwrite what the second reads.
    for term in &mut low {
        if let Arg::Zmm(register) = term.arg {
            let needed = high.iter().any(|other| matches!(other.arg, Arg::Zmm(r) if r == register));
            term.dies &= !needed;
        }
    }
    let low = fused(e, low);
    let high = fused(e, high);
    e.set_pair(low, high);
}

fn packed_f32(e: &mut Emit<'_>, code: Code) {
    let inst = e.inst;
    let results = [0, 1].map(|half| {
        let [(a, neg_a), (b, neg_b)] = [0, 1].map(|n| {
            let (part, negative) = packed_choice(inst, n, half);
            (e.raw(n, part), negative)
        });
        // Adding what is negative is subtracting.
        let subtracts = code == EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er && neg_b;
        let (a, b) = (e.with_signs(a, neg_a, false), e.with_signs(b, neg_b && !subtracts, false));
        if subtracts {
            let a = e.in_register(a);
            return e.op(EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er, a, b);
        }
        match (a, b) {
            (Arg::Zmm(a), b) => e.op(code, a, b),
            (a, b) => {
                let b = e.in_register(b);
                e.op(code, b, a)
            }
        }
    });
    e.set_pair(results[0], results[1]);
}

fn integer(op: Op) -> Option<Template> {
    Some(match op {
        Op::v_mov_b32 | Op::v_accvgpr_read_b32 | Op::v_accvgpr_write_b32 | Op::v_accvgpr_mov_b32 => |e| {
            let a = e.reg(0);
            e.set(a);
        },
        Op::v_pk_mov_b32 => |e| {
            let (a, b) = (e.reg(0), e.reg(1));
            e.set_pair(a, b);
        },
        Op::v_mov_b64 => |e| {
            let (low, high) = (e.raw(0, 0), e.raw(0, 1));
            let (low, high) = (e.in_register(low), e.in_register(high));
            e.set_pair(low, high);
        },
        Op::v_not_b32 => |e| {
            let ones = e.constant(!0);
            let a = e.reg(0);
            let new = e.op(EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32, a, ones);
            e.set(new);
        },
        Op::v_ffbh_u32 => |e| {
            let a = e.reg(0);
            let count = e.unary(EVEX_Vplzcntd_zmm_k1z_zmmm512b32, Arg::Zmm(a));
            let empty = e.fresh_mask();
            let zero = e.constant(0);
            e.asm.compare(EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8, empty, ACTIVE, a, zero, 0);
            let none = e.constant(!0);
            let new = select(e, empty, count, none);
            e.set(new);
        },
        Op::v_add_u32 | Op::v_add_i32 => commuting!(EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32),
        Op::v_sub_u32 | Op::v_sub_i32 => ordered!(EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32),
        Op::v_subrev_u32 => reversed!(EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32),
        Op::v_mul_lo_u32 => commuting!(EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32),
        Op::v_and_b32 => commuting!(EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32),
        Op::v_or_b32 => commuting!(EVEX_Vpord_zmm_k1z_zmm_zmmm512b32),
        Op::v_xor_b32 => commuting!(EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32),
        Op::v_xnor_b32 => |e| {
            let (a, b) = e.commuting();
            let differs = e.op(EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32, a, b);
            let ones = e.constant(!0);
            let new = e.op(EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32, differs, ones);
            e.set(new);
        },
        Op::v_min_i32 => commuting!(EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32),
        Op::v_max_i32 => commuting!(EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32),
        Op::v_min_u32 => commuting!(EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32),
        Op::v_max_u32 => commuting!(EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32),
        Op::v_min3_i32 => |e| three(e, EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32),
        Op::v_max3_i32 => |e| three(e, EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32),
        Op::v_min3_u32 => |e| three(e, EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32),
        Op::v_max3_u32 => |e| three(e, EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32),
        Op::v_or3_b32 => |e| three(e, EVEX_Vpord_zmm_k1z_zmm_zmmm512b32),
        Op::v_add3_u32 => |e| three(e, EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32),
        Op::v_and_or_b32 => {
            |e| chain(e, EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, EVEX_Vpord_zmm_k1z_zmm_zmmm512b32)
        }
        Op::v_xad_u32 => |e| chain(e, EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32, EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32),
        Op::v_lshlrev_b32 => |e| shift(e, 1, 0, LEFT),
        Op::v_lshrrev_b32 => |e| shift(e, 1, 0, RIGHT),
        Op::v_ashrrev_i32 => |e| shift(e, 1, 0, RIGHT_SIGNED),
        Op::v_lshl_add_u32 => |e| {
            let shifted = shifted(e, 0, 1, LEFT);
            let c = e.arg(2);
            let new = e.op(EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32, shifted, c);
            e.set(new);
        },
        Op::v_lshl_or_b32 => |e| {
            let shifted = shifted(e, 0, 1, LEFT);
            let c = e.arg(2);
            let new = e.op(EVEX_Vpord_zmm_k1z_zmm_zmmm512b32, shifted, c);
            e.set(new);
        },
        Op::v_add_lshl_u32 => |e| {
            let (a, b) = e.commuting();
            let sum = e.op(EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32, a, b);
            let new = shift_by(e, Arg::Zmm(sum), 2, LEFT);
            e.set(new);
        },
        Op::v_bfe_u32 => |e| {
            let (offset, bits) = (e.known(1, 0).unwrap_or(0) & 31, e.known(2, 0).unwrap_or(0) & 31);
            let a = e.arg(0);
            let moved = e.unary_imm(EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8, a, offset);
            let field = e.constant((1 << bits) - 1);
            let new = e.op(EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, moved, field);
            e.set(new);
        },
        Op::v_bfe_i32 => |e| {
            let (offset, bits) = (e.known(1, 0).unwrap_or(0) & 31, e.known(2, 0).unwrap_or(0) & 31);
            let a = e.arg(0);
            // A field of no bits is zero; one that reaches past the top ends there.
            let new = if bits == 0 {
                let zero = e.constant(0);
                e.in_register(zero)
            } else {
                let left = 32 - (offset + bits).min(32);
                let top = e.unary_imm(EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8, a, left);
                e.unary_imm(EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8, Arg::Zmm(top), left + offset)
            };
            e.set(new);
        },
        Op::v_bfi_b32 => |e| {
            let mask = e.reg(0);
            let (b, c) = (e.reg(1), e.arg(2));
            let new = e.copy(mask);
            e.asm.op3_imm(EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8, new, b, c, 0xca);
            e.set(new);
        },
        Op::v_alignbit_b32 => |e| align(e, 1),
        Op::v_alignbyte_b32 => |e| align(e, 8),
        Op::v_perm_b32 => permute_bytes,
        Op::v_mul_u32_u24 => |e| {
            let (a, b) = (low_24(e, 0), low_24(e, 1));
            let new = e.op(EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32, a, Arg::Zmm(b));
            e.set(new);
        },
        Op::v_mad_u32_u24 => |e| {
            let (a, b) = (low_24(e, 0), low_24(e, 1));
            let product = e.op(EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32, a, Arg::Zmm(b));
            let c = e.arg(2);
            let new = e.op(EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32, product, c);
            e.set(new);
        },
        Op::v_mul_i32_i24 => |e| {
            let (a, b) = (signed_24(e, 0), signed_24(e, 1));
            let new = e.op(EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32, a, Arg::Zmm(b));
            e.set(new);
        },
        Op::v_mad_i32_i24 => |e| {
            let (a, b) = (signed_24(e, 0), signed_24(e, 1));
            let product = e.op(EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32, a, Arg::Zmm(b));
            let c = e.arg(2);
            let new = e.op(EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32, product, c);
            e.set(new);
        },
        Op::v_cndmask_b32 => |e| {
            let mask = e.mask(2);
            let (a, b) = (e.reg(0), e.arg(1));
            let new = select(e, mask, a, b);
            e.set(new);
        },
        Op::v_add_co_u32 => |e| add_carry(e, false),
        Op::v_addc_co_u32 => |e| add_carry(e, true),
        Op::v_sub_co_u32 => |e| sub_borrow(e, 0, 1, false),
        Op::v_subb_co_u32 => |e| sub_borrow(e, 0, 1, true),
        Op::v_subrev_co_u32 => |e| sub_borrow(e, 1, 0, false),
        Op::v_subbrev_co_u32 => |e| sub_borrow(e, 1, 0, true),
        _ => return None,
    })
}

fn three(e: &mut Emit<'_>, code: Code) {
    chain(e, code, code);
}

/// `(a first b) second c`; the first commutes.
fn chain(e: &mut Emit<'_>, first: Code, second: Code) {
    let (a, b) = e.commuting();
    let two = e.op(first, a, b);
    let c = e.arg(2);
    let new = e.op(second, two, c);
    e.set(new);
}

/// A shift by an immediate and by a register.
type Shift = (Code, Code);
const LEFT: Shift = (EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8, EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32);
const RIGHT: Shift = (EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8, EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32);
const RIGHT_SIGNED: Shift = (EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8, EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32);

fn shift(e: &mut Emit<'_>, value: usize, count: usize, code: Shift) {
    let new = shifted(e, value, count, code);
    e.set(new);
}

fn shifted(e: &mut Emit<'_>, value: usize, count: usize, code: Shift) -> u8 {
    let value = e.arg(value);
    shift_by(e, value, count, code)
}

/// Shifts by the low five bits of source `count`.
fn shift_by(e: &mut Emit<'_>, value: Arg, count: usize, (by_immediate, by_register): Shift) -> u8 {
    if let Some(count) = e.known(count, 0) {
        return e.unary_imm(by_immediate, value, count & 31);
    }
    let count = e.reg(count);
    let low = e.constant(31);
    let count = e.op(EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, count, low);
    let value = e.in_register(value);
    e.op(by_register, value, Arg::Zmm(count))
}

/// The low dword of `a:b` shifted right by a known number of units.
fn align(e: &mut Emit<'_>, unit: u32) {
    let shift = unit * (e.known(2, 0).unwrap_or(0) & (32 / unit - 1));
    let b = e.reg(1);
    if shift == 0 {
        return e.set(b);
    }
    let a = e.arg(0);
    let high = e.unary_imm(EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8, a, 32 - shift);
    let low = e.unary_imm(EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8, Arg::Zmm(b), shift);
    let new = e.op(EVEX_Vpord_zmm_k1z_zmm_zmmm512b32, high, Arg::Zmm(low));
    e.set(new);
}

/// `v_perm_b32` with a known selector: two byte shuffles, and the bytes that are all zeros or ones.
fn permute_bytes(e: &mut Emit<'_>) {
    let selector = e.known(2, 0).unwrap_or(0).to_le_bytes();
    const NOTHING: u8 = 0x80;
    let pick = |first: u8| {
        move |lane: usize| {
            let dword = selector.map(|select| {
                if select >= first && select < first + 4 {
                    4 * (lane as u8 % 4) + select - first
                } else {
                    NOTHING
                }
            });
            u32::from_le_bytes(dword)
        }
    };
    let from_low: [u32; 16] = std::array::from_fn(pick(0));
    let from_high: [u32; 16] = std::array::from_fn(pick(4));
    let (high, low) = (e.reg(0), e.reg(1));
    let (low_bytes, high_bytes) = (e.asm.constants(from_low), e.asm.constants(from_high));
    let mut new = e.op(EVEX_Vpshufb_zmm_k1z_zmm_zmmm512, low, Arg::Memory(low_bytes));
    let other = e.op(EVEX_Vpshufb_zmm_k1z_zmm_zmmm512, high, Arg::Memory(high_bytes));
    new = e.op(EVEX_Vpord_zmm_k1z_zmm_zmmm512b32, new, Arg::Zmm(other));
    // Signs of words: of the low source for 8 and 9, of the high one for 10 and 11.
    for (place, select) in selector.into_iter().enumerate() {
        if let 8..12 = select {
            let word = if select & 2 == 0 { low } else { high };
            let word = match select & 1 {
                0 => e.unary_imm(EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8, Arg::Zmm(word), 16),
                _ => word,
            };
            let sign = e.unary_imm(EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8, Arg::Zmm(word), 31);
            let byte = e.constant(0xff << (8 * place));
            let sign = e.op(EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, sign, byte);
            new = e.op(EVEX_Vpord_zmm_k1z_zmm_zmmm512b32, new, Arg::Zmm(sign));
        }
    }
    let ones = u32::from_le_bytes(selector.map(|select| if select > 12 { 0xff } else { 0 }));
    if ones != 0 {
        let ones = e.constant(ones);
        new = e.op(EVEX_Vpord_zmm_k1z_zmm_zmmm512b32, new, ones);
    }
    e.set(new);
}

fn low_24(e: &mut Emit<'_>, n: usize) -> u8 {
    let a = e.reg(n);
    let bits = e.constant(0xff_ffff);
    e.op(EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, a, bits)
}

fn signed_24(e: &mut Emit<'_>, n: usize) -> u8 {
    let a = e.arg(n);
    let top = e.unary_imm(EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8, a, 8);
    e.unary_imm(EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8, Arg::Zmm(top), 8)
}

/// Adds one, or takes one away, where the mask is set.
fn step(e: &mut Emit<'_>, mask: u8, value: u8, up: bool) -> u8 {
    let new = e.copy(value);
    let code = if up { EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32 } else { EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32 };
    let minus_one = e.asm.constant(!0);
    e.asm.push_masked(mask, false, Instruction::with3(code, zmm(new), zmm(value), minus_one));
    new
}

fn add_carry(e: &mut Emit<'_>, carry_in: bool) {
    let (a, b) = (e.reg(0), e.arg(1));
    let mut sum = e.op(EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32, a, b);
    let mut over = e.fresh_mask();
    e.asm.compare(EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8, over, ACTIVE, sum, Arg::Zmm(a), 1);
    if carry_in {
        let carry = e.mask(2);
        sum = step(e, carry, sum, true);
        // A carry in overflows exactly where it leaves zero.
        let zero = e.constant(0);
        let wrapped = e.fresh_mask();
        e.asm.compare(EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8, wrapped, carry, sum, zero, 0);
        let active = e.mask_op(VEX_Kandw_kr_kr_kr, wrapped, ACTIVE);
        over = e.mask_op(VEX_Korw_kr_kr_kr, over, active);
    }
    e.set(sum);
    e.set_mask(over);
}

fn sub_borrow(e: &mut Emit<'_>, from: usize, what: usize, borrow_in: bool) {
    let (a, b) = (e.reg(from), e.arg(what));
    let mut difference = e.op(EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32, a, b);
    let mut under = e.fresh_mask();
    e.asm.compare(EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8, under, ACTIVE, a, b, 1);
    if borrow_in {
        let borrow = e.mask(2);
        difference = step(e, borrow, difference, false);
        let equal = e.fresh_mask();
        e.asm.compare(EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8, equal, borrow, a, b, 0);
        let active = e.mask_op(VEX_Kandw_kr_kr_kr, equal, ACTIVE);
        under = e.mask_op(VEX_Korw_kr_kr_kr, under, active);
    }
    e.set(difference);
    e.set_mask(under);
}

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
fn compare(op: Op) -> Option<Template> {
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

/// `code mask, register`: the top bits of lanes as a mask, among the active ones.
pub fn top_bits(e: &mut Emit<'_>, register: u8) -> u8 {
    let all = e.fresh_mask();
    e.asm.push(Instruction::with2(EVEX_Vpmovd2m_kr_zmm, k(all), zmm(register)));
    e.mask_op(VEX_Kandw_kr_kr_kr, all, ACTIVE)
}
