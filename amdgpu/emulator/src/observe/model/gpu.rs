//! Hardware parameters of the performance model: one table, one row per GPU.
//!
//! `docs/performance-model.md` names the source of each figure. A figure without a public source is marked "estimated" there and here.

use isa::Arch;

/// Geometry of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShape {
    /// Capacity in bytes.
    pub bytes: u64,
    /// Line size in bytes.
    pub line: u64,
    /// Lines of a set.
    pub ways: u64,
}

/// Latencies of an idle machine, from issue to the use of the result, in cycles of the compute clock unless named otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latencies {
    /// LDS load without bank conflicts.
    pub lds: u64,
    /// Scalar load that hits the scalar cache.
    pub scalar: u64,
    /// Vector load that hits L1.
    pub l1: u64,
    /// Vector load that hits L2.
    pub l2: u64,
    /// Vector load that hits the Infinity Cache, in nanoseconds.
    pub mall_ns: f64,
    /// Vector load from HBM, in nanoseconds.
    pub hbm_ns: f64,
    /// Vector load from the memory of another GPU, in nanoseconds.
    pub link_ns: f64,
}

/// Parameters of one GPU. MI250X is one of its two dies, which is what a program sees as a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuTiming {
    /// Name in options, such as `mi300x`.
    pub key: &'static str,
    /// Marketing name.
    pub name: &'static str,
    /// Instruction set.
    pub arch: Arch,
    /// Compute dies (XCD), each with a private L2.
    pub dies: u32,
    /// Active compute units of a die.
    pub cus_per_die: u32,
    /// Peak compute clock.
    pub clock_mhz: u32,
    /// Compute clock that matrix cores sustain under the power limit.
    pub matrix_clock_mhz: u32,
    /// Local memory of a compute unit in bytes.
    pub lds_bytes: u64,
    /// Vector data cache of a compute unit.
    pub l1: CacheShape,
    /// Bytes per cycle that an L1 delivers.
    pub l1_bytes_per_cycle: u64,
    /// Scalar data cache; two compute units share one.
    pub scalar: CacheShape,
    /// L2 of a die.
    pub l2: CacheShape,
    /// Bytes per cycle that the L2 of a die delivers.
    pub l2_bytes_per_cycle: u64,
    /// Infinity Cache, shared by all dies.
    pub mall: Option<CacheShape>,
    /// Theoretical bandwidth of the Infinity Cache in GB/s; 0 without one.
    pub mall_gb_s: f64,
    /// Part of it that reads reach.
    pub mall_efficiency: f64,
    /// Theoretical bandwidth of HBM in GB/s.
    pub hbm_gb_s: f64,
    /// Part of it that streaming kernels reach.
    pub hbm_efficiency: f64,
    /// Theoretical bandwidth in GB/s, in one direction, of the link to the next GPU.
    pub link_gb_s: f64,
    /// Part of it that kernels and copies reach.
    pub link_efficiency: f64,
    /// Theoretical bandwidth in GB/s, in one direction, of the link to the host.
    pub host_gb_s: f64,
    /// Latencies of an idle machine.
    pub latency: Latencies,
    /// Time from the command processor's start of a kernel to its first wave, and from its last wave to its completion.
    pub launch_ns: f64,
}

/// What a command other than a kernel moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Within the memory of the GPU.
    Copy,
    /// A pattern to the memory of the GPU.
    Fill,
    /// From or to the memory of another GPU.
    Peer,
    /// From or to the host.
    Host,
}

/// SIMD units of a compute unit.
pub const SIMDS: u64 = 4;
/// Cycles that a wave of 64 lanes occupies a SIMD of 16 lanes; also the interval at which a SIMD issues.
pub const ISSUE: u64 = 4;
/// Cycles of a matrix pass.
pub const PASS: u64 = 4;
/// Cycles from a matrix result to its use by other units, in addition to its passes.
pub const MATRIX_WRITE_BACK: u64 = 8;
/// Rate of transcendental functions and conversions, relative to simple operations.
pub const QUARTER_RATE: u64 = 4;
/// Cycles that a taken branch costs a wave: LLVM's model counts eight issue slots.
pub const TAKEN_BRANCH: u64 = 32;
/// Lanes whose addresses the address unit of a compute unit handles per cycle.
pub const ADDRESS_LANES: u64 = 16;

/// Part of a link's bandwidth that is reached.
const LINK_EFFICIENCY: f64 = 0.8;
/// The same on MI300X: checksums and the protocol leave 48 of 64 GB/s, says AMD's article on RCCL and xGMI.
const LINK_EFFICIENCY_MI300X: f64 = 0.75;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const CDNA2: GpuTiming = GpuTiming {
    key: "mi210",
    name: "AMD Instinct MI210",
    arch: Arch::Gfx90a,
    dies: 1,
    cus_per_die: 104,
    clock_mhz: 1700,
    matrix_clock_mhz: 1700,
    lds_bytes: 64 * KIB,
    l1: CacheShape { bytes: 16 * KIB, line: 64, ways: 64 },
    l1_bytes_per_cycle: 64,
    scalar: CacheShape { bytes: 16 * KIB, line: 64, ways: 4 },
    l2: CacheShape { bytes: 8 * MIB, line: 128, ways: 16 },
    l2_bytes_per_cycle: 4096,
    mall: None,
    mall_gb_s: 0.0,
    mall_efficiency: 1.0,
    hbm_gb_s: 1638.4,
    hbm_efficiency: 0.847,
    link_gb_s: 50.0,
    link_efficiency: LINK_EFFICIENCY,
    host_gb_s: 32.0,
    latency: Latencies {
        lds: 64,
        scalar: 50,
        l1: 120,
        l2: 230,
        mall_ns: 0.0,
        hbm_ns: 420.0,
        link_ns: 1000.0,
    },
    launch_ns: 2500.0,
};

