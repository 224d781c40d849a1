//! Templates of 32-bit integer and bit operations, moves, and carries.

use isa::Op;

use super::assembler::Arg;
use super::avx2_fallback;
use super::emit::Emit;
use super::mask::{Comparison, Order};
use super::target::*;
use super::template::{Template, commuting, ordered, reversed};

pub fn of(op: Op) -> Option<Template> {
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
            let new = e.op(XOR, a, ones);
            e.set(new);
        },
        Op::v_ffbh_u32 => |e| {
            let a = e.reg(0);
            let new = avx2_fallback::leading_zeros(e, a);
            e.set(new);
        },
        Op::v_add_u32 | Op::v_add_i32 => commuting!(ADD_I32),
        Op::v_sub_u32 | Op::v_sub_i32 => ordered!(SUB_I32),
        Op::v_subrev_u32 => reversed!(SUB_I32),
        Op::v_mul_lo_u32 => commuting!(MUL_I32),
        Op::v_and_b32 => commuting!(AND),
        Op::v_or_b32 => commuting!(OR),
        Op::v_xor_b32 => commuting!(XOR),
        Op::v_xnor_b32 => |e| {
            let (a, b) = e.commuting();
            let differs = e.op(XOR, a, b);
            let ones = e.constant(!0);
            let new = e.op(XOR, differs, ones);
            e.set(new);
        },
        Op::v_min_i32 => commuting!(MIN_I32),
        Op::v_max_i32 => commuting!(MAX_I32),
        Op::v_min_u32 => commuting!(MIN_U32),
        Op::v_max_u32 => commuting!(MAX_U32),
        Op::v_min3_i32 => |e| three(e, MIN_I32),
        Op::v_max3_i32 => |e| three(e, MAX_I32),
        Op::v_min3_u32 => |e| three(e, MIN_U32),
        Op::v_max3_u32 => |e| three(e, MAX_U32),
        Op::v_or3_b32 => |e| three(e, OR),
        Op::v_add3_u32 => |e| three(e, ADD_I32),
        Op::v_and_or_b32 => |e| chain(e, AND, OR),
        Op::v_xad_u32 => |e| chain(e, XOR, ADD_I32),
        Op::v_lshlrev_b32 => |e| shift(e, 1, 0, LEFT),
        Op::v_lshrrev_b32 => |e| shift(e, 1, 0, RIGHT),
        Op::v_ashrrev_i32 => |e| shift(e, 1, 0, RIGHT_SIGNED),
        Op::v_lshl_add_u32 => |e| {
            let shifted = shifted(e, 0, 1, LEFT);
            let c = e.arg(2);
            let new = e.op(ADD_I32, shifted, c);
            e.set(new);
        },
        Op::v_lshl_or_b32 => |e| {
            let shifted = shifted(e, 0, 1, LEFT);
            let c = e.arg(2);
            let new = e.op(OR, shifted, c);
            e.set(new);
        },
        Op::v_add_lshl_u32 => |e| {
            let (a, b) = e.commuting();
            let sum = e.op(ADD_I32, a, b);
            let new = shift_by(e, Arg::Register(sum), 2, LEFT);
            e.set(new);
        },
        Op::v_bfe_u32 => |e| {
            let (offset, bits) = (e.known(1, 0).unwrap_or(0) & 31, e.known(2, 0).unwrap_or(0) & 31);
            let a = e.arg(0);
            let moved = e.unary_imm(SHR_32, a, offset);
            let field = e.constant((1 << bits) - 1);
            let new = e.op(AND, moved, field);
            e.set(new);
        },
        Op::v_bfe_i32 => |e| {
            let (offset, bits) = (e.known(1, 0).unwrap_or(0) & 31, e.known(2, 0).unwrap_or(0) & 31);
            let a = e.arg(0);
            // A field of zero bits is zero; one that extends past bit 31 is cut off there.
            let new = if bits == 0 {
                let zero = e.constant(0);
                e.in_register(zero)
            } else {
                let left = 32 - (offset + bits).min(32);
                let top = e.unary_imm(SHL_32, a, left);
                e.unary_imm(SAR_32, Arg::Register(top), left + offset)
            };
            e.set(new);
        },
        Op::v_bfi_b32 => |e| {
            let mask = e.reg(0);
            let (b, c) = (e.reg(1), e.arg(2));
            let new = avx2_fallback::select_bits(e, mask, b, c);
            e.set(new);
        },
        Op::v_alignbit_b32 => |e| align(e, 1),
        Op::v_alignbyte_b32 => |e| align(e, 8),
        Op::v_perm_b32 => permute_bytes,
        Op::v_mul_u32_u24 => |e| {
            let (a, b) = (low_24(e, 0), low_24(e, 1));
            let new = e.op(MUL_I32, a, Arg::Register(b));
            e.set(new);
        },
        Op::v_mad_u32_u24 => |e| {
            let (a, b) = (low_24(e, 0), low_24(e, 1));
            let product = e.op(MUL_I32, a, Arg::Register(b));
            let c = e.arg(2);
            let new = e.op(ADD_I32, product, c);
            e.set(new);
        },
        Op::v_mul_i32_i24 => |e| {
            let (a, b) = (signed_24(e, 0), signed_24(e, 1));
            let new = e.op(MUL_I32, a, Arg::Register(b));
            e.set(new);
        },
        Op::v_mad_i32_i24 => |e| {
            let (a, b) = (signed_24(e, 0), signed_24(e, 1));
            let product = e.op(MUL_I32, a, Arg::Register(b));
            let c = e.arg(2);
            let new = e.op(ADD_I32, product, c);
            e.set(new);
        },
        Op::v_cndmask_b32 => |e| {
            let mask = e.mask(2);
            let (a, b) = (e.reg(0), e.arg(1));
            let new = e.select(mask, a, b);
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

fn three(e: &mut Emit<'_>, vector: Vector) {
    chain(e, vector, vector);
}

/// `(a first b) second c`; `first` is commutative.
fn chain(e: &mut Emit<'_>, first: Vector, second: Vector) {
    let (a, b) = e.commuting();
    let two = e.op(first, a, b);
    let c = e.arg(2);
    let new = e.op(second, two, c);
    e.set(new);
}

/// The instructions for a shift by an immediate and by a register.
type Shift = (Vector, Vector);
const LEFT: Shift = (SHL_32, SHL_EACH_32);
const RIGHT: Shift = (SHR_32, SHR_EACH_32);
const RIGHT_SIGNED: Shift = (SAR_32, SAR_EACH_32);

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
    let count = e.op(AND, count, low);
    let value = e.in_register(value);
    e.op(by_register, value, Arg::Register(count))
}

