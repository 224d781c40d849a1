//! Runs the back-end conformance suite on an NVIDIA GPU, with hand-written PTX for the suite's kernels.
//!
//! Every test runs in a separate process: a fault ends all contexts of a process, and the arena has one address. Skipped on
//! machines without NVIDIA's driver.

mod gpu;

use std::io::Write;
use std::process::Command;

use backend_suite::Rig;

const CHILD: &str = "REMORA_TEST_CUDA_CHILD";

/// Runs a test of the suite in a child process.
fn isolated(name: &str, test: fn(Rig)) {
    if name == "reset_forgets_a_fault" {
        let reason = "the driver gives a process no new context after a fault";
        let _ = writeln!(std::io::stderr(), "skipped: {name}: {reason}");
        return;
    }
    if std::env::var_os(CHILD).is_some() {
        if let Some(device) = gpu::open(name) {
            test(Rig::new(device));
        }
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    for line in text.lines().filter(|line| line.starts_with("skipped: ")) {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
    assert!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&output.stdout));
}

backend_suite::device_suite!(each isolated);
