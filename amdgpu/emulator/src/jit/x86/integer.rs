//! Templates of 32-bit integer and bit operations, moves, and carries.

use iced_x86::Code::{self, *};
use iced_x86::Instruction;
use isa::Op;

use super::assembler::{Arg, zmm};
use super::emit::{ACTIVE, Emit};
use super::template::{Template, commuting, ordered, reversed, select};

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
