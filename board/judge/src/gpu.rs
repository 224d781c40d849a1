//! The GPUs of the board: compile targets and peak rates. NVIDIA GPUs imitate AMD's, and are separate GPUs of the board.

use board_problems::Dtype;

/// A HIP device. For an MI250X that is one of its two dies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gpu {
    /// Model. For an NVIDIA GPU, with the processor that it imitates: `H200-GFX942`.
    pub name: &'static str,
    /// The device's exact name, if it is an NVIDIA GPU that imitates AMD's: `NVIDIA H200 as gfx942`.
    pub imitator: Option<&'static str>,
    /// Target of the compiler.
    pub target: &'static str,
    /// Memory bandwidth in bytes per second, from the data sheet.
    pub bytes_per_s: f64,
    /// Peak operations per second by type, on the fastest units for it: matrix units if the GPU has them.
    pub float64: f64,
    /// Single precision.
    pub float32: f64,
    /// Half precision.
    pub float16: f64,
    /// 8-bit integers.
    pub int8: f64,
    /// Size of the last-level cache in bytes.
    pub last_cache: u64,
    /// Local memory (LDS) of a compute unit in bytes.
    pub local: u32,
}

const TERA: f64 = 1e12;

/// From AMD's data sheets: peak theoretical, without sparsity. float32 on the MI200 series is packed or matrix, whichever is more.
const GPUS: &[Gpu] = &[
    Gpu {
        name: "MI210",
        imitator: None,
        target: "gfx90a",
        bytes_per_s: 1.6384 * TERA,
        float64: 45.3 * TERA,
        float32: 45.3 * TERA,
        float16: 181.0 * TERA,
        int8: 181.0 * TERA,
        last_cache: 8 << 20,
        local: 64 << 10,
    },
    Gpu {
        name: "MI250X",
        imitator: None,
        target: "gfx90a",
        bytes_per_s: 3.2768 * TERA / 2.0,
        float64: 95.7 * TERA / 2.0,
        float32: 95.7 * TERA / 2.0,
        float16: 383.0 * TERA / 2.0,
        int8: 383.0 * TERA / 2.0,
        last_cache: 8 << 20,
        local: 64 << 10,
    },
    Gpu {
        name: "MI300A",
        imitator: None,
        target: "gfx942",
        bytes_per_s: 5.3248 * TERA,
        float64: 122.6 * TERA,
        float32: 122.6 * TERA,
        float16: 980.6 * TERA,
        int8: 1961.2 * TERA,
        last_cache: 256 << 20,
        local: 64 << 10,
    },
    Gpu {
        name: "MI300X",
        imitator: None,
        target: "gfx942",
        bytes_per_s: 5.3248 * TERA,
        float64: 163.4 * TERA,
        float32: 163.4 * TERA,
        float16: 1307.4 * TERA,
        int8: 2614.9 * TERA,
        last_cache: 256 << 20,
        local: 64 << 10,
    },
    Gpu {
        name: "MI325X",
        imitator: None,
        target: "gfx942",
        bytes_per_s: 6.0 * TERA,
        float64: 163.4 * TERA,
        float32: 163.4 * TERA,
        float16: 1307.4 * TERA,
        int8: 2614.9 * TERA,
        last_cache: 256 << 20,
        local: 64 << 10,
    },
    nvidia(H200, "H200-GFX942", "NVIDIA H200 as gfx942", "gfx942"),
    nvidia(H200, "H200-GFX90A", "NVIDIA H200 as gfx90a", "gfx90a"),
    nvidia(H100, "H100-GFX942", "NVIDIA H100 80GB HBM3 as gfx942", "gfx942"),
    nvidia(H100, "H100-GFX90A", "NVIDIA H100 80GB HBM3 as gfx90a", "gfx90a"),
    nvidia(A100, "A100-GFX942", "NVIDIA A100-SXM4-80GB as gfx942", "gfx942"),
    nvidia(A100, "A100-GFX90A", "NVIDIA A100-SXM4-80GB as gfx90a", "gfx90a"),
    nvidia(L40S, "L40S-GFX942", "NVIDIA L40S as gfx942", "gfx942"),
    nvidia(L40S, "L40S-GFX90A", "NVIDIA L40S as gfx90a", "gfx90a"),
];

