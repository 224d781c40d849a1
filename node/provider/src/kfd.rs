//! Parser for the compute driver's files below `/sys/class/kfd`: topology nodes, their properties and links, and processes.

use std::collections::BTreeMap;

use crate::address::PciAddress;
use crate::tree::Tree;

const NODES: &str = "sys/class/kfd/kfd/topology/nodes";
const PROCESSES: &str = "sys/class/kfd/kfd/proc";
/// Most lines read of a properties file; real files have fewer.
const LINE_LIMIT: usize = 1024;
/// Heap types of memory banks that are device memory.
const LOCAL_HEAPS: [u64; 2] = [1, 2];
/// Link type of a direct link between two devices that does not use PCIe.
const XGMI: u64 = 11;
/// Plausibility limits, above any real device. Larger values are invalid.
const MEMORY_LIMIT: u64 = 1 << 48;
const UNITS_LIMIT: u64 = 1 << 16;

/// Properties from `name value` lines. Other lines are skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties(BTreeMap<String, u64>);

impl Properties {
    pub fn parse(bytes: &[u8]) -> Properties {
        let line = |line: &[u8]| {
            let (name, value) = std::str::from_utf8(line).ok()?.trim().split_once([' ', '\t'])?;
            Some((name.to_owned(), value.trim().parse().ok()?))
        };
        Properties(bytes.split(|byte| *byte == b'\n').take(LINE_LIMIT).filter_map(line).collect())
    }

    /// Returns a property; zero if it is missing.
    pub fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Like [`Properties::get`], but zero for values that are not below `limit`.
    pub fn sane(&self, name: &str, limit: u64) -> u64 {
        Some(self.get(name)).filter(|value| *value < limit).unwrap_or(0)
    }
}

/// A topology node: a GPU or one partition of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub number: u32,
    /// Never zero; zero marks a CPU node.
    pub gpu_id: u64,
    pub address: PciAddress,
    pub partition: u32,
    pub render_minor: Option<u32>,
    pub target: u32,
    pub compute_units: u64,
    /// Number of compute dies.
    pub dies: u32,
    pub clock_mhz: u64,
    /// Bytes of memory; zero if the driver does not report it.
    pub memory: u64,
    pub unique_id: u64,
    pub hive: u64,
    pub device_id: u32,
}

/// A link from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLink {
    pub to: u32,
    pub xgmi: bool,
    pub bandwidth_bytes: u64,
}

/// A process with memory or queues on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    pub gpu_id: u64,
    pub vram: u64,
    /// Compute units that run wavefronts of the process.
    pub occupied: u64,
}

/// Returns all GPUs in the driver's order, and the numbers of invalid nodes.
pub fn nodes(tree: &Tree) -> (Vec<Node>, Vec<u32>) {
    let (mut found, mut senseless) = (Vec::new(), Vec::new());
    for number in tree.numbers(NODES) {
        let folder = format!("{NODES}/{number}");
        match tree.number::<u64>(format!("{folder}/gpu_id")) {
            Some(0) => {}
            Some(gpu_id) => match node(tree, &folder, number, gpu_id) {
                Some(node) => found.push(node),
                None => senseless.push(number),
            },
            None => senseless.push(number),
        }
    }
    (found, senseless)
}

/// Returns the usage of all GPUs by process.
pub fn processes(tree: &Tree) -> Vec<Process> {
    let mut found = Vec::new();
    for pid in tree.numbers(PROCESSES) {
        let folder = format!("{PROCESSES}/{pid}");
        for name in tree.names(&folder) {
            let Some(gpu_id) = name.strip_prefix("vram_").and_then(|id| id.parse().ok()) else { continue };
            found.push(Process {
                pid,
                gpu_id,
                vram: tree
                    .number(format!("{folder}/{name}"))
                    .filter(|bytes| *bytes < MEMORY_LIMIT)
                    .unwrap_or(0),
                occupied: tree.number(format!("{folder}/stats_{gpu_id}/cu_occupancy")).unwrap_or(0),
            });
        }
    }
    found
}

/// Returns the links that start at a node. A node has a link to every other node, so they are read only on demand.
pub fn links(tree: &Tree, number: u32) -> Vec<NodeLink> {
    let mut found = Vec::new();
    for kind in ["io_links", "p2p_links"] {
        let links = format!("{NODES}/{number}/{kind}");
        for link in tree.numbers(&links) {
            let Some(bytes) = tree.bytes(format!("{links}/{link}/properties")) else { continue };
            let properties = Properties::parse(&bytes);
            let Ok(to) = u32::try_from(properties.get("node_to")) else { continue };
            found.push(NodeLink {
                to,
                xgmi: properties.get("type") == XGMI,
                // The driver reports MB/s.
                bandwidth_bytes: properties.sane("max_bandwidth", 1 << 40) * 1_000_000,
            });
        }
    }
    found
}

fn node(tree: &Tree, folder: &str, number: u32, gpu_id: u64) -> Option<Node> {
    let properties = Properties::parse(&tree.bytes(format!("{folder}/properties"))?);
    let simds = properties.sane("simd_count", UNITS_LIMIT * 8);
    let per_unit = properties.sane("simd_per_cu", 64);
    if simds == 0 || per_unit == 0 {
        return None;
    }
    let location = u32::try_from(properties.get("location_id")).ok()?;
    let domain = u32::try_from(properties.get("domain")).ok()?;
    let minor = properties.sane("drm_render_minor", 1 << 20) as u32;
    Some(Node {
        number,
        gpu_id,
        address: PciAddress::from_location(domain, location),
        partition: PciAddress::partition_of(location),
        render_minor: (minor > 0).then_some(minor),
        target: properties.sane("gfx_target_version", 1_000_000) as u32,
        compute_units: simds / per_unit,
        dies: properties.sane("num_xcc", 64).max(1) as u32,
        clock_mhz: properties.sane("max_engine_clk_fcompute", 100_000),
        memory: memory(tree, folder),
        unique_id: properties.get("unique_id"),
        hive: properties.get("hive_id"),
        device_id: properties.sane("device_id", 1 << 16) as u32,
    })
}

fn memory(tree: &Tree, folder: &str) -> u64 {
    let banks = format!("{folder}/mem_banks");
    let sizes = tree.numbers(&banks).into_iter().filter_map(|bank| {
        let properties = Properties::parse(&tree.bytes(format!("{banks}/{bank}/properties"))?);
        LOCAL_HEAPS
            .contains(&properties.get("heap_type"))
            .then(|| properties.sane("size_in_bytes", MEMORY_LIMIT))
    });
    let total = sizes.fold(0u64, u64::saturating_add);
    if total < MEMORY_LIMIT { total } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_lines_of_a_name_and_a_number() {
        let text = b"cpu_cores_count 0\nsimd_count 1216\n\nhive_id 18446744073709551615\nname\nclock -3\n\xff\xfe 7\nhuge \
                     99999999999999999999999\nsimd_per_cu\t4\n";
        let properties = Properties::parse(text);
        assert_eq!(properties.get("simd_count"), 1216);
        assert_eq!(properties.get("simd_per_cu"), 4);
        assert_eq!(properties.get("hive_id"), u64::MAX);
        assert_eq!(properties.sane("hive_id", u64::MAX), 0);
        for absent in ["name", "clock", "huge", "missing"] {
            assert_eq!(properties.get(absent), 0, "{absent}");
        }
    }

    #[test]
    fn a_file_of_any_length_costs_no_more_than_its_first_lines() {
        let properties = Properties::parse(&b"a 1\n".repeat(1 << 20));
        assert_eq!(properties.0.len(), 1);
    }
}