const CDNA3: GpuTiming = GpuTiming {
    key: "mi300x",
    name: "AMD Instinct MI300X",
    arch: Arch::Gfx942,
    dies: 8,
    cus_per_die: 38,
    clock_mhz: 2100,
    matrix_clock_mhz: 1207,
    lds_bytes: 64 * KIB,
    l1: CacheShape { bytes: 32 * KIB, line: 128, ways: 64 },
    l1_bytes_per_cycle: 64,
    scalar: CacheShape { bytes: 16 * KIB, line: 64, ways: 4 },
    l2: CacheShape { bytes: 4 * MIB, line: 128, ways: 16 },
    l2_bytes_per_cycle: 2048,
    mall: Some(CacheShape { bytes: 256 * MIB, line: 128, ways: 16 }),
    mall_gb_s: 17200.0,
    mall_efficiency: 0.69,
    hbm_gb_s: 5325.0,
    hbm_efficiency: 0.80,
    link_gb_s: 64.0,
    link_efficiency: LINK_EFFICIENCY_MI300X,
    host_gb_s: 64.0,
    latency: Latencies {
        lds: 64,
        scalar: 50,
        l1: 120,
        l2: 230,
        mall_ns: 218.0,
        hbm_ns: 350.0,
        link_ns: 1000.0,
    },
    launch_ns: 2500.0,
};

/// All GPUs of the model.
pub const GPUS: &[GpuTiming] = &[
    CDNA3,
    GpuTiming {
        key: "mi300a",
        name: "AMD Instinct MI300A",
        dies: 6,
        link_gb_s: 128.0,
        link_efficiency: LINK_EFFICIENCY,
        ..CDNA3
    },
    GpuTiming {
        key: "mi325x",
        name: "AMD Instinct MI325X",
        matrix_clock_mhz: 1447,
        hbm_gb_s: 6000.0,
        ..CDNA3
    },
    CDNA2,
    GpuTiming {
        key: "mi250x",
        name: "AMD Instinct MI250X (one die)",
        cus_per_die: 110,
        link_gb_s: 200.0,
        ..CDNA2
    },
];

impl GpuTiming {
    /// Finds a GPU by its key, ignoring case.
    pub fn find(key: &str) -> Option<&'static GpuTiming> {
        GPUS.iter().find(|gpu| gpu.key.eq_ignore_ascii_case(key))
    }

    /// The first GPU with an instruction set.
    pub fn of(arch: Arch) -> &'static GpuTiming {
        GPUS.iter().find(|gpu| gpu.arch == arch).unwrap_or(&GPUS[0])
    }

    /// Number of compute units.
    pub fn cus(&self) -> u64 {
        u64::from(self.dies * self.cus_per_die)
    }

    /// Estimated time in nanoseconds of a command that is not a kernel.
    pub fn transfer_ns(&self, transfer: Transfer, bytes: u64) -> f64 {
        let bytes = bytes as f64;
        let moved = match transfer {
            // The memory is read and written.
            Transfer::Copy => 2.0 * bytes / self.hbm_rate(),
            Transfer::Fill => bytes / self.hbm_rate(),
            Transfer::Peer => bytes / self.link_rate(),
            Transfer::Host => bytes / self.host_gb_s,
        };
        self.launch_ns + moved
    }

    /// Bytes per nanosecond that streaming kernels read and write.
    pub(crate) fn hbm_rate(&self) -> f64 {
        self.hbm_gb_s * self.hbm_efficiency
    }

    /// Bytes per nanosecond that a kernel reads from another GPU, or writes to it.
    pub(crate) fn link_rate(&self) -> f64 {
        self.link_gb_s * self.link_efficiency
    }

    /// Compute clock in GHz: cycles per nanosecond.
    pub fn ghz(&self) -> f64 {
        f64::from(self.clock_mhz) / 1000.0
    }

    pub(crate) fn cycles(&self, ns: f64) -> u64 {
        (ns * self.ghz()).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gpu_has_whole_sets_in_its_caches() {
        for gpu in GPUS {
            for shape in [gpu.l1, gpu.scalar, gpu.l2].into_iter().chain(gpu.mall) {
                assert!(shape.line.is_power_of_two(), "{}", gpu.key);
                assert_eq!(shape.bytes % (shape.line * shape.ways), 0, "{}", gpu.key);
            }
            assert_eq!(gpu.mall.is_some(), gpu.mall_gb_s > 0.0, "{}", gpu.key);
            assert_eq!(GpuTiming::find(gpu.key), Some(gpu));
        }
    }
}
