//! 32- and 64-bit integer and bit operations.

use isa::Op;

use super::Outcome;
use super::lane::Lane;
use crate::Value;
use crate::form::{Binary, Input, Kind, Operation, Unary};

/// The result of an operation with integers of 32 or 64 bits.
pub fn lift(l: &Lane<'_, '_>) -> Option<Outcome> {
    let [a, b, c] = l.s;
    if let Some(outcome) = carrying(l) {
        return Some(outcome);
    }
    Some(Outcome::value(match l.op {
        Op::v_mov_b32
        | Op::v_mov_b64
        | Op::v_accvgpr_mov_b32
        | Op::v_accvgpr_read_b32
        | Op::v_accvgpr_write_b32 => a,
        Op::v_cndmask_b32 => l.select(l.carry?, b, a),
        Op::v_not_b32 => l.not(a),
        Op::v_bfrev_b32 => l.unary(Unary::ReverseBits, a),
        Op::v_ffbh_u32 => first_bit(l, Unary::LeadingZeros, a),
        Op::v_ffbl_b32 => first_bit(l, Unary::TrailingZeros, a),
        Op::v_ffbh_i32 => first_bit(l, Unary::LeadingZeros, l.xor(a, l.sign(a))),

        Op::v_add_u32 => add_unsigned(l, a, b),
        Op::v_sub_u32 => sub_unsigned(l, a, b),
        Op::v_subrev_u32 => sub_unsigned(l, b, a),
        Op::v_add_i32 => add_signed(l, a, b),
        Op::v_sub_i32 => sub_signed(l, a, b),
        Op::v_mul_u32_u24 => {
            let (x, y) = (l.extract(a, 0, 24), l.extract(b, 0, 24));
            if l.saturates { saturated_unsigned(l, l.wide(x, y, false)) } else { l.mul(x, y) }
        }
        Op::v_mul_hi_u32_u24 => {
            l.binary(Binary::MultiplyHighUnsigned, l.extract(a, 0, 24), l.extract(b, 0, 24))
        }
        Op::v_mul_i32_i24 => {
            let (x, y) = (l.extract_signed(a, 0, 24), l.extract_signed(b, 0, 24));
            if l.saturates { saturated_signed(l, l.wide(x, y, true)) } else { l.mul(x, y) }
        }
        Op::v_mul_hi_i32_i24 => {
            l.binary(Binary::MultiplyHighSigned, l.extract_signed(a, 0, 24), l.extract_signed(b, 0, 24))
        }
        Op::v_mad_u32_u24 => {
            let (x, y) = (l.extract(a, 0, 24), l.extract(b, 0, 24));
            if l.saturates {
                saturated_unsigned(l, l.add(l.wide(x, y, false), l.zero_extended(c)))
            } else {
                l.add(l.mul(x, y), c)
            }
        }
        Op::v_mad_i32_i24 => {
            let (x, y) = (l.extract_signed(a, 0, 24), l.extract_signed(b, 0, 24));
            if l.saturates {
                saturated_signed(l, l.add(l.wide(x, y, true), l.sign_extended(c)))
            } else {
                l.add(l.mul(x, y), c)
            }
        }
        Op::v_mul_lo_u32 => l.mul(a, b),
        Op::v_mul_hi_u32 => l.binary(Binary::MultiplyHighUnsigned, a, b),
        Op::v_mul_hi_i32 => l.binary(Binary::MultiplyHighSigned, a, b),

        Op::v_min_i32 => l.minimum(a, b, true),
        Op::v_max_i32 => l.maximum(a, b, true),
        Op::v_min_u32 => l.minimum(a, b, false),
        Op::v_max_u32 => l.maximum(a, b, false),
        Op::v_min3_i32 => l.minimum(l.minimum(a, b, true), c, true),
        Op::v_max3_i32 => l.maximum(l.maximum(a, b, true), c, true),
        Op::v_med3_i32 => median(l, a, b, c, true),
        Op::v_min3_u32 => l.minimum(l.minimum(a, b, false), c, false),
        Op::v_max3_u32 => l.maximum(l.maximum(a, b, false), c, false),
        Op::v_med3_u32 => median(l, a, b, c, false),

        Op::v_lshlrev_b32 | Op::v_lshlrev_b64 => l.shl(b, a),
        Op::v_lshrrev_b32 | Op::v_lshrrev_b64 => l.shr(b, a),
        Op::v_ashrrev_i32 | Op::v_ashrrev_i64 => l.sar(b, a),
        Op::v_and_b32 => l.and(a, b),
        Op::v_or_b32 => l.or(a, b),
        Op::v_xor_b32 => l.xor(a, b),
        Op::v_xnor_b32 => l.not(l.xor(a, b)),
        Op::v_add3_u32 => l.add(l.add(a, b), c),
        Op::v_xad_u32 => l.add(l.xor(a, b), c),
        Op::v_lshl_add_u32 => l.add(l.shl(a, b), c),
        Op::v_add_lshl_u32 => l.shl(l.add(a, b), c),
        Op::v_lshl_or_b32 => l.or(l.shl(a, b), c),
        Op::v_and_or_b32 => l.or(l.and(a, b), c),
        Op::v_or3_b32 => l.or(l.or(a, b), c),
        Op::v_lshl_add_u64 => l.add(l.shl(a, l.mask(b, 7)), c),
        Op::v_bfe_u32 => field_unsigned(l, a, b, c),
        Op::v_bfe_i32 => field_signed(l, a, b, c),
        Op::v_bfi_b32 => l.xor(c, l.and(a, l.xor(b, c))),
        Op::v_bfm_b32 => l.shl(l.sub(l.shl(l.word(1), a), l.word(1)), b),
        Op::v_alignbit_b32 => l.pure(Operation::FunnelShift, &[a, b, c], Kind::Word),
        Op::v_alignbyte_b32 => l.pure(Operation::FunnelShift, &[a, b, l.up(c, 3)], Kind::Word),
        Op::v_bcnt_u32_b32 => l.add(l.unary(Unary::Popcount, a), b),
        Op::v_mbcnt_lo_u32_b32 => below(l, l.low(l.input(Input::LanesBelow)), a, b),
        Op::v_mbcnt_hi_u32_b32 => below(l, l.high(l.input(Input::LanesBelow)), a, b),
        _ => return None,
    }))
}

