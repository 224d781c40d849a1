//! Templates of 64-bit operations.
//!
//! A 64-bit value is two registers of dwords. Interleaving them gives two registers of qwords, which hold the even and the odd
//! pairs of lanes; lane-local operations do not depend on the lane order. Two shuffles separate them again.

use isa::Op;

use super::assembler::{Arg, broadcast};
use super::avx2_fallback::{self, Extreme, Size};
use super::emit::{Emit, SCALARS};
use super::mask::Comparison::{self, *};
use super::mask::Order::*;
use super::target::*;
use super::template::Template;
use crate::SrcKind;

pub fn of(op: Op) -> Option<Template> {
    Some(match op {
        Op::v_add_f64 => |e| binary(e, ADD_F64),
        Op::v_mul_f64 => |e| binary(e, MUL_F64),
        Op::v_min_f64 => |e| extreme(e, Extreme::Min),
        Op::v_max_f64 => |e| extreme(e, Extreme::Max),
        Op::v_fma_f64 | Op::v_fmac_f64 => |e| {
            let results = halves(e, |e, half| {
                let (a, b, c) =
                    (source_register(e, 0, half), source(e, 1, half), source_register(e, 2, half));
                let new = e.copy(c);
                e.asm.op3(FMADD231_F64, new, a, b);
                new
            });
            set(e, results);
        },
        Op::v_rcp_f64 => |e| {
            let results = halves(e, |e, half| {
                let one = Arg::Memory(e.asm.constant_64(1.0_f64.to_bits()));
                let (one, a) = (in_register(e, one), source(e, 0, half));
                e.op(DIV_F64, one, a)
            });
            set(e, results);
        },
        Op::v_sqrt_f64 => |e| {
            let results = halves(e, |e, half| {
                let a = source(e, 0, half);
                e.unary(SQRT_F64, a)
            });
            set(e, results);
        },
        Op::v_cvt_f32_f64 => |e| {
            // Each half's floats are zero-extended to qwords, so that they are separated like all other results.
            let results = halves(e, |e, half| {
                let a = source_register(e, 0, half);
                let narrow = e.fresh();
                e.push2(F32_FROM_F64.on(e.target), e.target.half(narrow), e.target.whole(a));
                e.widened(U64_FROM_U32, narrow)
            });
            let low = low_dwords(e, results);
            e.set(low);
        },
        Op::v_cvt_f64_f32 => |e| from_dwords(e, F64_FROM_F32),
        Op::v_cvt_f64_i32 => |e| from_dwords(e, F64_FROM_I32),
        Op::v_cvt_f64_u32 => |e| {
            let results = halves(e, |e, half| {
                let a = doubled(e, 0, half);
                avx2_fallback::f64_from_u32(e, a)
            });
            set(e, results);
        },

        Op::v_lshlrev_b64 => |e| shift(e, Shift::Left),
        Op::v_lshrrev_b64 => |e| shift(e, Shift::Right),
        Op::v_ashrrev_i64 => |e| shift(e, Shift::RightSigned),
        Op::v_lshl_add_u64 => |e| {
            if let Some(count) = e.known(1, 0) {
                return shift_and_add(e, count & 7);
            }
            let results = halves(e, |e, half| {
                let shifted = shifted(e, half, 0, 1, 7, Shift::Left);
                let c = source(e, 2, half);
                e.op(ADD_I64, shifted, c)
            });
            set(e, results);
        },
        Op::v_mul_hi_u32 => |e| high_product(e, MUL_U32_U64),
        Op::v_mul_hi_i32 => |e| high_product(e, MUL_I32_I64),
        Op::v_mad_u64_u32 => |e| {
            let [low, high] = [0, 1].map(|half| {
                e.scope(|e| {
                    let product = product(e, MUL_U32_U64, half);
                    let c = source(e, 2, half);
                    let sum = e.op(ADD_I64, product, c);
                    // The sum wrapped if it is less than an addend.
                    [sum, e.compare_qwords(Unsigned(Less), sum, Arg::Register(product))]
                })
            });
            let wrapped = low_dwords(e, [low[1], high[1]]);
            let over = e.mask_of_lanes(wrapped);
            set(e, [low[0], high[0]]);
            e.set_mask(over);
        },
        Op::v_cmp_eq_u64 | Op::v_cmp_eq_i64 => |e| compare(e, Unsigned(Equal)),
        Op::v_cmp_ne_u64 | Op::v_cmp_ne_i64 => |e| compare(e, Unsigned(NotEqual)),
        Op::v_cmp_lt_u64 => |e| compare(e, Unsigned(Less)),
        Op::v_cmp_le_u64 => |e| compare(e, Unsigned(LessEqual)),
        Op::v_cmp_gt_u64 => |e| compare(e, Unsigned(Greater)),
        Op::v_cmp_ge_u64 => |e| compare(e, Unsigned(GreaterEqual)),
        Op::v_cmp_lt_i64 => |e| compare(e, Signed(Less)),
        Op::v_cmp_le_i64 => |e| compare(e, Signed(LessEqual)),
        Op::v_cmp_gt_i64 => |e| compare(e, Signed(Greater)),
        Op::v_cmp_ge_i64 => |e| compare(e, Signed(GreaterEqual)),
        Op::v_cmp_lt_f64 => |e| compare(e, Float(0x11)),
        Op::v_cmp_eq_f64 => |e| compare(e, Float(0x00)),
        Op::v_cmp_le_f64 => |e| compare(e, Float(0x12)),
        Op::v_cmp_gt_f64 => |e| compare(e, Float(0x1e)),
        Op::v_cmp_lg_f64 => |e| compare(e, Float(0x0c)),
        Op::v_cmp_ge_f64 => |e| compare(e, Float(0x1d)),
        Op::v_cmp_neq_f64 => |e| compare(e, Float(0x04)),
        _ => return None,
    })
}

