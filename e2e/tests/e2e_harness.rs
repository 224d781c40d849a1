//! Tests of `remora harness`: it prints a complete program that compiles, checks and benchmarks, and sets its exit status.

use std::fs;
use std::path::Path;
use std::process::Command;

use e2e::{Ended, Recipe, Running, remora};

/// Compiles the harness of a problem with a solution from `board/problems`, and runs its smallest case on a software GPU.
fn measured(problem: &str, solution: &str, lightest: usize) -> Ended {
    measured_with(problem, solution, &["--case", &lightest.to_string()])
}

fn measured_with(problem: &str, solution: &str, sizes: &[&str]) -> Ended {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../board/problems/").to_owned() + solution;
    let mut command = Command::new(remora());
    command.args(["harness", problem, "--dtype", "float32", "--solution", &path]);
    let printed = Running::start(&mut command).finish();
    printed.expect_silent_success();
    // Always the same path, so that the compiled program is cached.
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join(solution.replace('/', "-"));
    fs::write(&source, &printed.stdout).unwrap();
    let program = Recipe::file(&source).build();
    let mut command = Command::new(remora());
    command.arg("run").arg("--").arg(program.path());
    command.args(sizes).args(["--flush", "0", "--iterations", "3"]);
    Running::start(command.env_remove("LD_LIBRARY_PATH")).finish()
}

#[test]
fn a_right_kernel_is_measured_and_passes() {
    let ended = measured("leaky-relu", "solutions/leaky-relu.hip", 4);
    let ended = ended.expect_silent_success();
    for line in [
        "=== HIP Benchmark Harness ===",
        "Problem: leaky-relu",
        "Data type: float32",
        "Dimensions: 128 x 256 (32768 elements)",
        "Launch config: grid=128, block=256",
        "=== Benchmark Results ===",
    ] {
        ended.expect_line(line);
    }
    let number = |start: &str, end: &str| -> f64 {
        let line = ended.stdout.lines().find(|line| line.starts_with(start));
        let value = line.and_then(|line| line.strip_prefix(start)?.strip_suffix(end));
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {start}: {}", ended.stdout))
    };
    assert!(number("Runtime: ", " ms") > 0.0);
    assert!(number("GFLOPS: ", "") > 0.0);
    assert!(number("Bandwidth: ", " GB/s") > 0.0);
    assert!(ended.stdout.contains("Correctness check: PASSED"));
}

#[test]
fn a_kernel_that_computes_in_half_precision_fails() {
    let ended = measured("leaky-relu", "wrong/leaky-relu.dtype.hip", 4);
    assert!(!ended.status.success());
    assert!(ended.stdout.contains("Correctness check: FAILED"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("Runtime:"), "a wrong kernel has no speed: {}", ended.stdout);
}

#[test]
fn a_positional_argument_is_the_size_in_each_dimension() {
    let ended = measured_with("leaky-relu", "solutions/leaky-relu.hip", &["96"]);
    ended.expect_silent_success().expect_line("Dimensions: 96 x 96 (9216 elements)");
}

#[test]
fn a_host_function_is_measured_too() {
    let ended = measured("jacobi-stencil", "solutions/jacobi-stencil.hip", 3);
    let ended = ended.expect_silent_success();
    ended.expect_line("Launch config: by the solution");
    assert!(ended.stdout.contains("Correctness check: PASSED"), "{}", ended.stdout);
}
