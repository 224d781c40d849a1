//! Layouts of AMD SMI's structures by library version. They change with nearly every release, so the layout is chosen at run time.

/// Offsets in `amdsmi_power_info_t`. Values are 32-bit, in watts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Power {
    /// The current power.
    pub current: usize,
    /// The average power.
    pub average: usize,
    /// In microwatts.
    pub limit: usize,
}

/// Size of `amdsmi_proc_info_t` and offsets in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// The size of the structure.
    pub size: usize,
    /// The process id.
    pub pid: usize,
    /// The memory that it uses.
    pub vram: usize,
    /// The compute units that it occupies.
    pub occupied_units: Option<usize>,
}

/// Structure layouts of one release: sizes of array elements, and offsets of the fields that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// ROCm release.
    pub name: &'static str,
    /// Major library version, and the first minor version with this layout.
    pub version: (u32, u32),
    /// `amdsmi_asic_info_t`.
    pub asic_size: usize,
    /// Of the asic structure: the device id.
    pub device_id: usize,
    /// Of the asic structure: the serial number.
    pub serial: usize,
    /// Of the asic structure: the number of compute units.
    pub compute_units: Option<usize>,
    /// Of the asic structure: the processor.
    pub processor: Option<usize>,
    /// The size of the power structure.
    pub power_size: usize,
    /// The power structure.
    pub power: Power,
    /// The process structure.
    pub process: Process,
    /// The size of the driver structure.
    pub driver_size: usize,
    /// The size of the VBIOS structure.
    pub vbios_size: usize,
    /// Of the VBIOS structure: the version.
    pub vbios_version: usize,
    /// Whether the release has `amdsmi_kfd_info_t`.
    pub kfd: bool,
    /// Whether the release has `amdsmi_enumeration_info_t`.
    pub enumeration: bool,
}

const OLD_POWER: Power = Power { current: 0, average: 4, limit: 20 };
const OLD_PROCESS: Process = Process { size: 224, pid: 32, vram: 128, occupied_units: None };
const NEW_PROCESS: Process = Process { size: 704, pid: 256, vram: 352, occupied_units: Some(656) };

const ROCM_6_1: Layout = Layout {
    name: "6.1",
    version: (24, 0),
    asic_size: 256,
    device_id: 136,
    serial: 148,
    compute_units: None,
    processor: None,
    power_size: 68,
    power: OLD_POWER,
    process: OLD_PROCESS,
    driver_size: 192,
    vbios_size: 256,
    vbios_version: 160,
    kfd: false,
    enumeration: false,
};
const ROCM_6_2: Layout =
    Layout { name: "6.2", version: (24, 6), asic_size: 448, device_id: 328, serial: 340, ..ROCM_6_1 };
const ROCM_6_3: Layout = Layout {
    name: "6.3",
    version: (24, 7),
    asic_size: 456,
    compute_units: Some(376),
    processor: Some(384),
    kfd: true,
    ..ROCM_6_2
};
const ROCM_6_4: Layout = Layout {
    name: "6.4",
    version: (25, 0),
    asic_size: 896,
    device_id: 520,
    serial: 532,
    compute_units: Some(792),
    processor: Some(800),
    power_size: 40,
    power: Power { current: 8, average: 12, limit: 28 },
    process: NEW_PROCESS,
    driver_size: 768,
    vbios_size: 1056,
    vbios_version: 544,
    enumeration: true,
    ..ROCM_6_3
};
const ROCM_7_0: Layout = Layout {
    name: "7.0",
    version: (26, 0),
    power_size: 192,
    power: Power { current: 8, average: 12, limit: 40 },
    vbios_size: 1568,
    vbios_version: 768,
    ..ROCM_6_4
};
const ROCM_10: Layout = Layout { name: "10", version: (27, 0), ..ROCM_7_0 };

/// All supported releases, oldest first.
pub const LAYOUTS: &[Layout] = &[ROCM_6_1, ROCM_6_2, ROCM_6_3, ROCM_6_4, ROCM_7_0, ROCM_10];

impl Layout {
    /// Returns the layout of a library version; `None` for an unknown major version.
    pub fn of_version(first: u32, second: u32) -> Option<&'static Layout> {
        LAYOUTS.iter().rev().find(|layout| layout.version.0 == first && layout.version.1 <= second)
    }

    /// Returns the layout as names and numbers, for C programs that compare it with the headers.
    pub fn numbers(&self) -> Vec<(&'static str, usize)> {
        let always = [
            ("ASIC_SIZE", self.asic_size),
            ("DEVICE_ID", self.device_id),
            ("SERIAL", self.serial),
            ("POWER_SIZE", self.power_size),
            ("POWER_CURRENT", self.power.current),
            ("POWER_AVERAGE", self.power.average),
            ("POWER_LIMIT", self.power.limit),
            ("PROCESS_SIZE", self.process.size),
            ("PROCESS_PID", self.process.pid),
            ("PROCESS_VRAM", self.process.vram),
            ("DRIVER_SIZE", self.driver_size),
            ("VBIOS_SIZE", self.vbios_size),
            ("VBIOS_VERSION", self.vbios_version),
        ];
        let optional = [
            ("COMPUTE_UNITS", self.compute_units),
            ("PROCESSOR", self.processor),
            ("PROCESS_OCCUPIED", self.process.occupied_units),
            ("HAS_KFD", self.kfd.then_some(1)),
            ("HAS_ENUMERATION", self.enumeration.then_some(1)),
        ];
        let optional = optional.into_iter().filter_map(|(name, value)| Some((name, value?)));
        always.into_iter().chain(optional).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_has_the_layout_of_its_release_and_others_have_none() {
        let expected = [
            ((24, 5), "6.1"),
            ((24, 6), "6.2"),
            ((24, 7), "6.3"),
            ((25, 0), "6.4"),
            ((25, 5), "6.4"),
            ((26, 0), "7.0"),
            ((26, 5), "7.0"),
            ((27, 1), "10"),
        ];
        for ((first, second), name) in expected {
            assert_eq!(Layout::of_version(first, second).map(|layout| layout.name), Some(name));
        }
        for first in [0, 1, 22, 23, 28, 2400, u32::MAX] {
            assert_eq!(Layout::of_version(first, 0), None, "{first}");
        }
    }

    #[test]
    fn everything_that_is_read_lies_within_its_structure() {
        for layout in LAYOUTS {
            assert!(layout.serial + 32 <= layout.asic_size);
            assert!(layout.compute_units.unwrap_or(0) + 4 <= layout.asic_size);
            assert!(layout.processor.unwrap_or(0) + 8 <= layout.asic_size);
            assert!(layout.power.limit + 4 <= layout.power_size);
            assert!(layout.process.vram + 8 <= layout.process.size);
            assert!(layout.process.occupied_units.unwrap_or(0) + 4 <= layout.process.size);
            assert!(layout.vbios_version + 32 <= layout.vbios_size);
        }
    }
}
