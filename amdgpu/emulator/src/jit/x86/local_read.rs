//! LDS reads inside a run: which can be part of one, and which form a group. `read_code.rs` lowers a group.
//!
//! LDS reads have no side effects and cannot fault: out-of-range reads return zero. Nothing in a run writes LDS, so it does not
//! matter that all reads of one slice come before those of the next. Reads at offsets from one address register form a group,
//! whose addresses are classified once: uniform, contiguous, or arbitrary.

use isa::{AccessKind, DataType, Format, Inst};

use super::target::Target;
use crate::Uop;

/// One LDS read: elements at offsets from the address register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub(super) address: u16,
    /// First destination register, byte offset and number of dwords of each element.
    pub(super) elements: Vec<(u16, u32, u16)>,
}

impl Read {
    /// The read of a micro-op, if it is one of whole dwords.
    pub fn of(inst: &Inst, uop: &Uop) -> Option<Read> {
        let access = inst.op.memory_access()?;
        let dwords = (access.bytes / 4) as u16;
        let whole = inst.format == Format::Ds && access.kind == AccessKind::Load && dwords > 0;
        if !whole || inst.encoding().src[0] == DataType::None {
            return None;
        }
        let raw = inst.imm as u32 & 0xffff;
        let elements = match access.offset_unit {
            None => vec![(uop.dst, raw, dwords)],
            Some(unit) => {
                vec![(uop.dst, (raw & 0xff) * unit, dwords), (uop.dst + dwords, (raw >> 8) * unit, dwords)]
            }
        };
        (!inst.memory.gds).then_some(Read { address: uop.src[0].index, elements })
    }

    /// The address register.
    pub fn address(&self) -> u16 {
        self.address
    }

    /// The destination registers.
    pub fn vectors(&self) -> impl Iterator<Item = u16> + '_ {
        self.elements.iter().flat_map(|(dst, _, dwords)| *dst..dst + dwords)
    }

    pub fn writes(&self, vector: u16) -> bool {
        self.elements.iter().any(|(dst, _, dwords)| (*dst..dst + dwords).contains(&vector))
    }

    pub fn dwords(&self) -> usize {
        self.elements.iter().map(|(_, _, dwords)| usize::from(*dwords)).sum()
    }
}

/// Maximum number of destination registers of a group; all are in use at once.
fn largest(target: Target) -> usize {
    match target {
        Target::Avx2 => 8,
        Target::Avx512 => 20,
    }
}

/// Returns true if the read at `at` can join a group: it has the same address register, which no earlier read overwrites.
pub fn joins(target: Target, group: &[usize], at: usize, uops: &[Uop], insts: &[Inst]) -> bool {
    let read = |at: usize| Read::of(&insts[uops[at].inst as usize], &uops[at]);
    let Some(new) = read(at) else { return false };
    let mut dwords = new.dwords();
    for other in group.iter().filter_map(|at| read(*at)) {
        dwords += other.dwords();
        // A register written by two reads of a group would need the writes in order.
        let overlaps = new
            .elements
            .iter()
            .any(|(dst, _, dwords)| (*dst..dst + dwords).any(|vector| other.writes(vector)));
        if other.address != new.address || other.writes(new.address) || overlaps {
            return false;
        }
    }
    dwords <= largest(target)
}
