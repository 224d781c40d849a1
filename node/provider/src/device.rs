//! A device as reported by this library.

use crate::address::PciAddress;
use crate::partition::Modes;

/// Data source of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// AMD's management library (AMD SMI), with the device's handle.
    Library(usize),
    /// The kernel driver alone.
    Kernel,
    /// NVIDIA's management library (NVML), with the GPU's handle.
    Nvml(usize),
    /// Remora's list of software GPUs.
    Software,
}

/// Maximum PCIe generation and width of a device's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcieLink {
    /// The PCIe generation.
    pub generation: u32,
    /// The number of lanes.
    pub width: u32,
}

/// What only NVIDIA GPUs have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nvidia {
    /// The minor number of its device file.
    pub minor: Option<u32>,
    /// Compute capability, major and minor.
    pub capability: Option<(u32, u32)>,
}

/// A GPU, or one partition of one.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// The identifier that the interface reports.
    pub uuid: String,
    /// The name of its model.
    pub model: String,
    /// The driver's version.
    pub driver: String,
    /// The firmware's version.
    pub firmware: String,
    /// NUMA node; -1 for none.
    pub numa: i32,
    /// The size of its memory, in bytes.
    pub memory: u64,
    /// The number of its compute units.
    pub compute_units: u64,
    /// Number of compute dies.
    pub dies: u32,
    /// Dense half-precision peak.
    pub tflops: f64,
    /// Its PCIe link.
    pub pcie: Option<PcieLink>,
    /// Its PCI address.
    pub address: Option<PciAddress>,
    /// Partition index and number of partitions; `None` for a whole card.
    pub part: Option<(u32, u32)>,
    /// The minor number of its render node.
    pub render_minor: Option<u32>,
    /// KFD's id of the device, and the number of its topology node.
    pub gpu_id: u64,
    /// Its number in the kernel driver's topology.
    pub node: Option<u32>,
    /// The XGMI hive that it belongs to, or 0.
    pub hive: u64,
    /// KFD's `gfx_target_version`.
    pub target: u32,
    /// The number that the manufacturer gave it, or 0.
    pub unique_id: u64,
    /// How it is partitioned, and how it may be.
    pub modes: Modes,
    /// Set for NVIDIA GPUs only.
    pub nvidia: Option<Nvidia>,
    /// Where it was found.
    pub source: Source,
}

impl Device {
    /// Returns the UUID of the card: a partition's UUID without the partition suffix.
    pub fn card_uuid(&self) -> &str {
        match self.part {
            Some(_) => self.uuid.rsplit_once("-p").map_or(self.uuid.as_str(), |(card, _)| card),
            None => &self.uuid,
        }
    }

    /// Returns the vendor's name. Software GPUs imitate AMD's.
    pub fn vendor(&self) -> &'static str {
        if self.nvidia.is_some() { "NVIDIA" } else { "AMD" }
    }

    /// Returns the only device node that belongs to this device alone: the render node, or NVIDIA's device file.
    pub fn device_node(&self) -> Option<String> {
        match self.nvidia {
            Some(nvidia) => nvidia.minor.map(|minor| format!("/dev/nvidia{minor}")),
            None => self.render_minor.map(|minor| format!("/dev/dri/renderD{minor}")),
        }
    }

    /// Returns the compiler's name of the architecture, such as `gfx942` or `sm_90`.
    pub fn architecture(&self) -> Option<String> {
        match self.nvidia {
            Some(nvidia) => nvidia.capability.map(|(major, minor)| format!("sm_{major}{minor}")),
            None => crate::gfx::name(self.target),
        }
    }

    /// Returns further properties as names and values.
    pub fn properties(&self) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        let source = match self.source {
            Source::Library(_) => "libamd_smi",
            Source::Kernel => "sysfs",
            Source::Nvml(_) => "libnvidia-ml",
            Source::Software => "remora",
        };
        found.push(("source", source.to_owned()));
        found.extend(self.architecture().map(|name| ("architecture", name)));
        found.extend(self.address.map(|address| ("pciAddress", address.to_string())));
        let node = if self.nvidia.is_some() { "deviceFile" } else { "renderNode" };
        found.extend(self.device_node().map(|path| (node, path)));
        if self.unique_id != 0 {
            found.push(("uniqueId", format!("{:016x}", self.unique_id)));
        }
        if self.gpu_id != 0 {
            found.push(("kfdGpuId", self.gpu_id.to_string()));
        }
        if self.hive != 0 {
            found.push(("xgmiHive", format!("{:016x}", self.hive)));
        }
        if let Some((part, parts)) = self.part {
            found.push(("partition", format!("{part} of {parts}")));
            found.push(("card", self.card_uuid().to_owned()));
        }
        found.extend(self.modes.compute.map(|mode| ("computePartition", mode.name().to_owned())));
        found.extend(self.modes.memory.map(|mode| ("memoryPartition", mode.name().to_owned())));
        found
    }
}
