//! SOP1: scalar operations with one source, `saveexec` operations, and indirect jumps.

use isa::{Inst, Op};

use crate::compile::{Compiler, Unsupported};
use crate::exec::format::fork;
use crate::exec::format::scalar::{self, B32, B64, I64, scalar_ops};
use crate::wave::sreg;
use crate::{Body, Flow, Handler, Level, Uop, Wave, handler};

#[inline(always)]
fn nonzero<T: Default + PartialEq>(wave: &mut Wave, value: T) -> T {
    wave.scc = value != T::default();
    value
}

/// Sets EXEC to `next` and SCC to EXEC != 0; returns the old EXEC.
#[inline(always)]
fn save_exec(wave: &mut Wave, next: u64) -> u64 {
    let old = wave.exec();
    wave.set_sgpr64(sreg::EXEC, next);
    wave.scc = next != 0;
    old
}

/// Like [`save_exec`], but returns the new EXEC.
#[inline(always)]
fn write_exec(wave: &mut Wave, next: u64) -> u64 {
    save_exec(wave, next);
    next
}

#[inline(always)]
fn whole_quad(value: u64) -> u64 {
    let any = (value | value >> 1 | value >> 2 | value >> 3) & 0x1111_1111_1111_1111;
    any * 15
}

#[inline(always)]
fn quad_mask(value: u64) -> u64 {
    let mut any = (value | value >> 1 | value >> 2 | value >> 3) & 0x1111_1111_1111_1111;
    let mut out = 0;
    for bit in 0..16 {
        out |= (any & 1) << bit;
        any >>= 4;
    }
    out
}

/// Position, counted from the top, of the first bit that differs from the sign bit; -1 if all bits are equal.
#[inline(always)]
fn sign_run(value: u64, bits: u32) -> u32 {
    let sign = value >> (bits - 1) & 1;
    let flipped = if sign != 0 { !value } else { value } & (!0 >> (64 - bits));
    if flipped == 0 { !0 } else { flipped.leading_zeros() - (64 - bits) }
}

#[inline(always)]
fn or_none(found: bool, position: u32) -> u32 {
    if found { position } else { !0 }
}

scalar_ops! {
    s_mov_b32 B32 = B32; |w, a| a
    s_mov_b64 B64 = B64; |w, a| a
    s_not_b32 B32 = B32; |w, a| nonzero(w, !a)
    s_not_b64 B64 = B64; |w, a| nonzero(w, !a)
    s_wqm_b32 B32 = B32; |w, a| nonzero(w, whole_quad(u64::from(a)) as u32)
    s_wqm_b64 B64 = B64; |w, a| nonzero(w, whole_quad(a))
    s_brev_b32 B32 = B32; |w, a| a.reverse_bits()
    s_brev_b64 B64 = B64; |w, a| a.reverse_bits()
    s_bcnt0_i32_b32 B32 = B32; |w, a| nonzero(w, a.count_zeros())
    s_bcnt0_i32_b64 B32 = B64; |w, a| nonzero(w, a.count_zeros())
    s_bcnt1_i32_b32 B32 = B32; |w, a| nonzero(w, a.count_ones())
    s_bcnt1_i32_b64 B32 = B64; |w, a| nonzero(w, a.count_ones())
    s_ff0_i32_b32 B32 = B32; |w, a| or_none(a != !0, a.trailing_ones())
    s_ff0_i32_b64 B32 = B64; |w, a| or_none(a != !0, a.trailing_ones())
    s_ff1_i32_b32 B32 = B32; |w, a| or_none(a != 0, a.trailing_zeros())
    s_ff1_i32_b64 B32 = B64; |w, a| or_none(a != 0, a.trailing_zeros())
    s_flbit_i32_b32 B32 = B32; |w, a| or_none(a != 0, a.leading_zeros())
    s_flbit_i32_b64 B32 = B64; |w, a| or_none(a != 0, a.leading_zeros())
    s_flbit_i32 B32 = B32; |w, a| sign_run(u64::from(a), 32)
    s_flbit_i32_i64 B32 = I64; |w, a| sign_run(a, 64)
    s_sext_i32_i8 B32 = B32; |w, a| a as i8 as u32
    s_sext_i32_i16 B32 = B32; |w, a| a as i16 as u32
    s_abs_i32 B32 = B32; |w, a| nonzero(w, (a as i32).wrapping_abs() as u32)
    s_quadmask_b32 B32 = B32; |w, a| nonzero(w, quad_mask(u64::from(a)) as u32)
    s_quadmask_b64 B64 = B64; |w, a| nonzero(w, quad_mask(a))
    s_and_saveexec_b64 B64 = B64; |w, a| { let e = w.exec(); save_exec(w, a & e) }
    s_or_saveexec_b64 B64 = B64; |w, a| { let e = w.exec(); save_exec(w, a | e) }
    s_xor_saveexec_b64 B64 = B64; |w, a| { let e = w.exec(); save_exec(w, a ^ e) }
    s_andn2_saveexec_b64 B64 = B64; |w, a| { let e = w.exec(); save_exec(w, a & !e) }
    s_orn2_saveexec_b64 B64 = B64; |w, a| { let e = w.exec(); save_exec(w, a | !e) }
    s_nand_saveexec_b64 B64 = B64; |w, a| { let e = w.exec(); save_exec(w, !(a & e)) }
    s_nor_saveexec_b64 B64 = B64; |w, a| { let e = w.exec(); save_exec(w, !(a | e)) }
    s_xnor_saveexec_b64 B64 = B64; |w, a| { let e = w.exec(); save_exec(w, !(a ^ e)) }
    s_andn1_saveexec_b64 B64 = B64; |w, a| { let e = w.exec(); save_exec(w, !a & e) }
    s_orn1_saveexec_b64 B64 = B64; |w, a| { let e = w.exec(); save_exec(w, !a | e) }
    s_andn1_wrexec_b64 B64 = B64; |w, a| { let e = w.exec(); write_exec(w, !a & e) }
    s_andn2_wrexec_b64 B64 = B64; |w, a| { let e = w.exec(); write_exec(w, a & !e) }
    s_bitreplicate_b64_b32 B64 = B32; |w, a| {
        let mut out = 0u64;
        for bit in 0..32 {
            out |= (u64::from(a >> bit & 1) * 3) << (2 * bit);
        }
        out
    }
}

