//! Counters of a launch on a software GPU: one table, from which everything else follows.

use serde::{Deserialize, Serialize};

/// Calls a macro with the table of counters: documentation, name, unit, and heading of a column. The order is that of the values which
/// `remoraCountersEnd` of the client library writes.
macro_rules! for_each_counter {
    ($use:ident) => {
        $use! {
            /// Kernel launches.
            launches: "launches", "launches";
            /// Wavefronts that were started.
            waves: "waves", "waves";
            /// Instructions of all kinds.
            instructions: "instructions", "all";
            /// Vector ALU instructions.
            valu: "instructions", "vector";
            /// Scalar ALU instructions.
            salu: "instructions", "scalar";
            /// Matrix instructions.
            mfma: "instructions", "matrix";
            /// Vector memory instructions.
            vmem: "instructions", "memory";
            /// Scalar memory instructions.
            smem: "instructions", "scalar memory";
            /// Local memory (LDS) instructions.
            lds: "instructions", "LDS";
            /// Branches.
            branch: "instructions", "branch";
            /// Instructions of other kinds.
            other: "instructions", "other";
            /// Bytes read by lanes, before any cache.
            bytes_read: "bytes", "bytes read";
            /// Bytes written by lanes, before any cache.
            bytes_written: "bytes", "written";
            /// Conflicts of accesses to banks of local memory.
            bank_conflicts: "conflicts", "bank conflicts";
            /// Estimated time on the real GPU, by the performance model; 0 if there is none.
            estimated_ns: "ns", "estimate";
            /// Number of the resource in [`LIMITS`] that limits the slowest kernel, counted from 1; 0 if there is none.
            limit: "number", "limit";
            /// Hits of the modelled L1 caches.
            l1_hits: "hits", "L1 hits";
            /// Accesses of the modelled L1 caches.
            l1_accesses: "accesses", "L1";
            /// Hits of the modelled L2 caches.
            l2_hits: "hits", "L2 hits";
            /// Accesses of the modelled L2 caches.
            l2_accesses: "accesses", "L2";
            /// Hits of the modelled Infinity Cache.
            infinity_hits: "hits", "Infinity Cache hits";
            /// Accesses of the modelled Infinity Cache.
            infinity_accesses: "accesses", "Infinity Cache";
            /// Bytes between the modelled GPU and its memory.
            hbm_bytes: "bytes", "HBM";
        }
    };
}

/// Resources that can limit a kernel, in the order of the performance model.
pub const LIMITS: [&str; 14] = [
    "VALU issue",
    "MFMA throughput",
    "SALU issue",
    "LDS bandwidth",
    "LDS bank conflicts",
    "vector memory issue",
    "L1 bandwidth",
    "L2 bandwidth",
    "Infinity Cache bandwidth",
    "HBM bandwidth",
    "latency: not enough waves",
    "launch overhead",
    "link bandwidth between GPUs",
    "link bandwidth to the host",
];

/// Name, unit and column heading of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Counter {
    /// Field of [`Counters`].
    pub name: &'static str,
    /// What is counted.
    pub unit: &'static str,
    /// Heading of a table column.
    pub label: &'static str,
}

macro_rules! declare {
    ($($(#[$doc:meta])* $name:ident: $unit:literal, $label:literal;)*) => {
        /// Counters of a launch on a software GPU. They are exact, and deterministic for a kernel without races.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
        #[serde(default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// All counters, in the order of [`Counters::from_array`].
            pub const TABLE: &[Counter] =
                &[$(Counter { name: stringify!($name), unit: $unit, label: $label },)*];

            /// Returns the values, in the order of [`Counters::TABLE`].
            pub const fn values(&self) -> [u64; Counters::COUNT] {
                [$(self.$name),*]
            }

            /// Names the values that a device reports.
            pub const fn from_array(values: [u64; Counters::COUNT]) -> Counters {
                let [$($name),*] = values;
                Counters { $($name),* }
            }
        }
    };
}

for_each_counter!(declare);

impl Counters {
    /// Number of counters.
    pub const COUNT: usize = Counters::TABLE.len();

    /// Returns the resource that limits the slowest kernel.
    pub fn limited_by(&self) -> Option<&'static str> {
        let index = usize::try_from(self.limit).ok()?.checked_sub(1)?;
        LIMITS.get(index).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_the_order_of_the_table() {
        let counters = Counters::from_array(std::array::from_fn(|index| index as u64));
        let json = serde_json::to_value(counters).unwrap();
        for (index, counter) in Counters::TABLE.iter().enumerate() {
            assert_eq!(json[counter.name], index, "{counter:?}");
        }
        assert_eq!(Counters::from_array(counters.values()), counters);
    }
}