/// Computes both halves of a result.
fn halves(e: &mut Emit<'_>, compute: impl Fn(&mut Emit<'_>, usize) -> u8) -> [u8; 2] {
    [0, 1].map(|half| e.scope(|e| [compute(e, half)])[0])
}

/// Half of a 64-bit source with its modifiers.
fn source(e: &mut Emit<'_>, n: usize, half: usize) -> Arg {
    let (neg, abs) = e.signs(n);
    let (vector, bits) = match (neg, abs) {
        (false, false) => return plain_source(e, n, half),
        (true, false) => (XOR_64, 1 << 63),
        (true, true) => (OR_64, 1 << 63),
        (false, true) => (AND_64, !(1 << 63)),
    };
    let [signed] = e.scope(|e| {
        let plain = plain_source(e, n, half);
        let register = in_register(e, plain);
        let bits = e.asm.constant_64(bits);
        [e.op(vector, register, Arg::Memory(bits))]
    });
    Arg::Register(signed)
}

fn plain_source(e: &mut Emit<'_>, n: usize, half: usize) -> Arg {
    let src = e.uop.src[n];
    match (src.kind, e.known(n, 0), e.known(n, 1)) {
        (SrcKind::Constant, Some(low), Some(high)) => {
            Arg::Memory(e.asm.constant_64(u64::from(low) | u64::from(high) << 32))
        }
        (SrcKind::Scalar, ..) => {
            let scalar = Arg::Memory(broadcast(SCALARS, 4 * i64::from(src.index)));
            // Only AVX-512 has broadcast memory operands.
            if e.target == Target::Avx2 { Arg::Register(in_register(e, scalar)) } else { scalar }
        }
        _ => {
            let (low, high) = (e.vector(src.index), e.vector(src.index + 1));
            Arg::Register(interleaved(e, low, high, half))
        }
    }
}

fn source_register(e: &mut Emit<'_>, n: usize, half: usize) -> u8 {
    let source = source(e, n, half);
    in_register(e, source)
}

fn interleaved(e: &mut Emit<'_>, low: u8, high: u8, half: usize) -> u8 {
    e.op([INTERLEAVE_LOW, INTERLEAVE_HIGH][half], low, Arg::Register(high))
}

/// Half of a 32-bit source, each dword duplicated.
fn doubled(e: &mut Emit<'_>, n: usize, half: usize) -> u8 {
    let a = e.reg(n);
    interleaved(e, a, a, half)
}

fn in_register(e: &mut Emit<'_>, arg: Arg) -> u8 {
    match arg {
        Arg::Memory(memory) if memory.is_broadcast => {
            let register = e.fresh();
            e.asm.spread(BROADCAST_64, register, arg);
            register
        }
        _ => e.in_register(arg),
    }
}

fn low_dwords(e: &mut Emit<'_>, [even, odd]: [u8; 2]) -> u8 {
    e.op_imm(SHUFFLE_32, even, Arg::Register(odd), 0x88)
}

fn high_dwords(e: &mut Emit<'_>, [even, odd]: [u8; 2]) -> u8 {
    e.op_imm(SHUFFLE_32, even, Arg::Register(odd), 0xdd)
}

fn set(e: &mut Emit<'_>, qwords: [u8; 2]) {
    let (low, high) = (low_dwords(e, qwords), high_dwords(e, qwords));
    e.set_pair(low, high);
}

fn binary(e: &mut Emit<'_>, vector: Vector) {
    let results = halves(e, |e, half| {
        let (a, b) = (source_register(e, 0, half), source(e, 1, half));
        e.op(vector, a, b)
    });
    set(e, results);
}

fn extreme(e: &mut Emit<'_>, which: Extreme) {
    let results = halves(e, |e, half| {
        let (a, b) = (source_register(e, 0, half), source(e, 1, half));
        avx2_fallback::extreme(e, Size::Double, which, a, b)
    });
    set(e, results);
}

/// Converts dwords to qwords.
fn from_dwords(e: &mut Emit<'_>, vector: Vector) {
    let results = halves(e, |e, half| {
        let a = doubled(e, 0, half);
        let narrow = avx2_fallback::dwords_of_qwords(e, a);
        e.widened(vector, narrow)
    });
    set(e, results);
}