/// Operations that read or conditionally keep their destination, and jumps.
macro_rules! destination_ops {
    ($($name:ident |$wave:ident, $uop:ident| $body:block)*) => {
        $(
            #[expect(non_camel_case_types, reason = "handlers are named after AMD's mnemonics")]
            struct $name;
            impl Body for $name {
                #[inline(always)]
                fn run($wave: &mut Wave, $uop: &Uop) -> Flow $body
            }
        )*
    };
}

#[inline(always)]
fn read32(wave: &Wave, uop: &Uop) -> u32 {
    uop.src[0].dword(wave, 0)
}

#[inline(always)]
fn read64(wave: &Wave, uop: &Uop) -> u64 {
    <B64 as scalar::Operand>::read(wave, &uop.src[0])
}

/// Index of scalar register `base + M0`, or of the highest one if that is out of range.
#[inline(always)]
fn relative(wave: &Wave, base: u16, width: usize) -> usize {
    (usize::from(base) + wave.sgprs[sreg::M0] as usize).min(sreg::TTMP - width)
}

destination_ops! {
    s_cmov_b32 |wave, uop| {
        if wave.scc {
            wave.sgprs[usize::from(uop.dst)] = read32(wave, uop);
        }
        Flow::Next
    }
    s_cmov_b64 |wave, uop| {
        if wave.scc {
            let value = read64(wave, uop);
            wave.set_sgpr64(usize::from(uop.dst), value);
        }
        Flow::Next
    }
    s_bitset0_b32 |wave, uop| {
        let bit = read32(wave, uop) & 31;
        wave.sgprs[usize::from(uop.dst)] &= !(1 << bit);
        Flow::Next
    }
    s_bitset1_b32 |wave, uop| {
        let bit = read32(wave, uop) & 31;
        wave.sgprs[usize::from(uop.dst)] |= 1 << bit;
        Flow::Next
    }
    s_bitset0_b64 |wave, uop| {
        let bit = read32(wave, uop) & 63;
        let value = wave.sgpr64(usize::from(uop.dst)) & !(1 << bit);
        wave.set_sgpr64(usize::from(uop.dst), value);
        Flow::Next
    }
    s_bitset1_b64 |wave, uop| {
        let bit = read32(wave, uop) & 63;
        let value = wave.sgpr64(usize::from(uop.dst)) | 1 << bit;
        wave.set_sgpr64(usize::from(uop.dst), value);
        Flow::Next
    }
    s_movrels_b32 |wave, uop| {
        wave.sgprs[usize::from(uop.dst)] = wave.sgprs[relative(wave, uop.src[0].index, 1)];
        Flow::Next
    }
    s_movrels_b64 |wave, uop| {
        let value = wave.sgpr64(relative(wave, uop.src[0].index, 2));
        wave.set_sgpr64(usize::from(uop.dst), value);
        Flow::Next
    }
    s_movreld_b32 |wave, uop| {
        let value = read32(wave, uop);
        let to = relative(wave, uop.dst, 1);
        wave.sgprs[to] = value;
        Flow::Next
    }
    s_movreld_b64 |wave, uop| {
        let value = read64(wave, uop);
        wave.set_sgpr64(relative(wave, uop.dst, 2), value);
        Flow::Next
    }
    // The address of the next instruction, known at compile time.
    s_getpc_b64 |wave, uop| {
        wave.set_sgpr64(usize::from(uop.dst), uop.imm as u64);
        Flow::Next
    }
    s_setpc_b64 |wave, uop| {
        wave.far = read64(wave, uop);
        Flow::Far
    }
    s_swappc_b64 |wave, uop| {
        wave.far = read64(wave, uop);
        wave.set_sgpr64(usize::from(uop.dst), uop.imm as u64);
        Flow::Far
    }
    s_set_gpr_idx_idx |wave, uop| {
        let index = read32(wave, uop) & 0xff;
        wave.sgprs[sreg::M0] = wave.sgprs[sreg::M0] & !0xff | index;
        Flow::Next
    }
}

