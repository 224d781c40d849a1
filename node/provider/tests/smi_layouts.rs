//! AMD SMI in each of its layouts: compiles a fake library for every row of the table and reads its data back.

mod machine;

use std::path::{Path, PathBuf};
use std::process::Command;

use accelerator_amd::smi::{LAYOUTS, Layout};
use accelerator_amd::{LinkKind, Node, PcieLink, Settings, SmiChoice, Source};
use machine::{Card, Machine};

/// Compiles a fake library with this layout that reports this version.
fn stand_in(folder: &Path, layout: &Layout, version: (u32, u32)) -> PathBuf {
    let mut defines = layout.numbers();
    defines.extend([("VERSION_FIRST", version.0 as usize), ("VERSION_SECOND", version.1 as usize)]);
    let file = folder.join(format!("libamd_smi-{}-{}.{}.so", layout.name, version.0, version.1));
    compile("smi.c", &defines, &file);
    file
}

fn compile(source: &str, defines: &[(&str, usize)], into: &Path) {
    let mut clang = Command::new("clang-19");
    clang.args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]);
    clang.args(defines.iter().map(|(name, value)| format!("-D{name}={value}")));
    clang.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(source)).arg("-o").arg(into);
    let output = clang.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_layout_is_chosen_by_its_version_and_read_right() {
    let folder = tempfile::tempdir().unwrap();
    for layout in LAYOUTS {
        // The last version of a release is read like its first.
        let version = (layout.version.0, layout.version.1.max(5));
        let file = stand_in(folder.path(), layout, version);
        let settings =
            Settings { root: folder.path().to_owned(), smi: SmiChoice::File(file), ..Settings::default() };
        let (node, notes) = Node::open(settings);
        let name = layout.name;
        assert!(notes[0].1.ends_with(&format!("layout of ROCm {name}")), "{notes:?}");
        let devices = node.devices();
        assert_eq!(devices.len(), 2, "{name}: the processors beside them are no GPUs");
        for (index, device) in devices.iter().enumerate() {
            assert_eq!(device.uuid, format!("amd-feed00000000000{index}"), "{name}");
            assert_eq!(device.model, "Mock Instinct", "{name}");
            assert_eq!((device.driver.as_str(), device.firmware.as_str()), ("6.99", "113-MOCK"), "{name}");
            assert_eq!(device.memory, 192 << 30, "{name}");
            assert_eq!(device.numa, 1, "{name}");
            assert_eq!(device.pcie, Some(PcieLink { generation: 5, width: 16 }), "{name}");
            let units = if layout.compute_units.is_some() { 304 } else { 0 };
            assert_eq!(device.compute_units, units, "{name}");
            assert_eq!(device.tflops > 1307.0, units > 0, "{name}");
            assert_eq!(device.gpu_id, if layout.kfd { 5000 + index as u64 } else { 0 }, "{name}");
            let minor = layout.enumeration.then_some(128 + index as u32);
            assert_eq!(device.render_minor, minor, "{name}");
        }
        assert_eq!(node.link(&devices[0], &devices[1]).kind, LinkKind::Internal, "{name}");

        let metrics = node.metrics(&devices[0].uuid).unwrap();
        assert_eq!((metrics.power_watts, metrics.temperature), (Some(555.0), Some(66.0)), "{name}");
        assert_eq!((metrics.utilization, metrics.memory_used), (Some(63), Some(7 << 30)), "{name}");
        assert_eq!(metrics.extra, [("power_limit_watts", 750.0), ("graphics_clock_mhz", 1500.0)], "{name}");
        assert_eq!(node.metrics(&devices[1].uuid).unwrap().power_watts, Some(444.0), "{name}");

        let processes = node.processes();
        assert_eq!(processes.len(), 20, "{name}");
        for (index, process) in processes.iter().enumerate() {
            assert_eq!(process.pid, 100 + index as u32, "{name}");
            assert_eq!(process.memory_used, (index as u64 + 1) << 20, "{name}");
            let occupied = if layout.process.occupied_units.is_some() { index as u64 } else { 0 };
            assert_eq!(process.occupied_units, occupied, "{name}");
        }
    }
}

