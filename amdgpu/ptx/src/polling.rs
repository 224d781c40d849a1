//! Accesses through which waves wait for each other without a barrier.
//!
//! Plain loads and stores may be merged, moved and kept in registers as long as no barrier or fence stands between. That is right
//! unless a wave looks at memory to learn what another one has done. Machine code does not say when it does: LDS needs no cache
//! bits. So every access counts whose value decides what happens next, while others may write.

use lift::form::*;

use crate::liveness::Liveness;

/// What must not be plain.
#[derive(Debug)]
pub(crate) struct Polling {
    /// LDS accesses of the function.
    pub(crate) lds: bool,
    /// Loads of device memory, by instruction.
    loads: Vec<bool>,
}

impl Polling {
    /// Finds loops that wait for a value, and LDS values that decide something while others may write LDS.
    pub(crate) fn of(function: &Function, live: &Liveness) -> Polling {
        let mut polling = Polling { lds: false, loads: vec![false; function.instructions.len()] };
        let cycles = Cycles::of(function, live);
        for (number, block) in function.blocks.iter().enumerate() {
            let Some(cycle) = cycles.of_block[number] else { continue };
            for index in block.instructions.iter().filter(|index| live.is_live(**index)) {
                let instruction = &function.instructions[*index as usize];
                let lds = match &instruction.operation {
                    Operation::Load(access) => match access.space {
                        Space::Lds => true,
                        Space::Global | Space::Flat
                            if !cycles.varies(function, instruction.operands[1], cycle) =>
                        {
                            false
                        }
                        _ => continue,
                    },
                    Operation::Atomic(_, access, _) if access.space == Space::Lds => true,
                    Operation::AppendConsume { .. } => true,
                    _ => continue,
                };
                let seen = reached(function, live, &instruction.results);
                let decides = function.blocks.iter().enumerate().any(|(at, block)| {
                    cycles.of_block[at] == Some(cycle)
                        && block.terminator.operand().is_some_and(|value| seen[value.0 as usize])
                });
                polling.lds |= decides && lds;
                polling.loads[*index as usize] |= decides && !lds;
            }
        }
        polling.lds = polling.lds || mixes(function, live) && decides_by_lds(function, live);
        polling
    }

    /// Whether a load of device memory waits for a value.
    pub(crate) fn polls(&self, function: &Function, load: &Instruction) -> bool {
        let index = load.results.first().map(|value| function.values[value.0 as usize].instruction);
        index.is_some_and(|index| self.loads[index as usize])
    }
}

/// Loops that have no barrier.
struct Cycles {
    /// The loop of each block.
    of_block: Vec<Option<usize>>,
    /// The block of each value.
    home: Vec<usize>,
}

impl Cycles {
    fn of(function: &Function, live: &Liveness) -> Cycles {
        let count = function.blocks.len();
        let mut home = vec![usize::MAX; function.values.len()];
        let mut barrier = vec![false; count];
        for (number, block) in function.blocks.iter().enumerate() {
            for index in block.instructions.iter().filter(|index| live.is_live(**index)) {
                let instruction = &function.instructions[*index as usize];
                barrier[number] |= is_barrier(&instruction.operation);
                for result in &instruction.results {
                    home[result.0 as usize] = number;
                }
            }
        }
        // Blocks that reach each other without a barrier are one loop.
        let reach: Vec<Vec<bool>> = (0..count)
            .map(|from| {
                let mut seen = vec![false; count];
                let mut work = if barrier[from] { Vec::new() } else { vec![from] };
                while let Some(block) = work.pop() {
                    for to in function.blocks[block].terminator.successors() {
                        let to = to.0 as usize;
                        if !barrier[to] && !std::mem::replace(&mut seen[to], true) {
                            work.push(to);
                        }
                    }
                }
                seen
            })
            .collect();
        let of_block = (0..count)
            .map(|block| {
                if !reach[block][block] {
                    return None;
                }
                (0..count).find(|other| reach[block][*other] && reach[*other][block])
            })
            .collect();
        Cycles { of_block, home }
    }

    /// Whether a value can change from one round of a loop to the next.
    fn varies(&self, function: &Function, value: Value, cycle: usize) -> bool {
        let inside = |value: Value| {
            let home = self.home[value.0 as usize];
            home != usize::MAX && self.of_block[home] == Some(cycle)
        };
        let mut work = vec![value];
        let mut seen = vec![value];
        while let Some(value) = work.pop() {
            if !inside(value) {
                continue;
            }
            let definition = function.definition(value);
            if definition.operation == Operation::Phi || !definition.operation.is_pure() {
                return true;
            }
            for operand in &definition.operands {
                if !seen.contains(operand) {
                    seen.push(*operand);
                    work.push(*operand);
                }
            }
        }
        false
    }
}

