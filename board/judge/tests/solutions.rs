//! Correct solutions of the problems are accepted and wrong ones rejected, on a software MI300X.
//!
//! All of them take minutes. The tests check a subset; `cargo xtask conformance board` runs all (`REMORA_BOARD_ALL`). It also measures the
//! correct ones, as tests on a GPU (`REMORA_JUDGE_AS`) do, and none may be flagged. A test on a GPU writes a line to standard error for each
//! solution that is finished. It can be restricted to the solutions whose names contain a text (`REMORA_BOARD_ONLY`), and to a share of
//! them: with `REMORA_BOARD_SHARE=2/5` every fifth one, from the second on.

mod rig;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use board_contract::{Endpoint, Event};

/// Stride of the subset: every sixth file.
const STRIDE: usize = 6;

fn sources(folder: &str) -> Vec<PathBuf> {
    let folder = rig::board().join("problems").join(folder);
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "hip"));
    paths.sort();
    let only = std::env::var("REMORA_BOARD_ONLY").unwrap_or_default();
    paths.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains(&only)));
    let (first, stride) = match share() {
        Some(share) => share,
        None if all() || rig::imitated().is_some() => (0, 1),
        None => (0, STRIDE),
    };
    paths.into_iter().skip(first).step_by(stride).collect()
}

/// The first one of a share, counted from zero, and the distance to the next one.
fn share() -> Option<(usize, usize)> {
    let text = std::env::var("REMORA_BOARD_SHARE").ok()?;
    let parts = text.split_once('/').and_then(|(one, of)| Some((one.parse().ok()?, of.parse().ok()?)));
    let (one, of): (usize, usize) =
        parts.unwrap_or_else(|| panic!("REMORA_BOARD_SHARE is {text}, not like 2/5"));
    assert!(
        (1..=of).contains(&one),
        "REMORA_BOARD_SHARE is {text}; the first number must be from 1 to the second"
    );
    Some((one - 1, of))
}

/// Whether some solutions were chosen.
fn is_chosen() -> bool {
    share().is_some() || std::env::var_os("REMORA_BOARD_ONLY").is_some()
}

fn all() -> bool {
    std::env::var_os("REMORA_BOARD_ALL").is_some()
}

/// Judges files on two threads; returns messages about those without an expected status.
fn complaints(paths: &[PathBuf], endpoint: Endpoint, expected: &[&str]) -> Vec<String> {
    let judge = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let slug = name.split('.').next().unwrap();
        let Some(problem) = board_problems::find(slug) else {
            return Some(format!("{name}: no such problem"));
        };
        let source = std::fs::read_to_string(path).unwrap();
        let mut job = rig::rig().job(slug, &source, endpoint);
        if !job.emulated && problem.devices > 1 {
            // One GPU is there.
            return None;
        }
        job.dtype = problem.dtypes[0];
        let start = Instant::now();
        let last = rig::rig().last(&job);
        let flagged = match &last {
            Event::Benchmarked { flags, test_results, .. } => {
                for result in test_results {
                    let (case, ms, seconds) =
                        (&result.name, result.runtime_ms, start.elapsed().as_secs_f64());
                    println!("{name}: {case}: {ms:.4} ms (judged in {seconds:.1} s)");
                }
                !flags.is_empty()
            }
            _ => false,
        };
        if rig::imitated().is_some() {
            let seconds = start.elapsed().as_secs_f64();
            rig::show(&format!("finished {name}: {} in {seconds:.1} s\n", rig::status(&last)));
        }
        let is_expected = expected.contains(&rig::status(&last).as_str());
        (!is_expected || flagged).then(|| format!("{name}: {}", serde_json::to_string(&last).unwrap()))
    };
    let next = AtomicUsize::new(0);
    let lane = || {
        let mut complaints = Vec::new();
        while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
            complaints.extend(judge(path));
        }
        complaints
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(lane);
        let mut all = lane();
        all.extend(other.join().unwrap());
        all
    })
}

#[test]
fn right_solutions_are_accepted() {
    let paths = sources("solutions");
    assert!(paths.len() >= 14 || is_chosen(), "{}", paths.len());
    let (endpoint, expected) = match all() || rig::imitated().is_some() {
        false => (Endpoint::Checker, "CHECKED"),
        true => (Endpoint::Full, "BENCHMARKED"),
    };
    let complaints = complaints(&paths, endpoint, &[expected]);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn wrong_solutions_are_not() {
    let mut paths = sources("wrong");
    if rig::imitated().is_some() {
        // A missing barrier need not show on a real GPU: its threads may run in the right order by chance.
        paths.retain(|path| !path.to_string_lossy().ends_with(".barrier.hip"));
    }
    let complaints = complaints(&paths, Endpoint::Checker, &["WRONG_ANSWER", "RUNTIME_ERROR"]);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
