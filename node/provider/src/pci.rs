//! Reads a card's properties and sensors from the graphics driver's PCI device folder.

use std::collections::BTreeMap;

use crate::address::PciAddress;
use crate::device::PcieLink;
use crate::metrics::Metrics;
use crate::partition::{ComputeMode, MemoryMode, Modes};
use crate::tree::Tree;

const DRIVER: &str = "sys/module/amdgpu/drivers/pci:amdgpu";
/// Plausibility limit of memory, above any real card.
const MEMORY_LIMIT: u64 = 1 << 48;

/// A card.
#[derive(Clone, Debug)]
pub struct Card {
    folder: String,
    pub device_id: u32,
    pub unique_id: u64,
    pub product: Option<String>,
    pub firmware: Option<String>,
    pub numa: i32,
    pub memory: u64,
    pub pcie: Option<PcieLink>,
    pub modes: Modes,
}

/// Returns all cards that the driver has bound.
pub fn cards(tree: &Tree) -> BTreeMap<PciAddress, Card> {
    let addresses = tree.names(DRIVER).into_iter().filter_map(|name| PciAddress::parse(&name));
    addresses.map(|address| (address, card(tree, address))).collect()
}

/// Returns the driver's version, or for an in-tree driver the kernel's.
pub fn driver_version(tree: &Tree) -> String {
    let version = tree.text("sys/module/amdgpu/version").or_else(|| tree.text("proc/sys/kernel/osrelease"));
    version.unwrap_or_default()
}

impl Card {
    /// Reads the current sensor values.
    pub fn metrics(&self, tree: &Tree) -> Metrics {
        let at = |name: &str| format!("{}/{name}", self.folder);
        let mut metrics = Metrics {
            utilization: tree.number(at("gpu_busy_percent")).map(|percent: u32| percent.min(100)),
            memory_used: tree.number(at("mem_info_vram_used")).filter(|bytes| *bytes < MEMORY_LIMIT),
            ..Metrics::default()
        };
        if let Some(busy) = tree.number::<f64>(at("mem_busy_percent")) {
            metrics.extra("memory_busy_percent", busy.clamp(0.0, 100.0));
        }
        if let Some(errors) = tree.text(at("ras/umc_err_count")) {
            for (label, key) in [("ue:", "ecc_uncorrectable"), ("ce:", "ecc_correctable")] {
                let count =
                    errors.lines().find_map(|line| line.trim().strip_prefix(label)?.trim().parse().ok());
                if let Some(count) = count {
                    metrics.extra(key, count);
                }
            }
        }
        if let Some(hwmon) = tree.names(at("hwmon")).into_iter().find(|name| name.starts_with("hwmon")) {
            sensors(tree, &at(&format!("hwmon/{hwmon}")), &mut metrics);
        }
        metrics
    }

    /// Sets the partition modes. The driver applies them synchronously or returns an error.
    pub fn set_modes(&self, tree: &Tree, compute: ComputeMode, memory: MemoryMode) -> std::io::Result<()> {
        if self.modes.memory != Some(memory) {
            tree.write(format!("{}/current_memory_partition", self.folder), memory.name())?;
        }
        tree.write(format!("{}/current_compute_partition", self.folder), compute.name())
    }
}

fn card(tree: &Tree, address: PciAddress) -> Card {
    let folder = format!("{DRIVER}/{address}");
    let at = |name: &str| format!("{folder}/{name}");
    let list = |name: &str| tree.text(at(name)).unwrap_or_default();
    let modes = Modes {
        compute: ComputeMode::parse(&list("current_compute_partition")),
        memory: MemoryMode::parse(&list("current_memory_partition")),
        available_compute: words(&list("available_compute_partition"))
            .filter_map(ComputeMode::parse)
            .collect(),
        available_memory: words(&list("available_memory_partition")).filter_map(MemoryMode::parse).collect(),
    };
    Card {
        device_id: tree.hexadecimal(at("device")).filter(|id| *id <= 0xffff).unwrap_or(0) as u32,
        unique_id: tree.hexadecimal(at("unique_id")).unwrap_or(0),
        product: tree.text(at("product_name")).filter(|name| name.len() < 128),
        firmware: tree.text(at("vbios_version")).filter(|name| name.len() < 128),
        numa: tree.number(at("numa_node")).filter(|node| (-1..4096).contains(node)).unwrap_or(-1),
        memory: tree.number(at("mem_info_vram_total")).filter(|bytes| *bytes < MEMORY_LIMIT).unwrap_or(0),
        pcie: link(tree, &folder),
        modes,
        folder,
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ', '\n']).filter(|word| !word.is_empty())
}

fn link(tree: &Tree, folder: &str) -> Option<PcieLink> {
    let speed = tree.text(format!("{folder}/max_link_speed"))?;
    let width = tree.number(format!("{folder}/max_link_width")).filter(|width| (1..=32).contains(width))?;
    let transfers: f64 = speed.split_whitespace().next()?.parse().ok()?;
    Some(PcieLink { generation: generation(transfers * 1000.0)?, width })
}

/// Returns the PCIe generation with this rate in megatransfers per second.
pub fn generation(megatransfers: f64) -> Option<u32> {
    let known = [(2500.0, 1), (5000.0, 2), (8000.0, 3), (16000.0, 4), (32000.0, 5), (64000.0, 6)];
    known.into_iter().find(|(speed, _)| *speed == megatransfers).map(|(_, generation)| generation)
}

fn sensors(tree: &Tree, folder: &str, metrics: &mut Metrics) {
    let at = |name: &str| format!("{folder}/{name}");
    let microwatts = tree.number::<u64>(at("power1_average")).or_else(|| tree.number(at("power1_input")));
    metrics.power_watts = microwatts.map(|power| power as f64 / 1e6);
    if let Some(cap) = tree.number::<u64>(at("power1_cap")) {
        metrics.extra("power_limit_watts", cap as f64 / 1e6);
    }
    for (file, key) in [("freq1_input", "graphics_clock_mhz"), ("freq2_input", "memory_clock_mhz")] {
        if let Some(hertz) = tree.number::<u64>(at(file)) {
            metrics.extra(key, hertz as f64 / 1e6);
        }
    }
    let mut temperatures = BTreeMap::new();
    for sensor in 1..=3 {
        let label = tree.text(at(&format!("temp{sensor}_label")));
        let degrees =
            tree.number::<i64>(at(&format!("temp{sensor}_input"))).map(|value| value as f64 / 1000.0);
        if let (Some(label), Some(degrees)) = (label, degrees) {
            temperatures.insert(label, degrees);
        }
    }
    // MI300 cards have no edge sensor; the junction (hottest spot) is the relevant one anyway.
    metrics.temperature =
        ["junction", "edge", "mem"].iter().find_map(|label| temperatures.get(*label).copied());
    if let Some(degrees) = temperatures.get("mem") {
        metrics.extra("memory_temperature_celsius", *degrees);
    }
}