/// The low dword of `a:b` shifted right by a constant number of units of `unit` bits.
fn align(e: &mut Emit<'_>, unit: u32) {
    let shift = unit * (e.known(2, 0).unwrap_or(0) & (32 / unit - 1));
    let b = e.reg(1);
    if shift == 0 {
        return e.set(b);
    }
    let a = e.arg(0);
    let high = e.unary_imm(SHL_32, a, 32 - shift);
    let low = e.unary_imm(SHR_32, Arg::Register(b), shift);
    let new = e.op(OR, high, Arg::Register(low));
    e.set(new);
}

/// `v_perm_b32` with a constant selector: two byte shuffles, plus replicated signs and constant bytes.
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
    let lanes = e.target.lanes();
    let from_low: Vec<u32> = (0..lanes).map(pick(0)).collect();
    let from_high: Vec<u32> = (0..lanes).map(pick(4)).collect();
    let (high, low) = (e.reg(0), e.reg(1));
    let (low_bytes, high_bytes) = (e.asm.constants(&from_low), e.asm.constants(&from_high));
    let mut new = e.op(SHUFFLE_8, low, Arg::Memory(low_bytes));
    let other = e.op(SHUFFLE_8, high, Arg::Memory(high_bytes));
    new = e.op(OR, new, Arg::Register(other));
    // Replicated signs of 16-bit words: 8 and 9 of the low source, 10 and 11 of the high source.
    for (place, select) in selector.into_iter().enumerate() {
        if let 8..12 = select {
            [new] = e.scope(|e| {
                let word = if select & 2 == 0 { low } else { high };
                let word = match select & 1 {
                    0 => e.unary_imm(SHL_32, Arg::Register(word), 16),
                    _ => word,
                };
                let sign = e.unary_imm(SAR_32, Arg::Register(word), 31);
                let byte = e.constant(0xff << (8 * place));
                let sign = e.op(AND, sign, byte);
                [e.op(OR, new, Arg::Register(sign))]
            });
        }
    }
    let ones = u32::from_le_bytes(selector.map(|select| if select > 12 { 0xff } else { 0 }));
    if ones != 0 {
        let ones = e.constant(ones);
        new = e.op(OR, new, ones);
    }
    e.set(new);
}

fn low_24(e: &mut Emit<'_>, n: usize) -> u8 {
    let a = e.reg(n);
    let bits = e.constant(0xff_ffff);
    e.op(AND, a, bits)
}

fn signed_24(e: &mut Emit<'_>, n: usize) -> u8 {
    let a = e.arg(n);
    let top = e.unary_imm(SHL_32, a, 8);
    e.unary_imm(SAR_32, Arg::Register(top), 8)
}

const BELOW: Comparison = Comparison::Unsigned(Order::Less);
const SAME: Comparison = Comparison::Unsigned(Order::Equal);

fn add_carry(e: &mut Emit<'_>, carry_in: bool) {
    let (a, b) = (e.reg(0), e.arg(1));
    let mut sum = e.op(ADD_I32, a, b);
    let mut over = e.compare(BELOW, sum, Arg::Register(a));
    if carry_in {
        let carry = e.mask(2);
        sum = e.step(carry, sum, true);
        // Adding a carry-in overflows exactly if the result is zero.
        let zero = e.constant(0);
        let empty = e.compare(SAME, sum, zero);
        let wrapped = e.both(empty, carry);
        over = e.either(over, wrapped);
    }
    e.set(sum);
    e.set_mask(over);
}

fn sub_borrow(e: &mut Emit<'_>, from: usize, what: usize, borrow_in: bool) {
    let (a, b) = (e.reg(from), e.arg(what));
    let mut difference = e.op(SUB_I32, a, b);
    let mut under = e.compare(BELOW, a, b);
    if borrow_in {
        let borrow = e.mask(2);
        difference = e.step(borrow, difference, false);
        let same = e.compare(SAME, a, b);
        let wrapped = e.both(same, borrow);
        under = e.either(under, wrapped);
    }
    e.set(difference);
    e.set_mask(under);
}
