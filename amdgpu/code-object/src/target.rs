//! Target IDs: a processor and the two features that a code object can be specialised for.
//!
//! Contains the processor numbers of ELF flags and the members of generic processors, but nothing about the capabilities of a
//! processor.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// Setting of a feature that a code object may require of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Feature {
    /// Not specified: works with the feature on or off, or the processor does not have it.
    #[default]
    Any,
    /// `+`
    On,
    /// `-`
    Off,
}

/// A processor with its feature settings, such as `gfx90a:sramecc+:xnack-`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetId {
    /// `gfx90a`, `gfx9-4-generic`, ...
    pub processor: String,
    /// XNACK: retry of faulting memory accesses.
    pub xnack: Feature,
    /// SRAM ECC: error correction of the on-chip memories.
    pub sramecc: Feature,
}

/// Error of parsing a target ID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetIdError {
    /// The text contains no `gfx...` processor.
    #[error("{0:?} contains no gfx processor")]
    Processor(String),
    /// A feature other than `xnack+`, `xnack-`, `sramecc+`, `sramecc-`, or a repeated feature.
    #[error("{0:?} is not a target feature or is repeated")]
    Feature(String),
}

impl TargetId {
    /// Creates the target ID of a processor without feature settings.
    pub fn new(processor: impl Into<String>) -> TargetId {
        TargetId { processor: processor.into(), xnack: Feature::Any, sramecc: Feature::Any }
    }

    /// Whether an image built for `self` runs on `device`. A device that does not specify a feature is assumed to support either
    /// setting.
    pub fn compatible(&self, device: &TargetId) -> bool {
        let feature = |image: Feature, device: Feature| {
            image == Feature::Any || device == Feature::Any || image == device
        };
        let processor = self.processor == device.processor
            || generic_members(&self.processor).contains(&device.processor.as_str());
        processor && feature(self.xnack, device.xnack) && feature(self.sramecc, device.sramecc)
    }

    /// Ranks compatible images: an exact processor before a generic one, then by the number of specified features. Larger is
    /// better.
    pub fn specificity(&self) -> u32 {
        let exact = !self.is_generic() as u32;
        exact * 4 + (self.xnack != Feature::Any) as u32 + (self.sramecc != Feature::Any) as u32
    }

    /// Whether the processor stands for a family.
    pub fn is_generic(&self) -> bool {
        self.processor.ends_with("-generic")
    }

    /// The full ISA name, such as `amdgcn-amd-amdhsa--gfx90a:xnack-`.
    pub fn isa_name(&self) -> String {
        format!("amdgcn-amd-amdhsa--{self}")
    }

    /// Target of a bundle entry ID such as `hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-`, or `None` for entries of other machines (the
    /// host, SPIR-V).
    pub fn from_bundle_id(id: &str) -> Option<TargetId> {
        let is_device = id.contains("amdgcn") || id.contains("amdhsa");
        if is_device { id.parse().ok() } else { None }
    }

    /// Target that the ELF flags of a code object specify.
    pub fn from_elf_flags(flags: u32, abi_version: u8) -> Result<TargetId, Error> {
        let mach = flags & 0xff;
        let processor =
            PROCESSORS.iter().find(|(number, _)| *number == mach).ok_or(Error::UnknownProcessor(mach))?.1;
        let mut target = TargetId::new(processor);
        if abi_version <= 1 {
            // Version 3 code objects have one bit per feature, which cannot express "any".
            if supports_xnack(processor) {
                target.xnack = if flags & 0x100 != 0 { Feature::On } else { Feature::Off };
            }
            if supports_sramecc(processor) {
                target.sramecc = if flags & 0x200 != 0 { Feature::On } else { Feature::Off };
            }
        } else {
            target.xnack = two_bit_feature(flags >> 8);
            target.sramecc = two_bit_feature(flags >> 10);
        }
        Ok(target)
    }
}

/// Parses a bare target ID (`gfx90a:sramecc+:xnack-`), an ISA name (`amdgcn-amd-amdhsa--gfx90a`) or a bundle entry ID
/// (`hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-`).
impl FromStr for TargetId {
    type Err = TargetIdError;

