//! The behaviour tests of the CUDA back end, one process each.

use crate::repo::Repo;
use crate::step;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Timeout of one behaviour test.
const TEST_LIMIT: Duration = Duration::from_secs(30);

/// Behaviour tests that run at the same time.
const PARALLEL_TESTS: usize = 6;

/// Runs every behaviour test in a process of its own, because a fault of a kernel ends the process's use of the GPU. Returns how
/// many failed.
pub fn run(binary: &Path, logs: &Path, only: &str) -> Result<usize> {
    step::heading("behaviour tests");
    let listed = Command::new(binary).arg("--list").output().context("cannot list the behaviour tests")?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .filter(|name| name.contains(only))
        .collect();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..PARALLEL_TESTS {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let error = match one_test(binary, name) {
                        Ok(None) => continue,
                        Ok(Some(text)) => text,
                        Err(error) => format!("{error:#}"),
                    };
                    let _ = fs::write(logs.join(format!("test-{name}.log")), &error);
                    failed.lock().unwrap_or_else(|it| it.into_inner()).push((*name, error));
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(|it| it.into_inner());
    for (name, text) in &failed {
        let shown: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(8).collect();
        step::progress(&format!("failed: {name}\n        {}", shown.join("\n        ")));
    }
    step::progress(&format!("{} of {} behaviour tests passed", names.len() - failed.len(), names.len()));
    Ok(failed.len())
}

/// Runs one test; the result is its output if it failed.
fn one_test(binary: &Path, name: &str) -> Result<Option<String>> {
    let seconds = TEST_LIMIT.as_secs().to_string();
    let started = Instant::now();
    let Output { status, stdout, stderr } = Command::new("timeout")
        .args(["--kill-after=2", &seconds])
        .arg(binary)
        .args(["--exact", name, "--nocapture"])
        .output()
        .context("cannot start a behaviour test")?;
    if status.success() {
        return Ok(None);
    }
    let late =
        if started.elapsed() >= TEST_LIMIT { format!("timeout after {seconds} s\n") } else { String::new() };
    Ok(Some(format!("{late}{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr))))
}

/// The newest binary of an integration test of a package.
pub fn binary(repo: &Repo, package: &str, test: &str) -> Result<PathBuf> {
    let mut cargo = repo.cargo();
    // The whole workspace, as in `build`, so that its dependencies keep their features and are not compiled again.
    let arguments = ["--release", "--workspace", "--no-run", "--message-format=json", "--test", test];
    cargo.arg("test").args(arguments);
    let output = cargo.output().context("cannot start cargo")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let manifest = format!("/{package}/Cargo.toml");
    let is_wanted = |message: &serde_json::Value| {
        message["manifest_path"].as_str().is_some_and(|path| path.ends_with(&manifest))
    };
    text.lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(is_wanted)
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .next_back()
        .with_context(|| {
            format!("cargo built no test {test} of {package}:\n{}", String::from_utf8_lossy(&output.stderr))
        })
}