/// Operations with a carry-out.
fn carrying(l: &Lane<'_, '_>) -> Option<Outcome> {
    let [a, b, c] = l.s;
    let carry = || l.carry.map(|carry| l.select(carry, l.word(1), l.word(0)));
    let (value, mask, limit) = match l.op {
        Op::v_add_co_u32 => {
            let sum = l.add(a, b);
            (sum, l.less(sum, a), !0)
        }
        Op::v_addc_co_u32 => {
            let part = l.add(a, b);
            let sum = l.add(part, carry()?);
            (sum, l.or(l.less(part, a), l.less(sum, part)), !0)
        }
        Op::v_sub_co_u32 => (l.sub(a, b), l.less(a, b), 0),
        Op::v_subrev_co_u32 => (l.sub(b, a), l.less(b, a), 0),
        Op::v_subb_co_u32 | Op::v_subbrev_co_u32 => {
            let (a, b) = if l.op == Op::v_subb_co_u32 { (a, b) } else { (b, a) };
            let (part, borrow) = (l.sub(a, b), carry()?);
            (l.sub(part, borrow), l.or(l.less(a, b), l.less(part, borrow)), 0)
        }
        Op::v_mad_u64_u32 => {
            let sum = l.add(l.wide(a, b, false), c);
            (sum, l.less(sum, c), u64::MAX)
        }
        Op::v_mad_i64_i32 => {
            let product = l.wide(a, b, true);
            let sum = l.add(product, c);
            let over = l.negative(l.and(l.xor(product, sum), l.xor(c, sum)));
            let limit = l.xor(l.sign(product), l.double(i64::MAX as u64));
            let value = if l.saturates { l.select(over, limit, sum) } else { sum };
            return Some(Outcome::both(value, l.xor(over, l.negative(sum))));
        }
        _ => return None,
    };
    let value = if l.saturates { l.select(mask, l.like(value, limit), value) } else { value };
    Some(Outcome::both(value, mask))
}

