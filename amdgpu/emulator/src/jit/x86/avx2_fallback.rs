//! Operations that are one instruction on AVX-512, emulated with several instructions on AVX2.

use iced_x86::{Code, Instruction, Register};

use super::assembler::Arg;
use super::emit::Emit;
use super::mask::{Comparison, Order};
use super::target::*;

/// Selects minimum or maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extreme {
    Min,
    Max,
}

/// Float width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Single,
    Double,
}

/// Minimum or maximum of two floats: -0 is less than +0, a number is preferred over a quiet NaN, a signalling NaN over both.
pub fn extreme(e: &mut Emit<'_>, size: Size, extreme: Extreme, a: u8, b: Arg) -> u8 {
    if e.target == Target::Avx512 {
        let code = match size {
            Size::Single => Code::EVEX_Vrangeps_zmm_k1z_zmm_zmmm512b32_imm8_sae,
            Size::Double => Code::EVEX_Vrangepd_zmm_k1z_zmm_zmmm512b64_imm8_sae,
        };
        let select = match extreme {
            Extreme::Min => 0b0100,
            Extreme::Max => 0b0101,
        };
        let new = e.fresh();
        e.asm.op3_imm(code, new, a, b, select);
        return new;
    }
    let [new] = e.scope(|e| {
        let b = e.in_register(b);
        let (x, y) = (unless_quiet(e, size, a, b), unless_quiet(e, size, b, a));
        let code = match (size, extreme) {
            (Size::Single, Extreme::Min) => Code::VEX_Vminps_ymm_ymm_ymmm256,
            (Size::Single, Extreme::Max) => Code::VEX_Vmaxps_ymm_ymm_ymmm256,
            (Size::Double, Extreme::Min) => Code::VEX_Vminpd_ymm_ymm_ymmm256,
            (Size::Double, Extreme::Max) => Code::VEX_Vmaxpd_ymm_ymm_ymmm256,
        };
        // For two zeros the instruction returns the second operand, so both operand orders are combined. Any NaN left makes the
        // result a NaN.
        let [number] = e.scope(|e| {
            let (one, other) = (e.vex(code, x, Arg::Register(y)), e.vex(code, y, Arg::Register(x)));
            let zeros = if extreme == Extreme::Min { OR } else { AND };
            [e.op(zeros, one, Arg::Register(other))]
        });
        let unordered = e.fresh();
        let code = match size {
            Size::Single => Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8,
            Size::Double => Code::VEX_Vcmppd_ymm_ymm_ymmm256_imm8,
        };
        e.asm.op3_imm(code, unordered, x, Arg::Register(y), 3);
        [e.op(OR, number, Arg::Register(unordered))]
    });
    new
}

/// `a`, but `b` in lanes where `a` is a quiet NaN.
fn unless_quiet(e: &mut Emit<'_>, size: Size, a: u8, b: u8) -> u8 {
    let [new] = e.scope(|e| {
        let (abs, below, greater) = match size {
            Size::Single => {
                (e.asm.constant(0x7fff_ffff), e.asm.constant(0x7fbf_ffff), Code::VEX_Vpcmpgtd_ymm_ymm_ymmm256)
            }
            Size::Double => (
                e.asm.constant_64(!(1 << 63)),
                e.asm.constant_64(0x7ff7_ffff_ffff_ffff),
                Code::VEX_Vpcmpgtq_ymm_ymm_ymmm256,
            ),
        };
        let bits = e.op(AND, a, Arg::Memory(abs));
        let quiet = e.vex(greater, bits, Arg::Memory(below));
        [e.select(super::mask::Mask(quiet), a, Arg::Register(b))]
    });
    new
}

