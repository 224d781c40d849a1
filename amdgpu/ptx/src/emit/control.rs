//! Blocks, branches and the copies that phis become.

use lift::form::*;

use crate::generator::{Class, Generator};

/// Targets of a switch that are compared one after the other; more are bisected first.
const MOST_COMPARISONS: usize = 3;

/// Writes all blocks.
pub(crate) fn emit(g: &mut Generator<'_>) -> Result<(), Refusal> {
    let function = g.function;
    let rendezvous = super::memory::rendezvous(function, &g.live, g.apertures);
    for (number, block) in function.blocks.iter().enumerate() {
        g.place(&name(Block(number as u32)));
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
    let mut moves: Vec<(&'static str, String, String, Class)> = Vec::new();
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
    let conflict = moves.iter().any(|(_, _, from, _)| moves.iter().any(|(_, to, ..)| to == from));
    if !conflict {
        for (size, to, from, _) in moves {
            g.line(format!("mov.{size} {to}, {from}"));
        }
        return;
    }
    let mut second = Vec::new();
    for (size, to, from, class) in moves {
        let between = g.fresh(class);
        g.line(format!("mov.{size} {between}, {from}"));
        second.push(format!("mov.{size} {to}, {between}"));
    }
    for line in second {
        g.line(line);
    }
}