#[test]
fn a_library_of_an_unknown_version_is_not_asked_and_the_kernel_is() {
    let machine = Machine::with([Card::mi250x(0)]);
    for version in [(23, 4), (28, 0), (0, 0)] {
        let file = stand_in(machine.root(), &LAYOUTS[LAYOUTS.len() - 1], version);
        let (node, notes) = Node::open(Settings { smi: SmiChoice::File(file), ..machine.settings() });
        assert!(notes[0].1.contains("which is not supported"), "{notes:?}");
        let devices = node.devices();
        assert_eq!((devices.len(), devices[0].source), (1, Source::Kernel));
    }
    for file in ["/nonexistent/libamd_smi.so", "/proc/self/exe"] {
        let (node, notes) = Node::open(Settings { smi: SmiChoice::File(file.into()), ..machine.settings() });
        assert!(notes[0].1.contains("cannot be loaded"), "{notes:?}");
        assert_eq!(node.devices().len(), 1);
    }
}

/// The fake library's cards have the PCI addresses of this machine's MI250X dies.
#[test]
fn what_the_library_does_not_say_the_kernel_adds() {
    let machine = Machine::with([Card::mi250x(0), Card::mi250x(1)]);
    machine.process(31, machine.gpu_ids[1][0], 9 << 20, 55);
    let file = stand_in(machine.root(), &LAYOUTS[0], (24, 5));
    let (node, _) = Node::open(Settings { smi: SmiChoice::File(file), ..machine.settings() });
    let devices = node.devices();
    assert_eq!(devices.len(), 2);
    let second = &devices[1];
    assert!(matches!(second.source, Source::Library(_)));
    assert_eq!(
        second.uuid, "amd-7777000000000000-d1",
        "the kernel's names stay, with or without the library"
    );
    assert_eq!((second.model.as_str(), second.compute_units), ("Mock Instinct", 110));
    assert_eq!((second.render_minor, second.memory), (Some(129), 192 << 30));
    let metrics = node.metrics(&second.uuid).unwrap();
    assert_eq!(metrics.utilization, Some(63));
    assert!(metrics.extra.contains(&("memory_clock_mhz", 900.0)), "the library has no clock for memory");
    let processes = node.processes();
    let last = processes.last().unwrap();
    assert_eq!((processes.len(), last.pid, last.device.as_str()), (21, 31, second.uuid.as_str()));
}

/// The library lists the devices that existed at its initialisation.
#[test]
fn the_library_is_started_anew_when_a_card_is_divided() {
    let mut machine = Machine::with([Card::mi300x(0)]);
    let file = machine.path("libamd_smi-dividing.so");
    compile("smi_dividing.c", &[], &file);
    let settings = Settings { smi: SmiChoice::File(file), repartition: true, ..machine.settings() };
    let (node, _) = Node::open(settings);
    assert_eq!(node.devices().len(), 1);
    let mode = machine.path("sys/devices/pci0000:00/0000:05:00.0/current_compute_partition");
    let given = std::thread::scope(|scope| {
        let asked = scope.spawn(|| node.assign("cpx-nps1", "amd-a1b2c3d400000000"));
        while std::fs::read_to_string(&mode).unwrap().trim() != "CPX" {
            assert!(!asked.is_finished(), "no mode was written");
            std::thread::yield_now();
        }
        machine.remove("sys/class/kfd/kfd/topology/nodes/1");
        machine.add_nodes(&Card::mi300x(0).divided("CPX", 8));
        asked.join().unwrap().unwrap()
    });
    assert_eq!(given.uuid, "amd-a1b2c3d400000000-p0");
    let devices = node.devices();
    assert_eq!(devices.len(), 8);
    assert!(
        devices
            .iter()
            .all(|device| matches!(device.source, Source::Library(_)) && device.compute_units == 38)
    );
}
