//! Performance counters: what kernels executed, on devices that count it.

/// Exact counts over all launches since counting began. Instructions are counted per wave, not per lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Kernels that ended.
    pub launches: u64,
    /// Waves that they consisted of.
    pub waves: u64,
    /// Sum of the instruction kinds that follow.
    pub instructions: u64,
    /// Instructions of the vector ALU, without matrix instructions.
    pub vector: u64,
    /// Instructions of the scalar ALU.
    pub scalar: u64,
    /// Matrix instructions.
    pub matrix: u64,
    /// Vector loads, stores and atomics of global memory.
    pub vector_memory: u64,
    /// Scalar loads.
    pub scalar_memory: u64,
    /// Instructions that access local memory (LDS).
    pub local_memory: u64,
    /// Branches, taken or not.
    pub branches: u64,
    /// Barriers, and all other instructions that the device counts.
    pub other: u64,
    /// Bytes of global memory that lanes accessed, before any cache. Atomics count as a read and a write.
    pub bytes_read: u64,
    /// Bytes of global memory that lanes wrote.
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
