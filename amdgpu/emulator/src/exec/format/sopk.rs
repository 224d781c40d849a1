//! SOPK: scalar operations with a 16-bit constant, hardware register access, and the relative call.

use isa::{Inst, Op};

use crate::compile::{Compiler, PRIVATE_APERTURE, SHARED_APERTURE, Type, Unsupported};
use crate::exec::format::fork;
use crate::{Body, Flow, Handler, Level, Mode, Uop, Wave, handler};

/// Hardware register numbers used by `s_getreg_b32`.
mod hwreg {
    pub const MODE: u32 = 1;
    pub const STATUS: u32 = 2;
    pub const HW_ID: u32 = 4;
    pub const LDS_ALLOC: u32 = 6;
    pub const SH_MEM_BASES: u32 = 15;
    pub const XCC_ID: u32 = 20;
}

macro_rules! constant_ops {
    ($($name:ident |$wave:ident, $d:ident, $k:ident| $body:expr)*) => {
        $(
            #[expect(non_camel_case_types, reason = "handlers are named after AMD's mnemonics")]
            struct $name;
            impl Body for $name {
                #[inline(always)]
                fn run($wave: &mut Wave, uop: &Uop) -> Flow {
                    let $d = usize::from(uop.dst);
                    let $k = uop.imm as i32;
                    $body;
                    Flow::Next
                }
            }
        )*

        fn select(op: Op) -> Option<Handler> {
            Some(match op {
                $(Op::$name => handler::<$name>(Level::Base),)*
                _ => return None,
            })
        }
    };
}

constant_ops! {
    s_movk_i32 |w, d, k| w.sgprs[d] = k as u32
    s_cmovk_i32 |w, d, k| if w.scc { w.sgprs[d] = k as u32 }
    s_addk_i32 |w, d, k| {
        let (sum, overflow) = (w.sgprs[d] as i32).overflowing_add(k);
        w.scc = overflow;
        w.sgprs[d] = sum as u32;
    }
    s_mulk_i32 |w, d, k| w.sgprs[d] = (w.sgprs[d] as i32).wrapping_mul(k) as u32
    s_cmpk_eq_i32 |w, d, k| w.scc = w.sgprs[d] as i32 == k
    s_cmpk_lg_i32 |w, d, k| w.scc = w.sgprs[d] as i32 != k
    s_cmpk_gt_i32 |w, d, k| w.scc = w.sgprs[d] as i32 > k
    s_cmpk_ge_i32 |w, d, k| w.scc = w.sgprs[d] as i32 >= k
    s_cmpk_lt_i32 |w, d, k| w.scc = (w.sgprs[d] as i32) < k
    s_cmpk_le_i32 |w, d, k| w.scc = w.sgprs[d] as i32 <= k
    s_cmpk_eq_u32 |w, d, k| w.scc = w.sgprs[d] == u32::from(k as u16)
    s_cmpk_lg_u32 |w, d, k| w.scc = w.sgprs[d] != u32::from(k as u16)
    s_cmpk_gt_u32 |w, d, k| w.scc = w.sgprs[d] > u32::from(k as u16)
    s_cmpk_ge_u32 |w, d, k| w.scc = w.sgprs[d] >= u32::from(k as u16)
    s_cmpk_lt_u32 |w, d, k| w.scc = w.sgprs[d] < u32::from(k as u16)
    s_cmpk_le_u32 |w, d, k| w.scc = w.sgprs[d] <= u32::from(k as u16)
}

/// Decodes a `hwreg(...)` constant: register, first bit, and mask (at bit 0).
fn fields(k: i64) -> (u32, u32, u32) {
    let k = k as u32;
    let size = (k >> 11 & 31) + 1;
    (k & 0x3f, k >> 6 & 31, (u64::from(u32::MAX) >> (32 - size)) as u32)
}

