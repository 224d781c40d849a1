//! Operations on bytes and nibbles: permutation, sums of absolute differences, integer dot products.

use isa::Op;

use super::integer::{add_signed, add_unsigned, saturated_signed, saturated_unsigned};
use super::lane::Lane;
use crate::Value;
use crate::form::{Kind, Operation};

/// The result of an operation on bytes.
pub fn lift(l: &Lane<'_, '_>) -> Option<Value> {
    let [a, b, c] = l.s;
    Some(match l.op {
        Op::v_perm_b32 => permute(l, a, b, c),
        Op::v_lerp_u8 => {
            let differs = l.xor(a, b);
            let halves = l.mask(l.down(differs, 1), 0x7f7f_7f7f);
            let up = l.mask(l.and(differs, c), 0x0101_0101);
            l.add(l.add(l.and(a, b), halves), up)
        }
        Op::v_sad_u8 => add_unsigned(l, differences(l, a, b, 8, false), c),
        Op::v_sad_hi_u8 => add_unsigned(l, l.up(differences(l, a, b, 8, false), 16), c),
        Op::v_sad_u16 => add_unsigned(l, differences(l, a, b, 16, false), c),
        Op::v_sad_u32 => add_unsigned(l, difference(l, a, b), c),
        Op::v_msad_u8 => add_unsigned(l, differences(l, a, b, 8, true), c),
        Op::v_qsad_pk_u16_u8 => sliding(l, a, b, c, false),
        Op::v_mqsad_pk_u16_u8 => sliding(l, a, b, c, true),

        Op::v_dot2_i32_i16 | Op::v_dot2c_i32_i16 => {
            let halves = |value: Value| [l.signed(value), l.extract_signed(value, 16, 16)];
            let ([a0, a1], [b0, b1]) = (halves(a), halves(b));
            if l.saturates {
                let products = l.add(l.wide(a0, b0, true), l.wide(a1, b1, true));
                saturated_signed(l, l.add(products, l.sign_extended(c)))
            } else {
                l.add(l.mul(a1, b1), l.add(l.mul(a0, b0), c))
            }
        }
        Op::v_dot2_u32_u16 => {
            let halves = |value: Value| [l.unsigned(value), l.extract(value, 16, 16)];
            let ([a0, a1], [b0, b1]) = (halves(a), halves(b));
            if l.saturates {
                let products = l.add(l.wide(a0, b0, false), l.wide(a1, b1, false));
                saturated_unsigned(l, l.add(products, l.zero_extended(c)))
            } else {
                l.add(l.mul(a1, b1), l.add(l.mul(a0, b0), c))
            }
        }
        Op::v_dot4_i32_i8 | Op::v_dot4c_i32_i8 if l.saturates => {
            add_signed(l, dot4(l, true, a, b, l.word(0)), c)
        }
        Op::v_dot4_i32_i8 | Op::v_dot4c_i32_i8 => dot4(l, true, a, b, c),
        Op::v_dot4_u32_u8 if l.saturates => add_unsigned(l, dot4(l, false, a, b, l.word(0)), c),
        Op::v_dot4_u32_u8 => dot4(l, false, a, b, c),
        Op::v_dot8_i32_i4 | Op::v_dot8c_i32_i4 => {
            // A nibble in the upper half of a byte is 16 times its value, so that the sum of products is 256 times too large.
            let even = |value: Value| l.mask(l.up(value, 4), 0xf0f0_f0f0);
            let odd = |value: Value| l.mask(value, 0xf0f0_f0f0);
            let sum = dot4(l, true, odd(a), odd(b), dot4(l, true, even(a), even(b), l.word(0)));
            add_signed(l, l.sar(sum, l.word(8)), c)
        }
        Op::v_dot8_u32_u4 => {
            let even = |value: Value| l.mask(value, 0x0f0f_0f0f);
            let odd = |value: Value| l.mask(l.down(value, 4), 0x0f0f_0f0f);
            let sum = dot4(l, false, odd(a), odd(b), dot4(l, false, even(a), even(b), l.word(0)));
            add_unsigned(l, sum, c)
        }
        _ => return None,
    })
}

fn dot4(l: &Lane<'_, '_>, signed: bool, a: Value, b: Value, c: Value) -> Value {
    l.pure(Operation::Dot4 { signed_a: signed, signed_b: signed }, &[a, b, c], Kind::Word)
}

