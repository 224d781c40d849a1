//! SOPC: scalar compares, and `s_set_gpr_idx_on`, which enables relative register indexing.

use isa::{Inst, Op, Operand};

use crate::compile::{Compiler, Type, Unsupported};
use crate::exec::format::scalar::{self, B32, B64, No, scalar_ops};
use crate::wave::sreg;
use crate::{Body, Flow, Level, Uop, Wave, handler};

scalar_ops! {
    s_cmp_eq_i32 No = B32 B32; |w, a, b| w.scc = a == b
    s_cmp_lg_i32 No = B32 B32; |w, a, b| w.scc = a != b
    s_cmp_gt_i32 No = B32 B32; |w, a, b| w.scc = (a as i32) > (b as i32)
    s_cmp_ge_i32 No = B32 B32; |w, a, b| w.scc = (a as i32) >= (b as i32)
    s_cmp_lt_i32 No = B32 B32; |w, a, b| w.scc = (a as i32) < (b as i32)
    s_cmp_le_i32 No = B32 B32; |w, a, b| w.scc = (a as i32) <= (b as i32)
    s_cmp_eq_u32 No = B32 B32; |w, a, b| w.scc = a == b
    s_cmp_lg_u32 No = B32 B32; |w, a, b| w.scc = a != b
    s_cmp_gt_u32 No = B32 B32; |w, a, b| w.scc = a > b
    s_cmp_ge_u32 No = B32 B32; |w, a, b| w.scc = a >= b
    s_cmp_lt_u32 No = B32 B32; |w, a, b| w.scc = a < b
    s_cmp_le_u32 No = B32 B32; |w, a, b| w.scc = a <= b
    s_cmp_eq_u64 No = B64 B64; |w, a, b| w.scc = a == b
    s_cmp_lg_u64 No = B64 B64; |w, a, b| w.scc = a != b
    s_bitcmp0_b32 No = B32 B32; |w, a, b| w.scc = a >> (b & 31) & 1 == 0
    s_bitcmp1_b32 No = B32 B32; |w, a, b| w.scc = a >> (b & 31) & 1 == 1
    s_bitcmp0_b64 No = B64 B32; |w, a, b| w.scc = a >> (b & 63) & 1 == 0
    s_bitcmp1_b64 No = B64 B32; |w, a, b| w.scc = a >> (b & 63) & 1 == 1
    s_setvskip No = B32 B32; |w, a, b| w.vskip = a >> (b & 31) & 1 == 1
}

#[expect(non_camel_case_types, reason = "handlers are named after AMD's mnemonics")]
struct s_set_gpr_idx_on;

impl Body for s_set_gpr_idx_on {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let index = uop.src[0].dword(wave, 0) & 0xff;
        wave.gpr_index_mode = 1;
        wave.sgprs[sreg::M0] = wave.sgprs[sreg::M0] & 0xffff_0f00 | index | (uop.imm as u32 & 15) << 12;
        Flow::Next
    }
}

pub fn compile(compiler: &mut Compiler, inst: &Inst, inst_index: u32) -> Result<Uop, Unsupported> {
    if let Some(selected) = select(inst.op) {
        return scalar::compile(compiler, inst, inst_index, selected);
    }
    if inst.op != Op::s_set_gpr_idx_on {
        return Err(Unsupported::Instruction(inst.op.name()));
    }
    let mut uop = compiler.uop(handler::<s_set_gpr_idx_on>(Level::Base), inst_index);
    uop.src[0] = compiler.source(inst, &inst.src[0], 1, Type::B32)?;
    // The second source field is the raw enable mask, regardless of the register or constant that its encoding denotes.
    uop.imm = match inst.src[1] {
        Operand::Sgpr(mask) => i64::from(mask),
        Operand::Int(mask) => i64::from(mask),
        Operand::Literal(mask) => i64::from(mask),
        _ => i64::from(inst.imm),
    };
    Ok(uop)
}
