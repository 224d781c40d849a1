//! The loop that executes the micro-ops of a wave.

use crate::fault::FaultKind;
use crate::program::Program;
use crate::{Flow, Wave};

/// Runs a wave until a micro-op needs the scheduler (end, barrier, fault, yield), or the budget is used up.
#[inline]
pub(crate) fn run_wave(wave: &mut Wave) -> Flow {
    // SAFETY: the wave entered a program of its kernel, and programs live as long as the kernel. A program's last micro-op is a
    // jump, so `pc` stays inside it; branch targets were resolved to micro-ops of the same program.
    unsafe {
        let mut uops = Program::of(wave).uops.as_ptr();
        let mut pc = wave.pc;
        let mut start = pc;
        let mut left = i64::from(wave.budget);
        loop {
            let uop = &*uops.add(pc);
            let flow = (uop.run)(wave, uop);
            if flow == Flow::Next {
                pc += 1;
                continue;
            }
            if flow == Flow::Skip {
                pc = wave.pc;
                continue;
            }
            let count = (pc + 1 - start) as u64;
            wave.executed += count;
            left -= count as i64;
            match flow {
                Flow::Jump => {
                    pc = wave.pc;
                    start = pc;
                }
                Flow::Far => {
                    if !far(wave) {
                        wave.pc = pc;
                        return Flow::Fault;
                    }
                    uops = Program::of(wave).uops.as_ptr();
                    pc = wave.pc;
                    start = pc;
                }
                Flow::Fault | Flow::Retry => {
                    wave.pc = pc;
                    return flow;
                }
                _ => {
                    wave.pc = pc + 1;
                    return flow;
                }
            }
            if left <= 0 {
                return Flow::Jump;
            }
        }
    }
}

/// Enters the program that contains address `wave.far`. Returns false and sets the fault if there is none.
pub(crate) fn far(wave: &mut Wave) -> bool {
    let address = wave.far;
    // SAFETY: the wave runs a program of its kernel, which is alive.
    let current = unsafe { Program::of(wave) };
    if let Some(at) = current.index_of(address) {
        wave.pc = at;
        return true;
    }
    let entered = wave.context().is_some_and(|context| context.enter(wave, address));
    if !entered {
        wave.fault = Some((FaultKind::IllegalTarget { address }, None));
    }
    entered
}
