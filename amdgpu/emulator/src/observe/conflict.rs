//! Conflicts that shadow memories find: two accesses, or one invalid access.

use isa::AccessKind;
use serde::Serialize;

/// Kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Problem {
    /// The kernel was aborted: an out-of-bounds access, or another fault.
    Fault,
    /// Two waves of a workgroup access the same LDS bytes, one of them writes, and no barrier separates them.
    LocalRace,
    /// Two workgroups access the same global memory, one of them writes, and nothing orders them.
    GlobalRace,
    /// An access beyond the workgroup's LDS: reads return zero, writes are dropped.
    LocalOutOfBounds,
    /// A read of LDS that the workgroup has not written.
    LocalUnset,
    /// Lanes write different values to the same address in one instruction; which value remains is undefined. A note, not an
    /// error.
    SameInstruction,
}

impl Problem {
    /// Whether this is informational only.
    pub fn is_note(self) -> bool {
        self == Problem::SameInstruction
    }
}

/// Identifies an access, with enough data to describe it later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccessSite {
    /// Address of the instruction.
    pub instruction: u64,
    /// Number of the workgroup in its grid.
    pub group: u64,
    pub wave: u32,
    pub lane: Option<u32>,
    pub kind: AccessKind,
}

/// Two conflicting accesses, or one invalid access, as found by a shadow memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conflict {
    pub problem: Problem,
    pub address: u64,
    pub by: AccessSite,
    pub with: Option<AccessSite>,
}
