//! SOP2: two sources.

use isa::{Inst, Op};

use super::Both;
use crate::Builder;
use crate::form::{Binary, Compare, Value};
use crate::translator::{Translated, Translator, unsupported};

/// A bitwise operation: the second source and the result may be inverted.
struct Bitwise {
    op: Binary,
    invert_second: bool,
    invert_result: bool,
}

impl Bitwise {
    fn of(op: Op) -> Option<Bitwise> {
        let (op, invert_second, invert_result) = match op {
            Op::s_and_b32 | Op::s_and_b64 => (Binary::And, false, false),
            Op::s_or_b32 | Op::s_or_b64 => (Binary::Or, false, false),
            Op::s_xor_b32 | Op::s_xor_b64 => (Binary::Xor, false, false),
            Op::s_andn2_b32 | Op::s_andn2_b64 => (Binary::And, true, false),
            Op::s_orn2_b32 | Op::s_orn2_b64 => (Binary::Or, true, false),
            Op::s_nand_b32 | Op::s_nand_b64 => (Binary::And, false, true),
            Op::s_nor_b32 | Op::s_nor_b64 => (Binary::Or, false, true),
            Op::s_xnor_b32 | Op::s_xnor_b64 => (Binary::Xor, false, true),
            _ => return None,
        };
        Some(Bitwise { op, invert_second, invert_result })
    }

    fn apply(&self, b: &mut Builder<'_>, x: Value, y: Value) -> Value {
        let y = if self.invert_second { b.not(y) } else { y };
        let value = b.binary(self.op, x, y);
        if self.invert_result { b.not(value) } else { value }
    }
}

/// Translates an instruction.
pub fn two_sources(t: &mut Translator, inst: &Inst) -> Translated<()> {
    if let Some(bitwise) = Bitwise::of(inst.op) {
        return combine(t, inst, &bitwise);
    }
    if inst.op == Op::s_cselect_b64 {
        let (x, y, scc) = (t.both(inst, 0)?, t.both(inst, 1)?, t.scc());
        let value =
            Both { number: t.b().select(scc, x.number, y.number), mask: t.b().select(scc, x.mask, y.mask) };
        return t.set_both(&inst.dst, value);
    }
    if matches!(inst.op, Op::s_cbranch_g_fork | Op::s_rfe_restore_b64) {
        return unsupported(inst);
    }
    let x = t.source(&inst.src[0], inst.src_type(0))?;
    let y = t.source(&inst.src[1], inst.src_type(1))?;
    let scc = t.scc();
    let mut b = t.b();
    let (value, condition) = operation(&mut b, inst, x, y, scc)?;
    t.set_number(&inst.dst, value)?;
    match condition {
        Condition::Keeps => {}
        Condition::NotZero => t.set_scc_nonzero(value),
        Condition::Is(bit) => t.set_scc(bit),
    }
    Ok(())
}

/// What becomes of SCC.
enum Condition {
    Keeps,
    NotZero,
    Is(Value),
}

