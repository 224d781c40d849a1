//! A training step of the digits example over a link with 5 ms of latency: its time and its round trips.

use super::Extent;
use super::relay::Relay;
use super::report::Row;
use super::tensor::row;
use crate::build::Built;
use crate::local_worker::LocalWorker;
use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result, bail};
use std::process::Command;
use std::time::Duration;

const ROUND_TRIP: Duration = Duration::from_millis(5);
/// Timed steps, and warm-up steps before them, in which kernels are compiled and graphs captured.
const STEPS: u64 = 60;
const BEFORE: u64 = 20;

/// Measures with and without launches replayed as graphs. `python` must have pyflame.
pub fn measure(
    repo: &Repo,
    built: &Built,
    python: &dyn Fn() -> Command,
    worker: &LocalWorker,
    extent: Extent,
) -> Result<Vec<Row>> {
    let (before, steps) = if extent.is_smoke() { (2, 2) } else { (BEFORE, STEPS) };
    step::heading("measuring a training step from 5 ms away");
    let relay = Relay::start(&built.remora, worker.address(), ROUND_TRIP, &[])?;
    let mut rows = Vec::new();
    let kinds: &[&str] = if extent.is_smoke() { &["1"] } else { &["1", "0"] };
    for &graphs in kinds {
        let run = |steps: u64| -> Result<(String, u64)> {
            let mut script = python();
            script
                .arg(repo.root.join("bench/far_training.py"))
                .args([before, steps].map(|it| it.to_string()));
            script.env("REMORA_WORKER", relay.address().to_string()).env("REMORA_STATS", "1");
            let output = script.env("PYFLAME_GRAPHS", graphs).output();
            let output = output.context("cannot start the training")?;
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            if !output.status.success() {
                bail!("the training failed: {stderr}");
            }
            let trips = round_trips(&stderr).context("the training printed no counters")?;
            Ok((String::from_utf8_lossy(&output.stdout).into_owned(), trips))
        };
        // Warm up the kernel cache on disk: compiling waits for the worker.
        if !extent.is_smoke() {
            run(0)?;
        }
        let ((_, few), (line, many)) = (run(0)?, run(steps)?);
        rows.push(
            row(line.trim_end_matches('\n'), "rocm")
                .with_context(|| format!("cannot parse the line `{line}`"))?,
        );
        let trips = many.saturating_sub(few) as f64 / steps as f64;
        let name = if graphs == "1" { "with graphs" } else { "without" };
        rows.push(row(
            &format!("far\tfar_{graphs}_trips\tround trips of a step, {name}\t{trips}\t"),
            "rocm",
        )?);
    }
    Ok(rows)
}

/// Sums over all libraries that print counters: the compiler is a separate library.
fn round_trips(stderr: &str) -> Option<u64> {
    let counts =
        stderr.lines().filter_map(|line| line.split(" round trips").next()?.split_whitespace().last());
    counts.filter_map(|count| count.parse().ok()).reduce(|sum: u64, count: u64| sum + count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_of_both_libraries_are_added() {
        let stderr = "remora: 3 round trips, 0 posted\nremora: 21 round trips, 258 posted, 9 bytes sent\n";
        assert_eq!(round_trips(stderr), Some(24));
        assert_eq!(round_trips("nothing\n"), None);
    }
}
