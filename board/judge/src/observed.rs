//! What a software GPU observed, as its worker writes it. Only the fields that reports use are read.

use serde::Deserialize;

use crate::recipe::SOURCE;

/// Results of a session.
#[derive(Debug, Deserialize)]
pub(crate) struct Observed {
    pub looked_at: u64,
    pub profile: Option<Vec<KernelProfile>>,
    pub model: Option<Vec<KernelEstimate>>,
    pub check: Option<CheckReport>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct CheckReport {
    pub findings: Vec<RawFinding>,
    pub more: u64,
    pub unchecked: u64,
}

/// Kind of a finding, as the emulator names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Problem {
    Fault,
    LocalRace,
    GlobalRace,
    LocalOutOfBounds,
    LocalUnset,
    SameInstruction,
}

#[derive(Debug, Deserialize)]
pub(crate) struct RawFinding {
    pub problem: Problem,
    pub kernel: String,
    pub memory: String,
    pub address: u64,
    pub access: Option<Accessor>,
    pub other: Option<Accessor>,
    pub detail: Option<String>,
    pub times: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Accessor {
    pub instruction: String,
    pub source: Option<String>,
    pub verb: String,
    pub workgroup: [u32; 3],
    pub wave: u32,
    pub work_item: Option<[u32; 3]>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct KernelProfile {
    pub kernel: String,
    pub launches: u64,
    pub workgroups: u64,
    pub waves: u64,
    pub instructions: u64,
    pub mean_active_lanes: f64,
    pub lines: Vec<LineProfile>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct LineProfile {
    pub source: Option<String>,
    pub instructions: u64,
    pub lanes: u64,
    pub global: Traffic,
    pub local: LocalTraffic,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Traffic {
    pub bytes: u64,
    pub distinct_bytes: u64,
    pub lines_64: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct LocalTraffic {
    pub bytes: u64,
    pub conflicts: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct KernelEstimate {
    pub kernel: String,
    pub gpu: String,
    pub time_ns: f64,
    pub limit_text: String,
    pub resources: Vec<ResourceTime>,
    pub occupancy: Occupancy,
    pub hbm_bytes: u64,
    pub l1: HitCount,
    pub l2: HitCount,
    pub lines: Vec<LineStall>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ResourceTime {
    pub name: String,
    pub share: f64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Occupancy {
    pub waves_per_simd: f64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct HitCount {
    pub hits: u64,
    pub accesses: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct LineStall {
    pub source: String,
    pub share: f64,
    pub hits: LoadHits,
}

#[derive(Debug, Deserialize)]
pub(crate) struct LoadHits {
    pub l1: HitCount,
    pub l2: HitCount,
}

/// Returns the line of the submitted source that `FILE:LINE` names; `None` for another file, or a line that the source does not have.
pub(crate) fn line_of(source: &str, lines: usize) -> Option<u32> {
    let (file, line) = source.rsplit_once(':')?;
    let name = file.rsplit('/').next().unwrap_or(file);
    let line: u32 = line.parse().ok()?;
    (name == SOURCE && (1..=lines).contains(&(line as usize))).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_the_submission_are_lines() {
        assert_eq!(line_of("solution.hip:7", 9), Some(7));
        assert_eq!(line_of("/folder/solution.hip:7", 9), Some(7));
        for other in
            ["solution.hip:10", "solution.hip:0", "amd_device_functions.h:7", "solution.hip", "", ":7"]
        {
            assert_eq!(line_of(other, 9), None, "{other}");
        }
    }
}