/// Peak rates of an NVIDIA GPU.
#[derive(Clone, Copy)]
struct Rates {
    bytes_per_s: f64,
    float64: f64,
    float32: f64,
    float16: f64,
    int8: f64,
    last_cache: u64,
}

/// From NVIDIA's data sheets: dense, on tensor cores except for float32, whose kernels do not use them.
const H100: Rates = Rates {
    bytes_per_s: 3.35 * TERA,
    float64: 67.0 * TERA,
    float32: 67.0 * TERA,
    float16: 989.4 * TERA,
    int8: 1978.9 * TERA,
    last_cache: 50 << 20,
};
const H200: Rates = Rates { bytes_per_s: 4.8 * TERA, ..H100 };
const A100: Rates = Rates {
    bytes_per_s: 2.039 * TERA,
    float64: 19.5 * TERA,
    float32: 19.5 * TERA,
    float16: 312.0 * TERA,
    int8: 624.0 * TERA,
    last_cache: 40 << 20,
};
const L40S: Rates = Rates {
    bytes_per_s: 0.864 * TERA,
    float64: 1.44 * TERA,
    float32: 91.6 * TERA,
    float16: 362.1 * TERA,
    int8: 733.0 * TERA,
    last_cache: 96 << 20,
};

const fn nvidia(rates: Rates, name: &'static str, device: &'static str, target: &'static str) -> Gpu {
    Gpu {
        name,
        imitator: Some(device),
        target,
        bytes_per_s: rates.bytes_per_s,
        float64: rates.float64,
        float32: rates.float32,
        float16: rates.float16,
        int8: rates.int8,
        last_cache: rates.last_cache,
        // That of the imitated compute unit.
        local: 64 << 10,
    }
}