/// 64-bit products of two 32-bit sources.
fn product(e: &mut Emit<'_>, vector: Vector, half: usize) -> u8 {
    let (a, b) = (doubled(e, 0, half), doubled(e, 1, half));
    e.op(vector, a, Arg::Register(b))
}

fn high_product(e: &mut Emit<'_>, vector: Vector) {
    let products = halves(e, |e, half| product(e, vector, half));
    let high = high_dwords(e, products);
    e.set(high);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shift {
    Left,
    Right,
    RightSigned,
}

fn shift(e: &mut Emit<'_>, shift: Shift) {
    if let Some(count) = e.known(0, 0).map(|count| count & 63).filter(|count| (1..32).contains(count)) {
        let [low, high] = [0, 1].map(|part| e.raw(1, part));
        let [low, high] = shifted_dwords(e, low, high, count, shift);
        return e.set_pair(low, high);
    }
    let results = halves(e, |e, half| shifted(e, half, 1, 0, 63, shift));
    set(e, results);
}

/// Shifts by 1 to 31 bits on separate dwords, which takes fewer instructions than interleaving and separating them.
fn shifted_dwords(e: &mut Emit<'_>, low: Arg, high: Arg, count: u32, shift: Shift) -> [u8; 2] {
    let (low, high) = (Arg::Register(e.in_register(low)), Arg::Register(e.in_register(high)));
    let across = 32 - count;
    match shift {
        Shift::Left => {
            let (carried, rest) = (e.unary_imm(SHR_32, low, across), e.unary_imm(SHL_32, high, count));
            [e.unary_imm(SHL_32, low, count), e.op(OR, rest, Arg::Register(carried))]
        }
        Shift::Right | Shift::RightSigned => {
            let (carried, rest) = (e.unary_imm(SHL_32, high, across), e.unary_imm(SHR_32, low, count));
            let top = if shift == Shift::Right { SHR_32 } else { SAR_32 };
            [e.op(OR, rest, Arg::Register(carried)), e.unary_imm(top, high, count)]
        }
    }
}

/// Source 0 shifted left, plus source 2, mostly for element addresses. Works on separate dwords, like [`shifted_dwords`].
fn shift_and_add(e: &mut Emit<'_>, count: u32) {
    let [low, high] = [0, 1].map(|part| e.raw(0, part));
    let [low, high] = match count {
        0 => [low, high],
        _ => shifted_dwords(e, low, high, count, Shift::Left).map(Arg::Register),
    };
    let [added_low, added_high] = [0, 1].map(|part| e.raw(2, part));
    let (a, b) = one_in_register(e, low, added_low);
    let sum = e.op(ADD_I32, a, b);
    // The sum wrapped if it is less than an addend.
    let carry = e.compare(Unsigned(Less), sum, Arg::Register(a));
    let (a, b) = one_in_register(e, high, added_high);
    let top = e.op(ADD_I32, a, b);
    let top = e.step(carry, top, true);
    e.set_pair(sum, top);
}

/// Two addends in any order, the first in a register.
fn one_in_register(e: &mut Emit<'_>, a: Arg, b: Arg) -> (u8, Arg) {
    match (a, b) {
        (Arg::Register(a), b) => (a, b),
        (a, Arg::Register(b)) => (b, a),
        (a, b) => (e.in_register(a), b),
    }
}

/// Shifts 64-bit source `value` by source `count`, masked with `low`.
fn shifted(e: &mut Emit<'_>, half: usize, value: usize, count: usize, low: u32, shift: Shift) -> u8 {
    let value = source(e, value, half);
    if let Some(count) = e.known(count, 0) {
        return match (shift, count & low) {
            (_, 0) => in_register(e, value),
            (Shift::Left, count) => e.unary_imm(SHL_64, value, count),
            (Shift::Right, count) => e.unary_imm(SHR_64, value, count),
            (Shift::RightSigned, count) => avx2_fallback::shift_signed_64(e, value, count),
        };
    }
    let value = in_register(e, value);
    let count = e.reg(count);
    let low = e.constant(low);
    let count = e.op(AND, count, low);
    let zero = e.constant(0);
    let zero = e.in_register(zero);
    let count = interleaved(e, count, zero, half);
    match shift {
        Shift::Left => e.op(SHL_EACH_64, value, Arg::Register(count)),
        Shift::Right => e.op(SHR_EACH_64, value, Arg::Register(count)),
        Shift::RightSigned => avx2_fallback::shift_signed_each_64(e, value, count),
    }
}

fn compare(e: &mut Emit<'_>, comparison: Comparison) {
    let lanes = halves(e, |e, half| {
        let (a, b) = (source_register(e, 0, half), source(e, 1, half));
        e.compare_qwords(comparison, a, b)
    });
    let lanes = low_dwords(e, lanes);
    let mask = e.mask_of_lanes(lanes);
    e.set_mask(mask);
}