fn read_register(wave: &Wave, register: u32) -> u32 {
    match register {
        hwreg::MODE => {
            wave.mode.to_bits()
                | u32::from(wave.gpr_index_mode != 0) << 27
                | u32::from(wave.vskip) << 28
                | u32::from(wave.fork_depth) << 29
        }
        hwreg::STATUS => {
            u32::from(wave.scc)
                | u32::from(wave.exec() == 0) << 9
                | u32::from(wave.vcc() == 0) << 10
                | 1 << 16
        }
        // Wave slot and SIMD are derived from the wave's index, compute unit and shader engine from the workgroup's.
        hwreg::HW_ID => {
            let linear = wave.context().map_or(0, |context| context.linear_workgroup() as u32);
            (wave.index >> 2 & 15) | (wave.index & 3) << 4 | (linear & 15) << 8 | (linear >> 4 & 7) << 13
        }
        hwreg::LDS_ALLOC => wave.lds_size.div_ceil(512) << 12,
        hwreg::SH_MEM_BASES => PRIVATE_APERTURE >> 16 | SHARED_APERTURE & 0xffff_0000,
        hwreg::XCC_ID => 0,
        _ => 0,
    }
}

fn write_register(wave: &mut Wave, k: i64, value: u32) {
    let (register, offset, mask) = fields(k);
    // Only MODE affects the emulator; writes to other registers (traps, debug) are ignored.
    if register == hwreg::MODE {
        let bits = wave.mode.to_bits() & !(mask << offset) | (value & mask) << offset;
        wave.mode = Mode::from_bits(bits);
    }
}

struct GetRegister;
impl Body for GetRegister {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let (register, offset, mask) = fields(uop.imm);
        wave.sgprs[usize::from(uop.dst)] = read_register(wave, register) >> offset & mask;
        Flow::Next
    }
}

struct SetRegister;
impl Body for SetRegister {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let value = uop.src[0].dword(wave, 0);
        write_register(wave, uop.imm, value);
        Flow::Next
    }
}

struct Call;
impl Body for Call {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        // SAFETY: `insts` is the program's instruction table and `uop.inst` an index into it.
        let inst = unsafe { &*wave.insts.add(uop.inst as usize) };
        let after = uop.imm as u64;
        wave.set_sgpr64(usize::from(uop.dst), after);
        wave.far = after.wrapping_add_signed(i64::from(inst.imm as i16) * 4);
        Flow::Far
    }
}

pub fn compile(compiler: &mut Compiler, inst: &Inst, inst_index: u32) -> Result<Uop, Unsupported> {
    if let Some(run) = select(inst.op) {
        let mut uop = compiler.uop(run, inst_index);
        uop.dst = compiler.scalar(inst, &inst.dst, 1)?;
        uop.imm = i64::from(inst.imm as i16);
        return Ok(uop);
    }
    let mut uop = compiler.uop(handler::<GetRegister>(Level::Base), inst_index);
    uop.imm = i64::from(inst.imm as u16);
    match inst.op {
        Op::s_getreg_b32 => uop.dst = compiler.scalar(inst, &inst.dst, 1)?,
        Op::s_setreg_b32 | Op::s_setreg_imm32_b32 => {
            uop.run = handler::<SetRegister>(Level::Base);
            // The register form encodes its source in the destination field, the literal form in the first source.
            let from = if inst.src[0] == isa::Operand::None { inst.dst } else { inst.src[0] };
            uop.src[0] = compiler.source(inst, &from, 1, Type::B32)?;
        }
        Op::s_cbranch_i_fork => {
            uop.run = handler::<fork::Fork>(Level::Base);
            uop.src[0] = compiler.source(inst, &inst.dst, 2, Type::B64)?;
            uop.imm = (compiler.base + u64::from(compiler.offset) + u64::from(inst.size)) as i64;
            let target = (uop.imm as u64).wrapping_add_signed(i64::from(inst.imm as i16) * 4);
            uop.src[1] = compiler.constant_pair(inst, target)?;
        }
        Op::s_call_b64 => {
            uop.run = handler::<Call>(Level::Base);
            uop.dst = compiler.scalar(inst, &inst.dst, 2)?;
            uop.imm = (compiler.base + u64::from(compiler.offset) + u64::from(inst.size)) as i64;
        }
        _ => return Err(Unsupported::Instruction(inst.op.name())),
    }
    Ok(uop)
}