fn is_barrier(operation: &Operation) -> bool {
    matches!(operation, Operation::Barrier | Operation::GridBarrier)
}

/// Values that depend on others, also by way of scratch: if one of them is stored, all that is loaded from there counts.
fn reached(function: &Function, live: &Liveness, from: &[Value]) -> Vec<bool> {
    let mut seen = vec![false; function.values.len()];
    let mut work = from.to_vec();
    let mut stored = false;
    while let Some(value) = work.pop() {
        if std::mem::replace(&mut seen[value.0 as usize], true) {
            continue;
        }
        for index in live.uses(value) {
            let user = &function.instructions[*index as usize];
            work.extend(&user.results);
            let stores = matches!(user.operation, Operation::Store(_) | Operation::Atomic(..));
            if stores && !std::mem::replace(&mut stored, true) {
                let all = function.blocks.iter().flat_map(|block| &block.instructions);
                for index in all.filter(|index| live.is_live(**index)) {
                    let instruction = &function.instructions[*index as usize];
                    if matches!(&instruction.operation, Operation::Load(access) if access.space == Space::Private)
                    {
                        work.extend(&instruction.results);
                    }
                }
            }
        }
    }
    seen
}

/// Whether LDS may be read by one wave and written by another between two barriers.
fn mixes(function: &Function, live: &Liveness) -> bool {
    // Reads and writes since the last barrier: forwards for one wave, and for others that left the same barrier.
    let mut starts: Vec<(usize, usize)> = vec![(0, 0)];
    for (number, block) in function.blocks.iter().enumerate() {
        for (at, index) in block.instructions.iter().enumerate() {
            if live.is_live(*index) && is_barrier(&function.instructions[*index as usize].operation) {
                starts.push((number, at + 1));
            }
        }
    }
    starts.into_iter().any(|start| {
        let mut seen = vec![false; function.blocks.len()];
        let mut work = vec![start];
        let (mut reads, mut writes) = (false, false);
        while let Some((number, from)) = work.pop() {
            let block = &function.blocks[number];
            let rest = block.instructions[from..].iter().filter(|index| live.is_live(**index));
            let mut ends = false;
            for index in rest {
                match &function.instructions[*index as usize].operation {
                    operation if is_barrier(operation) => {
                        ends = true;
                        break;
                    }
                    Operation::Load(access) => reads |= access.space == Space::Lds,
                    Operation::Store(access) => {
                        writes |= matches!(access.space, Space::Lds | Space::Flat);
                    }
                    Operation::Atomic(_, access, _) if access.space == Space::Lds => {
                        (reads, writes) = (true, true);
                    }
                    Operation::AppendConsume { .. } => (reads, writes) = (true, true),
                    _ => {}
                }
            }
            if !ends {
                for to in block.terminator.successors() {
                    if !std::mem::replace(&mut seen[to.0 as usize], true) {
                        work.push((to.0 as usize, 0));
                    }
                }
            }
        }
        reads && writes
    })
}

/// Whether a value from LDS decides a branch, or which lanes access LDS.
fn decides_by_lds(function: &Function, live: &Liveness) -> bool {
    let all: Vec<&Instruction> = function
        .blocks
        .iter()
        .flat_map(|block| &block.instructions)
        .filter(|index| live.is_live(**index))
        .map(|index| &function.instructions[*index as usize])
        .collect();
    let is_lds = |operation: &Operation| match operation {
        Operation::Load(access) | Operation::Store(access) | Operation::Atomic(_, access, _) => {
            access.space == Space::Lds
        }
        Operation::AppendConsume { .. } => true,
        _ => false,
    };
    let from: Vec<Value> = all
        .iter()
        .filter(|instruction| is_lds(&instruction.operation))
        .flat_map(|instruction| instruction.results.iter().copied())
        .collect();
    let seen = reached(function, live, &from);
    let branches = function.blocks.iter().filter_map(|block| block.terminator.operand());
    let masks = all
        .iter()
        .filter(|instruction| is_lds(&instruction.operation))
        .map(|instruction| instruction.operands[0]);
    branches.chain(masks).any(|value| seen[value.0 as usize])
}

#[cfg(test)]
mod tests {
    use lift::Builder;
    use lift::form::*;

