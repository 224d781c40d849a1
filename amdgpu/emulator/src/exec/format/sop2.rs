//! SOP2: scalar operations with two sources.

use isa::{Inst, Op};

use crate::compile::{Compiler, Type, Unsupported};
use crate::exec::format::fork;
use crate::exec::format::scalar::{self, B32, B64, I64, scalar_ops};
use crate::{Level, Uop, Wave, handler};

#[inline(always)]
fn nonzero<T: Default + PartialEq>(wave: &mut Wave, value: T) -> T {
    wave.scc = value != T::default();
    value
}

#[inline(always)]
fn pick<T>(wave: &mut Wave, first: bool, a: T, b: T) -> T {
    wave.scc = first;
    if first { a } else { b }
}

/// Sum with carry in; SCC is the carry out.
#[inline(always)]
fn add(wave: &mut Wave, a: u32, b: u32, carry: bool) -> u32 {
    let sum = u64::from(a) + u64::from(b) + u64::from(carry);
    wave.scc = sum >> 32 != 0;
    sum as u32
}

/// Difference with borrow in; SCC is the borrow out.
#[inline(always)]
fn sub(wave: &mut Wave, a: u32, b: u32, borrow: bool) -> u32 {
    let difference = u64::from(a).wrapping_sub(u64::from(b)).wrapping_sub(u64::from(borrow));
    wave.scc = difference >> 32 != 0;
    difference as u32
}

#[inline(always)]
fn field(b: u32, offset_mask: u32) -> (u32, u32) {
    (b & offset_mask, b >> 16 & 0x7f)
}

#[inline(always)]
fn extract_unsigned(value: u64, offset: u32, width: u32) -> u64 {
    if width == 0 { 0 } else { (value >> offset) & (!0 >> (64 - width.min(64))) }
}

#[inline(always)]
fn extract_signed(value: i64, offset: u32, width: u32) -> i64 {
    if width == 0 {
        return 0;
    }
    let unused = 64 - width.min(64);
    ((value >> offset) << unused) >> unused
}

#[inline(always)]
fn shift_add(wave: &mut Wave, a: u32, shift: u32, b: u32) -> u32 {
    let sum = (u64::from(a) << shift) + u64::from(b);
    wave.scc = sum >> 32 != 0;
    sum as u32
}

