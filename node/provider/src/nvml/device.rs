//! Devices as listed by NVML.

use super::session::Facts;
use crate::device::{Device, Nvidia, Source};
use crate::partition::Modes;
use crate::tree::Tree;

/// By compute capability: cores of a multiprocessor, and its dense half-precision operations per clock. A fused multiply-add counts as
/// two. The figures are those of the tensor cores.
const ARCHITECTURES: &[((u32, u32), u32, u32)] = &[
    ((8, 0), 64, 2048),
    ((8, 6), 128, 1024),
    ((8, 7), 128, 1024),
    ((8, 9), 128, 1024),
    ((9, 0), 128, 4096),
    ((10, 0), 128, 8192),
    ((10, 3), 128, 8192),
    ((12, 0), 128, 1024),
];

/// Converts what the library reports.
pub fn devices(facts: &[Facts], tree: &Tree) -> Vec<Device> {
    facts.iter().map(|facts| device(facts, tree)).collect()
}

fn device(facts: &Facts, tree: &Tree) -> Device {
    let known = ARCHITECTURES.iter().find(|(capability, ..)| Some(*capability) == facts.capability);
    // Zero for an architecture that is not in the table, rather than a guess.
    let multiprocessors = known.zip(facts.cores).map_or(0, |((_, cores, _), all)| u64::from(all / cores));
    let operations = known.map_or(0, |(.., operations)| *operations);
    let clock = facts.clock_mhz.unwrap_or(0);
    let numa = facts.address.and_then(|address| {
        let node = tree.number(format!("sys/bus/pci/devices/{address}/numa_node"))?;
        Some(node).filter(|node| (-1..4096).contains(node))
    });
    Device {
        uuid: facts.uuid.clone(),
        model: facts.name.clone().unwrap_or_else(|| "NVIDIA GPU".to_owned()),
        driver: facts.driver.clone(),
        firmware: facts.firmware.clone().unwrap_or_default(),
        numa: numa.unwrap_or(-1),
        memory: facts.memory,
        compute_units: multiprocessors,
        dies: 1,
        tflops: f64::from(operations) * multiprocessors as f64 * clock as f64 * 1e6 / 1e12,
        pcie: facts.pcie,
        address: facts.address,
        part: None,
        render_minor: None,
        gpu_id: 0,
        node: None,
        hive: 0,
        target: 0,
        unique_id: 0,
        modes: Modes::default(),
        nvidia: Some(Nvidia { minor: facts.minor, capability: facts.capability }),
        source: Source::Nvml(facts.handle),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with NVIDIA's data sheets: dense FP16 in TFLOPS, at the clock of the sheet.
    #[test]
    fn the_formula_gives_what_data_sheets_say() {
        let sheets = [
            ((8, 0), 6912, 1410, 312.0),    // A100
            ((8, 6), 10752, 1740, 149.7),   // A40
            ((8, 9), 18176, 2520, 362.1),   // L40S
            ((9, 0), 16896, 1830, 989.4),   // H100 SXM, H200
            ((10, 0), 18944, 1856, 2250.0), // B200
        ];
        for (capability, cores, clock, expected) in sheets {
            let facts = Facts {
                capability: Some(capability),
                cores: Some(cores),
                clock_mhz: Some(clock),
                ..Facts::default()
            };
            let computed = device(&facts, &Tree::new("/nonexistent")).tflops;
            assert!((computed / expected - 1.0).abs() < 0.02, "{capability:?}: {computed}, not {expected}");
        }
        let unknown = Facts { capability: Some((77, 0)), cores: Some(4096), ..Facts::default() };
        let unknown = device(&unknown, &Tree::new("/nonexistent"));
        assert_eq!((unknown.compute_units, unknown.tflops), (0, 0.0));
    }
}
