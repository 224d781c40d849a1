//! Partition modes of a card, and the resources of one partition in each mode.

/// Compute partition mode: how the compute dies are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ComputeMode {
    Spx,
    Dpx,
    Tpx,
    Qpx,
    Cpx,
}

/// Memory partition mode: how the memory is divided among the partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryMode {
    Nps1,
    Nps2,
    Nps4,
    Nps8,
}

const COMPUTE: &[(ComputeMode, &str)] = &[
    (ComputeMode::Spx, "SPX"),
    (ComputeMode::Dpx, "DPX"),
    (ComputeMode::Tpx, "TPX"),
    (ComputeMode::Qpx, "QPX"),
    (ComputeMode::Cpx, "CPX"),
];
const MEMORY: &[(MemoryMode, &str, u32)] = &[
    (MemoryMode::Nps1, "NPS1", 1),
    (MemoryMode::Nps2, "NPS2", 2),
    (MemoryMode::Nps4, "NPS4", 4),
    (MemoryMode::Nps8, "NPS8", 8),
];

impl ComputeMode {
    pub fn parse(text: &str) -> Option<ComputeMode> {
        COMPUTE.iter().find(|(_, name)| name.eq_ignore_ascii_case(text)).map(|(mode, _)| *mode)
    }

    pub fn name(self) -> &'static str {
        COMPUTE.iter().find(|(mode, _)| *mode == self).map_or("", |(_, name)| name)
    }

    /// Returns the number of partitions of a card with this many compute dies.
    pub fn parts(self, dies: u32) -> u32 {
        match self {
            ComputeMode::Spx => 1,
            ComputeMode::Dpx => 2,
            ComputeMode::Tpx => 3,
            ComputeMode::Qpx => 4,
            ComputeMode::Cpx => dies.max(1),
        }
    }
}

impl MemoryMode {
    pub fn parse(text: &str) -> Option<MemoryMode> {
        MEMORY.iter().find(|(_, name, _)| name.eq_ignore_ascii_case(text)).map(|(mode, ..)| *mode)
    }

    pub fn name(self) -> &'static str {
        MEMORY.iter().find(|(mode, ..)| *mode == self).map_or("", |(_, name, _)| name)
    }

    pub fn parts(self) -> u32 {
        MEMORY.iter().find(|(mode, ..)| *mode == self).map_or(1, |(_, _, parts)| *parts)
    }
}

/// Current and available partition modes of a card.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    pub compute: Option<ComputeMode>,
    pub memory: Option<MemoryMode>,
    pub available_compute: Vec<ComputeMode>,
    pub available_memory: Vec<MemoryMode>,
}

impl Modes {
    /// Returns whether the card can be partitioned.
    pub fn divides(&self) -> bool {
        self.available_compute.iter().any(|mode| *mode != ComputeMode::Spx)
    }
}

/// A partition template of a card, such as `cpx-nps1`.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    pub compute: ComputeMode,
    pub memory_mode: MemoryMode,
    pub parts: u32,
    /// Resources of one partition.
    pub memory: u64,
    pub compute_units: u64,
    pub tflops: f64,
}

impl Template {
    pub fn id(&self) -> String {
        format!("{}-{}", self.compute.name(), self.memory_mode.name()).to_ascii_lowercase()
    }

    /// Parses a template's name to its modes.
    pub fn parse_id(id: &str) -> Option<(ComputeMode, MemoryMode)> {
        let (compute, memory) = id.split_once('-')?;
        Some((ComputeMode::parse(compute)?, MemoryMode::parse(memory)?))
    }
}

/// Resources of a whole card.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Whole {
    pub memory: u64,
    pub compute_units: u64,
    pub tflops: f64,
    /// Number of compute dies.
    pub dies: u32,
}

/// Returns all templates of a card. Memory cannot have more partitions than compute.
pub fn templates(modes: &Modes, whole: Whole) -> Vec<Template> {
    let memory_modes = if modes.available_memory.is_empty() {
        vec![modes.memory.unwrap_or(MemoryMode::Nps1)]
    } else {
        modes.available_memory.clone()
    };
    let mut found = Vec::new();
    for compute in &modes.available_compute {
        let parts = compute.parts(whole.dies);
        for memory in memory_modes.iter().filter(|memory| memory.parts() <= parts) {
            found.push(Template {
                compute: *compute,
                memory_mode: *memory,
                parts,
                memory: whole.memory / u64::from(parts),
                compute_units: whole.compute_units / u64::from(parts),
                tflops: whole.tflops / f64::from(parts),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_with_eight_dies_divides_by_its_modes() {
        let modes = Modes {
            compute: Some(ComputeMode::Spx),
            memory: Some(MemoryMode::Nps1),
            available_compute: vec![ComputeMode::Spx, ComputeMode::Dpx, ComputeMode::Qpx, ComputeMode::Cpx],
            available_memory: vec![MemoryMode::Nps1, MemoryMode::Nps4],
        };
        let whole = Whole { memory: 192 << 30, compute_units: 304, tflops: 1304.0, dies: 8 };
        let found = templates(&modes, whole);
        let ids: Vec<String> = found.iter().map(Template::id).collect();
        assert_eq!(ids, ["spx-nps1", "dpx-nps1", "qpx-nps1", "qpx-nps4", "cpx-nps1", "cpx-nps4"]);
        let finest = found.last().unwrap();
        assert_eq!((finest.parts, finest.memory, finest.compute_units), (8, 24 << 30, 38));
        assert!(modes.divides());
        for template in &found {
            assert_eq!(Template::parse_id(&template.id()), Some((template.compute, template.memory_mode)));
        }
        assert_eq!(Template::parse_id("mig-1g.7gb"), None);
    }

    #[test]
    fn a_card_without_modes_has_no_templates() {
        let whole = Whole { memory: 64 << 30, compute_units: 104, tflops: 181.0, dies: 1 };
        assert!(templates(&Modes::default(), whole).is_empty());
        assert!(!Modes::default().divides());
    }
}