    use super::Polling;
    use crate::liveness::Liveness;

    const LDS: Access = Access {
        space: Space::Lds,
        bytes: 4,
        signed: false,
        offset: 0,
        scope: MemoryScope::Workgroup,
        align: 2,
    };

    /// A loop whose body reads a word; `rounds` is whether it ends after a number of rounds or when the word is set.
    fn looped(access: Access, rounds: bool, barrier: bool, stride: u32) -> Function {
        let mut f = Function { name: "k".into(), lds_bytes: 64, ..Function::default() };
        let (entry, body, end) = (f.add_block(0), f.add_block(4), f.add_block(8));
        let mut b = Builder { function: &mut f, block: entry, address: 0 };
        let (zero, yes) = (b.word(0), b.bit(true));
        let start = b.input(Input::DispatchId);
        b.function.blocks[0].terminator = Terminator::Jump(body);
        b.block = body;
        let round = b.append(Operation::Phi, &[zero, zero], &[(Kind::Word, Shape::Uniform)])[0];
        let step = b.word(stride);
        let offset = b.binary(Binary::Multiply, round, step);
        let wide = b.pack(offset, zero);
        let far = b.binary(Binary::Add, start, wide);
        let address = if access.space == Space::Lds { offset } else { far };
        let word = b.append(Operation::Load(access), &[yes, address], &[(Kind::Word, Shape::Uniform)])[0];
        let (one, many) = (b.word(1), b.word(100));
        let next = b.binary(Binary::Add, round, one);
        if barrier {
            b.append(Operation::Barrier, &[], &[]);
        }
        let more = if rounds {
            b.compare(Compare::LessUnsigned, next, many)
        } else {
            b.compare(Compare::Equal, word, zero)
        };
        b.function.blocks[1].terminator = Terminator::Branch { condition: more, then: body, otherwise: end };
        b.block = end;
        b.append(Operation::Store(Access { space: Space::Global, ..LDS }), &[yes, start, word], &[]);
        f.blocks[1].predecessors = vec![entry, body];
        f.blocks[2].predecessors = vec![body];
        let phi = f.values[round.0 as usize].instruction;
        f.instructions[phi as usize].operands[1] = next;
        f
    }

    fn lds(f: &Function) -> bool {
        Polling::of(f, &Liveness::of(f)).lds
    }

    #[test]
    fn only_a_loop_that_waits_for_lds_makes_its_accesses_relaxed() {
        assert!(lds(&looped(LDS, false, false, 0)));
        assert!(lds(&looped(LDS, false, false, 4)));
        assert!(!lds(&looped(LDS, true, false, 4)));
        assert!(!lds(&looped(LDS, false, true, 0)));
    }

    #[test]
    fn a_loop_that_waits_for_one_place_of_device_memory_makes_the_load_relaxed() {
        let global = Access { space: Space::Global, scope: MemoryScope::Wave, ..LDS };
        for (rounds, stride, want) in [(false, 0, true), (false, 4, false), (true, 0, false)] {
            let f = looped(global, rounds, false, stride);
            let polling = Polling::of(&f, &Liveness::of(&f));
            let is_load = |i: &&Instruction| matches!(i.operation, Operation::Load(_));
            let load = f.instructions.iter().find(is_load).expect("a load");
            assert_eq!(polling.polls(&f, load), want, "{rounds} {stride}");
            assert!(!polling.lds);
        }
    }

    #[test]
    fn a_value_from_lds_that_decides_while_others_may_write_makes_accesses_relaxed() {
        for (barrier, want) in [(false, true), (true, false)] {
            let mut f = Function { name: "k".into(), lds_bytes: 64, ..Function::default() };
            let entry = f.add_block(0);
            let mut b = Builder { function: &mut f, block: entry, address: 0 };
            let (zero, yes, address) = (b.word(0), b.bit(true), b.input(Input::WorkitemId(0)));
            b.append(Operation::Store(LDS), &[yes, address, address], &[]);
            if barrier {
                b.append(Operation::Barrier, &[], &[]);
            }
            let lane = [(Kind::Word, Shape::Lane)];
            let flag = b.append(Operation::Load(LDS), &[yes, zero], &lane)[0];
            let set = b.compare(Compare::NotEqual, flag, zero);
            let data = b.append(Operation::Load(LDS), &[set, address], &lane)[0];
            b.append(Operation::Observe(Register::Vector(0)), &[data], &[]);
            assert_eq!(lds(&f), want, "{barrier}");
        }
    }
}
