//! Choice of the mode.

use lift::form::{Function, MemoryScope, Operation, Refusal, Shape, Space};

use crate::liveness::Liveness;
use crate::{Mode, Options};

/// A mode, and the function of one lane if lanes go their own ways in it.
pub(crate) struct Choice {
    pub(crate) mode: Mode,
    pub(crate) separated: Option<Function>,
}

/// Larger functions are not compared with the ways of single lanes: that takes longer than it saves.
const MOST_INSTRUCTIONS: usize = 4000;

/// The mode that the options ask for, if it is possible, or the better one.
pub(crate) fn choose(function: &Function, options: &Options) -> Result<Choice, Refusal> {
    let pair = Choice { mode: Mode::Pair, separated: None };
    match options.mode {
        Some(Mode::Pair) => Ok(pair),
        Some(Mode::Lane) => lane(function).map_err(|(instruction, reason)| Refusal {
            kernel: function.name.clone(),
            address: instruction.map_or(0, |at| function.instructions[at as usize].address),
            instruction: instruction
                .map_or_else(String::new, |at| function.line(&function.instructions[at as usize])),
            reason: reason.to_owned(),
        }),
        // In both modes a wave costs about the same, and pair mode halves the cost of uniform values and of addresses. But a
        // loop that lanes leave one by one runs for 32 lanes instead of 64, and without the selects, if lanes are threads.
        None => Ok(if lanes_leave_loops(function) { lane(function).unwrap_or(pair) } else { pair }),
    }
}

/// Why a function cannot run in lane mode, and the instruction at fault.
type Obstacle = (Option<u32>, &'static str);

fn lane(function: &Function) -> Result<Choice, Obstacle> {
    let live = Liveness::of(function);
    if let Some(obstacle) = obstacle(function, &live) {
        return Err(obstacle);
    }
    if !live.operations(function).any(|operation| *operation == Operation::AnyLane) {
        return Ok(Choice { mode: Mode::Lane, separated: None });
    }
    if live.operations(function).count() > MOST_INSTRUCTIONS {
        return Err((None, "lane mode: a function that is too large to compare"));
    }
    if let Some(index) = communication(function, &live) {
        return Err((Some(index), "lane mode: what another lane has written may be read"));
    }
    let separated = lift::separate(function).map_err(|obstacle| (obstacle.instruction, obstacle.reason))?;
    Ok(Choice { mode: Mode::Lane, separated: Some(separated) })
}

/// Whether a loop goes on as long as any lane wants it to.
fn lanes_leave_loops(function: &Function) -> bool {
    let reaches = |from: usize, wanted: usize| {
        let mut seen = vec![false; function.blocks.len()];
        let mut work = vec![from];
        while let Some(block) = work.pop() {
            for to in function.blocks[block].terminator.successors() {
                let to = to.0 as usize;
                if to == wanted {
                    return true;
                }
                if !std::mem::replace(&mut seen[to], true) {
                    work.push(to);
                }
            }
        }
        false
    };
    function.blocks.iter().enumerate().any(|(number, block)| {
        let Some(condition) = block.terminator.operand() else { return false };
        let mut definition = function.definition(condition);
        if matches!(definition.operation, Operation::Unary(lift::form::Unary::Not)) {
            definition = function.definition(definition.operands[0]);
        }
        // One way goes round, the other does not.
        let round = |to: usize| to == number || reaches(to, number);
        let ways: Vec<bool> = block.terminator.successors().iter().map(|to| round(to.0 as usize)).collect();
        definition.operation == Operation::AnyLane && ways.contains(&true) && ways.contains(&false)
    })
}

/// Why no lane can be a thread of its own.
fn obstacle(function: &Function, live: &Liveness) -> Option<Obstacle> {
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
            Operation::Fence(MemoryScope::Wave) => {
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
    if lds_loads && lds_stores {
        let is_lds = |space: Space| matches!(space, Space::Lds | Space::Flat);
        if conflict(function, live, is_lds, true).is_some() {
            return Some((None, "lane mode: LDS accesses without a barrier count on lockstep"));
        }
    }
    None
}

/// A load of device memory that an earlier store of the kernel may have written, with no barrier between. Lanes that go their own
/// ways do not keep the order in which a wave would have made the two accesses.
fn communication(function: &Function, live: &Liveness) -> Option<u32> {
    conflict(function, live, |space| matches!(space, Space::Global | Space::Flat), false)
}

/// Finds an access without the barrier that it needs: a read after a write and, if `both`, a write after a read.
fn conflict(function: &Function, live: &Liveness, counts: impl Fn(Space) -> bool, both: bool) -> Option<u32> {
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
                    Operation::Load(access) if counts(access.space) => {
                        if state.1 {
                            return Some(*index);
                        }
                        state.0 = true;
                    }
                    Operation::Store(access) | Operation::Atomic(_, access, _) if counts(access.space) => {
                        if both && state.0 {
                            return Some(*index);
                        }
                        state.1 = true;
                    }
                    _ => {}
                }
            }
            changed |= std::mem::replace(&mut ends[number], state) != state;
        }
        if !changed {
            return None;
        }
    }
}