/// Number of zeros before the first set bit; all ones if there is none.
fn first_bit(l: &Lane<'_, '_>, count: Unary, a: Value) -> Value {
    l.select(l.equal(a, 0), l.word(!0), l.unary(count, a))
}

/// Sum that saturates if the operation does.
pub fn add_unsigned(l: &Lane<'_, '_>, a: Value, b: Value) -> Value {
    let sum = l.add(a, b);
    if l.saturates { l.select(l.less(sum, a), l.word(!0), sum) } else { sum }
}

fn sub_unsigned(l: &Lane<'_, '_>, a: Value, b: Value) -> Value {
    let difference = l.sub(a, b);
    if l.saturates { l.select(l.less(a, b), l.word(0), difference) } else { difference }
}

/// Sum that saturates if the operation does.
pub fn add_signed(l: &Lane<'_, '_>, a: Value, b: Value) -> Value {
    let sum = l.add(a, b);
    if !l.saturates {
        return sum;
    }
    let over = l.negative(l.and(l.xor(a, sum), l.xor(b, sum)));
    l.select(over, l.xor(l.sign(a), l.word(i32::MAX as u32)), sum)
}

fn sub_signed(l: &Lane<'_, '_>, a: Value, b: Value) -> Value {
    let difference = l.sub(a, b);
    if !l.saturates {
        return difference;
    }
    let over = l.negative(l.and(l.xor(a, b), l.xor(a, difference)));
    l.select(over, l.xor(l.sign(a), l.word(i32::MAX as u32)), difference)
}

/// A double as an unsigned word, clamped.
pub fn saturated_unsigned(l: &Lane<'_, '_>, double: Value) -> Value {
    l.select(l.equal(l.high(double), 0), l.low(double), l.word(!0))
}

/// A signed double as a signed word, clamped.
pub fn saturated_signed(l: &Lane<'_, '_>, double: Value) -> Value {
    let (low, high) = (l.low(double), l.high(double));
    let fits = l.compare(crate::form::Compare::Equal, high, l.sign(low));
    l.select(fits, low, l.xor(l.sign(high), l.word(i32::MAX as u32)))
}

/// The number in the middle.
pub fn median(l: &Lane<'_, '_>, a: Value, b: Value, c: Value, signed: bool) -> Value {
    let upper = l.minimum(l.maximum(a, b, signed), c, signed);
    l.maximum(l.minimum(a, b, signed), upper, signed)
}

/// `count` bits from bit `first`; both are taken modulo 32.
fn field_unsigned(l: &Lane<'_, '_>, a: Value, first: Value, count: Value) -> Value {
    match (l.constant(first), l.constant(count)) {
        (Some(first), Some(count)) => {
            let first = first as u8 & 31;
            match (count as u8 & 31).min(32 - first) {
                0 => l.word(0),
                count => l.extract(a, first, count),
            }
        }
        _ => l.and(l.shr(a, first), l.sub(l.shl(l.word(1), count), l.word(1))),
    }
}

fn field_signed(l: &Lane<'_, '_>, a: Value, first: Value, count: Value) -> Value {
    match (l.constant(first), l.constant(count)) {
        (Some(first), Some(count)) => {
            let first = first as u8 & 31;
            match (count as u8 & 31).min(32 - first) {
                0 => l.word(0),
                count => l.extract_signed(a, first, count),
            }
        }
        _ => {
            // Shifts are modulo 32: this one is 32 minus the count.
            let unused = l.sub(l.word(0), count);
            let field = l.sar(l.shl(l.sar(a, first), unused), unused);
            l.select(l.equal(l.mask(count, 31), 0), l.word(0), field)
        }
    }
}

/// Set bits of `a` that belong to lanes below this one, plus `b`.
fn below(l: &Lane<'_, '_>, lanes: Value, a: Value, b: Value) -> Value {
    l.add(l.unary(Unary::Popcount, l.and(a, lanes)), b)
}
