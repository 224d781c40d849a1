//! Report of a profile by source line, from what a software GPU observed.

use std::collections::BTreeMap;

use board_contract::{CacheHits, KernelReport, ProfileLine, ResourceShare};

use crate::access_report::shortened;
use crate::observed::{HitCount, KernelEstimate, KernelProfile, Observed, line_of};

/// Most kernels of a report.
const MOST_KERNELS: usize = 16;
/// Most lines of a kernel.
const MOST_LINES: usize = 500;
/// Resources that use less of the time are left out.
const LEAST_SHARE: f64 = 0.005;

/// Returns the kernels, the one with the longest estimated time first, and the name of the GPU of the estimates. `lines` is the number
/// of lines of the source.
pub(crate) fn kernels(observed: Vec<Observed>, lines: usize) -> (Vec<KernelReport>, String) {
    let mut reports = Vec::new();
    let mut gpu = String::new();
    for session in observed {
        let estimates = session.model.unwrap_or_default();
        for profile in session.profile.unwrap_or_default() {
            let estimate = estimates.iter().find(|estimate| estimate.kernel == profile.kernel);
            if let Some(estimate) = estimate {
                gpu.clone_from(&estimate.gpu);
            }
            reports.push(report(&profile, estimate, lines));
        }
    }
    let longest = |one: &KernelReport, other: &KernelReport| other.estimated_ms.total_cmp(&one.estimated_ms);
    reports.sort_by(|one, other| longest(one, other).then(other.instructions.cmp(&one.instructions)));
    reports.truncate(MOST_KERNELS);
    (reports, gpu)
}

fn report(profile: &KernelProfile, estimate: Option<&KernelEstimate>, lines: usize) -> KernelReport {
    let lines = lines_of(profile, estimate, lines);
    let mut resources: Vec<ResourceShare> = estimate
        .iter()
        .flat_map(|estimate| &estimate.resources)
        .filter(|resource| resource.share >= LEAST_SHARE)
        .map(|resource| ResourceShare { name: resource.name.clone(), share: resource.share })
        .collect();
    resources.sort_by(|one, other| other.share.total_cmp(&one.share));
    KernelReport {
        kernel: shortened(&profile.kernel),
        launches: profile.launches,
        workgroups: profile.workgroups,
        waves: profile.waves,
        instructions: profile.instructions,
        estimated_ms: estimate.map_or(0.0, |estimate| estimate.time_ns / 1e6),
        limited_by: estimate.map_or(String::new(), |estimate| estimate.limit_text.clone()),
        resources,
        waves_per_simd: estimate.map_or(0.0, |estimate| estimate.occupancy.waves_per_simd),
        mean_active_lanes: profile.mean_active_lanes,
        hbm_bytes: estimate.map_or(0, |estimate| estimate.hbm_bytes),
        l1: hits(estimate.map_or(HitCount::default(), |estimate| estimate.l1)),
        l2: hits(estimate.map_or(HitCount::default(), |estimate| estimate.l2)),
        bank_conflicts: lines.iter().map(|line| line.bank_conflicts).sum(),
        lines,
    }
}

/// Sums that shares are computed from.
#[derive(Default)]
struct Sum {
    line: ProfileLine,
    lanes: u64,
    distinct_bytes: u64,
    fetched_bytes: u64,
}

fn lines_of(profile: &KernelProfile, estimate: Option<&KernelEstimate>, lines: usize) -> Vec<ProfileLine> {
    let number = |source: Option<&str>| source.and_then(|source| line_of(source, lines));
    let mut sums: BTreeMap<Option<u32>, Sum> = BTreeMap::new();
    let mut all = 0;
    for line in &profile.lines {
        let sum = sums.entry(number(line.source.as_deref())).or_default();
        all += line.instructions;
        sum.line.instructions += line.instructions;
        sum.lanes += line.lanes;
        sum.line.global_bytes += line.global.bytes;
        sum.distinct_bytes += line.global.distinct_bytes;
        sum.fetched_bytes += 64 * line.global.lines_64;
        sum.line.local_bytes += line.local.bytes;
        sum.line.bank_conflicts += line.local.conflicts;
    }
    for stall in estimate.iter().flat_map(|estimate| &estimate.lines) {
        let sum = sums.entry(number(Some(&stall.source))).or_default();
        sum.line.stalled += stall.share;
        add_hits(&mut sum.line.l1, stall.hits.l1);
        add_hits(&mut sum.line.l2, stall.hits.l2);
    }
    let finished = |(line, sum): (Option<u32>, Sum)| ProfileLine {
        line,
        share: ratio(sum.line.instructions, all),
        lanes: ratio(sum.lanes, sum.line.instructions),
        line_use: ratio(sum.distinct_bytes, sum.fetched_bytes),
        ..sum.line
    };
    let mut lines: Vec<ProfileLine> = sums.into_iter().map(finished).collect();
    lines.sort_by_key(|line| (std::cmp::Reverse(line.instructions), line.line));
    lines.truncate(MOST_LINES);
    lines
}

fn hits(count: HitCount) -> CacheHits {
    CacheHits { hits: count.hits, accesses: count.accesses }
}

fn add_hits(sum: &mut CacheHits, count: HitCount) {
    sum.hits += count.hits;
    sum.accesses += count.accesses;
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
