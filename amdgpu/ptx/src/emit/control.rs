//! Blocks, branches and the copies that phis become.

use lift::form::*;
use rustc_hash::FxHashMap;

use crate::generator::{Class, Generator};

/// Targets of a switch that are compared one after the other; more are bisected first.
const MOST_COMPARISONS: usize = 3;

/// Writes all blocks.
pub(crate) fn emit(g: &mut Generator<'_>) -> Result<(), Refusal> {
    let function = g.function;
    let rendezvous = super::memory::rendezvous(function, &g.live, g.apertures);
    for (number, block) in function.blocks.iter().enumerate() {
        g.place(&name(Block(number as u32)));
        g.groups.clear();
        for index in &block.instructions {
            if !g.live.is_live(*index) {
                continue;
            }
            let instruction = &function.instructions[*index as usize];
            if rendezvous[*index as usize] {
                super::memory::meet(g);
            }
            super::instruction(g, instruction).map_err(|reason| g.refusal(instruction, reason))?;
        }
        terminator(g, Block(number as u32), block);
    }
    Ok(())
}

fn name(block: Block) -> String {
    format!("B{}", block.0)
}

fn terminator(g: &mut Generator<'_>, from: Block, block: &BlockData) {
    let next = Block(from.0 + 1);
    let uniform = g.uniform();
    match &block.terminator {
        Terminator::End => g.line("ret"),
        Terminator::Jump(to) => {
            copies(g, from, *to, 0);
            if *to != next {
                g.line(format!("bra{uniform} {}", name(*to)));
            }
        }
        Terminator::Branch { condition, then, otherwise } => {
            let second = usize::from(then == otherwise);
            let condition = g.operand(*condition, 0);
            if !has_copies(g, *then) {
                g.line(format!("@{condition} bra{uniform} {}", name(*then)));
            } else {
                // The edge gets a block of its own, behind the other edge.
                let edge = g.label("E");
                g.line(format!("@{condition} bra{uniform} {edge}"));
                copies(g, from, *otherwise, second);
                g.line(format!("bra{uniform} {}", name(*otherwise)));
                g.place(&edge);
                copies(g, from, *then, 0);
                if *then != next {
                    g.line(format!("bra{uniform} {}", name(*then)));
                }
                return;
            }
            copies(g, from, *otherwise, second);
            if *otherwise != next {
                g.line(format!("bra{uniform} {}", name(*otherwise)));
            }
        }
        Terminator::Switch { address, targets } => {
            let address = g.in_register(*address, 0);
            let mut targets = targets.clone();
            targets.sort_unstable();
            search(g, from, &address, &targets);
        }
        Terminator::Trap(_) => trap(g),
    }
}

/// Jumps to the target of an address, by bisection. The targets are sorted.
fn search(g: &mut Generator<'_>, from: Block, address: &str, targets: &[(u64, Block)]) {
    let uniform = g.uniform();
    if targets.len() > MOST_COMPARISONS {
        let (lower, upper) = targets.split_at(targets.len() / 2);
        let (is_upper, label) = (g.predicate(), g.label("U"));
        g.line(format!("setp.ge.u64 {is_upper}, {address}, {:#x}", upper[0].0));
        g.line(format!("@{is_upper} bra{uniform} {label}"));
        search(g, from, address, lower);
        g.place(&label);
        search(g, from, address, upper);
        return;
    }
    for (target, to) in targets {
        let (other, skip) = (g.predicate(), g.label("N"));
        g.line(format!("setp.ne.u64 {other}, {address}, {target:#x}"));
        g.line(format!("@{other} bra{uniform} {skip}"));
        copies(g, from, *to, 0);
        g.line(format!("bra{uniform} {}", name(*to)));
        g.place(&skip);
    }
    trap(g);
}

/// Stops the grid. The return tells the compiler that what follows is not reached from here.
fn trap(g: &mut Generator<'_>) {
    g.line("trap");
    g.line("ret");
}

/// The live phis of a block.
fn phis(g: &Generator<'_>, block: Block) -> Vec<u32> {
    let all = g.function.blocks[block.0 as usize].instructions.iter().copied();
    all.filter(|index| {
        g.live.is_live(*index) && g.function.instructions[*index as usize].operation == Operation::Phi
    })
    .collect()
}

fn has_copies(g: &Generator<'_>, to: Block) -> bool {
    !phis(g, to).is_empty()
}

