//! Runs the back-end conformance suite on the emulator, and tests its kernel watchdog.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use backend::{Command, Device, Launch, MemoryKind, Scope};
use backend_emulator::{DeviceConfig, Emulator, Options};
use hip_api::types::hipErrorLaunchTimeOut;

fn open(watchdog: Option<Duration>) -> Arc<dyn Device> {
    let device = DeviceConfig { model: "mi300x".to_owned(), memory: Some(1 << 30) };
    Arc::new(Emulator::open(&Options { devices: vec![device], watchdog, ..Options::default() }).unwrap())
}

backend_suite::device_suite!(open(None));

#[test]
fn a_kernel_that_never_ends_is_aborted_by_the_watchdog() {
    let device = open(Some(Duration::from_millis(100)));
    let base = device.arena().base;
    device.load_module(0, 1, base, backend_suite::KERNELS).unwrap();
    device.define_function(1, 1, "forever").unwrap();
    let memory = base + (16 << 20);
    device.map(0, MemoryKind::Device, memory, 64).unwrap();
    let launch = Launch {
        function: 1,
        grid: [1, 1, 1],
        block: [1, 1, 1],
        shared_bytes: 0,
        cooperative: false,
        start_event: 0,
        stop_event: 0,
        arguments: memory.to_le_bytes().to_vec(),
    };
    let begin = Instant::now();
    device.enqueue(0, 1, Command::Launch(launch)).unwrap();
    let (sender, receiver) = mpsc::channel();
    device.synchronize(Scope::Device(0), Box::new(move |result| drop(sender.send(result))));
    let result = receiver.recv_timeout(Duration::from_secs(30)).unwrap();
    assert_eq!(result.unwrap_err().code, hipErrorLaunchTimeOut);
    assert!(begin.elapsed() >= Duration::from_millis(100));
}

#[test]
fn an_unknown_model_is_refused_by_name() {
    let device = DeviceConfig { model: "mi9000".to_owned(), memory: None };
    let error = Emulator::open(&Options { devices: vec![device], ..Options::default() }).unwrap_err();
    assert!(error.text.contains("mi9000") && error.text.contains("mi300x"), "{error}");
}
