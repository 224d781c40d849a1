//! Templates of 32-bit float operations and conversions.

use iced_x86::Instruction;
use isa::{Inst, Op};

use super::assembler::Arg;
use super::avx2_fallback::{self, Extreme, Size};
use super::emit::Emit;
use super::mask::Comparison;
use super::target::*;
use super::template::{Template, commuting, reversed, unary};

pub fn of(op: Op) -> Option<Template> {
    Some(match op {
        Op::v_add_f32 => |e| add_f32(e, false),
        Op::v_sub_f32 => |e| add_f32(e, true),
        Op::v_subrev_f32 => reversed!(SUB_F32),
        Op::v_mul_f32 => commuting!(MUL_F32),
        Op::v_fma_f32 | Op::v_fmac_f32 | Op::v_fmaak_f32 | Op::v_fmamk_f32 => fma_f32,
        Op::v_min_f32 => |e| extreme(e, Extreme::Min),
        Op::v_max_f32 => |e| extreme(e, Extreme::Max),
        Op::v_min3_f32 => |e| extreme_of_three(e, Extreme::Min),
        Op::v_max3_f32 => |e| extreme_of_three(e, Extreme::Max),
        Op::v_rcp_f32 | Op::v_rcp_iflag_f32 => |e| {
            let one = e.constant(1.0_f32.to_bits());
            let one = e.in_register(one);
            let a = e.arg(0);
            let new = e.op(DIV_F32, one, a);
            e.set(new);
        },
        Op::v_rsq_f32 => |e| {
            let a = e.arg(0);
            let root = e.unary(SQRT_F32, a);
            let one = e.constant(1.0_f32.to_bits());
            let one = e.in_register(one);
            let new = e.op(DIV_F32, one, Arg::Register(root));
            e.set(new);
        },
        Op::v_sqrt_f32 => unary!(SQRT_F32),
        Op::v_rndne_f32 => unary!(ROUND_F32, 8),
        Op::v_floor_f32 => unary!(ROUND_F32, 9),
        Op::v_ceil_f32 => unary!(ROUND_F32, 10),
        Op::v_trunc_f32 => unary!(ROUND_F32, 11),
        Op::v_fract_f32 => |e| {
            let a = e.reg(0);
            let floor = e.unary_imm(ROUND_F32, Arg::Register(a), 9);
            let fract = e.op(SUB_F32, a, Arg::Register(floor));
            // If `fract` is a NaN, the instruction returns it, because it is the second operand.
            let below_one = e.constant(0x3f7f_ffff);
            let below_one = e.in_register(below_one);
            let new = e.op(LESSER_F32, below_one, Arg::Register(fract));
            e.set(new);
        },
        Op::v_ldexp_f32 => |e| {
            let (a, exponent) = (e.reg(0), e.arg(1));
            let new = avx2_fallback::scale_f32(e, a, exponent);
            e.set(new);
        },
        Op::v_cvt_f32_i32 => unary!(F32_FROM_I32),
        Op::v_cvt_f32_u32 => |e| {
            let a = e.arg(0);
            let new = avx2_fallback::f32_from_u32(e, a);
            e.set(new);
        },
        Op::v_cvt_f32_ubyte0 => |e| ubyte(e, 0),
        Op::v_cvt_f32_ubyte1 => |e| ubyte(e, 8),
        Op::v_cvt_f32_ubyte2 => |e| ubyte(e, 16),
        Op::v_cvt_f32_ubyte3 => |e| ubyte(e, 24),
        Op::v_cvt_i32_f32 => |e| {
            let a = e.reg(0);
            let number = e.compare(Comparison::Float(7), a, Arg::Register(a));
            let cut = e.unary(I32_FROM_F32, Arg::Register(a));
            let cut = e.only(number, cut);
            let limit = e.constant(2_147_483_648_f32.to_bits());
            let large = e.compare(Comparison::Float(0x1d), a, limit);
            let most = e.constant(i32::MAX as u32);
            let clipped = e.select(large, cut, most);
            e.set(clipped);
        },
        Op::v_cvt_u32_f32 => |e| {
            let a = e.reg(0);
            let new = avx2_fallback::u32_from_f32(e, a);
            e.set(new);
        },
        Op::v_cvt_f32_f16 => |e| {
            let a = e.reg(0);
            let halves = avx2_fallback::low_words(e, a);
            let new = e.widened(F32_FROM_F16, halves);
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
            let high = e.unary_imm(SHL_32, Arg::Register(high), 16);
            let new = e.op(OR, low, Arg::Register(high));
            e.set(new);
        },
        Op::v_pk_fma_f32 => packed_fma_f32,
        Op::v_pk_mul_f32 => |e| packed_f32(e, MUL_F32),
        Op::v_pk_add_f32 => |e| packed_f32(e, ADD_F32),
        _ => return None,
    })
}

/// Converts f32 to f16, in the low half of each lane.
fn half(e: &mut Emit<'_>, a: u8, rounding: u32) -> u8 {
    let narrow = e.fresh();
    let (to, from) = (e.target.half(narrow), e.target.whole(a));
    e.asm.push(Instruction::with3(F16_FROM_F32.on(e.target), to, from, rounding));
    e.widened(U32_FROM_U16, narrow)
}