/// Number of leading zero bits of each dword; all ones for zero.
pub fn leading_zeros(e: &mut Emit<'_>, a: u8) -> u8 {
    let [new] = e.scope(|e| {
        let zero = e.constant(0);
        if e.target == Target::Avx512 {
            let count = e.fresh();
            e.push2(Code::EVEX_Vplzcntd_zmm_k1z_zmmm512b32, e.target.whole(count), e.target.whole(a));
            let empty = e.compare(Comparison::Unsigned(Order::Equal), a, zero);
            let none = e.constant(!0);
            return [e.select(empty, count, none)];
        }
        // Converts to float and takes the exponent. The bit below the leading one is cleared first, so that rounding cannot carry
        // into the next power of two.
        let half = e.unary_imm(SHR_32, Arg::Register(a), 1);
        let below = e.vex(Code::VEX_Vpandn_ymm_ymm_ymmm256, half, Arg::Register(a));
        let float = e.unary(F32_FROM_I32, Arg::Register(below));
        let exponent = e.unary_imm(SHR_32, Arg::Register(float), 23);
        let bias = e.constant(127 + 31);
        let bias = e.in_register(bias);
        // With the top bit set the integer is negative, and the difference is less than zero.
        let count = e.op(SUB_I32, bias, Arg::Register(exponent));
        let count = e.op(MAX_I32, count, zero);
        let empty = e.vex(Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256, a, zero);
        [e.op(OR, count, Arg::Register(empty))]
    });
    new
}

/// Bits of `b` where `mask` has ones, else of `c`.
pub fn select_bits(e: &mut Emit<'_>, mask: u8, b: u8, c: Arg) -> u8 {
    if e.target == Target::Avx512 {
        let new = e.copy(mask);
        e.asm.op3_imm(Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8, new, b, c, 0xca);
        return new;
    }
    let [new] = e.scope(|e| {
        let from_b = e.op(AND, mask, Arg::Register(b));
        let from_c = e.vex(Code::VEX_Vpandn_ymm_ymm_ymmm256, mask, c);
        [e.op(OR, from_b, Arg::Register(from_c))]
    });
    new
}

/// `a * 2^b`, rounded once.
pub fn scale_f32(e: &mut Emit<'_>, a: u8, b: Arg) -> u8 {
    if e.target == Target::Avx512 {
        let exponent = e.unary(F32_FROM_I32, b);
        let new = e.fresh();
        let zmm = |n| e.target.whole(n);
        let code = Code::EVEX_Vscalefps_zmm_k1z_zmm_zmmm512b32_er;
        let scale = Instruction::with3(code, zmm(new), zmm(a), zmm(exponent));
        e.asm.push(scale);
        return new;
    }
    let [new] = e.scope(|e| {
        // Computed in f64, where all values are normal. Exponents beyond +-400 give the same result.
        let (least, most) = (e.constant(-400_i32 as u32), e.constant(400));
        let b = e.in_register(b);
        let clipped = e.op(MAX_I32, b, least);
        let clipped = e.op(MIN_I32, clipped, most);
        let bias = e.constant(1023);
        let exponent = e.op(ADD_I32, clipped, bias);
        let [low, high] = [0, 1].map(|half| {
            e.scope(|e| {
                let (value, exponent) = (half_of(e, a, half), half_of(e, exponent, half));
                let value = e.widened(F64_FROM_F32, value);
                let exponent = e.widened(U64_FROM_U32, exponent);
                let power = e.unary_imm(SHL_64, Arg::Register(exponent), 52);
                let product = e.op(MUL_F64, value, Arg::Register(power));
                let new = e.fresh();
                e.push2(F32_FROM_F64.on(e.target), e.target.half(new), e.target.whole(product));
                [new]
            })[0]
        });
        let new = e.fresh();
        let (ymm, xmm) = (|n| e.target.whole(n), e.target.half(high));
        let join = Instruction::with4(Code::VEX_Vinsertf128_ymm_ymm_xmmm128_imm8, ymm(new), ymm(low), xmm, 1);
        e.asm.push(join);
        [new]
    });
    new
}

