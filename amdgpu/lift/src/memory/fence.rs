//! Cache bits and cache instructions, as scopes and fences.
//!
//! The memory model of both architectures is that of LLVM's AMDGPU back end. Its cache bits say which caches an access passes
//! by, and its cache instructions write back or invalidate them. Both become the scope that must see the access.

use isa::{Arch, Inst, Op};

use super::Outcome;
use crate::Builder;
use crate::form::*;

/// Whether an instruction only writes back or invalidates caches.
pub fn is_fence(inst: &Inst) -> bool {
    matches!(
        inst.op,
        Op::buffer_wbl2 | Op::buffer_invl2 | Op::buffer_inv | Op::buffer_wbinvl1 | Op::buffer_wbinvl1_vol
    )
}

/// A cache instruction.
pub fn lift(b: &mut Builder, arch: Arch, inst: &Inst) -> Outcome {
    let scope = match (arch, inst.op) {
        (Arch::Gfx942, Op::buffer_wbl2 | Op::buffer_inv) => coherence(inst),
        // The level-2 cache is the device's point of coherence.
        (_, Op::buffer_wbl2 | Op::buffer_invl2) => MemoryScope::System,
        _ => MemoryScope::Device,
    };
    if scope != MemoryScope::Wave {
        b.append(Operation::Fence(scope), &[], &[]);
    }
    Outcome::default()
}

/// Scope of a load or store outside LDS.
pub fn scope(arch: Arch, inst: &Inst) -> MemoryScope {
    let bits = &inst.memory;
    match arch {
        Arch::Gfx942 => coherence(inst),
        // SLC marks streams and, with GLC, accesses that others on the system must see. The stronger meaning is always right.
        Arch::Gfx90a if bits.scc || bits.glc && bits.slc => MemoryScope::System,
        Arch::Gfx90a if bits.glc => MemoryScope::Device,
        Arch::Gfx90a => MemoryScope::Wave,
    }
}

/// Scope of an atomic outside LDS: they are executed where the device is coherent. GLC (SC0) says that the old value returns.
pub fn atomic_scope(inst: &Inst) -> MemoryScope {
    if inst.memory.scc { MemoryScope::System } else { MemoryScope::Device }
}

/// The scope that gfx942's SC0 and SC1 bits name.
fn coherence(inst: &Inst) -> MemoryScope {
    match (inst.memory.scc, inst.memory.glc) {
        (false, false) => MemoryScope::Wave,
        (false, true) => MemoryScope::Workgroup,
        (true, false) => MemoryScope::Device,
        (true, true) => MemoryScope::System,
    }
}
