//! Correct solutions of the problems are accepted and wrong ones rejected, on a software MI300X.
//!
//! All of them take minutes. The tests check a subset; `cargo xtask conformance board` runs all (`REMORA_BOARD_ALL`). It also measures the
//! correct ones, as tests on a GPU (`REMORA_JUDGE_AS`) do, and none may be flagged.

mod rig;

use std::path::PathBuf;
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
    paths.into_iter().step_by(if all() { 1 } else { STRIDE }).collect()
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
        let is_expected = expected.contains(&rig::status(&last).as_str());
        (!is_expected || flagged).then(|| format!("{name}: {}", serde_json::to_string(&last).unwrap()))
    };
    let (left, right) = paths.split_at(paths.len() / 2);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| left.iter().filter_map(judge).collect::<Vec<String>>());
        let mut all: Vec<String> = right.iter().filter_map(judge).collect();
        all.extend(other.join().unwrap());
        all
    })
}

#[test]
fn right_solutions_are_accepted() {
    let paths = sources("solutions");
    assert!(paths.len() >= 14, "{}", paths.len());
    let (endpoint, expected) = match all() || rig::imitated().is_some() {
        false => (Endpoint::Checker, "CHECKED"),
        true => (Endpoint::Full, "BENCHMARKED"),
    };
    let complaints = complaints(&paths, endpoint, &[expected]);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn wrong_solutions_are_not() {
    let paths = sources("wrong");
    let complaints = complaints(&paths, Endpoint::Checker, &["WRONG_ANSWER", "RUNTIME_ERROR"]);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
