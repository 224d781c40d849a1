//! Performance counters: what kernels executed, on devices that count it.

/// Exact counts over all launches since counting began. Instructions are counted per wave, not per lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub launches: u64,
    pub waves: u64,
    /// Sum of the instruction kinds that follow.
    pub instructions: u64,
    pub vector: u64,
    pub scalar: u64,
    pub matrix: u64,
    pub vector_memory: u64,
    pub scalar_memory: u64,
    pub local_memory: u64,
    pub branches: u64,
    /// Barriers, and all other instructions that the device counts.
    pub other: u64,
    /// Bytes of global memory that lanes accessed, before any cache. Atomics count as a read and a write.
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Local memory (LDS) cycles lost to bank conflicts.
    pub bank_conflicts: u64,
}

impl Counters {
    /// Returns the counters in the order of the fields, for serialization.
    pub fn numbers(&self) -> Vec<u64> {
        vec![
            self.launches,
            self.waves,
            self.instructions,
            self.vector,
            self.scalar,
            self.matrix,
            self.vector_memory,
            self.scalar_memory,
            self.local_memory,
            self.branches,
            self.other,
            self.bytes_read,
            self.bytes_written,
            self.bank_conflicts,
        ]
    }
}
