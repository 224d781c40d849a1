//! NVIDIA's management library: compiles fake ones, well-behaved and hostile, and reads their data.

mod machine;

use std::path::{Path, PathBuf};
use std::process::Command;

use accelerator_amd::{Device, Ledger, Level, LinkKind, Node, PcieLink, Settings, SmiChoice, Source};
use machine::{Card, Machine};

/// Compiles the fake library with these macros.
fn library(folder: &Path, macros: &[&str]) -> PathBuf {
    let file = folder.join(format!("libnvidia-ml{}.so", macros.concat()));
    let mut clang = Command::new("clang-19");
    clang.args(["-shared", "-fPIC", "-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]);
    clang.args(["-Wno-unused-variable"]).args(macros.iter().map(|name| format!("-D{name}")));
    clang.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/nvml.c")).arg("-o").arg(&file);
    let output = clang.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    file
}

fn open(machine: &Machine, macros: &[&str]) -> (Node, Vec<String>) {
    let nvml = SmiChoice::File(library(machine.root(), macros));
    let (node, notes) = Node::open(Settings { nvml, ..machine.settings() });
    (node, notes.into_iter().map(|(_, text)| text).collect())
}

fn nvidia(node: &Node) -> Vec<Device> {
    node.devices().into_iter().filter(|device| device.nvidia.is_some()).collect()
}

#[test]
fn nvidia_gpus_are_listed_beside_amds_with_their_own_names() {
    let machine = Machine::with([Card::mi300x(0)]);
    machine.put("sys/bus/pci/devices/0000:18:00.0/numa_node", "1\n");
    let (node, notes) = open(&machine, &[]);
    assert!(notes.contains(&"libnvidia-ml of driver 599.01".to_owned()), "{notes:?}");
    let all = node.devices();
    assert_eq!((all.len(), all[0].vendor()), (3, "AMD"));
    for (index, device) in nvidia(&node).iter().enumerate() {
        assert_eq!(device.uuid, format!("GPU-feed0000-0000-0000-0000-00000000000{index}"));
        assert_eq!((device.vendor(), device.model.as_str()), ("NVIDIA", "NVIDIA Mock"));
        assert_eq!((device.driver.as_str(), device.firmware.as_str()), ("599.01", "96.00.MOCK"));
        let address = ["0000:18:00.0", "0000:48:00.0"][index];
        assert_eq!(device.address.unwrap().to_string(), address);
        // Memory that the driver reserves is subtracted from the total.
        assert_eq!((device.memory, device.compute_units), (79 << 30, 132));
        assert!((device.tflops - 989.4).abs() < 1.0, "{}", device.tflops);
        assert_eq!(device.numa, [1, -1][index]);
        assert_eq!(device.pcie, Some(PcieLink { generation: 5, width: 16 }));
        assert_eq!(device.device_node(), Some(format!("/dev/nvidia{}", 4 + index)));
        let properties = device.properties();
        for expected in [("source", "libnvidia-ml"), ("architecture", "sm_90"), ("pciAddress", address)] {
            assert!(properties.contains(&(expected.0, expected.1.to_owned())), "{properties:?}");
        }
        assert!(node.templates(device).is_empty());
        let metrics = node.metrics(&device.uuid.to_lowercase()).unwrap();
        assert_eq!((metrics.power_watts, metrics.temperature), (Some(555.25), Some(66.0)));
        assert_eq!((metrics.utilization, metrics.memory_used), (Some(63), Some(7 << 30)));
        for expected in
            [("memory_busy_percent", 12.0), ("power_limit_watts", 700.0), ("ecc_correctable", 3.0)]
        {
            assert!(metrics.extra.contains(&expected), "{:?}", metrics.extra);
        }
    }
    let gpus = nvidia(&node);
    assert_eq!(node.link(&gpus[0], &gpus[1]).kind, LinkKind::Internal);
    assert_eq!(node.link(&gpus[0], &all[0]).kind, LinkKind::System);
}

#[test]
fn processes_have_their_memory_and_the_time_of_the_latest_sample() {
    let machine = Machine::new();
    let (node, _) = open(&machine, &[]);
    let processes = node.processes();
    assert_eq!(processes.len(), 20, "the list grew while it was read");
    for (index, process) in processes.iter().enumerate() {
        assert_eq!((process.pid, process.memory_used), (100 + index as u32, (index as u64 + 1) << 20));
        assert_eq!(process.device, "GPU-feed0000-0000-0000-0000-000000000000");
        assert_eq!(process.compute_percent(), if index == 0 { 50.0 } else { 0.0 });
    }
}

#[test]
fn limits_are_stored_under_the_name_that_agents_look_for() {
    let (machine, limits) = (Machine::new(), tempfile::tempdir().unwrap());
    let nvml = SmiChoice::File(library(machine.root(), &[]));
    let settings = Settings { nvml, limits: Some(limits.path().to_owned()), ..machine.settings() };
    let (node, _) = Node::open(settings);
    node.limit_memory(Some("w"), "GPU-FEED0000-0000-0000-0000-000000000001", 1 << 30).unwrap();
    node.limit_compute(Some("w"), "gpu-feed0000-0000-0000-0000-000000000001", 25).unwrap();
    let stored = Ledger::new(Some(limits.path().to_owned())).read();
    let limit = stored[&(Some("w".to_owned()), "gpu-feed0000-0000-0000-0000-000000000001".to_owned())];
    assert_eq!((limit.memory_bytes, limit.compute_percent), (Some(1 << 30), Some(25)));
}

#[test]
fn an_old_library_without_optional_functions_suffices() {
    let machine = Machine::new();
    let (node, _) = open(&machine, &["OLD"]);
    let gpus = nvidia(&node);
    assert_eq!((gpus.len(), gpus[0].memory, gpus[0].compute_units), (2, 80 << 30, 0));
    assert_eq!((gpus[0].address, gpus[0].device_node(), gpus[0].architecture()), (None, None, None));
    let metrics = node.metrics(&gpus[0].uuid).unwrap();
    assert_eq!((metrics.memory_used, metrics.utilization), (Some(10 << 30), None));
    assert!(node.processes().is_empty());
    assert_eq!(node.link(&gpus[0], &gpus[1]).kind, LinkKind::Unknown);
}

#[test]
fn a_library_that_does_not_load_or_start_is_named_and_amds_gpus_stay() {
    let machine = Machine::with([Card::mi250x(0)]);
    let cases = [
        (library(machine.root(), &["MISSING"]), "lacks nvmlDeviceGetCount_v2"),
        (library(machine.root(), &["NO_DRIVER"]), "status 9 (the driver is not loaded)"),
        ("/nonexistent/libnvidia-ml.so.1".into(), "cannot be loaded (tried /nonexistent/libnvidia-ml.so.1)"),
        ("/proc/self/exe".into(), "cannot be loaded"),
    ];
    for (file, expected) in cases {
        let (node, notes) = Node::open(Settings { nvml: SmiChoice::File(file), ..machine.settings() });
        let told = |(level, text): &(Level, String)| *level == Level::Info && text.contains(expected);
        assert!(notes.iter().any(told), "{expected}: {notes:?}");
        assert_eq!(node.devices().len(), 1);
        assert_eq!(node.devices()[0].source, Source::Kernel);
    }
    let (_, notes) = Node::open(machine.settings());
    assert!(!notes.iter().any(|(_, text)| text.contains("NVIDIA")), "disabled is no news: {notes:?}");
}

#[test]
fn a_gpu_that_cannot_be_used_is_left_out_with_the_reason() {
    for (name, expected) in [
        ("LOST", "NVIDIA's GPU 1 is left out: status 15 (the GPU is lost)"),
        ("MIG", "GPU-feed0000-0000-0000-0000-000000000001 is divided into instances (MIG)"),
        ("TWINS", "NVIDIA's GPU 1 has the UUID of another one"),
    ] {
        let machine = Machine::new();
        let (node, notes) = open(&machine, &[name]);
        assert_eq!(nvidia(&node).len(), 1, "{name}");
        assert!(notes.iter().any(|note| note.contains(expected)), "{name}: {notes:?}");
        // A message that was logged is not repeated.
        assert!(node.discover().1.is_empty(), "{name}");
    }
}

#[test]
fn a_hostile_library_is_read_without_harm() {
    let machine = Machine::new();
    let (node, notes) = open(&machine, &["HOSTILE"]);
    assert!(
        notes.iter().any(|note| note.contains("reports 4294967295 GPUs; only the first 64")),
        "{notes:?}"
    );
    assert!(notes.iter().any(|note| note == "NVIDIA's GPU 1 is left out: it has no valid UUID"), "{notes:?}");
    assert!(notes.iter().any(|note| note == "NVIDIA's GPU 2 is left out: its handle is null"), "{notes:?}");
    let gpus = nvidia(&node);
    assert_eq!(gpus.len(), 1);
    let gpu = &gpus[0];
    assert_eq!(gpu.model, "\u{fffd}".repeat(96), "a name without a terminator ends with its buffer");
    assert_eq!((gpu.address, gpu.pcie, gpu.architecture(), gpu.tflops), (None, None, None, 0.0));
    let metrics = node.metrics(&gpu.uuid).unwrap();
    assert_eq!((metrics.utilization, metrics.temperature, metrics.power_watts), (None, None, None));
    assert_eq!(metrics.memory_used, None);
    let keys: Vec<&str> = metrics.extra.iter().map(|(key, _)| *key).collect();
    assert_eq!(keys, ["power_limit_watts", "ecc_correctable", "ecc_uncorrectable"]);
    let processes = node.processes();
    assert_eq!((processes.len(), processes[0].pid, processes[0].memory_used), (1, 77, 0));
}
