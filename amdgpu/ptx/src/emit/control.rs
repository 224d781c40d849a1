//! Blocks, branches and the copies that phis become.

use lift::form::*;

use crate::generator::{Class, Generator};

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
            let address = g.operand(*address, 0);
            for (at, (target, to)) in targets.iter().enumerate() {
                let edge = targets[..at].iter().filter(|(_, other)| other == to).count();
                let skip = g.label("N");
                let other = g.predicate();
                g.line(format!("setp.ne.u64 {other}, {address}, {target:#x}"));
                g.line(format!("@{other} bra{uniform} {skip}"));
                copies(g, from, *to, edge);
                g.line(format!("bra{uniform} {}", name(*to)));
                g.place(&skip);
            }
            g.line("trap");
        }
        Terminator::Trap(_) => g.line("trap"),
    }
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
