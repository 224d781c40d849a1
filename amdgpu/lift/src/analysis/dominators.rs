//! Dominators, by Cooper, Harvey and Kennedy's algorithm.

use crate::{Block, Function};

/// The dominator tree.
#[derive(Clone, Debug)]
pub struct Dominators {
    /// Immediate dominator of each block; the entry's is itself, that of a block that cannot be reached is the entry.
    immediate: Vec<u32>,
    depth: Vec<u32>,
}

impl Dominators {
    /// Computes the tree.
    pub fn of(function: &Function) -> Dominators {
        const UNKNOWN: u32 = u32::MAX;
        let count = function.blocks.len();
        let order = reverse_post_order(function);
        let mut position = vec![UNKNOWN; count];
        for (place, block) in order.iter().enumerate() {
            position[*block] = place as u32;
        }
        let mut immediate = vec![UNKNOWN; count];
        if count > 0 {
            immediate[0] = 0;
        }
        let mut changed = true;
        while changed {
            changed = false;
            for &block in order.iter().skip(1) {
                let mut new = UNKNOWN;
                for from in &function.blocks[block].predecessors {
                    let from = from.0;
                    if immediate[from as usize] == UNKNOWN {
                        continue;
                    }
                    new = if new == UNKNOWN { from } else { meet(&immediate, &position, new, from) };
                }
                if immediate[block] != new {
                    immediate[block] = new;
                    changed = true;
                }
            }
        }
        let mut depth = vec![0; count];
        for &block in order.iter().skip(1) {
            depth[block] = depth[immediate[block] as usize] + 1;
        }
        for block in &mut immediate {
            if *block == UNKNOWN {
                *block = 0;
            }
        }
        Dominators { immediate, depth }
    }

    /// Whether every path to `b` goes through `a`.
    pub fn dominates(&self, a: Block, b: Block) -> bool {
        let mut at = b.0;
        while self.depth[at as usize] > self.depth[a.0 as usize] {
            at = self.immediate[at as usize];
        }
        at == a.0
    }

    /// The immediate dominator.
    pub fn immediate(&self, block: Block) -> Block {
        Block(self.immediate[block.0 as usize])
    }
}

fn meet(immediate: &[u32], position: &[u32], mut a: u32, mut b: u32) -> u32 {
    while a != b {
        while position[a as usize] > position[b as usize] {
            a = immediate[a as usize];
        }
        while position[b as usize] > position[a as usize] {
            b = immediate[b as usize];
        }
    }
    a
}

/// Blocks that can be reached, each after its dominators.
pub fn reverse_post_order(function: &Function) -> Vec<usize> {
    let mut seen = vec![false; function.blocks.len()];
    let mut order = Vec::with_capacity(function.blocks.len());
    if seen.is_empty() {
        return order;
    }
    seen[0] = true;
    let successors = |block: usize| function.blocks[block].terminator.successors();
    let mut path = vec![(0, successors(0))];
    while let Some((block, rest)) = path.last_mut() {
        match rest.pop() {
            Some(next) if !seen[next.0 as usize] => {
                seen[next.0 as usize] = true;
                path.push((next.0 as usize, successors(next.0 as usize)));
            }
            Some(_) => {}
            None => {
                order.push(*block);
                path.pop();
            }
        }
    }
    order.reverse();
    order
}
