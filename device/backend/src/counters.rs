//! Performance counters: what kernels executed, on devices that count it.

/// Declares the counters: exact counts first, then the estimates of a performance model. The order is that of [`Counters::numbers`].
macro_rules! counters {
    (counts { $($(#[$about:meta])* $count:ident,)* } estimates { $($(#[$what:meta])* $estimate:ident,)* }) => {
        /// Exact counts over all launches since counting began, and estimates of a performance model. Instructions are counted per wave,
        /// not per lane.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$about])* pub $count: u64,)*
            $($(#[$what])* pub $estimate: u64,)*
        }

        impl Counters {
            /// Adds the counters of another device that runs in parallel. Counts are summed; estimates are those of the slower device.
            pub fn join(&mut self, other: &Counters) {
                let slower = if other.estimated_ns > self.estimated_ns { *other } else { *self };
                *self = Counters { $($count: self.$count.saturating_add(other.$count),)* ..slower };
            }

            /// Returns the counters in the order of the fields, for serialization.
            pub fn numbers(&self) -> Vec<u64> {
                vec![$(self.$count,)* $(self.$estimate,)*]
            }
        }
    };
}

counters! {
    counts {
        /// Kernels that ended.
        launches,
        /// Waves that they consisted of.
        waves,
        /// Sum of the instruction kinds that follow.
        instructions,
        /// Instructions of the vector ALU, without matrix instructions.
        vector,
        /// Instructions of the scalar ALU.
        scalar,
        /// Matrix instructions.
        matrix,
        /// Vector loads, stores and atomics of global memory.
        vector_memory,
        /// Scalar loads.
        scalar_memory,
        /// Instructions that access local memory (LDS).
        local_memory,
        /// Branches, taken or not.
        branches,
        /// Barriers, and all other instructions that the device counts.
        other,
        /// Bytes of global memory that lanes accessed, before any cache. Atomics count as a read and a write.
        bytes_read,
        /// Bytes of global memory that lanes wrote.
        bytes_written,
        /// Local memory (LDS) cycles lost to bank conflicts.
        bank_conflicts,
    }
    estimates {
        /// Estimated time on the real GPU in nanoseconds; 0 if the device has no model of it.
        estimated_ns,
        /// Number of the resource that limits the kernel with the longest estimate, counted from 1; 0 if there is none.
        limit,
        /// Hits of the modelled L1 caches.
        l1_hits,
        /// Accesses of the L1 caches.
        l1_accesses,
        /// Hits of the L2 caches.
        l2_hits,
        /// Accesses of the L2 caches.
        l2_accesses,
        /// Hits of the Infinity Cache.
        infinity_hits,
        /// Accesses of the Infinity Cache.
        infinity_accesses,
        /// Bytes that the model moves between the GPU and its memory.
        hbm_bytes,
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