impl Gpu {
    /// Finds a GPU by name, ignoring case.
    pub fn find(name: &str) -> Option<&'static Gpu> {
        GPUS.iter().find(|gpu| gpu.name.eq_ignore_ascii_case(name))
    }

    /// Finds the NVIDIA GPU with this device name, which says what it imitates.
    pub fn of_imitator(device: &str) -> Option<&'static Gpu> {
        GPUS.iter().find(|gpu| gpu.imitator == Some(device))
    }

    /// Returns whether a device is this GPU, by the name that its worker reports. No device is two GPUs of the board, so that results
    /// on NVIDIA GPUs never count as those of the AMD GPU that they imitate.
    pub fn is(&self, device: &str) -> bool {
        match self.imitator {
            Some(name) => device == name,
            None => {
                let device = device.to_ascii_uppercase();
                !device.contains("NVIDIA") && device.contains(self.name)
            }
        }
    }

    /// Returns all GPUs.
    pub fn all() -> &'static [Gpu] {
        GPUS
    }

    /// Returns an upper bound of the operations per second for a problem in this type.
    pub fn peak_flops(&self, dtype: Dtype) -> f64 {
        match dtype {
            Dtype::Float64 => self.float64,
            // On the MI300 series float32 inputs may use xf32 matrix units at half the float16 rate. A tolerance that rejects
            // float16 rejects most of these solutions, but the lower bound of the run time must hold for all of them.
            Dtype::Float32 => {
                if self.target == "gfx942" {
                    self.float16 / 2.0
                } else {
                    self.float32
                }
            }
            Dtype::Float16 | Dtype::Bfloat16 => self.float16,
            _ => self.int8,
        }
    }

    /// Returns the wavefronts that fit on a SIMD at once, given the resources of each and the workgroup size in work-items.
    pub fn waves_per_simd(&self, registers: u32, scalars: u32, local: u32, workgroup: u32) -> u32 {
        const MOST: u32 = 8;
        const SIMDS: u32 = 4;
        // Each lane has 512 registers, allocated in blocks of eight.
        let by_registers = 512 / registers.max(1).next_multiple_of(8);
        let by_scalars = if scalars <= 100 { MOST } else { 7 };
        let waves = workgroup.max(1).div_ceil(64);
        let by_local = match local {
            0 => MOST,
            local => (self.local / local.min(self.local) * waves).div_ceil(SIMDS),
        };
        MOST.min(by_registers).min(by_scalars).min(by_local)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_found_by_name() {
        assert_eq!(Gpu::find("mi300x").unwrap().target, "gfx942");
        assert_eq!(Gpu::find("MI210").unwrap().target, "gfx90a");
        assert!(Gpu::find("MI100").is_none());
    }

    #[test]
    fn a_device_is_one_gpu_of_the_board_and_an_imitator_is_never_what_it_imitates() {
        let devices = [
            ("AMD Instinct MI300X", "MI300X"),
            ("AMD Instinct MI210", "MI210"),
            ("NVIDIA H200 as gfx942", "H200-GFX942"),
            ("NVIDIA H200 as gfx90a", "H200-GFX90A"),
            ("NVIDIA A100-SXM4-80GB as gfx90a", "A100-GFX90A"),
        ];
        for (device, name) in devices {
            let of_device: Vec<&str> =
                Gpu::all().iter().filter(|gpu| gpu.is(device)).map(|gpu| gpu.name).collect();
            assert_eq!(of_device, [name], "{device}");
        }
        for stranger in
            ["NVIDIA H200", "NVIDIA H200 NVL as gfx942", "NVIDIA MI300X as gfx942", "H200 as gfx942"]
        {
            assert!(!Gpu::all().iter().any(|gpu| gpu.is(stranger)), "{stranger}");
        }
        for gpu in Gpu::all() {
            assert_eq!(gpu.name.contains("-GFX"), gpu.imitator.is_some(), "{}", gpu.name);
            if let Some(device) = gpu.imitator {
                assert!(device.ends_with(&format!(" as {}", gpu.target)), "{device}");
                assert!(gpu.name.to_lowercase().ends_with(gpu.target), "{device}");
                assert_eq!(Gpu::of_imitator(device).map(|gpu| gpu.name), Some(gpu.name));
            }
        }
    }

    #[test]
    fn peaks_are_what_units_clocks_and_buses_give() {
        // Compute units; GHz; operations per unit and clock for float64, float32, float16, int8; memory bus width in bits and
        // Gbit/s per pin.
        for (name, units, clock, operations, bus) in [
            ("MI210", 104.0, 1.7, [256.0, 256.0, 1024.0, 1024.0], (4096.0, 3.2)),
            ("MI250X", 110.0, 1.7, [256.0, 256.0, 1024.0, 1024.0], (4096.0, 3.2)),
            ("MI300A", 228.0, 2.1, [256.0, 256.0, 2048.0, 4096.0], (8192.0, 5.2)),
            ("MI300X", 304.0, 2.1, [256.0, 256.0, 2048.0, 4096.0], (8192.0, 5.2)),
        ] {
            let gpu = Gpu::find(name).unwrap();
            let stated = [gpu.float64, gpu.float32, gpu.float16, gpu.int8];
            for (stated, operations) in stated.into_iter().zip(operations) {
                let given = units * clock * 1e9 * operations;
                assert!((stated / given - 1.0).abs() < 2e-3, "{name}: {stated} {given}");
            }
            let given = bus.0 / 8.0 * bus.1 * 1e9;
            assert!((gpu.bytes_per_s / given - 1.0).abs() < 2e-3, "{name}: {given}");
        }
    }

    #[test]
    fn occupancy_is_bounded_by_registers_and_by_local_memory() {
        let gpu = Gpu::find("MI300X").unwrap();
        assert_eq!(gpu.waves_per_simd(32, 20, 0, 256), 8);
        assert_eq!(gpu.waves_per_simd(64, 20, 0, 256), 8);
        assert_eq!(gpu.waves_per_simd(65, 20, 0, 256), 7);
        assert_eq!(gpu.waves_per_simd(128, 20, 0, 256), 4);
        assert_eq!(gpu.waves_per_simd(512, 20, 0, 256), 1);
        // Two workgroups of four waves, on four SIMDs.
        assert_eq!(gpu.waves_per_simd(32, 20, 32 << 10, 256), 2);
        assert_eq!(gpu.waves_per_simd(32, 20, 64 << 10, 64), 1);
    }
}