    fn from_str(text: &str) -> Result<TargetId, TargetIdError> {
        let bad_processor = || TargetIdError::Processor(text.chars().take(80).collect());
        let start = if text.starts_with("gfx") {
            0
        } else {
            // A processor name may contain dashes, so it starts at the first `-gfx`, not at the last dash.
            text.find("-gfx").ok_or_else(bad_processor)? + 1
        };
        let mut parts = text[start..].split(':');
        let processor = parts.next().unwrap_or_default();
        let plausible = processor.len() > 3
            && processor.len() <= 64
            && processor.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !plausible {
            return Err(bad_processor());
        }
        let mut target = TargetId::new(processor);
        for part in parts {
            let bad = || TargetIdError::Feature(part.chars().take(80).collect());
            let (slot, sign) = if let Some(sign) = part.strip_prefix("xnack") {
                (&mut target.xnack, sign)
            } else if let Some(sign) = part.strip_prefix("sramecc") {
                (&mut target.sramecc, sign)
            } else {
                return Err(bad());
            };
            let value = match sign {
                "+" => Feature::On,
                "-" => Feature::Off,
                _ => return Err(bad()),
            };
            if *slot != Feature::Any {
                return Err(bad());
            }
            *slot = value;
        }
        Ok(target)
    }
}

/// Writes the canonical spelling: features in alphabetical order, without unspecified ones.
impl fmt::Display for TargetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.processor)?;
        for (name, feature) in [("sramecc", self.sramecc), ("xnack", self.xnack)] {
            match feature {
                Feature::Any => {}
                Feature::On => write!(f, ":{name}+")?,
                Feature::Off => write!(f, ":{name}-")?,
            }
        }
        Ok(())
    }
}

fn two_bit_feature(bits: u32) -> Feature {
    match bits & 3 {
        2 => Feature::Off,
        3 => Feature::On,
        _ => Feature::Any, // 0: the processor has no such feature; 1: built for either
    }
}

fn supports_xnack(processor: &str) -> bool {
    matches!(
        processor,
        "gfx801"
            | "gfx810"
            | "gfx900"
            | "gfx902"
            | "gfx904"
            | "gfx906"
            | "gfx908"
            | "gfx909"
            | "gfx90a"
            | "gfx90c"
            | "gfx940"
            | "gfx941"
            | "gfx942"
            | "gfx950"
            | "gfx1010"
            | "gfx1011"
            | "gfx1012"
            | "gfx1013"
    )
}

fn supports_sramecc(processor: &str) -> bool {
    matches!(processor, "gfx906" | "gfx908" | "gfx90a" | "gfx940" | "gfx941" | "gfx942" | "gfx950")
}

/// Processors on which an image for a generic processor runs.
fn generic_members(generic: &str) -> &'static [&'static str] {
    match generic {
        "gfx9-generic" => &["gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"],
        "gfx9-4-generic" => &["gfx940", "gfx941", "gfx942", "gfx950"],
        "gfx10-1-generic" => &["gfx1010", "gfx1011", "gfx1012", "gfx1013"],
        "gfx10-3-generic" => &["gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"],
        "gfx11-generic" => {
            &["gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"]
        }
        "gfx12-generic" => &["gfx1200", "gfx1201"],
        _ => &[],
    }
}

