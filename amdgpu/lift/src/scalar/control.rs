//! SOPP: barriers, waiting, and the conditions of branches.

use isa::{Inst, Op};

use crate::form::{Operation, Value};
use crate::translator::{Translated, Translator, unsupported};

/// Translates an instruction that is not a jump.
pub fn control(t: &mut Translator, inst: &Inst) -> Translated<()> {
    let operation = match inst.op {
        Op::s_barrier => Operation::Barrier,
        Op::s_sleep => Operation::Sleep,
        // Messages have no receiver; trap 3 is a breakpoint without a debugger.
        Op::s_nop
        | Op::s_waitcnt
        | Op::s_setprio
        | Op::s_wakeup
        | Op::s_icache_inv
        | Op::s_incperflevel
        | Op::s_decperflevel
        | Op::s_ttracedata
        | Op::s_sethalt
        | Op::s_sendmsg
        | Op::s_sendmsghalt
        | Op::s_trap
        | Op::s_cbranch_cdbgsys
        | Op::s_cbranch_cdbguser
        | Op::s_cbranch_cdbgsys_or_user
        | Op::s_cbranch_cdbgsys_and_user => return Ok(()),
        _ => return unsupported(inst),
    };
    t.b().append(operation, &[], &[]);
    Ok(())
}

/// The bit that decides a conditional branch.
pub fn condition(t: &mut Translator, inst: &Inst) -> Translated<Value> {
    let bit = match inst.op {
        Op::s_cbranch_scc0 | Op::s_cbranch_scc1 => t.scc(),
        Op::s_cbranch_vccz | Op::s_cbranch_vccnz => {
            let vcc = t.vcc();
            t.b().any_lane(vcc)
        }
        Op::s_cbranch_execz | Op::s_cbranch_execnz => {
            let exec = t.exec();
            t.b().any_lane(exec)
        }
        _ => return unsupported(inst),
    };
    let inverted = matches!(inst.op, Op::s_cbranch_scc0 | Op::s_cbranch_vccz | Op::s_cbranch_execz);
    Ok(if inverted { t.b().not(bit) } else { bit })
}
