//! Runs the back-end conformance suite on an NVIDIA GPU, with hand-written PTX for the suite's kernels.
//!
//! Every test runs in a separate process: a fault ends all contexts of a process, and the arena has one address. Skipped on
//! machines without NVIDIA's driver.

mod kernels;

use std::io::Write;
use std::process::Command;
use std::sync::Arc;

use backend::Device;
use backend_cuda::{Cuda, Options};
use backend_suite::Rig;
use hip_api::types::{hipErrorNoDevice, hipErrorSharedObjectInitFailed};

use crate::kernels::HandWritten;

const CHILD: &str = "REMORA_TEST_CUDA_CHILD";

fn open() -> Result<Arc<dyn Device>, backend::DeviceError> {
    let options = Options {
        library: None,
        model: "mi300x".to_owned(),
        arena: None,
        seat: None,
        cache: None,
        translator: Arc::new(HandWritten),
    };
    Ok(Arc::new(Cuda::open(options)?))
}

/// Runs a test of the suite in a child process.
fn isolated(name: &str, test: fn(Rig)) {
    if std::env::var_os(CHILD).is_some() {
        match open() {
            Ok(device) => test(Rig::new(device)),
            Err(error) if [hipErrorSharedObjectInitFailed, hipErrorNoDevice].contains(&error.code) => {
                let _ = writeln!(std::io::stderr(), "skipped: {name}: {error}");
            }
            Err(error) => panic!("the GPU cannot be opened: {error}"),
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
