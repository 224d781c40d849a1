//! Performance counters: what kernels executed, on devices that count it.

/// Exact counts over all launches since counting began, and estimates of a performance model. Instructions are counted per wave, not per
/// lane.
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
    /// Estimated time on the real GPU in nanoseconds; 0 if the device has no model of it.
    pub estimated_ns: u64,
    /// Number of the resource that limits the kernel with the longest estimate, counted from 1; 0 if there is none.
    pub limit: u64,
    /// Hits of the modelled L1 caches.
    pub l1_hits: u64,
    /// Accesses of the L1 caches.
    pub l1_accesses: u64,
    /// Hits of the L2 caches.
    pub l2_hits: u64,
    /// Accesses of the L2 caches.
    pub l2_accesses: u64,
    /// Hits of the Infinity Cache.
    pub infinity_hits: u64,
    /// Accesses of the Infinity Cache.
    pub infinity_accesses: u64,
    /// Bytes that the model moves between the GPU and its memory.
    pub hbm_bytes: u64,
}

impl Counters {
    /// Adds the counters of another device that runs in parallel. Counts are summed; the estimate and its cache counts are those of the slower
    /// device.
    pub fn join(&mut self, other: &Counters) {
        let slower = if other.estimated_ns > self.estimated_ns { *other } else { *self };
        let (own, more) = (self.numbers(), other.numbers());
        let sum = |index: usize| own[index].saturating_add(more[index]);
        *self = Counters {
            launches: sum(0),
            waves: sum(1),
            instructions: sum(2),
            vector: sum(3),
            scalar: sum(4),
            matrix: sum(5),
            vector_memory: sum(6),
            scalar_memory: sum(7),
            local_memory: sum(8),
            branches: sum(9),
            other: sum(10),
            bytes_read: sum(11),
            bytes_written: sum(12),
            bank_conflicts: sum(13),
            ..slower
        };
    }

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
            self.estimated_ns,
            self.limit,
            self.l1_hits,
            self.l1_accesses,
            self.l2_hits,
            self.l2_accesses,
            self.infinity_hits,
            self.infinity_accesses,
            self.hbm_bytes,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_work_at_the_same_time_take_as_long_as_the_slower_one() {
        let mut first =
            Counters { launches: 1, bank_conflicts: 5, estimated_ns: 30, limit: 4, ..Counters::default() };
        let second =
            Counters { launches: 2, waves: 7, estimated_ns: 40, limit: 9, l1_hits: 3, ..Counters::default() };
        first.join(&second);
        let joined = Counters { launches: 3, waves: 7, bank_conflicts: 5, ..second };
        assert_eq!(first, joined);
    }
}
