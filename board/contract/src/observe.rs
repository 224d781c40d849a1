//! Results of observing the kernels of a submission on a software GPU: the check of memory accesses, and the profile by source line.

use serde::{Deserialize, Serialize};

use crate::named::named;

named! {
    /// Kind of a finding.
    pub enum FindingKind {
        /// An access outside of every buffer, or of local memory.
        OutOfBounds = "out-of-bounds",
        /// A write to an input.
        InputWrite = "input-write",
        /// Another fault that ended the kernel: a trap, an invalid instruction.
        Fault = "fault",
        /// Two waves access the same local memory without a barrier between them, and one of them writes.
        LocalRace = "local-race",
        /// Two workgroups access the same global memory without order, and one of them writes.
        GlobalRace = "global-race",
        /// A read of local memory that the workgroup has not written.
        UninitialisedRead = "uninitialised-read",
        /// Lanes of one instruction write different values to one address. A note, which does not make the result bad.
        SameAddress = "same-address",
    }
}

impl FindingKind {
    /// Returns whether it is only a note.
    pub fn is_note(self) -> bool {
        self == FindingKind::SameAddress
    }
}

/// A problem with the memory accesses of a kernel, at its first occurrence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Finding {
    /// Kind.
    pub kind: FindingKind,
    /// Line of the source; null if the instruction comes from a header.
    #[schema(required)]
    pub line: Option<u32>,
    /// Line of the other access of a race; null if there is none, or it comes from a header.
    #[schema(required)]
    pub other_line: Option<u32>,
    /// Kernel.
    pub kernel: String,
    /// Description.
    pub message: String,
    /// Who accessed what: work-items, addresses, instructions.
    pub details: Vec<String>,
    /// Number of executions in which it occurred.
    pub count: u64,
}

/// Result of the check of memory accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AccessReport {
    /// Findings, the most serious first.
    pub findings: Vec<Finding>,
    /// Number of further findings that are not listed.
    pub more: u64,
    /// Names of the cases that ran.
    pub cases: Vec<String>,
    /// Why the run ended before all cases; empty if it did not.
    pub stopped: String,
    /// Number of accesses that were not checked for races, because there were too many.
    pub unchecked: u64,
    /// Number of observed launches.
    pub launches: u64,
}

/// Hits of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CacheHits {
    /// Accesses that found their line.
    pub hits: u64,
    /// All accesses.
    pub accesses: u64,
}

/// Profile of one source line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProfileLine {
    /// Line of the source; null for code from headers, all of it together.
    #[schema(required)]
    pub line: Option<u32>,
    /// Executed instructions, counted once per wave.
    pub instructions: u64,
    /// Part of all executed instructions.
    pub share: f64,
    /// Mean number of active lanes, of 64.
    pub lanes: f64,
    /// Part of the waves' time in which they wait at this line, by the performance model.
    pub stalled: f64,
    /// Bytes that lanes requested from global memory.
    pub global_bytes: u64,
    /// Part of the bytes of the accessed 64-byte lines that some lane requested; 0 if there was no access.
    pub line_use: f64,
    /// Hits of its loads in L1, by the performance model.
    pub l1: CacheHits,
    /// Hits of its loads in L2, among what L1 did not serve.
    pub l2: CacheHits,
    /// Bytes of accesses to local memory.
    pub local_bytes: u64,
    /// Cycles lost to bank conflicts of local memory.
    pub bank_conflicts: u64,
}

/// A share of a kernel's estimated time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ResourceShare {
    /// Name of the resource.
    pub name: String,
    /// Time that it would take alone, as a part of the estimated time.
    pub share: f64,
}

/// Profile of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct KernelReport {
    /// Name of the kernel.
    pub kernel: String,
    /// Number of launches.
    pub launches: u64,
    /// Number of workgroups.
    pub workgroups: u64,
    /// Number of waves.
    pub waves: u64,
    /// Executed instructions.
    pub instructions: u64,
    /// Estimated time on the GPU.
    pub estimated_ms: f64,
    /// What limits the kernel.
    pub limited_by: String,
    /// Resources, the most used first.
    pub resources: Vec<ResourceShare>,
    /// Occupancy: waves of a SIMD, of at most 8.
    pub waves_per_simd: f64,
    /// Mean number of active lanes in a vector instruction, of 64.
    pub mean_active_lanes: f64,
    /// Bytes read from and written to HBM.
    pub hbm_bytes: u64,
    /// Hits of the L1 caches.
    pub l1: CacheHits,
    /// Hits of the L2 caches.
    pub l2: CacheHits,
    /// Cycles lost to bank conflicts of local memory.
    pub bank_conflicts: u64,
    /// Source lines, those with the most executed instructions first.
    pub lines: Vec<ProfileLine>,
}

/// Result of a profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProfileReport {
    /// Name of the case that ran.
    pub case: String,
    /// Name of the GPU that the estimates are for.
    pub gpu: String,
    /// Whether the outputs were correct.
    pub correct: bool,
    /// Kernels, the one with the longest estimated time first.
    pub kernels: Vec<KernelReport>,
}