fn difference(l: &Lane<'_, '_>, a: Value, b: Value) -> Value {
    l.sub(l.maximum(a, b, false), l.minimum(a, b, false))
}

/// Sum of the absolute differences of the parts of two words. With `masked`, parts whose reference in `b` is zero are skipped.
fn differences(l: &Lane<'_, '_>, a: Value, b: Value, bits: u8, masked: bool) -> Value {
    let part = |n: u8| {
        let (x, y) = (l.extract(a, n * bits, bits), l.extract(b, n * bits, bits));
        let distance = difference(l, x, y);
        if masked { l.select(l.equal(y, 0), l.word(0), distance) } else { distance }
    };
    (1..32 / bits).fold(part(0), |sum, n| l.add(sum, part(n)))
}

/// Four sums over a window that slides over `a` byte by byte, each added to 16 bits of `c`.
fn sliding(l: &Lane<'_, '_>, a: Value, b: Value, c: Value, masked: bool) -> Value {
    let (low, high) = (l.low(a), l.high(a));
    let sum = |n: u8| {
        let window = l.pure(Operation::FunnelShift, &[high, low, l.word(8 * u32::from(n))], Kind::Word);
        let addends = if n < 2 { l.low(c) } else { l.high(c) };
        let sum = l.add(differences(l, window, b, 8, masked), l.extract(addends, 16 * (n & 1), 16));
        if l.saturates { l.minimum(sum, l.word(0xffff), false) } else { sum }
    };
    l.pack(l.pair(sum(0), sum(1)), l.pair(sum(2), sum(3)))
}

/// `v_perm_b32`: each byte of the selector chooses a byte of `high:low`, a sign, or a constant.
fn permute(l: &Lane<'_, '_>, high: Value, low: Value, selector: Value) -> Value {
    match l.constant(selector) {
        Some(selector) => permute_by(l, high, low, (selector as u32).to_le_bytes()),
        None => {
            let all = l.pack(low, high);
            let byte = |n: u8| l.up(permuted_byte(l, all, l.extract(selector, 8 * n, 8)), 8 * u32::from(n));
            l.or(l.or(byte(0), byte(1)), l.or(byte(2), byte(3)))
        }
    }
}

/// The signs that selectors 8 to 11 repeat: those of the four halves.
fn sign_of_half(l: &Lane<'_, '_>, high: Value, low: Value, n: u8) -> Value {
    l.extract_signed(if n < 2 { low } else { high }, 16 * (n & 1) + 15, 1)
}

fn permute_by(l: &Lane<'_, '_>, high: Value, low: Value, selector: [u8; 4]) -> Value {
    let mut result = l.pure(Operation::Bytes(selector.map(|byte| byte & 7)), &[low, high], Kind::Word);
    if selector.iter().all(|byte| *byte < 8) {
        return result;
    }
    let keep = selector.map(|byte| if byte < 8 { 0xff } else { 0 });
    let ones = selector.map(|byte| if byte > 12 { 0xff } else { 0 });
    result = l.or(l.mask(result, u32::from_le_bytes(keep)), l.word(u32::from_le_bytes(ones)));
    for n in 0..4 {
        let here = selector.map(|byte| if byte == 8 + n { 0xff } else { 0 });
        if here != [0; 4] {
            result = l.or(result, l.mask(sign_of_half(l, high, low, n), u32::from_le_bytes(here)));
        }
    }
    result
}

/// The byte of `all` that a selector in a register chooses.
fn permuted_byte(l: &Lane<'_, '_>, all: Value, selector: Value) -> Value {
    // Shifts of doubles are modulo 64.
    let byte = l.mask(l.low(l.shr(all, l.up(selector, 3))), 0xff);
    let top = l.add(l.up(l.mask(selector, 3), 4), l.word(15));
    let sign = l.mask(l.sub(l.word(0), l.mask(l.low(l.shr(all, top)), 1)), 0xff);
    let constant = l.select(l.equal(selector, 12), l.word(0), l.word(0xff));
    let special = l.select(l.less(selector, l.word(12)), sign, constant);
    l.select(l.less(selector, l.word(8)), byte, special)
}
