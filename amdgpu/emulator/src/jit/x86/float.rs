//! Templates of 32-bit float operations, and of those between floats and other numbers.

use iced_x86::Code::{self, *};
use iced_x86::Instruction;
use isa::{Inst, Op};

use super::assembler::{Arg, ymm, zmm};
use super::emit::{ACTIVE, Emit};
use super::template::{RANGE_MAX, RANGE_MIN, Template, commuting, ordered, reversed, select, unary};

pub fn of(op: Op) -> Option<Template> {
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
