//! What kernels executed, where a device counts it.

/// Exact numbers, of all launches since counting began. Instructions are counted by wave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub launches: u64,
    pub waves: u64,
    /// All of the following kinds together.
    pub instructions: u64,
    pub vector: u64,
    pub scalar: u64,
    pub matrix: u64,
    pub vector_memory: u64,
    pub scalar_memory: u64,
    pub local_memory: u64,
    pub branches: u64,
    /// Barriers, and whatever else a device counts.
    pub other: u64,
    /// Of global memory, as lanes asked for them, before any cache. Atomics do both.
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Cycles of local memory lost to bank conflicts.
    pub bank_conflicts: u64,
}

impl Counters {
    /// In the order of the fields, for those who pass them on.
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
