//! Smoke runs: every subject with the smallest sizes and one repetition, to check that the bench itself works.
//!
//! The figures are meaningless and aims are ignored. The programs still compare their results, count round trips and fail when a
//! measurement no longer measures what its name says. In addition, every figure must be a number, and every time and speed
//! greater than 0.

use super::program::Programs;
use super::report::{Report, Row};
use super::{Extent, Subject, board, gpu, measure, provider, remote, scale, share, tensor};
use crate::build::{self, Built};
use crate::pyflame;
use crate::repo::Repo;
use crate::setup;
use crate::step;
use crate::toolchain::Toolchain;
use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Key prefixes of figures that may be 0 or negative in a short run: differences of two measurements, and the agent's CPU time,
/// which the kernel counts in hundredths of a second.
const MAY_BE_ZERO: &[&str] = &["step_added", "recovery", "cpu", "start_first", "start_second"];

/// Units of times and speeds.
const POSITIVE: &[&str] = &["us", "ms", "s", "GB/s", "GFLOP/s", "M instr/s", "k/s"];

/// Builds, unless `prebuilt`, then runs one subject or all of them.
pub(super) fn build_and_run(repo: &Repo, subject: Option<Subject>, prebuilt: bool) -> Result<()> {
    let toolchain = setup::run(repo)?;
    let built = match prebuilt {
        true => build::earlier(repo),
        false => build::run(repo, &build::Arguments::default())?,
    };
    let subjects = subject.map_or_else(|| Subject::value_variants().to_vec(), |subject| vec![subject]);
    let package = match subjects.contains(&Subject::Tensor) {
        true => pyflame::package_of(repo, &built)?,
        false => PathBuf::new(),
    };
    each(repo, &toolchain, &built, &package, prebuilt, &subjects)
}

/// Runs all subjects with an existing complete build.
pub fn run(repo: &Repo, toolchain: &Toolchain, built: &Built) -> Result<()> {
    let package = pyflame::package(repo)?;
    each(repo, toolchain, built, &package, true, Subject::value_variants())
}

/// Runs every subject, even if others fail. Two groups run in parallel: the second mostly waits for other processes.
fn each(
    repo: &Repo,
    toolchain: &Toolchain,
    built: &Built,
    package: &Path,
    prebuilt: bool,
    subjects: &[Subject],
) -> Result<()> {
    fs::create_dir_all(repo.logs()).context("cannot create the log folder")?;
    let programs = Programs::compile(repo, toolchain, built)?;
    let run = |subject: Subject| -> Result<(), String> {
        let started = Instant::now();
        let report = match subject {
            Subject::Local => measure(built, &programs, Extent::SMOKE, false),
            Subject::Remote => remote::measure(repo, built, &programs, Extent::SMOKE, None),
            Subject::Scale => scale::measure(built, &programs, Extent::SMOKE),
            Subject::Agent => share::measure(built, &programs, Extent::SMOKE),
            Subject::Provider => provider::measure(repo, prebuilt),
            Subject::Board => board::measure(repo, built, Extent::SMOKE),
            Subject::Gpu => gpu::smoke(repo, toolchain, built),
            Subject::Tensor => tensor::measure(repo, built, package, Extent::SMOKE, None),
        };
        let name = format!("{subject:?}").to_lowercase();
        match report.and_then(|report| check(&report)) {
            Ok(figures) => {
                step::progress(&format!(
                    "bench {name}: {figures} figures in {}",
                    step::seconds(started.elapsed())
                ));
                Ok(())
            }
            Err(error) => Err(format!("bench {name}: {error:#}")),
        }
    };
    let (second, first): (Vec<Subject>, Vec<Subject>) = subjects
        .iter()
        .partition(|subject| matches!(subject, Subject::Agent | Subject::Board | Subject::Tensor));
    let all = |subjects: Vec<Subject>| subjects.into_iter().map(run).collect::<Vec<_>>();
    let results = std::thread::scope(|scope| {
        let beside = scope.spawn(|| all(second));
        let mut results = all(first);
        match beside.join() {
            Ok(more) => results.extend(more),
            Err(_) => results.push(Err("a measuring thread panicked".to_owned())),
        }
        results
    });
    let failures: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    if !failures.is_empty() {
        bail!("{} of {} subjects failed\n  {}", failures.len(), subjects.len(), failures.join("\n  "));
    }
    Ok(())
}

/// Checks that all figures are plausible; returns their number.
fn check(report: &Report) -> Result<usize> {
    ensure!(!report.rows.is_empty(), "nothing was measured");
    for row in &report.rows {
        check_row(row)?;
    }
    for copies in &report.copies {
        let speeds = [copies.upload.0, copies.upload.1, copies.download.0, copies.download.1];
        ensure!(
            speeds.iter().all(|speed| speed.is_finite() && *speed > 0.0),
            "copies of {} bytes have the implausible speeds {speeds:?}",
            copies.bytes
        );
    }
    Ok(report.rows.len() + report.copies.len())
}

fn check_row(row: &Row) -> Result<()> {
    let figures = [Some(row.best), row.reference, row.ratio];
    let positive =
        POSITIVE.contains(&row.unit) && !MAY_BE_ZERO.iter().any(|beginning| row.key.starts_with(beginning));
    for figure in figures.into_iter().flatten() {
        ensure!(
            figure.is_finite() && (figure > 0.0 || !positive),
            "`{}` ({}) has the implausible figure {figure} {}",
            row.name,
            row.key,
            row.unit
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::machine::Machine;

    fn row(key: &str, unit: &'static str, best: f64) -> Row {
        Row { best, ..Row::plain("group", key, "name", unit) }
    }

    #[test]
    fn a_figure_that_cannot_be_true_fails_the_smoke_run() {
        assert!(check_row(&row("sync", "us", 8.0)).is_ok());
        assert!(check_row(&row("sync", "us", 0.0)).is_err());
        assert!(check_row(&row("sync", "us", f64::NAN)).is_err());
        assert!(check_row(&row("kernel", "GFLOP/s", f64::INFINITY)).is_err());
        assert!(check_row(&Row { ratio: Some(f64::NAN), ..row("sync", "us", 8.0) }).is_err());
    }

    #[test]
    fn counts_and_differences_may_be_zero_and_less() {
        assert!(check_row(&row("trips_hipMalloc", "", 0.0)).is_ok());
        assert!(check_row(&row("launches_client", "MiB", -0.5)).is_ok());
        assert!(check_row(&row("step_added_5000_us", "ms", -0.1)).is_ok());
    }

    #[test]
    fn a_subject_that_measures_nothing_fails_the_smoke_run() {
        assert!(check(&Report::new(Machine::detect())).is_err());
    }
}
