//! The instructions, one file per format. Each has `pub fn compile(&mut Compiler, &Inst, inst_index: u32) -> Result<Uop, Unsupported>`.

pub mod ds;
pub mod flat;
pub mod mubuf;
pub mod smem;
pub mod sop1;
pub mod sop2;
pub mod sopc;
pub mod sopk;
pub mod sopp;
pub mod vop1;
pub mod vop2;
pub mod vop3;
pub mod vop3p;
pub mod vopc;

mod access;
mod atomic;
mod byte_sum;
mod cross_lane;
mod cube;
mod division;
mod dpp;
mod float8;
mod float_math;
mod lane_body;
mod lane_mask;
mod lane_op;
mod lane_source;
mod mfma;
mod modifier;
mod row_vector;
mod saturate;
mod scalar;
mod sdwa;

use isa::{Format, Inst};

use crate::Uop;
use crate::compile::{Compiler, Unsupported};

/// Chooses the handler of an instruction and resolves its operands.
pub fn compile(compiler: &mut Compiler, inst: &Inst, inst_index: u32) -> Result<Uop, Unsupported> {
    match inst.format {
        Format::Sop1 => sop1::compile(compiler, inst, inst_index),
        Format::Sop2 => sop2::compile(compiler, inst, inst_index),
        Format::Sopc => sopc::compile(compiler, inst, inst_index),
        Format::Sopk => sopk::compile(compiler, inst, inst_index),
        Format::Sopp => sopp::compile(compiler, inst, inst_index),
        Format::Smem => smem::compile(compiler, inst, inst_index),
        Format::Ds => ds::compile(compiler, inst, inst_index),
        Format::Flat | Format::Global | Format::Scratch => flat::compile(compiler, inst, inst_index),
        Format::Mubuf => mubuf::compile(compiler, inst, inst_index),
        Format::Vop1 => vop1::compile(compiler, inst, inst_index),
        Format::Vop2 => vop2::compile(compiler, inst, inst_index),
        Format::Vopc => vopc::compile(compiler, inst, inst_index),
        Format::Vop3 => vop3::compile(compiler, inst, inst_index),
        Format::Vop3p => vop3p::compile(compiler, inst, inst_index),
        _ => Err(Unsupported::Instruction(inst.op.name())),
    }
}
