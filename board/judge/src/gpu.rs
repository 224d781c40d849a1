//! The GPUs of the board: compile targets and peak rates. NVIDIA GPUs imitate AMD's, and are separate GPUs of the board.

use board_problems::{Dtype, InputPrecision};

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
    /// Peak operations per second of each kind of unit, without sparsity. Double precision, on matrix units if the GPU has them.
    pub float64: f64,
    /// Single precision, on vector units with one operation per lane.
    pub float32_vector: f64,
    /// Single precision, on matrix units or with packed vector instructions, whichever is more; the vector rate if there are neither.
    pub float32_matrix: f64,
    /// Single precision with inputs of ten mantissa bits (xf32, AMD's name for TF32), on matrix units, if the GPU has such.
    pub xf32: Option<f64>,
    /// Half precision and bfloat16, on matrix units.
    pub float16: f64,
    /// 8-bit integers, and 8-bit floating point if the GPU has it, on matrix units.
    pub int8: f64,
    /// Size of the last-level cache in bytes.
    pub last_cache: u64,
    /// Local memory (LDS) of a compute unit in bytes.
    pub local: u32,
}

const TERA: f64 = 1e12;

/// From AMD's data sheets "AMD Instinct MI210 Accelerator", "MI250X Accelerator" (half of it: one die is one device), "MI300A APU",
/// "MI300X Accelerator" and "MI325X Accelerator": peak theoretical, without sparsity. On the MI200 series packed float32 has the rate of
/// matrix float32, twice that of vector float32. The sheets of the MI300 series list xf32 as "TF32 matrix".
const GPUS: &[Gpu] = &[
    Gpu {
        name: "MI210",
        imitator: None,
        target: "gfx90a",
        bytes_per_s: 1.6384 * TERA,
        float64: 45.3 * TERA,
        float32_vector: 22.6 * TERA,
        float32_matrix: 45.3 * TERA,
        xf32: None,
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
        float32_vector: 47.9 * TERA / 2.0,
        float32_matrix: 95.7 * TERA / 2.0,
        xf32: None,
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
        float32_vector: 122.6 * TERA,
        float32_matrix: 122.6 * TERA,
        xf32: Some(490.3 * TERA),
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
        float32_vector: 163.4 * TERA,
        float32_matrix: 163.4 * TERA,
        xf32: Some(653.7 * TERA),
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
        float32_vector: 163.4 * TERA,
        float32_matrix: 163.4 * TERA,
        xf32: Some(653.7 * TERA),
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
        float32_vector: rates.float32,
        float32_matrix: rates.float32,
        // Translated kernels compute xf32 on the units of float32.
        xf32: None,
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

    /// Returns the roof of problems in this type: the rate of the fastest units with which a solution can be precise enough. The lower
    /// bound of the run time is derived from it, so no kernel that passes may be faster.
    pub fn roof(&self, dtype: Dtype, inputs: InputPrecision) -> Roof {
        let roof = |unit, flops| Roof { unit, flops };
        match (dtype, inputs, self.xf32) {
            (Dtype::Float64, ..) => roof("float64 matrix", self.float64),
            // Units for 8-bit types compute with such inputs exactly, whatever the type of the output.
            (_, InputPrecision::Byte, _) => roof("8-bit matrix", self.int8),
            (Dtype::Float32, InputPrecision::TenBits, Some(xf32)) => roof("xf32 matrix", xf32),
            (Dtype::Float32, ..) if self.float32_matrix > self.float32_vector => {
                roof("float32 matrix or packed", self.float32_matrix)
            }
            (Dtype::Float32, ..) => roof("float32", self.float32_vector),
            (Dtype::Float16 | Dtype::Bfloat16, ..) => roof("float16 matrix", self.float16),
            _ => roof("8-bit matrix", self.int8),
        }
    }
}

/// Highest rate of operations on a GPU, and the units that have it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roof {
    /// Type and kind of the units: `float32`, `xf32 matrix`.
    pub unit: &'static str,
    /// Operations per second.
    pub flops: f64,
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
        // Compute units; GHz; operations per unit and clock for float64, float32 vector and matrix, xf32, float16, int8; memory bus
        // width in bits and Gbit/s per pin.
        for (name, units, clock, operations, bus) in [
            ("MI210", 104.0, 1.7, [256.0, 128.0, 256.0, 0.0, 1024.0, 1024.0], (4096.0, 3.2)),
            ("MI250X", 110.0, 1.7, [256.0, 128.0, 256.0, 0.0, 1024.0, 1024.0], (4096.0, 3.2)),
            ("MI300A", 228.0, 2.1, [256.0, 256.0, 256.0, 1024.0, 2048.0, 4096.0], (8192.0, 5.2)),
            ("MI300X", 304.0, 2.1, [256.0, 256.0, 256.0, 1024.0, 2048.0, 4096.0], (8192.0, 5.2)),
        ] {
            let gpu = Gpu::find(name).unwrap();
            assert_eq!(gpu.xf32.is_some(), operations[3] > 0.0, "{name}");
            let stated = [
                gpu.float64,
                gpu.float32_vector,
                gpu.float32_matrix,
                gpu.xf32.unwrap_or_default(),
                gpu.float16,
                gpu.int8,
            ];
            for (stated, operations) in stated.into_iter().zip(operations).filter(|(_, each)| *each > 0.0) {
                let given = units * clock * 1e9 * operations;
                assert!((stated / given - 1.0).abs() < 2e-3, "{name}: {stated} {given}");
            }
            let given = bus.0 / 8.0 * bus.1 * 1e9;
            assert!((gpu.bytes_per_s / given - 1.0).abs() < 2e-3, "{name}: {given}");
        }
    }

    #[test]
    fn the_roof_of_float32_is_that_of_float32_units_unless_the_tolerance_permits_less() {
        let roof = |gpu: &str, slug: &str, dtype| {
            let precision = board_problems::find(slug).unwrap().input_precision(dtype);
            let roof = Gpu::find(gpu).unwrap().roof(dtype, precision);
            (roof.unit, (roof.flops / TERA).round())
        };
        for gpu in ["MI300X", "MI325X"] {
            assert_eq!(roof(gpu, "matrix-multiplication", Dtype::Float32), ("float32", 163.0), "{gpu}");
            assert_eq!(roof(gpu, "vector-addition", Dtype::Float32), ("float32", 163.0), "{gpu}");
        }
        let packed = "float32 matrix or packed";
        assert_eq!(roof("MI210", "matrix-multiplication", Dtype::Float32), (packed, 45.0));
        assert_eq!(roof("MI250X", "matrix-multiplication", Dtype::Float32), (packed, 48.0));
        assert_eq!(roof("H200-GFX942", "matrix-multiplication", Dtype::Float32), ("float32", 67.0));
        assert_eq!(roof("MI300X", "matrix-multiplication", Dtype::Float16), ("float16 matrix", 1307.0));
        // All inputs of this problem have eight bits.
        assert_eq!(roof("MI300X", "mxfp8-gemm", Dtype::Float32), ("8-bit matrix", 2615.0));
        // The weights have four bits, but the other factor has all bits of float32.
        assert_eq!(roof("MI300X", "int4-matmul", Dtype::Float32), ("float32", 163.0));
    }

    #[test]
    fn xf32_is_the_roof_where_the_tolerance_permits_ten_bits() {
        let roof = |gpu: &str| Gpu::find(gpu).unwrap().roof(Dtype::Float32, InputPrecision::TenBits);
        assert_eq!(roof("MI300X"), Roof { unit: "xf32 matrix", flops: 653.7 * TERA });
        assert_eq!(roof("MI210").unit, "float32 matrix or packed");
        assert_eq!(roof("H200-GFX942").unit, "float32");
    }
}