scalar_ops! {
    s_add_u32 B32 = B32 B32; |w, a, b| add(w, a, b, false)
    s_sub_u32 B32 = B32 B32; |w, a, b| sub(w, a, b, false)
    s_addc_u32 B32 = B32 B32; |w, a, b| { let c = w.scc; add(w, a, b, c) }
    s_subb_u32 B32 = B32 B32; |w, a, b| { let c = w.scc; sub(w, a, b, c) }
    s_add_i32 B32 = B32 B32; |w, a, b| {
        let (sum, overflow) = (a as i32).overflowing_add(b as i32);
        w.scc = overflow;
        sum as u32
    }
    s_sub_i32 B32 = B32 B32; |w, a, b| {
        let (difference, overflow) = (a as i32).overflowing_sub(b as i32);
        w.scc = overflow;
        difference as u32
    }
    s_min_i32 B32 = B32 B32; |w, a, b| pick(w, (a as i32) < (b as i32), a, b)
    s_min_u32 B32 = B32 B32; |w, a, b| pick(w, a < b, a, b)
    s_max_i32 B32 = B32 B32; |w, a, b| pick(w, (a as i32) > (b as i32), a, b)
    s_max_u32 B32 = B32 B32; |w, a, b| pick(w, a > b, a, b)
    s_cselect_b32 B32 = B32 B32; |w, a, b| if w.scc { a } else { b }
    s_cselect_b64 B64 = B64 B64; |w, a, b| if w.scc { a } else { b }
    s_and_b32 B32 = B32 B32; |w, a, b| nonzero(w, a & b)
    s_and_b64 B64 = B64 B64; |w, a, b| nonzero(w, a & b)
    s_or_b32 B32 = B32 B32; |w, a, b| nonzero(w, a | b)
    s_or_b64 B64 = B64 B64; |w, a, b| nonzero(w, a | b)
    s_xor_b32 B32 = B32 B32; |w, a, b| nonzero(w, a ^ b)
    s_xor_b64 B64 = B64 B64; |w, a, b| nonzero(w, a ^ b)
    s_andn2_b32 B32 = B32 B32; |w, a, b| nonzero(w, a & !b)
    s_andn2_b64 B64 = B64 B64; |w, a, b| nonzero(w, a & !b)
    s_orn2_b32 B32 = B32 B32; |w, a, b| nonzero(w, a | !b)
    s_orn2_b64 B64 = B64 B64; |w, a, b| nonzero(w, a | !b)
    s_nand_b32 B32 = B32 B32; |w, a, b| nonzero(w, !(a & b))
    s_nand_b64 B64 = B64 B64; |w, a, b| nonzero(w, !(a & b))
    s_nor_b32 B32 = B32 B32; |w, a, b| nonzero(w, !(a | b))
    s_nor_b64 B64 = B64 B64; |w, a, b| nonzero(w, !(a | b))
    s_xnor_b32 B32 = B32 B32; |w, a, b| nonzero(w, !(a ^ b))
    s_xnor_b64 B64 = B64 B64; |w, a, b| nonzero(w, !(a ^ b))
    s_lshl_b32 B32 = B32 B32; |w, a, b| nonzero(w, a << (b & 31))
    s_lshl_b64 B64 = B64 B32; |w, a, b| nonzero(w, a << (b & 63))
    s_lshr_b32 B32 = B32 B32; |w, a, b| nonzero(w, a >> (b & 31))
    s_lshr_b64 B64 = B64 B32; |w, a, b| nonzero(w, a >> (b & 63))
    s_ashr_i32 B32 = B32 B32; |w, a, b| nonzero(w, ((a as i32) >> (b & 31)) as u32)
    s_ashr_i64 B64 = I64 B32; |w, a, b| nonzero(w, ((a as i64) >> (b & 63)) as u64)
    s_bfm_b32 B32 = B32 B32; |w, a, b| ((1u32 << (a & 31)) - 1) << (b & 31)
    s_bfm_b64 B64 = B32 B32; |w, a, b| ((1u64 << (a & 63)) - 1) << (b & 63)
    s_mul_i32 B32 = B32 B32; |w, a, b| a.wrapping_mul(b)
    s_mul_hi_u32 B32 = B32 B32; |w, a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32
    s_mul_hi_i32 B32 = B32 B32; |w, a, b| ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32
    s_bfe_u32 B32 = B32 B32; |w, a, b| {
        let (offset, width) = field(b, 31);
        nonzero(w, extract_unsigned(u64::from(a), offset, width) as u32)
    }
    s_bfe_i32 B32 = B32 B32; |w, a, b| {
        let (offset, width) = field(b, 31);
        nonzero(w, extract_signed(i64::from(a as i32), offset, width.min(32)) as u32)
    }
    s_bfe_u64 B64 = B64 B32; |w, a, b| {
        let (offset, width) = field(b, 63);
        nonzero(w, extract_unsigned(a, offset, width))
    }
    s_bfe_i64 B64 = I64 B32; |w, a, b| {
        let (offset, width) = field(b, 63);
        nonzero(w, extract_signed(a as i64, offset, width) as u64)
    }
    s_absdiff_i32 B32 = B32 B32; |w, a, b| {
        let difference = (a as i32).wrapping_sub(b as i32);
        nonzero(w, difference.wrapping_abs() as u32)
    }
    s_lshl1_add_u32 B32 = B32 B32; |w, a, b| shift_add(w, a, 1, b)
    s_lshl2_add_u32 B32 = B32 B32; |w, a, b| shift_add(w, a, 2, b)
    s_lshl3_add_u32 B32 = B32 B32; |w, a, b| shift_add(w, a, 3, b)
    s_lshl4_add_u32 B32 = B32 B32; |w, a, b| shift_add(w, a, 4, b)
    s_pack_ll_b32_b16 B32 = B32 B32; |w, a, b| a & 0xffff | b << 16
    s_pack_lh_b32_b16 B32 = B32 B32; |w, a, b| a & 0xffff | b & 0xffff_0000
    s_pack_hh_b32_b16 B32 = B32 B32; |w, a, b| a >> 16 | b & 0xffff_0000
}

pub fn compile(compiler: &mut Compiler, inst: &Inst, inst_index: u32) -> Result<Uop, Unsupported> {
    if inst.op == Op::s_cbranch_g_fork {
        let mut uop = compiler.uop(handler::<fork::Fork>(Level::Base), inst_index);
        uop.src[0] = compiler.source(inst, &inst.src[0], 2, Type::B64)?;
        uop.src[1] = compiler.source(inst, &inst.src[1], 2, Type::B64)?;
        uop.imm = (compiler.base + u64::from(compiler.offset) + u64::from(inst.size)) as i64;
        return Ok(uop);
    }
    let selected = select(inst.op).ok_or(Unsupported::Instruction(inst.op.name()))?;
    scalar::compile(compiler, inst, inst_index, selected)
}
