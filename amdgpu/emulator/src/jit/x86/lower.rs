//! Lowers one run of micro-ops to machine code: the loop over slices of the wave.

use iced_x86::{Code, Instruction, Register};
use isa::Inst;

use super::assembler::{Arg, Assembler, Error, Line, k};
use super::emit::{ACTIVE, ACTIVE_LANES, Emit, MASKS, SCALARS, VECTORS};
use super::liveness::Liveness;
use super::local_read::Read;
use super::mask::{self, Masks};
use super::register::Registers;
use super::run::{Item, Run};
use super::target::{BROADCAST_32, Target};
use super::{read_code, template_table};
use crate::{Lanes, Uop};

const EXEC: Register = Register::R9;
const EXEC_32: Register = Register::R9D;
const EXEC_8: Register = Register::R9L;
const SLICES_LEFT: Register = Register::EDX;

/// Signature of a compiled run: `vgprs, sgprs, exec, lds, lds_size`.
pub type Entry = unsafe extern "sysv64" fn(*mut Lanes, *mut u32, u64, *const u8, u64);

/// Compiles a run to machine code and the constants it references. `uops` are the micro-ops of the run.
pub fn compile(
    target: Target,
    run: &Run,
    uops: &[Uop],
    insts: &[Inst],
    constants: &[Lanes],
) -> Result<(Vec<u8>, Box<[Line]>), Error> {
    let mut emit = Emit {
        target,
        asm: Assembler::new(target),
        all_active: false,
        branching: false,
        registers: Registers::new(target.registers()),
        masks: Masks::default(),
        constants,
        liveness: Liveness::of(run, uops, insts, constants),
        item: 0,
        uop: &uops[0],
        inst: &insts[uops[0].inst as usize],
    };
    let lanes = target.lanes() as i32;
    let (top, done) = (emit.asm.label(), emit.asm.label());
    emit.push2(Code::Mov_r64_rm64, EXEC, Register::RDX);
    emit.push2(Code::Mov_r64_rm64, MASKS, SCALARS);
    emit.asm.push(Instruction::with2(Code::Mov_r32_imm32, SLICES_LEFT, 64 / lanes));
    emit.asm.place(top);
    match target {
        Target::Avx512 => {
            emit.push2(Code::VEX_Kmovw_kr_r32, k(ACTIVE), EXEC_32);
            if !run.writes_masks {
                emit.push2(Code::VEX_Kortestw_kr_kr, k(ACTIVE), k(ACTIVE));
                emit.asm.jump(Code::Je_rel32_64, done);
            }
            emit.slice(run, uops, insts);
        }
        Target::Avx2 => {
            let partial = emit.asm.label();
            emit.asm.push(Instruction::with2(Code::Cmp_rm8_imm8, EXEC_8, 0xff));
            emit.asm.jump(Code::Jne_rel32_64, partial);
            emit.all_active = true;
            emit.slice(run, uops, insts);
            emit.asm.jump(Code::Jmp_rel32_64, done);

            emit.asm.place(partial);
            emit.all_active = false;
            emit.registers = Registers::new(usize::from(ACTIVE_LANES));
            if !run.writes_masks {
                emit.push2(Code::Test_rm8_r8, EXEC_8, EXEC_8);
                emit.asm.jump(Code::Je_rel32_64, done);
            }
            emit.push2(Code::VEX_Vmovd_xmm_rm32, Register::XMM0 + u32::from(ACTIVE_LANES), EXEC_32);
            emit.asm.spread(BROADCAST_32, ACTIVE_LANES, Arg::Register(ACTIVE_LANES));
            mask::lanes_of_bits(&mut emit.asm, ACTIVE_LANES);
            emit.slice(run, uops, insts);
        }
    }
    emit.asm.place(done);
    emit.asm.push(Instruction::with2(Code::Shr_rm64_imm8, EXEC, lanes));
    emit.asm.push(Instruction::with2(Code::Add_rm64_imm8, VECTORS, 4 * lanes));
    emit.asm.push(Instruction::with2(Code::Add_rm64_imm8, MASKS, lanes / 8));
    emit.asm.push(Instruction::with2(Code::Sub_rm32_imm8, SLICES_LEFT, 1));
    emit.asm.jump(Code::Jne_rel32_64, top);
    emit.asm.push(Ok(Instruction::with(Code::VEX_Vzeroupper)));
    emit.asm.push(Ok(Instruction::with(Code::Retnq)));
    emit.asm.finish()
}

impl<'a> Emit<'a> {
    /// Emits one slice of the run, from loads to stores.
    fn slice(&mut self, run: &Run, uops: &'a [Uop], insts: &'a [Inst]) {
        for (number, item) in run.items.iter().enumerate() {
            self.item = number;
            match item {
                Item::Lanes(at) => {
                    self.uop = &uops[*at - run.start];
                    self.inst = &insts[self.uop.inst as usize];
                    if let Some(template) = template_table::of(self.inst.op) {
                        template(self);
                    }
                }
                Item::Reads(group) => {
                    let reads = group.iter().filter_map(|at| {
                        let uop = &uops[*at - run.start];
                        Read::of(&insts[uop.inst as usize], uop)
                    });
                    read_code::emit(self, &reads.collect::<Vec<_>>());
                }
            }
            self.masks.release();
            let liveness = &self.liveness;
            self.registers.release(|name| liveness.next(name, number + 1));
        }
        if self.registers.any_lost() {
            self.asm.fail(Error::Lost);
        }
        for (vector, register, last) in self.registers.dirty() {
            self.write_home(vector, register, last);
        }
    }
}