/// Copies the operands of the phis of `to` for the edge from `from`, the `edge`th one between the two blocks. All operands are
/// read before any phi is written.
fn copies(g: &mut Generator<'_>, from: Block, to: Block, edge: usize) {
    let phis = phis(g, to);
    let predecessors = &g.function.blocks[to.0 as usize].predecessors;
    let mut places = predecessors.iter().enumerate().filter(|(_, block)| **block == from).map(|(at, _)| at);
    let Some(place) = places.clone().nth(edge).or_else(|| places.next()) else { return };
    let mut moves: Vec<Copy> = Vec::new();
    for index in phis {
        let instruction = &g.function.instructions[index as usize];
        let (result, operand) = (instruction.results[0], instruction.operands[place]);
        let (class, size) = match g.function.kind(result) {
            Kind::Bit => (Class::Predicate, "pred"),
            Kind::Word => (Class::Word, "b32"),
            Kind::Double => (Class::Double, "b64"),
        };
        for half in 0..g.halves_of(result) {
            let (to, from) = (g.result(result, half), g.operand(operand, half));
            if to != from {
                moves.push((size, to, from, class));
            }
        }
    }
    for (size, to, from) in in_order(g, moves) {
        g.line(format!("mov.{size} {to}, {from}"));
    }
}

/// A copy: size, destination, source, class of both.
type Copy = (&'static str, String, String, Class);

/// Copies that happen at once as copies one after the other: a register is written after its last use. A circle of copies needs
/// one more register.
fn in_order(g: &mut Generator<'_>, copies: Vec<Copy>) -> Vec<(&'static str, String, String)> {
    let mut readers: FxHashMap<String, usize> = FxHashMap::default();
    for (_, _, from, _) in &copies {
        *readers.entry(from.clone()).or_default() += 1;
    }
    let writers: FxHashMap<String, usize> =
        copies.iter().enumerate().map(|(at, (_, to, ..))| (to.clone(), at)).collect();
    let is_free =
        |readers: &FxHashMap<String, usize>, to: &str| readers.get(to).is_none_or(|count| *count == 0);
    let mut ready: Vec<usize> = (0..copies.len()).filter(|at| is_free(&readers, &copies[*at].1)).collect();
    ready.reverse();
    let mut done = vec![false; copies.len()];
    // Where the contents of a register are that was overwritten.
    let mut saved: FxHashMap<String, String> = FxHashMap::default();
    let mut ordered = Vec::with_capacity(copies.len());
    let mut next = 0;
    loop {
        while let Some(at) = ready.pop() {
            let (size, to, from, _) = &copies[at];
            done[at] = true;
            ordered.push((*size, to.clone(), saved.get(from).unwrap_or(from).clone()));
            if let Some(count) = readers.get_mut(from) {
                *count -= 1;
                if *count == 0
                    && let Some(&writer) = writers.get(from)
                    && !done[writer]
                {
                    ready.push(writer);
                }
            }
        }
        while next < copies.len() && done[next] {
            next += 1;
        }
        let Some((size, to, _, class)) = copies.get(next) else { return ordered };
        // What remains are circles.
        let between = g.fresh(*class);
        ordered.push((*size, between.clone(), to.clone()));
        saved.insert(to.clone(), between);
        ready.push(next);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use lift::Function;

    use super::{Copy, in_order};
    use crate::generator::{Class, Generator};
    use crate::{Mode, Options, Target};

    /// Registers after copies, each of which holds its own name before.
    fn after(copies: &[(&str, String, String)]) -> HashMap<String, String> {
        let mut registers: HashMap<String, String> = HashMap::new();
        for (_, to, from) in copies {
            let value = registers.get(from).unwrap_or(from).clone();
            registers.insert(to.clone(), value);
        }
        registers
    }

    #[test]
    fn copies_one_after_the_other_do_what_copies_at_once_do() {
        let mut function = Function::default();
        function.add_block(0);
        let options = Options::default();
        // Destinations are the digits in order, sources the digits of the number: chains, circles, and many uses of one.
        for number in 0..10_000_u32 {
            let mut g = Generator::new(&function, Target::default(), &options, Mode::Pair, 32);
            let sources = (0..4).map(|digit| number / 10_u32.pow(digit) % 10);
            let pairs = sources.enumerate().filter(|(to, from)| *to as u32 != *from);
            let copies: Vec<Copy> =
                pairs.map(|(to, from)| ("b32", format!("v{to}"), format!("v{from}"), Class::Word)).collect();
            let result = after(&in_order(&mut g, copies.clone()));
            for (_, to, from, _) in &copies {
                assert_eq!(result.get(to), Some(from), "{copies:?}");
            }
            assert!(result.len() <= copies.len() + 2, "{copies:?}");
        }
    }
}
