//! Divergent branches with a stack in scalar registers: the smaller side runs first, the other when both meet again.

use super::scalar::{B64, Operand, dword};
use crate::fault::FaultKind;
use crate::wave::sreg;
use crate::{Body, Flow, Uop, Wave};

/// Entries the stack has room for: four scalar registers each, and three bits to count them.
const DEEPEST: u8 = 7;

/// `s_cbranch_g_fork` and `s_cbranch_i_fork`: lanes whose bit of the first source is set go to the second, `imm` is next.
pub(super) struct Fork;
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
                let text = "branches forked more often than the stack can hold".to_string();
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

/// `s_cbranch_join`: the first time here the other side of the fork runs, the second time both go on.
pub(super) struct Join;
impl Body for Join {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let saved = dword(wave, &uop.src[0], 0);
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
