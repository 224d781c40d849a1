//! Waits that order a release: `s_waitcnt vmcnt(0)` before an atomic operation, after stores.
//!
//! The machine has no fence instruction for a release inside a device: it waits for its stores and goes on. Most waits are for
//! loads; those of which an access with a scope is the next access may be releases, and are taken for such if the kernel
//! stores at all.

use isa::{AccessKind, Format, Inst, Op};

use super::Graph;

/// Blocks that are looked at after a wait. Short ifs one after the other have many.
const MOST_BLOCKS: usize = 64;

/// Whether an instruction waits for all vector memory accesses.
fn waits(inst: &Inst) -> bool {
    inst.op == Op::s_waitcnt && inst.imm & 0xf == 0 && inst.imm >> 14 & 3 == 0
}

/// Direction of an access of device memory.
fn access(inst: &Inst) -> Option<AccessKind> {
    let device = matches!(inst.format, Format::Flat | Format::Global | Format::Mubuf | Format::Mtbuf);
    inst.op.memory_access().filter(|_| device).map(|access| access.kind)
}

impl Graph {
    /// Whether the kernel has plain stores to device memory.
    pub fn stores(&self) -> bool {
        let all = self.blocks.iter().flat_map(|block| &block.instructions);
        all.into_iter().any(|(_, inst)| access(inst) == Some(AccessKind::Store))
    }

    /// Whether instruction `at` of a block is a wait whose next access of device memory has a scope.
    pub fn is_release(&self, block: usize, at: usize) -> bool {
        if !self.blocks[block].instructions.get(at).is_some_and(|(_, inst)| waits(inst)) {
            return false;
        }
        let mut seen = vec![block];
        let mut work = vec![(block, at + 1)];
        while let Some((block, from)) = work.pop() {
            let rest = self.blocks[block].instructions.get(from..).unwrap_or_default();
            // A barrier orders by itself.
            let next = rest.iter().find(|(_, inst)| inst.op == Op::s_barrier || access(inst).is_some());
            match next.map(|(_, inst)| (access(inst), inst.memory)) {
                Some((Some(AccessKind::Atomic), _)) => return true,
                Some((Some(AccessKind::Store), bits)) if bits.glc || bits.scc => return true,
                Some(_) => continue,
                None => {}
            }
            for to in self.blocks[block].exit.targets() {
                if !seen.contains(&to) {
                    // Too far to know: a fence more is always right.
                    if seen.len() == MOST_BLOCKS {
                        return true;
                    }
                    seen.push(to);
                    work.push((to, 0));
                }
            }
        }
        false
    }
}