fn ubyte(e: &mut Emit<'_>, shift: u32) {
    let a = e.arg(0);
    let shifted = if shift == 0 { a } else { Arg::Register(e.unary_imm(SHR_32, a, shift)) };
    let shifted = e.in_register(shifted);
    let mask = e.constant(0xff);
    let byte = e.op(AND, shifted, mask);
    let new = e.unary(F32_FROM_I32, Arg::Register(byte));
    e.set(new);
}

/// f32 addition or subtraction; `neg` on the second source turns one into the other.
fn add_f32(e: &mut Emit<'_>, subtract: bool) {
    let (raw_a, raw_b) = (e.raw(0, 0), e.raw(1, 0));
    let ((neg_a, abs_a), (neg_b, abs_b)) = (e.signs(0), e.signs(1));
    let (a, b) = (e.with_signs(raw_a, neg_a, abs_a), e.with_signs(raw_b, neg_b && abs_b, abs_b));
    // The part of the second source's `neg` that is not yet applied.
    let minus = subtract != (neg_b && !abs_b);
    let new = match (minus, a, b) {
        (false, Arg::Register(a), b) => e.op(ADD_F32, a, b),
        (false, a, b) => {
            let b = e.in_register(b);
            e.op(ADD_F32, b, a)
        }
        (true, a, b) => {
            let a = e.in_register(a);
            e.op(SUB_F32, a, b)
        }
    };
    e.set(new);
}

fn extreme(e: &mut Emit<'_>, which: Extreme) {
    let (a, b) = (e.reg(0), e.arg(1));
    let new = avx2_fallback::extreme(e, Size::Single, which, a, b);
    e.set(new);
}

fn extreme_of_three(e: &mut Emit<'_>, which: Extreme) {
    let (a, b) = (e.reg(0), e.arg(1));
    let two = avx2_fallback::extreme(e, Size::Single, which, a, b);
    let c = e.arg(2);
    let new = avx2_fallback::extreme(e, Size::Single, which, two, c);
    e.set(new);
}

/// Fused multiply-add instructions. Rows: the addend is overwritten (231), a factor is overwritten and the addend is the last
/// operand (213), a factor is overwritten and the other factor is the last operand (132). Columns: signs of product and addend.
const FMA: [[Vector; 4]; 3] = [
    [FMADD231_F32, FMSUB231_F32, FNMADD231_F32, FNMSUB231_F32],
    [FMADD213_F32, FMSUB213_F32, FNMADD213_F32, FNMSUB213_F32],
    [FMADD132_F32, FMSUB132_F32, FNMADD132_F32, FNMSUB132_F32],
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
        let dies = matches!(raw, Arg::Register(register) if e.dying(n, 0, 0, register).is_some());
        Term { arg: raw, negative: neg, dies }
    });
    let new = fused(e, terms);
    e.set(new);
}

/// `a * b + c`.
fn fused(e: &mut Emit<'_>, [a, b, c]: [Term; 3]) -> u8 {
    let signs = 2 * usize::from(a.negative != b.negative) + usize::from(c.negative);
    let [a, b, c] = [a, b, c].map(|term| match (term.arg, e.operand(term.arg)) {
        (Arg::Memory(_), Arg::Register(register)) => {
            Term { arg: Arg::Register(register), dies: true, ..term }
        }
        _ => term,
    });
    // One of the three may stay in memory: the addend, if it is not overwritten, else a factor.
    let (mut a, mut b, mut c) = (a, b, c);
    let is_memory = |term: &Term| matches!(term.arg, Arg::Memory(_));
    if is_memory(&a) {
        std::mem::swap(&mut a, &mut b);
    }
    if is_memory(&a) || is_memory(&b) && is_memory(&c) {
        let register = e.in_register(a.arg);
        a = Term { arg: Arg::Register(register), dies: is_memory(&a) || a.dies, ..a };
    }
    if is_memory(&b) && is_memory(&c) {
        let register = e.in_register(c.arg);
        c = Term { arg: Arg::Register(register), dies: true, ..c };
    }
    let register = |term: Term| match term.arg {
        Arg::Register(register) => register,
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

/// The dword of source `n` that half `half` of a packed result reads, and whether it is negated.
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
            let dies = matches!(arg, Arg::Register(register) if e.dying(n, part, half, register).is_some());
            Term { arg, negative, dies }
        })
    });
    let [mut low, high] = halves;
    // The first result must not overwrite a register that the second reads.
    for term in &mut low {
        if let Arg::Register(register) = term.arg {
            let needed = high.iter().any(|other| matches!(other.arg, Arg::Register(r) if r == register));
            term.dies &= !needed;
        }
    }
    let low = fused(e, low);
    let high = fused(e, high);
    e.set_pair(low, high);
}

fn packed_f32(e: &mut Emit<'_>, vector: Vector) {
    let inst = e.inst;
    let results = [0, 1].map(|half| {
        let [(a, neg_a), (b, neg_b)] = [0, 1].map(|n| {
            let (part, negative) = packed_choice(inst, n, half);
            (e.raw(n, part), negative)
        });
        // Adding a negated value is a subtraction.
        let subtracts = vector == ADD_F32 && neg_b;
        let (a, b) = (e.with_signs(a, neg_a, false), e.with_signs(b, neg_b && !subtracts, false));
        if subtracts {
            let a = e.in_register(a);
            return e.op(SUB_F32, a, b);
        }
        match (a, b) {
            (Arg::Register(a), b) => e.op(vector, a, b),
            (a, b) => {
                let b = e.in_register(b);
                e.op(vector, b, a)
            }
        }
    });
    e.set_pair(results[0], results[1]);
}