fn operation(
    b: &mut Builder<'_>,
    inst: &Inst,
    x: Value,
    y: Value,
    scc: Value,
) -> Translated<(Value, Condition)> {
    let simple = |b: &mut Builder<'_>, op: Binary| b.binary(op, x, y);
    Ok(match inst.op {
        Op::s_add_u32 | Op::s_addc_u32 => {
            let carry = if inst.op == Op::s_add_u32 { None } else { Some(scc) };
            let (sum, carry) = add(b, x, y, carry);
            (sum, Condition::Is(carry))
        }
        Op::s_sub_u32 | Op::s_subb_u32 => {
            let borrow = if inst.op == Op::s_sub_u32 { None } else { Some(scc) };
            let (difference, borrow) = subtract(b, x, y, borrow);
            (difference, Condition::Is(borrow))
        }
        Op::s_add_i32 => {
            let sum = simple(b, Binary::Add);
            // Overflow: both operands differ from the sum in sign.
            let (p, q) = (b.binary(Binary::Xor, x, sum), b.binary(Binary::Xor, y, sum));
            let overflow = negative(b, p, q);
            (sum, Condition::Is(overflow))
        }
        Op::s_sub_i32 => {
            let difference = simple(b, Binary::Subtract);
            let (p, q) = (b.binary(Binary::Xor, x, y), b.binary(Binary::Xor, x, difference));
            let overflow = negative(b, p, q);
            (difference, Condition::Is(overflow))
        }
        Op::s_min_i32 | Op::s_max_i32 | Op::s_min_u32 | Op::s_max_u32 => {
            let (op, compare, swapped) = match inst.op {
                Op::s_min_i32 => (Binary::MinimumSigned, Compare::LessSigned, false),
                Op::s_max_i32 => (Binary::MaximumSigned, Compare::LessSigned, true),
                Op::s_min_u32 => (Binary::MinimumUnsigned, Compare::LessUnsigned, false),
                _ => (Binary::MaximumUnsigned, Compare::LessUnsigned, true),
            };
            let first = if swapped { b.compare(compare, y, x) } else { b.compare(compare, x, y) };
            (simple(b, op), Condition::Is(first))
        }
        Op::s_cselect_b32 => (b.select(scc, x, y), Condition::Keeps),
        Op::s_lshl_b32 | Op::s_lshl_b64 => (simple(b, Binary::ShiftLeft), Condition::NotZero),
        Op::s_lshr_b32 | Op::s_lshr_b64 => (simple(b, Binary::ShiftRight), Condition::NotZero),
        Op::s_ashr_i32 | Op::s_ashr_i64 => (simple(b, Binary::ShiftRightSigned), Condition::NotZero),
        Op::s_bfm_b32 | Op::s_bfm_b64 => {
            let kind = if inst.op == Op::s_bfm_b32 { crate::Kind::Word } else { crate::Kind::Double };
            let one = b.constant(kind, 1);
            let bit = b.binary(Binary::ShiftLeft, one, x);
            let ones = b.binary(Binary::Subtract, bit, one);
            (b.binary(Binary::ShiftLeft, ones, y), Condition::Keeps)
        }
        Op::s_mul_i32 => (simple(b, Binary::Multiply), Condition::Keeps),
        Op::s_mul_hi_u32 => (simple(b, Binary::MultiplyHighUnsigned), Condition::Keeps),
        Op::s_mul_hi_i32 => (simple(b, Binary::MultiplyHighSigned), Condition::Keeps),
        Op::s_bfe_u32 | Op::s_bfe_i32 | Op::s_bfe_u64 | Op::s_bfe_i64 => {
            (field(b, inst.op, x, y), Condition::NotZero)
        }
        Op::s_absdiff_i32 => {
            let difference = simple(b, Binary::Subtract);
            let zero = b.word(0);
            let opposite = b.binary(Binary::Subtract, zero, difference);
            (b.binary(Binary::MaximumSigned, difference, opposite), Condition::NotZero)
        }
        Op::s_lshl1_add_u32 | Op::s_lshl2_add_u32 | Op::s_lshl3_add_u32 | Op::s_lshl4_add_u32 => {
            let amount = match inst.op {
                Op::s_lshl1_add_u32 => 1,
                Op::s_lshl2_add_u32 => 2,
                Op::s_lshl3_add_u32 => 3,
                _ => 4,
            };
            let count = b.word(amount);
            let shifted = b.binary(Binary::ShiftLeft, x, count);
            let (sum, carry) = add(b, shifted, y, None);
            // Bits that the shift lost also count.
            let rest = b.word(32 - amount);
            let lost = b.binary(Binary::ShiftRight, x, rest);
            let lost = b.nonzero(lost);
            let carry = b.or(carry, lost);
            (sum, Condition::Is(carry))
        }
        Op::s_pack_ll_b32_b16 => (halves(b, x, false, y, false), Condition::Keeps),
        Op::s_pack_lh_b32_b16 => (halves(b, x, false, y, true), Condition::Keeps),
        Op::s_pack_hh_b32_b16 => (halves(b, x, true, y, true), Condition::Keeps),
        _ => return unsupported(inst),
    })
}

