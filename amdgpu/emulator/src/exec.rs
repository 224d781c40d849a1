//! Execution of instructions.
//!
//! * `format/`: one file per encoding format. Each has
//!   `fn compile(&mut Compiler, &Inst, inst_index: u32) -> Result<Uop, Unsupported>`.
//! * `lane/`: what vector instructions share: lane loops, operands, modifiers, cross-lane moves.
//! * `access/`: what memory instructions share: addresses and their checks, elements, atomics, private memory.
//! * `math/`: arithmetic on single values. Imports nothing of the above.

pub(crate) mod access;
pub(crate) mod format;
pub(crate) mod lane;
pub(crate) mod math;

pub use format::sopp::is_dropped;
use format::{
    ds, flat, mubuf, smem, sop1, sop2, sopc, sopk, sopp, typed_buffer, vop1, vop2, vop3, vop3p, vopc,
};
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
        Format::Mubuf | Format::Mtbuf => typed_buffer::compile(compiler, inst, inst_index)
            .unwrap_or_else(|| mubuf::compile(compiler, inst, inst_index)),
        Format::Vop1 => vop1::compile(compiler, inst, inst_index),
        Format::Vop2 => vop2::compile(compiler, inst, inst_index),
        Format::Vopc => vopc::compile(compiler, inst, inst_index),
        Format::Vop3 => vop3::compile(compiler, inst, inst_index),
        Format::Vop3p => vop3p::compile(compiler, inst, inst_index),
        _ => Err(Unsupported::Instruction(inst.op.name())),
    }
}

#[cfg(test)]
mod tests {
    use isa::{Arch, Encoding, Operand};

    use super::*;
    use crate::Level;

    /// Instructions that are deliberately not supported, and why.
    const LEFT_OUT: [(&str, &str); 8] = [
        ("image_", "graphics: these parts have no texture units"),
        ("s_endpgm_ordered_ps_done", "graphics: ordered pixel shaders"),
        ("s_endpgm_saved", "trap handler: the end of a wave whose state was saved"),
        ("s_rfe_b64", "trap handler: the return from it"),
        ("s_rfe_restore_b64", "trap handler: the return from it"),
        ("s_setkill", "debugger: ends a wave on its next instruction"),
        ("ds_gws_init", "driver: sets up the semaphores that only ds_gws_barrier uses here"),
        ("ds_gws_sema_", "driver: semaphores of the global data share, which no compute queue is given"),
    ];

    /// An instruction with plain registers for all operands.
    fn plain(row: &Encoding) -> Inst {
        let vector = !matches!(
            row.format,
            Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk | Format::Sopp | Format::Smem
        );
        let register = |number| if vector { Operand::Vgpr(number) } else { Operand::Sgpr(number) };
        let mut src = [register(4), register(8), register(16), Operand::None];
        match row.format {
            Format::Flat | Format::Global | Format::Scratch => src[2] = Operand::None,
            Format::Mubuf | Format::Mtbuf => (src[2], src[3]) = (Operand::Sgpr(8), Operand::Int(0)),
            Format::Smem => src[1] = Operand::None,
            _ => {}
        }
        Inst {
            op: row.op,
            format: row.format,
            size: 4,
            dst: register(32),
            sdst: Operand::None,
            src,
            imm: 0,
            modifiers: Default::default(),
            memory: Default::default(),
            dpp: None,
            sdwa: None,
        }
    }

    #[test]
    fn every_scalar_and_memory_operation_is_executed_or_knowingly_left_out() {
        let mut missing = Vec::new();
        for arch in [Arch::Gfx90a, Arch::Gfx942] {
            for row in isa::ENCODINGS.iter().filter(|row| row.opcode(arch).is_some()) {
                let ours = !matches!(
                    row.format,
                    Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3 | Format::Vop3p
                );
                let name = row.op.name();
                if !ours
                    || sopp::is_dropped(row.op)
                    || LEFT_OUT.iter().any(|(left, _)| name.starts_with(left))
                {
                    continue;
                }
                let mut compiler = Compiler::new(arch, Level::detect(), 64, 64, 0);
                if let Err(error) = compile(&mut compiler, &plain(row), 0) {
                    missing.push(format!("{arch:?} {name}: {error}"));
                }
            }
        }
        assert!(missing.is_empty(), "{missing:#?}");
    }
}
