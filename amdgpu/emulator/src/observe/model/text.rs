//! Text output of estimates, 100 columns wide.

use std::fmt::Write;

use super::kernel::KernelEstimate;
use super::{HitCount, Resource};
use crate::observe::listing::offset;
use crate::observe::profile_text::{counted, file_name, line, shortened};

/// Rows of the tables of stalls.
const TOP: usize = 8;

/// Formats estimates as text.
pub fn model_text(estimates: &[KernelEstimate]) -> String {
    let mut text = String::new();
    for estimate in estimates {
        heading(&mut text, estimate);
        resources(&mut text, estimate);
        caches(&mut text, estimate);
        stalls(&mut text, estimate);
        lines(&mut text, estimate);
        text.push('\n');
    }
    text
}

fn heading(text: &mut String, estimate: &KernelEstimate) {
    line!(text, "== model: {}", shortened(&estimate.kernel, 88));
    line!(
        text,
        "== {}, {}, {}, {}",
        estimate.gpu,
        counted(estimate.launches, "launch", "launches"),
        counted(estimate.workgroups, "workgroup", "workgroups"),
        counted(estimate.waves, "wave", "waves"),
    );
    let each = estimate.time_ns / estimate.launches as f64;
    let of_all =
        if estimate.launches > 1 { format!(", {} in all", time(estimate.time_ns)) } else { String::new() };
    line!(text, "\nestimated time {}{of_all}, limited by {}", time(each), estimate.limit_text);
    let occupancy = &estimate.occupancy;
    line!(
        text,
        "occupancy {:.2} of 8 waves per SIMD, {} per compute unit, {}",
        occupancy.waves_per_simd,
        counted(u64::from(occupancy.workgroups_per_cu), "workgroup", "workgroups"),
        counted(occupancy.rounds, "round", "rounds"),
    );
    for roof in &estimate.roofs {
        let unit = if roof.name.contains("bandwidth") { "GB/s" } else { "GFLOP/s" };
        line!(
            text,
            "{:<26} {:>12.1} {unit:<8} {:>5.1}% of the peak",
            roof.name,
            roof.achieved,
            100.0 * roof.share
        );
    }
    if estimate.sampled_workgroups < estimate.workgroups {
        line!(
            text,
            "{} of {} workgroups were modelled in detail; the rest is extrapolated",
            estimate.sampled_workgroups,
            estimate.workgroups
        );
    }
}

fn resources(text: &mut String, estimate: &KernelEstimate) {
    line!(text, "\n{:<26} {:>12} {:>7}", "resource", "time", "share");
    let mut rows: Vec<_> = estimate.resources.iter().filter(|row| row.time_ns > 0.0).collect();
    rows.sort_by(|a, b| b.time_ns.total_cmp(&a.time_ns).then_with(|| a.name.cmp(b.name)));
    let launches = estimate.launches as f64;
    for row in rows {
        let name = if row.resource == Resource::Latency { "latency of the waves" } else { row.name };
        line!(text, "{name:<26} {:>12} {:>6.1}%", time(row.time_ns / launches), 100.0 * row.share);
    }
}

fn caches(text: &mut String, estimate: &KernelEstimate) {
    let rows: [(&str, &HitCount); 4] = [
        ("scalar cache", &estimate.scalar),
        ("L1", &estimate.l1),
        ("L2", &estimate.l2),
        ("Infinity Cache", &estimate.infinity_cache),
    ];
    if rows.iter().all(|(_, count)| count.accesses == 0) {
        return;
    }
    line!(text, "\n{:<26} {:>12} {:>7}", "cache", "accesses", "hits");
    for (name, count) in rows {
        if let Some(rate) = count.rate() {
            line!(text, "{name:<26} {:>12} {:>6.1}%", count.accesses, 100.0 * rate);
        }
    }
}

fn stalls(text: &mut String, estimate: &KernelEstimate) {
    if estimate.stalls.is_empty() {
        return;
    }
    line!(text, "\nwaves wait, share of their time");
    for stall in estimate.stalls.iter().take(TOP).filter(|stall| stall.share >= 0.005) {
        let source = shortened(stall.source.as_deref().map_or("", file_name), 32);
        line!(
            text,
            "{:>6.1}%  {:<14} {:<6}{:<36} {source}",
            100.0 * stall.share,
            stall.wait.name(),
            offset(stall.offset),
            shortened(&stall.text, 36)
        );
    }
}

fn lines(text: &mut String, estimate: &KernelEstimate) {
    if estimate.lines.is_empty() {
        return;
    }
    line!(text, "\nsource lines that wait");
    for row in estimate.lines.iter().take(TOP).filter(|row| row.share >= 0.005) {
        line!(text, "{:>6.1}%  {}", 100.0 * row.share, shortened(file_name(&row.source), 80));
    }
}

/// Formats nanoseconds.
fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.2} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.3} ms", ns / 1e6),
        ns => format!("{:.3} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_that_fits_them() {
        assert_eq!(time(12.0), "12 ns");
        assert_eq!(time(2_500.0), "2.50 us");
        assert_eq!(time(1_234_567.0), "1.235 ms");
        assert_eq!(time(2e9), "2.000 s");
    }
}
