//! Remora's software GPU models.
//!
//! The figures are those of `backend_emulator::MODELS`; a test of `remora devices` compares them. The library does not link that crate,
//! because it contains the whole emulator with a compiler, which does not belong in a process that lists devices.

use crate::device::{Device, Source};
use crate::gfx;
use crate::partition::Modes;

/// The GPU model that a software GPU emulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Name in settings: `mi300x`.
    pub key: &'static str,
    /// The name of the model.
    pub name: &'static str,
    /// KFD's `gfx_target_version`.
    pub target: u32,
    /// The size of its memory.
    pub memory_gib: u64,
    /// The number of its compute units.
    pub compute_units: u64,
    /// The number of its dies.
    pub dies: u32,
    /// The clock.
    pub clock_mhz: u64,
    /// The PCI device id of the real GPU.
    pub pci_chip: u32,
}

macro_rules! models {
    ($($key:literal $name:literal $target:literal $gib:literal GiB $units:literal CUs $dies:literal dies $clock:literal MHz $chip:literal)*) => {
        &[$(Model {
            key: $key,
            name: $name,
            target: $target,
            memory_gib: $gib,
            compute_units: $units,
            dies: $dies,
            clock_mhz: $clock,
            pci_chip: $chip,
        }),*]
    };
}

/// All models.
#[rustfmt::skip]
pub const MODELS: &[Model] = models! {
    "mi300x" "AMD Instinct MI300X" 90402 192 GiB 304 CUs 8 dies 2100 MHz 0x74a1
    "mi300a" "AMD Instinct MI300A" 90402 128 GiB 228 CUs 6 dies 2100 MHz 0x74a0
    "mi325x" "AMD Instinct MI325X" 90402 256 GiB 304 CUs 8 dies 2100 MHz 0x74a5
    "mi210"  "AMD Instinct MI210"  90010  64 GiB 104 CUs 1 dies 1700 MHz 0x740f
    "mi250x" "AMD Instinct MI250X" 90010  64 GiB 110 CUs 1 dies 1700 MHz 0x7408
};

/// Names of further PCI device ids, for cards whose driver reports no name.
const OTHER_NAMES: &[(u32, &str)] = &[
    (0x738c, "AMD Instinct MI100"),
    (0x740c, "AMD Instinct MI250X"),
    (0x74a2, "AMD Instinct MI308X"),
    (0x75a0, "AMD Instinct MI350X"),
    (0x75a3, "AMD Instinct MI355X"),
];

impl Model {
    /// Returns the model with this name.
    pub fn find(key: &str) -> Option<&'static Model> {
        MODELS.iter().find(|model| model.key.eq_ignore_ascii_case(key))
    }

    /// Returns the compiler's name of the architecture, such as `gfx942`.
    pub fn processor(&self) -> Option<String> {
        gfx::name(self.target)
    }
}

/// Returns the product name for a PCI device id.
pub fn name_of_chip(chip: u32) -> Option<&'static str> {
    let model = MODELS.iter().find(|model| model.pci_chip == chip).map(|model| model.name);
    model.or_else(|| OTHER_NAMES.iter().find(|(known, _)| *known == chip).map(|(_, name)| *name))
}

/// Returns the devices of a list of model names, and the unknown names. A name may be followed by `*` and a count.
pub fn devices(list: &[String], machine: u64) -> (Vec<Device>, Vec<String>) {
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    for entry in list {
        let (key, count) = match entry.split_once('*') {
            Some((key, count)) => (key, count.parse().ok().filter(|count| (1..=64).contains(count))),
            None => (entry.as_str(), Some(1)),
        };
        match (Model::find(key), count) {
            (Some(model), Some(count)) => {
                for _ in 0..count {
                    found.push(device(model, found.len(), machine));
                }
            }
            _ => unknown.push(entry.clone()),
        }
    }
    (found, unknown)
}

fn device(model: &Model, ordinal: usize, machine: u64) -> Device {
    Device {
        uuid: format!("remora-{:08x}-{}-{ordinal}", machine as u32, model.key),
        model: model.name.to_owned(),
        driver: format!("remora {}", env!("CARGO_PKG_VERSION")),
        firmware: String::new(),
        numa: -1,
        memory: model.memory_gib << 30,
        compute_units: model.compute_units,
        dies: model.dies,
        tflops: gfx::tflops(model.target, model.compute_units, model.clock_mhz),
        pcie: None,
        address: None,
        part: None,
        render_minor: None,
        gpu_id: 0,
        node: None,
        hive: 0,
        target: model.target,
        unique_id: 0,
        modes: Modes::default(),
        nvidia: None,
        source: Source::Software,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_devices_and_what_it_does_not_know_is_told() {
        let list = ["mi300x*2", "MI210", "mi999", "mi300x*0", "mi300x*9999"].map(str::to_owned);
        let (found, unknown) = devices(&list, 7);
        let uuids: Vec<&str> = found.iter().map(|device| device.uuid.as_str()).collect();
        assert_eq!(
            uuids,
            ["remora-00000007-mi300x-0", "remora-00000007-mi300x-1", "remora-00000007-mi210-2"]
        );
        assert_eq!(unknown, ["mi999", "mi300x*0", "mi300x*9999"]);
    }
}
