//! Tensor operations on software GPUs give the same results as on the CPU.

use std::path::Path;
use std::process::Command;

use e2e::{Running, Worker, WorkerOptions, library_folder};

/// Runs parts of `tensor_check` on a worker and returns its output.
fn check(worker: &Worker, cache: &Path, parts: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tensor_check"));
    command.arg(library_folder().join("libamdhip64.so.6")).arg(cache).args(parts);
    command.env("REMORA_WORKER", worker.endpoint().to_string());
    let ended = Running::start(&mut command).finish();
    ended.expect_success();
    ended.stdout
}

#[test]
fn every_step_gives_on_a_software_mi300x_what_it_gives_on_the_cpu() {
    let worker = Worker::start();
    let cache = tempfile::tempdir().unwrap();
    let said =
        check(&worker, cache.path(), &["steps", "programs", "contractions", "padded", "tuning", "training"]);
    assert!(said.contains("of 208 cases passed"), "{said}");
    // The second run finds all kernels in the cache and compiles none.
    let said = check(&worker, cache.path(), &["interpreted"]);
    assert_eq!(said.matches("compiled: 0,").count(), 2, "{said}");
    assert!(said.contains("of 200 cases passed"), "{said}");
}

#[test]
fn steps_and_training_work_on_a_worker_without_a_compiler() {
    let (nothing, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let worker = Worker::start_with(&WorkerOptions::with(&["--toolchain", nothing.path().to_str().unwrap()]));
    let said = check(&worker, cache.path(), &["contractions", "padded", "training"]);
    assert!(said.contains("compiled: 0,") && !said.contains("interpreted: 0,"), "{said}");
}

#[test]
fn contractions_give_on_a_software_mi210_the_bits_they_give_on_the_cpu_and_memory_that_is_kept_is_given_up() {
    let options = WorkerOptions { device: "mi210".into(), ..WorkerOptions::with(&["--memory", "1G"]) };
    let worker = Worker::start_with(&options);
    let cache = tempfile::tempdir().unwrap();
    check(&worker, cache.path(), &["contractions", "padded", "memory"]);
}