/// Returns a register whose low half is the low or high half of `a`.
fn half_of(e: &mut Emit<'_>, a: u8, half: usize) -> u8 {
    if half == 0 {
        return a;
    }
    let new = e.fresh();
    let (to, from) = (e.target.half(new), e.target.whole(a));
    e.asm.push(Instruction::with3(Code::VEX_Vextractf128_xmmm128_ymm_imm8, to, from, 1));
    new
}

/// Converts u32 to f32.
pub fn f32_from_u32(e: &mut Emit<'_>, a: Arg) -> u8 {
    if e.target == Target::Avx512 {
        let new = e.fresh();
        let to = e.target.whole(new);
        e.asm.push(match a {
            Arg::Register(a) => {
                Instruction::with2(Code::EVEX_Vcvtudq2ps_zmm_k1z_zmmm512b32_er, to, Target::Avx512.whole(a))
            }
            Arg::Memory(a) => Instruction::with2(Code::EVEX_Vcvtudq2ps_zmm_k1z_zmmm512b32_er, to, a),
        });
        return new;
    }
    let [new] = e.scope(|e| {
        // The 16-bit halves become mantissas of 2^23 and 2^39; only the final addition rounds.
        let a = e.in_register(a);
        let (low_bits, low_one) = (e.constant(0xffff), e.constant(0x4b00_0000));
        let low = e.op(AND, a, low_bits);
        let low = e.op(OR, low, low_one);
        let high = e.unary_imm(SHR_32, Arg::Register(a), 16);
        let (high_one, both) = (e.constant(0x5300_0000), e.constant(0x5300_0080));
        let high = e.op(OR, high, high_one);
        let high = e.op(SUB_F32, high, both);
        [e.op(ADD_F32, high, Arg::Register(low))]
    });
    new
}

/// Converts f32 to u32: truncates, saturates, maps NaN to zero.
pub fn u32_from_f32(e: &mut Emit<'_>, a: u8) -> u8 {
    let [new] = e.scope(|e| {
        let zero = e.constant(0);
        if e.target == Target::Avx512 {
            let positive = e.compare(Comparison::Float(0x1e), a, zero);
            let cut = e.fresh();
            e.push2(Code::EVEX_Vcvttps2udq_zmm_k1z_zmmm512b32_sae, e.target.whole(cut), e.target.whole(a));
            return [e.only(positive, cut)];
        }
        let positive = e.vex(Code::VEX_Vmaxps_ymm_ymm_ymmm256, a, zero);
        let half = e.constant(2_147_483_648_f32.to_bits());
        let high = e.compare(Comparison::Float(0x1d), positive, half);
        let half = e.in_register(half);
        let over = e.only(high, half);
        let low = e.op(SUB_F32, positive, Arg::Register(over));
        let cut = e.unary(I32_FROM_F32, Arg::Register(low));
        let top = e.unary_imm(SHL_32, Arg::Register(high.0), 31);
        let value = e.op(XOR, cut, Arg::Register(top));
        let limit = e.constant(4_294_967_296_f32.to_bits());
        let large = e.compare(Comparison::Float(0x1d), positive, limit);
        [e.op(OR, value, Arg::Register(large.0))]
    });
    new
}

/// Packs the low 16 bits of each dword into the low half of a register.
pub fn low_words(e: &mut Emit<'_>, a: u8) -> u8 {
    let [new] = e.scope(|e| {
        if e.target == Target::Avx512 {
            let new = e.fresh();
            e.push2(Code::EVEX_Vpmovdw_ymmm256_k1z_zmm, e.target.half(new), e.target.whole(a));
            return [new];
        }
        let low = e.constant(0xffff);
        let low = e.op(AND, a, low);
        let packed = e.vex(Code::VEX_Vpackusdw_ymm_ymm_ymmm256, low, Arg::Register(low));
        [quarters_together(e, packed)]
    });
    new
}