/// Sum and carry of words.
pub fn add(b: &mut Builder<'_>, x: Value, y: Value, carry: Option<Value>) -> (Value, Value) {
    let sum = b.binary(Binary::Add, x, y);
    let over = b.compare(Compare::LessUnsigned, sum, x);
    let Some(carry) = carry else { return (sum, over) };
    let one = b.word_of(carry);
    let total = b.binary(Binary::Add, sum, one);
    let again = b.compare(Compare::LessUnsigned, total, sum);
    (total, b.or(over, again))
}

/// Difference and borrow of words.
pub fn subtract(b: &mut Builder<'_>, x: Value, y: Value, borrow: Option<Value>) -> (Value, Value) {
    let difference = b.binary(Binary::Subtract, x, y);
    let under = b.compare(Compare::LessUnsigned, x, y);
    let Some(borrow) = borrow else { return (difference, under) };
    let one = b.word_of(borrow);
    let total = b.binary(Binary::Subtract, difference, one);
    let again = b.compare(Compare::LessUnsigned, difference, one);
    (total, b.or(under, again))
}

/// Whether both words have their sign bits set.
pub fn negative(b: &mut Builder<'_>, p: Value, q: Value) -> Value {
    let both = b.and(p, q);
    let zero = b.word(0);
    b.compare(Compare::LessSigned, both, zero)
}

/// `s_bfe`: the offset is in the low bits of `y`, the width in bits 16..=22.
fn field(b: &mut Builder<'_>, op: Op, x: Value, y: Value) -> Value {
    let signed = matches!(op, Op::s_bfe_i32 | Op::s_bfe_i64);
    let size = if matches!(op, Op::s_bfe_u64 | Op::s_bfe_i64) { 64 } else { 32 };
    let offset_bits = b.word(size - 1);
    let offset = b.and(y, offset_bits);
    let width = b.extract(y, 16, 7, false);
    if let (32, Some(offset), Some(width)) = (size, b.function.constant(offset), b.function.constant(width)) {
        if width == 0 {
            return b.word(0);
        }
        // A field that reaches beyond the word ends at its last bit, with the word's sign.
        let width = width.min(32 - offset);
        return b.extract(x, offset as u8, width as u8, signed);
    }
    let kind = b.function.kind(x);
    let (right, zero) =
        (if signed { Binary::ShiftRightSigned } else { Binary::ShiftRight }, b.constant(kind, 0));
    let whole = b.word(size);
    let limited = b.binary(Binary::MinimumUnsigned, width, whole);
    let unused = b.binary(Binary::Subtract, whole, limited);
    let shifted = b.binary(right, x, offset);
    // The amount of a shift is taken modulo the size: a width of 0 is treated apart.
    let up = b.binary(Binary::ShiftLeft, shifted, unused);
    let down = b.binary(right, up, unused);
    let some = b.nonzero(width);
    b.select(some, down, zero)
}

fn halves(b: &mut Builder<'_>, x: Value, high_x: bool, y: Value, high_y: bool) -> Value {
    let low = b.extract(x, if high_x { 16 } else { 0 }, 16, false);
    let high = if high_y {
        let kept = b.word(0xffff_0000);
        b.and(y, kept)
    } else {
        let amount = b.word(16);
        b.binary(Binary::ShiftLeft, y, amount)
    };
    b.or(low, high)
}

fn combine(t: &mut Translator, inst: &Inst, bitwise: &Bitwise) -> Translated<()> {
    if inst.dst_width() == 1 {
        let x = t.source(&inst.src[0], inst.src_type(0))?;
        let y = t.source(&inst.src[1], inst.src_type(1))?;
        let value = bitwise.apply(&mut t.b(), x, y);
        t.set_number(&inst.dst, value)?;
        t.set_scc_nonzero(value);
        return Ok(());
    }
    let (x, y) = (t.both(inst, 0)?, t.both(inst, 1)?);
    let value = Both {
        number: bitwise.apply(&mut t.b(), x.number, y.number),
        mask: bitwise.apply(&mut t.b(), x.mask, y.mask),
    };
    t.set_both(&inst.dst, value)?;
    t.set_scc_both(inst, value);
    Ok(())
}