/// Processor numbers in the low byte of the ELF flags.
const PROCESSORS: &[(u32, &str)] = &[
    (0x20, "gfx600"),
    (0x21, "gfx601"),
    (0x22, "gfx700"),
    (0x23, "gfx701"),
    (0x24, "gfx702"),
    (0x25, "gfx703"),
    (0x26, "gfx704"),
    (0x28, "gfx801"),
    (0x29, "gfx802"),
    (0x2a, "gfx803"),
    (0x2b, "gfx810"),
    (0x2c, "gfx900"),
    (0x2d, "gfx902"),
    (0x2e, "gfx904"),
    (0x2f, "gfx906"),
    (0x30, "gfx908"),
    (0x31, "gfx909"),
    (0x32, "gfx90c"),
    (0x33, "gfx1010"),
    (0x34, "gfx1011"),
    (0x35, "gfx1012"),
    (0x36, "gfx1030"),
    (0x37, "gfx1031"),
    (0x38, "gfx1032"),
    (0x39, "gfx1033"),
    (0x3a, "gfx602"),
    (0x3b, "gfx705"),
    (0x3c, "gfx805"),
    (0x3d, "gfx1035"),
    (0x3e, "gfx1034"),
    (0x3f, "gfx90a"),
    (0x40, "gfx940"),
    (0x41, "gfx1100"),
    (0x42, "gfx1013"),
    (0x43, "gfx1150"),
    (0x44, "gfx1103"),
    (0x45, "gfx1036"),
    (0x46, "gfx1101"),
    (0x47, "gfx1102"),
    (0x48, "gfx1200"),
    (0x49, "gfx1250"),
    (0x4a, "gfx1151"),
    (0x4b, "gfx941"),
    (0x4c, "gfx942"),
    (0x4e, "gfx1201"),
    (0x4f, "gfx950"),
    (0x51, "gfx9-generic"),
    (0x52, "gfx10-1-generic"),
    (0x53, "gfx10-3-generic"),
    (0x54, "gfx11-generic"),
    (0x55, "gfx1152"),
    (0x58, "gfx1153"),
    (0x59, "gfx12-generic"),
    (0x5f, "gfx9-4-generic"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> TargetId {
        text.parse().unwrap()
    }

    #[test]
    fn target_ids_print_in_canonical_order() {
        assert_eq!(id("gfx90a:xnack-:sramecc+").to_string(), "gfx90a:sramecc+:xnack-");
        assert_eq!(id("gfx942").to_string(), "gfx942");
        assert_eq!(id("gfx942:xnack+").isa_name(), "amdgcn-amd-amdhsa--gfx942:xnack+");
    }

    #[test]
    fn every_spelling_of_a_device_entry_is_read() {
        for text in [
            "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-",
            "hip-amdgcn-amd-amdhsa--gfx90a:xnack-",
            "hip-amdgcn-amd-amdhsa-gfx90a:xnack-",
            "hipv4-amdgcn-amd-amdhsa-unknown-gfx90a:xnack-",
            "amdgcn-amd-amdhsa--gfx90a:xnack-",
        ] {
            assert_eq!(TargetId::from_bundle_id(text), Some(id("gfx90a:xnack-")), "{text}");
        }
        assert_eq!(id("amdgpu9.42-amd-amdhsa-unknown-gfx942"), id("gfx942"));
        assert_eq!(id("hipv4-amdgcn-amd-amdhsa--gfx9-4-generic:xnack+"), id("gfx9-4-generic:xnack+"));
    }

    #[test]
    fn entries_of_other_machines_have_no_target() {
        for text in [
            "host-x86_64-unknown-linux-gnu-",
            "hip-spirv64-amd-amdhsa--amdgcnspirv",
            "",
            "gfx",
            "-gfx-amdgcn:",
        ] {
            assert_eq!(TargetId::from_bundle_id(text), None, "{text}");
        }
    }

    #[test]
    fn bad_features_are_refused() {
        for text in ["gfx90a:", "gfx90a:xnack", "gfx90a:xnack++", "gfx90a:xnack+:xnack-", "gfx90a:wave32+"] {
            assert!(matches!(text.parse::<TargetId>(), Err(TargetIdError::Feature(_))), "{text}");
        }
        for text in ["", "gfx", "gfx90A", "sm_90", "gfx90a+xnack"] {
            assert!(matches!(text.parse::<TargetId>(), Err(TargetIdError::Processor(_))), "{text}");
        }
    }

    #[test]
    fn an_image_runs_where_each_stated_feature_matches() {
        let device = id("gfx90a:sramecc+:xnack-");
        for (image, runs) in [
            ("gfx90a", true),
            ("gfx90a:xnack-", true),
            ("gfx90a:sramecc+", true),
            ("gfx90a:sramecc+:xnack-", true),
            ("gfx90a:xnack+", false),
            ("gfx90a:sramecc-", false),
            ("gfx942", false),
        ] {
            assert_eq!(id(image).compatible(&device), runs, "{image}");
        }
        assert!(id("gfx9-4-generic").compatible(&id("gfx942:sramecc+:xnack-")));
        assert!(!id("gfx9-4-generic").compatible(&device));
        assert!(!id("gfx942").compatible(&id("gfx9-4-generic")));
    }

    #[test]
    fn exact_processors_are_more_specific_than_generic_ones() {
        assert!(id("gfx942").specificity() > id("gfx9-4-generic:sramecc+:xnack-").specificity());
        assert!(id("gfx942:xnack-").specificity() > id("gfx942").specificity());
    }

    #[test]
    fn elf_flags_give_the_target() {
        for (flags, abi, text) in [
            (0x53f, 3, "gfx90a"),
            (0x63f, 2, "gfx90a:xnack-"),
            (0x73f, 3, "gfx90a:xnack+"),
            (0xe4c, 4, "gfx942:sramecc+:xnack-"),
            (0x100_055f, 4, "gfx9-4-generic"),
            (0x13f, 1, "gfx90a:sramecc-:xnack+"),
            (0x36, 1, "gfx1030"),
        ] {
            assert_eq!(TargetId::from_elf_flags(flags, abi).unwrap(), id(text), "{flags:#x}");
        }
        assert!(matches!(TargetId::from_elf_flags(0xff, 4), Err(Error::UnknownProcessor(0xff))));
    }
}
