//! Choice of the mode.

use lift::form::{Function, Operation, Refusal, Shape, Space};

use crate::liveness::Liveness;
use crate::{Mode, Options};

/// The mode that the options ask for, if it is possible, or the better one.
pub(crate) fn choose(function: &Function, options: &Options) -> Result<Mode, Refusal> {
    match options.mode {
        Some(Mode::Pair) => Ok(Mode::Pair),
        Some(Mode::Lane) => match obstacle(function) {
            None => Ok(Mode::Lane),
            Some((instruction, reason)) => Err(Refusal {
                kernel: function.name.clone(),
                address: instruction.map_or(0, |at| function.instructions[at as usize].address),
                instruction: instruction
                    .map_or_else(String::new, |at| function.line(&function.instructions[at as usize])),
                reason: reason.to_owned(),
            }),
        },
        // In both modes a wave costs about the same; pair mode halves the cost of uniform values and of addresses.
        None => Ok(Mode::Pair),
    }
}

/// Why a function cannot run in lane mode, and the instruction at fault.
fn obstacle(function: &Function) -> Option<(Option<u32>, &'static str)> {
    let live = Liveness::of(function);
    let mut lds_loads = false;
    let mut lds_stores = false;
    for index in function.blocks.iter().flat_map(|block| &block.instructions) {
        if !live.is_live(*index) {
            continue;
        }
        let instruction = &function.instructions[*index as usize];
        let fault = |reason| Some((Some(*index), reason));
        match &instruction.operation {
            operation if operation.crosses_lanes() => return fault("lane mode cannot cross lanes"),
            Operation::AnyLane => return fault("lane mode: a branch on a mask"),
            Operation::Fence(lift::form::MemoryScope::Wave) => {
                return fault("lane mode: the lanes of a wave communicate");
            }
            // Two threads of a wave could read different values and part.
            Operation::Load(access)
                if !matches!(access.space, Space::Constant | Space::Kernarg)
                    && instruction.results.iter().any(|value| function.shape(*value) == Shape::Uniform) =>
            {
                return fault("lane mode: a uniform load of memory that may change");
            }
            Operation::Clock(_) => return fault("lane mode: a clock differs between the threads of a wave"),
            Operation::Load(access) => lds_loads |= matches!(access.space, Space::Lds | Space::Flat),
            Operation::Store(access) | Operation::Atomic(_, access, _) => {
                lds_stores |= matches!(access.space, Space::Lds | Space::Flat);
            }
            _ => {}
        }
    }
    if lds_loads && lds_stores && !lockstep_is_unneeded(function, &live) {
        return Some((None, "lane mode: LDS accesses without a barrier count on lockstep"));
    }
    None
}

/// Whether a barrier stands between every LDS write and every later LDS read and the other way round, on all paths: then lanes
/// need not be in step.
fn lockstep_is_unneeded(function: &Function, live: &Liveness) -> bool {
    // What may have happened since the last barrier at the end of each block: reads, writes.
    let mut ends = vec![(false, false); function.blocks.len()];
    loop {
        let mut changed = false;
        for (number, block) in function.blocks.iter().enumerate() {
            let mut state = (false, false);
            for from in &block.predecessors {
                let end = ends[from.0 as usize];
                state = (state.0 | end.0, state.1 | end.1);
            }
            for index in block.instructions.iter().filter(|index| live.is_live(**index)) {
                match &function.instructions[*index as usize].operation {
                    Operation::Barrier => state = (false, false),
                    Operation::Load(access) if matches!(access.space, Space::Lds | Space::Flat) => {
                        if state.1 {
                            return false;
                        }
                        state.0 = true;
                    }
                    Operation::Store(access) | Operation::Atomic(_, access, _)
                        if matches!(access.space, Space::Lds | Space::Flat) =>
                    {
                        if state.0 {
                            return false;
                        }
                        state.1 = true;
                    }
                    _ => {}
                }
            }
            changed |= std::mem::replace(&mut ends[number], state) != state;
        }
        if !changed {
            return true;
        }
    }
}
