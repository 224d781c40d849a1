//! Fork and join: divergent branches with a stack in scalar registers. The side with fewer lanes runs first, the other side runs
//! when the first reaches the join.

use crate::exec::format::scalar::{B64, Operand};
use crate::fault::FaultKind;
use crate::wave::sreg;
use crate::{Body, Flow, Uop, Wave};

/// Stack capacity in entries: each takes four scalar registers, and the depth counter has three bits.
const DEEPEST: u8 = 7;

/// `s_cbranch_g_fork` and `s_cbranch_i_fork`: lanes whose bit is set in the first source branch to the address in the second;
/// `imm` is the address of the next instruction.
pub(crate) struct Fork;
impl Body for Fork {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let (condition, target) = (B64::read(wave, &uop.src[0]), B64::read(wave, &uop.src[1]));
        let (exec, next) = (wave.exec(), uop.imm as u64);
        let (pass, fail) = (condition & exec, !condition & exec);
        let (now, first, then, later) = if pass == exec {
            (target, pass, 0, 0)
        } else if fail == exec {
            (next, fail, 0, 0)
        } else if fail.count_ones() < pass.count_ones() {
            (next, fail, target, pass)
        } else {
            (target, pass, next, fail)
        };
        if later != 0 {
            if wave.fork_depth >= DEEPEST {
                let text = "branch fork stack overflow: more than 7 nested forks".to_string();
                wave.fault = Some((FaultKind::IllegalInstruction { text }, None));
                return Flow::Fault;
            }
            let at = 4 * usize::from(wave.fork_depth);
            wave.set_sgpr64(at, later);
            wave.set_sgpr64(at + 2, then);
            wave.fork_depth += 1;
        }
        wave.set_sgpr64(sreg::EXEC, first);
        if now == next {
            return Flow::Next;
        }
        wave.far = now;
        Flow::Far
    }
}

/// `s_cbranch_join`: the first arrival switches to the other side of the fork, the second continues.
pub(crate) struct Join;
impl Body for Join {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let saved = uop.src[0].dword(wave, 0);
        if u32::from(wave.fork_depth) == saved || wave.fork_depth == 0 {
            return Flow::Next;
        }
        wave.fork_depth -= 1;
        let at = 4 * usize::from(wave.fork_depth);
        wave.far = wave.sgpr64(at + 2);
        let exec = wave.sgpr64(at);
        wave.set_sgpr64(sreg::EXEC, exec);
        Flow::Far
    }
}