/// Packs the low dword of each qword into the low half of a register.
pub fn dwords_of_qwords(e: &mut Emit<'_>, a: u8) -> u8 {
    let [new] = e.scope(|e| {
        if e.target == Target::Avx512 {
            let new = e.fresh();
            e.push2(Code::EVEX_Vpmovqd_ymmm256_k1z_zmm, e.target.half(new), e.target.whole(a));
            return [new];
        }
        let packed = e.fresh();
        let (to, from) = (e.target.whole(packed), e.target.whole(a));
        e.asm.push(Instruction::with3(Code::VEX_Vpshufd_ymm_ymmm256_imm8, to, from, 0x08));
        [quarters_together(e, packed)]
    });
    new
}

/// Packs the low 64 bits of both 128-bit halves into the low half.
fn quarters_together(e: &mut Emit<'_>, a: u8) -> u8 {
    let new = e.fresh();
    let (to, from): (Register, Register) = (e.target.whole(new), e.target.whole(a));
    e.asm.push(Instruction::with3(Code::VEX_Vpermq_ymm_ymmm256_imm8, to, from, 0x08));
    new
}

/// Converts the low dword of each qword, unsigned, to f64.
pub fn f64_from_u32(e: &mut Emit<'_>, doubled: u8) -> u8 {
    let [new] = e.scope(|e| {
        if e.target == Target::Avx512 {
            let narrow = dwords_of_qwords(e, doubled);
            let new = e.fresh();
            let code = Code::EVEX_Vcvtudq2pd_zmm_k1z_ymmm256b32_er;
            e.push2(code, e.target.whole(new), e.target.half(narrow));
            return [new];
        }
        // Insert the integer as the mantissa of 2^52, then subtract 2^52.
        let one = 0x4330_0000_0000_0000;
        let (low, one) = (e.asm.constant_64(0xffff_ffff), e.asm.constant_64(one));
        let low = e.op(AND_64, doubled, Arg::Memory(low));
        let float = e.op(OR_64, low, Arg::Memory(one));
        [e.vex(Code::VEX_Vsubpd_ymm_ymm_ymmm256, float, Arg::Memory(one))]
    });
    new
}

/// Arithmetic right shift of qwords by a constant number of bits, not zero.
pub fn shift_signed_64(e: &mut Emit<'_>, a: Arg, count: u32) -> u8 {
    if e.target == Target::Avx512 {
        let new = e.fresh();
        let to = e.target.whole(new);
        const CODE: Code = Code::EVEX_Vpsraq_zmm_k1z_zmmm512b64_imm8;
        e.asm.push(match a {
            Arg::Register(a) => Instruction::with3(CODE, to, Target::Avx512.whole(a), count),
            Arg::Memory(a) => Instruction::with3(CODE, to, a, count),
        });
        return new;
    }
    let [new] = e.scope(|e| {
        let shifted = e.unary_imm(SHR_64, a, count);
        let sign = e.asm.constant_64(1 << (63 - count));
        let flipped = e.op(XOR_64, shifted, Arg::Memory(sign));
        [e.vex(Code::VEX_Vpsubq_ymm_ymm_ymmm256, flipped, Arg::Memory(sign))]
    });
    new
}

/// Arithmetic right shift of qwords by the qwords of `count`, below 64.
pub fn shift_signed_each_64(e: &mut Emit<'_>, a: u8, count: u8) -> u8 {
    if e.target == Target::Avx512 {
        let new = e.fresh();
        let zmm = |n| e.target.whole(n);
        let code = Code::EVEX_Vpsravq_zmm_k1z_zmm_zmmm512b64;
        let shift = Instruction::with3(code, zmm(new), zmm(a), zmm(count));
        e.asm.push(shift);
        return new;
    }
    let [new] = e.scope(|e| {
        let shifted = e.op(SHR_EACH_64, a, Arg::Register(count));
        let sign = Arg::Memory(e.asm.constant_64(1 << 63));
        let sign = e.in_register(sign);
        let sign = e.op(SHR_EACH_64, sign, Arg::Register(count));
        let flipped = e.op(XOR_64, shifted, Arg::Register(sign));
        [e.vex(Code::VEX_Vpsubq_ymm_ymm_ymmm256, flipped, Arg::Register(sign))]
    });
    new
}
