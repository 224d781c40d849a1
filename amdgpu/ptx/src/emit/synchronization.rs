//! Barriers, fences, clocks, and what fragments observe.

use lift::form::*;

use crate::generator::{Class, Generator, Guard, Reason};
use crate::{Mode, launch};

/// Writes an operation.
pub(crate) fn emit(g: &mut Generator<'_>, instruction: &Instruction) -> Result<(), Reason> {
    match &instruction.operation {
        // The other one needs all threads of a warp at the same place.
        Operation::Barrier if g.parted => g.line("barrier.sync 0"),
        Operation::Barrier => g.line("bar.sync 0"),
        Operation::Fence(scope) => {
            // Lanes of a wave are in step on AMD's hardware; here they are after this.
            if g.mode == Mode::Pair {
                g.line("bar.warp.sync -1");
            }
            match scope {
                MemoryScope::Wave => {}
                MemoryScope::Workgroup => g.line("fence.acq_rel.cta"),
                MemoryScope::Device => g.line("fence.acq_rel.gpu"),
                MemoryScope::System => g.line("fence.acq_rel.sys"),
            }
        }
        Operation::Clock(clock) => {
            let result = g.result(instruction.results[0], 0);
            match clock {
                Clock::Cycles => g.line(format!("mov.u64 {result}, %clock64")),
                Clock::Time => {
                    // Nanoseconds; AMD's counter has 100 MHz.
                    let nanoseconds = g.double();
                    g.line(format!("mov.u64 {nanoseconds}, %globaltimer"));
                    g.line(format!("div.u64 {result}, {nanoseconds}, 10"));
                }
            }
            if g.mode == Mode::Pair {
                // One value for the wave: that of the first thread.
                let (low, high) = (g.word(), g.word());
                g.line(format!("mov.b64 {{{low}, {high}}}, {result}"));
                g.line(format!("shfl.sync.idx.b32 {low}, {low}, 0, 31, -1"));
                g.line(format!("shfl.sync.idx.b32 {high}, {high}, 0, 31, -1"));
                g.line(format!("mov.b64 {result}, {{{low}, {high}}}"));
            }
        }
        Operation::Sleep => g.line("nanosleep.u32 64"),
        Operation::Require => match g.guard(instruction.operands[0], 0) {
            Guard::Always => {}
            Guard::Never => g.line("trap"),
            Guard::When(bit) => g.line(format!("@!{bit} trap")),
        },
        Operation::GridBarrier => grid_barrier(g),
        Operation::Observe(register) => observe(g, instruction, *register),
        _ => return Err("not a synchronisation".into()),
    }
    Ok(())
}

/// Counts the workgroups that have come, and waits for the rest. The counter only grows: each barrier waits for the next
/// multiple of the number of workgroups.
fn grid_barrier(g: &mut Generator<'_>) {
    g.needs_cooperation();
    let (counter, groups, old, turn, want, now) =
        (g.double(), g.double(), g.double(), g.double(), g.double(), g.double());
    let (thread, count) = (g.word(), g.word());
    let (other, wait) = (g.predicate(), g.predicate());
    let (done, again) = (g.label("GRID_DONE"), g.label("GRID_WAIT"));
    g.line("bar.sync 0");
    g.line(format!("mov.u32 {thread}, %tid.x"));
    g.line(format!("setp.ne.u32 {other}, {thread}, 0"));
    g.line(format!("@{other} bra {done}"));
    g.line(format!("ld.param.u64 {counter}, [launch+{}]", launch::GRID_BARRIER_AT));
    g.line(format!("mov.u32 {count}, %nctaid.x"));
    g.line(format!("cvt.u64.u32 {groups}, {count}"));
    g.line("fence.acq_rel.gpu");
    g.line(format!("atom.acq_rel.gpu.global.add.u64 {old}, [{counter}], 1"));
    g.line(format!("div.u64 {turn}, {old}, {groups}"));
    g.line(format!("add.u64 {turn}, {turn}, 1"));
    g.line(format!("mul.lo.u64 {want}, {turn}, {groups}"));
    g.place(&again);
    g.line(format!("ld.acquire.gpu.global.u64 {now}, [{counter}]"));
    g.line(format!("setp.lt.u64 {wait}, {now}, {want}"));
    g.line(format!("@{wait} bra {again}"));
    g.line("fence.acq_rel.gpu");
    g.place(&done);
    g.line("bar.sync 0");
}

/// Writes a register of a fragment to the register file.
fn observe(g: &mut Generator<'_>, instruction: &Instruction, register: Register) {
    let value = instruction.operands[0];
    let file = super::prologue::register_file(g);
    match register {
        Register::Scalar(number) => {
            let word = g.in_register(value, 0);
            g.line(format!("st.global.b32 [{file}+{}], {word}", launch::scalar_at(number)));
        }
        Register::Scc => {
            let (word, bit) = (g.word(), g.operand(value, 0));
            g.line(format!("selp.b32 {word}, 1, 0, {bit}"));
            g.line(format!("st.global.b32 [{file}+{}], {word}", launch::SCC_AT));
        }
        Register::Vector(number) => {
            for half in 0..g.halves(Shape::Lane) {
                let word = g.in_register(value, half);
                let (address, lane) = (g.fresh(Class::Double), super::prologue::lane_number(g, half));
                g.line(format!("mad.wide.u32 {address}, {lane}, 4, {file}"));
                g.line(format!("st.global.b32 [{address}+{}], {word}", launch::vector_at(number)));
            }
        }
    }
}
