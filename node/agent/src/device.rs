//! A GPU of this machine, of which the agent allocates shares.

use serde::Serialize;
use utoipa::ToSchema;

use crate::config::SoftwareGpu;

/// What executes a GPU's kernels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Backing {
    /// The emulator, which simulates this model.
    Software { model: String },
    /// AMD's HIP runtime. `pci` is the GPU's PCI address. `position` distinguishes GPUs with the same address, such as the partitions of
    /// one GPU, and identifies the GPU if the provider library reports no address.
    Hip { pci: Option<String>, position: u32 },
    /// NVIDIA's driver, with translated kernels. `uuid` is the driver's own name of the GPU, `pci` its PCI address, and `imitates` the
    /// model that programs see.
    Cuda { uuid: String, pci: Option<String>, imitates: String },
}

/// Back end of a worker. All GPUs of a worker have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackendKind {
    Hip,
    Cuda,
    Software,
}

impl BackendKind {
    /// All kinds, in the order in which requests that admit several get them.
    pub(crate) const ALL: [BackendKind; 3] = [BackendKind::Hip, BackendKind::Cuda, BackendKind::Software];
}

impl Backing {
    pub(crate) fn kind(&self) -> BackendKind {
        match self {
            Backing::Software { .. } => BackendKind::Software,
            Backing::Hip { .. } => BackendKind::Hip,
            Backing::Cuda { .. } => BackendKind::Cuda,
        }
    }
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Gpu {
    /// The provider's identifier.
    pub uuid: String,
    /// `AMD` or `NVIDIA`.
    pub vendor: String,
    pub model: String,
    /// The driver's version.
    pub driver: String,
    /// The position in the provider's list.
    pub index: u32,
    /// The NUMA node, or -1.
    pub numa_node: i32,
    /// The size of its memory.
    pub memory_bytes: u64,
    /// The number of its compute units.
    pub compute_units: u64,
    /// Half-precision peak. Compute shares in TFLOPs are relative to it.
    pub tflops: f64,
    /// Whether it is a real or a software GPU.
    pub backing: Backing,
}

/// Models of the emulator: key, name, memory in GiB, compute units, half-precision peak in TFLOPs.
const MODELS: &[(&str, &str, u64, u64, f64)] = &[
    ("mi300x", "AMD Instinct MI300X", 192, 304, 1307.4),
    ("mi300a", "AMD Instinct MI300A", 128, 228, 980.6),
    ("mi325x", "AMD Instinct MI325X", 256, 304, 1307.4),
    ("mi210", "AMD Instinct MI210", 64, 104, 181.0),
    ("mi250x", "AMD Instinct MI250X", 64, 110, 191.5),
];

impl Gpu {
    /// Returns the software GPUs of a configuration. The error is the name of an unknown model.
    pub fn software(wanted: &[SoftwareGpu], node: &str) -> Result<Vec<Gpu>, String> {
        let mut found: Vec<Gpu> = Vec::new();
        // Unless configured otherwise, a software GPU has at most an equal share of the machine's memory.
        let count: u64 = wanted.iter().map(|gpu| u64::from(gpu.count)).sum();
        let part = (limits::machine_memory() / count.max(1)) >> 20 << 20;
        for gpu in wanted {
            let row = MODELS.iter().find(|row| row.0.eq_ignore_ascii_case(&gpu.model));
            let (key, name, gib, units, tflops) = *row.ok_or_else(|| gpu.model.clone())?;
            for _ in 0..gpu.count {
                let index = found.len() as u32;
                found.push(Gpu {
                    uuid: format!("remora-{node}-{key}-{index}"),
                    vendor: "AMD".to_owned(),
                    model: name.to_owned(),
                    driver: format!("remora {}", env!("CARGO_PKG_VERSION")),
                    index,
                    numa_node: -1,
                    memory_bytes: gpu.memory.unwrap_or_else(|| (gib << 30).min(part)),
                    compute_units: units,
                    tflops,
                    backing: Backing::Software { model: key.to_owned() },
                });
            }
        }
        Ok(found)
    }

    /// Returns the key of a model that the emulator simulates and NVIDIA GPUs imitate.
    pub(crate) fn model_key(name: &str) -> Option<&'static str> {
        MODELS.iter().find(|row| row.0.eq_ignore_ascii_case(name)).map(|row| row.0)
    }

    /// Returns NVIDIA's name of a GPU, as the driver spells it, from a provider's identifier. Some libraries convert it to lower case.
    /// `None` if it is not one GPU's name.
    pub(crate) fn nvidia_uuid(text: &str) -> Option<String> {
        let (prefix, rest) = text.split_at_checked(4)?;
        let plain = rest.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        let is_one = prefix.eq_ignore_ascii_case("GPU-") && plain && (1..60).contains(&rest.len());
        is_one.then(|| format!("GPU-{}", rest.to_ascii_lowercase()))
    }

    /// Returns the emulator's model key for a vendor's product name.
    pub(crate) fn software_model(name: &str) -> Option<&'static str> {
        MODELS.iter().find(|row| row.1.eq_ignore_ascii_case(name)).map(|row| row.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_gpus_have_names_of_their_own() {
        let wanted = [("mi300x", 2), ("MI210", 1)].map(|(model, count)| SoftwareGpu {
            model: model.to_owned(),
            memory: None,
            count,
        });
        let gpus = Gpu::software(&wanted, "n1").unwrap();
        let uuids: Vec<&str> = gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
        assert_eq!(uuids, ["remora-n1-mi300x-0", "remora-n1-mi300x-1", "remora-n1-mi210-2"]);
        let wrong = SoftwareGpu { model: "mi999".to_owned(), memory: None, count: 1 };
        assert_eq!(Gpu::software(&[wrong], "n1"), Err("mi999".to_owned()));
        assert_eq!(Gpu::software_model("AMD Instinct MI300X"), Some("mi300x"));
    }

    #[test]
    fn an_nvidia_gpu_has_the_drivers_name_and_never_that_of_several() {
        for text in ["GPU-feed0000-1111-2222-3333-444455556666", "gpu-FEED0000-1111-2222-3333-444455556666"] {
            let expected = "GPU-feed0000-1111-2222-3333-444455556666";
            assert_eq!(Gpu::nvidia_uuid(text).as_deref(), Some(expected));
        }
        for wrong in ["", "GPU-", "GPU", "0", "GPU-1,GPU-2", "GPU-1 ", "MIG-1", "nvidia-1", "GPU-ä"] {
            assert_eq!(Gpu::nvidia_uuid(wrong), None, "{wrong}");
        }
    }
}