pub fn compile(compiler: &mut Compiler, inst: &Inst, inst_index: u32) -> Result<Uop, Unsupported> {
    if let Some(selected) = select(inst.op) {
        return scalar::compile(compiler, inst, inst_index, selected);
    }
    let (run, dst_width, src_width): (Handler, u16, u16) = match inst.op {
        Op::s_cmov_b32 => (handler::<s_cmov_b32>(Level::Base), 1, 1),
        Op::s_cmov_b64 => (handler::<s_cmov_b64>(Level::Base), 2, 2),
        Op::s_bitset0_b32 => (handler::<s_bitset0_b32>(Level::Base), 1, 1),
        Op::s_bitset1_b32 => (handler::<s_bitset1_b32>(Level::Base), 1, 1),
        Op::s_bitset0_b64 => (handler::<s_bitset0_b64>(Level::Base), 2, 1),
        Op::s_bitset1_b64 => (handler::<s_bitset1_b64>(Level::Base), 2, 1),
        Op::s_movrels_b32 => (handler::<s_movrels_b32>(Level::Base), 1, 1),
        Op::s_movrels_b64 => (handler::<s_movrels_b64>(Level::Base), 2, 2),
        Op::s_movreld_b32 => (handler::<s_movreld_b32>(Level::Base), 1, 1),
        Op::s_movreld_b64 => (handler::<s_movreld_b64>(Level::Base), 2, 2),
        Op::s_getpc_b64 => (handler::<s_getpc_b64>(Level::Base), 2, 0),
        Op::s_setpc_b64 => (handler::<s_setpc_b64>(Level::Base), 0, 2),
        Op::s_swappc_b64 => (handler::<s_swappc_b64>(Level::Base), 2, 2),
        Op::s_cbranch_join => (handler::<fork::Join>(Level::Base), 0, 1),
        Op::s_set_gpr_idx_idx => (handler::<s_set_gpr_idx_idx>(Level::Base), 0, 1),
        _ => return Err(Unsupported::Instruction(inst.op.name())),
    };
    let mut uop = compiler.uop(run, inst_index);
    if dst_width > 0 {
        uop.dst = compiler.scalar(inst, &inst.dst, dst_width)?;
    }
    if src_width > 0 {
        let ty = if src_width == 2 { crate::compile::Type::B64 } else { crate::compile::Type::B32 };
        uop.src[0] = compiler.source(inst, &inst.src[0], src_width, ty)?;
    }
    uop.imm = (compiler.base + u64::from(compiler.offset) + u64::from(inst.size)) as i64;
    Ok(uop)
}
