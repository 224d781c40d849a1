//! SOPP: branches, barriers, messages and program end.

use isa::{Inst, Op};

use crate::compile::{Compiler, Unsupported};
use crate::fault::FaultKind;
use crate::wave::sreg;
use crate::{Body, Flow, Handler, Level, Uop, Wave, handler};

macro_rules! branches {
    ($($name:ident |$wave:ident| $taken:expr)*) => {
        $(
            #[expect(non_camel_case_types, reason = "handlers are named after AMD's mnemonics")]
            struct $name;
            impl Body for $name {
                #[inline(always)]
                fn run($wave: &mut Wave, uop: &Uop) -> Flow {
                    if $taken {
                        $wave.pc = uop.imm as usize;
                        Flow::Jump
                    } else {
                        Flow::Next
                    }
                }
            }
        )*

        fn select_branch(op: Op) -> Option<Handler> {
            Some(match op {
                $(Op::$name => handler::<$name>(Level::Base),)*
                _ => return None,
            })
        }
    };
}

branches! {
    s_branch |wave| true
    s_cbranch_scc0 |wave| !wave.scc
    s_cbranch_scc1 |wave| wave.scc
    s_cbranch_vccz |wave| wave.vcc() == 0
    s_cbranch_vccnz |wave| wave.vcc() != 0
    s_cbranch_execz |wave| wave.exec() == 0
    s_cbranch_execnz |wave| wave.exec() != 0
    s_cbranch_cdbgsys |wave| false
    s_cbranch_cdbguser |wave| false
    s_cbranch_cdbgsys_or_user |wave| false
    s_cbranch_cdbgsys_and_user |wave| false
}

/// Serves pending hostcalls of the wave's dispatch. Returns `otherwise`, or a fault if a request failed.
fn poll_hostcalls(wave: &mut Wave, otherwise: Flow) -> Flow {
    let Some(context) = wave.context() else { return otherwise };
    match context.serve_hostcalls() {
        Ok(()) => otherwise,
        Err(kind) => {
            wave.fault = Some((kind, None));
            Flow::Fault
        }
    }
}

/// Returns true for branches, whose target [`crate::program`] resolves.
pub fn is_branch(op: Op) -> bool {
    select_branch(op).is_some()
}

macro_rules! control {
    ($($name:ident |$wave:ident, $uop:ident| $body:block)*) => {
        $(
            #[expect(non_camel_case_types, reason = "handlers are named after AMD's mnemonics")]
            struct $name;
            impl Body for $name {
                #[inline(always)]
                #[allow(unused_variables, reason = "not every operation reads the wave")]
                fn run($wave: &mut Wave, $uop: &Uop) -> Flow $body
            }
        )*

        fn select_control(op: Op) -> Option<Handler> {
            Some(match op {
                $(Op::$name => handler::<$name>(Level::Base),)*
                _ => return None,
            })
        }
    };
}

control! {
    s_endpgm |wave, uop| { Flow::End }
    s_barrier |wave, uop| { Flow::Barrier }
    s_sleep |wave, uop| { poll_hostcalls(wave, Flow::Yield) }
    s_sendmsg |wave, uop| { message(wave, uop) }
    s_sendmsghalt |wave, uop| { message(wave, uop) }
    s_trap |wave, uop| {
        // Trap 3 is the debugger breakpoint, a no-op without a debugger.
        if uop.imm & 0xff == 3 {
            return Flow::Next;
        }
        wave.fault = Some((FaultKind::Trap { id: uop.imm as u16 & 0xff }, None));
        Flow::Fault
    }
    s_set_gpr_idx_off |wave, uop| {
        wave.gpr_index_mode = 0;
        Flow::Next
    }
    s_set_gpr_idx_mode |wave, uop| {
        wave.sgprs[sreg::M0] = wave.sgprs[sreg::M0] & 0xffff_0fff | (uop.imm as u32 & 15) << 12;
        Flow::Next
    }
}

/// `sendmsg(MSG_INTERRUPT)` serves pending hostcalls; other messages (save, graphics) have no receiver and are ignored.
fn message(wave: &mut Wave, uop: &Uop) -> Flow {
    const MSG_INTERRUPT: i64 = 1;
    if uop.imm & 15 == MSG_INTERRUPT { poll_hostcalls(wave, Flow::Next) } else { Flow::Next }
}

/// Returns true for operations that have no effect on an in-order device; no micro-op is generated for them.
pub fn is_dropped(op: Op) -> bool {
    matches!(
        op,
        Op::s_nop
            | Op::s_waitcnt
            | Op::s_setprio
            | Op::s_wakeup
            | Op::s_icache_inv
            | Op::s_incperflevel
            | Op::s_decperflevel
            | Op::s_ttracedata
            | Op::s_sethalt
            | Op::s_dcache_inv
            | Op::s_dcache_inv_vol
            | Op::s_dcache_wb
            | Op::s_dcache_wb_vol
            | Op::s_dcache_discard
            | Op::s_dcache_discard_x2
            | Op::buffer_wbinvl1
            | Op::buffer_wbinvl1_vol
            | Op::buffer_invl2
            | Op::buffer_wbl2
            | Op::buffer_inv
            | Op::ds_nop
            | Op::v_nop
            | Op::v_clrexcp
    )
}

pub fn compile(compiler: &mut Compiler, inst: &Inst, inst_index: u32) -> Result<Uop, Unsupported> {
    let run = select_branch(inst.op)
        .or_else(|| select_control(inst.op))
        .ok_or(Unsupported::Instruction(inst.op.name()))?;
    let mut uop = compiler.uop(run, inst_index);
    uop.imm = i64::from(inst.imm);
    Ok(uop)
}
