//! A device as this library tells of it.

use crate::address::PciAddress;
use crate::partition::Modes;

/// Who told of a device, and whom to ask about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// AMD's management library, by its handle.
    Library(usize),
    /// The kernel driver alone.
    Kernel,
    /// Remora itself.
    Software,
}

/// The widest and fastest a slot can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcieLink {
    pub generation: u32,
    pub width: u32,
}

/// A GPU, or one partition of one.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    pub uuid: String,
    pub model: String,
    pub driver: String,
    pub firmware: String,
    /// -1 where there is none.
    pub numa: i32,
    pub memory: u64,
    pub compute_units: u64,
    /// Compute dies.
    pub dies: u32,
    /// Dense half precision.
    pub tflops: f64,
    pub pcie: Option<PcieLink>,
    pub address: Option<PciAddress>,
    /// Which part of its card, and of how many; nothing if it is the whole card.
    pub part: Option<(u32, u32)>,
    pub render_minor: Option<u32>,
    /// KFD's numbers, of the device and of its node.
    pub gpu_id: u64,
    pub node: Option<u32>,
    pub hive: u64,
    /// KFD's number for the processor.
    pub target: u32,
    pub unique_id: u64,
    pub modes: Modes,
    pub source: Source,
}

impl Device {
    /// The card's name: that of a partition without its part.
    pub fn card_uuid(&self) -> &str {
        match self.part {
            Some(_) => self.uuid.rsplit_once("-p").map_or(self.uuid.as_str(), |(card, _)| card),
            None => &self.uuid,
        }
    }

    /// The one file that is this device's alone.
    pub fn device_node(&self) -> Option<String> {
        self.render_minor.map(|minor| format!("/dev/dri/renderD{minor}"))
    }

    /// What else is worth knowing, as names and values.
    pub fn properties(&self) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        let source = match self.source {
            Source::Library(_) => "libamd_smi",
            Source::Kernel => "sysfs",
            Source::Software => "remora",
        };
        found.push(("source", source.to_owned()));
        found.extend(crate::gfx::name(self.target).map(|name| ("architecture", name)));
        found.extend(self.address.map(|address| ("pciAddress", address.to_string())));
        found.extend(self.device_node().map(|node| ("renderNode", node)));
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
