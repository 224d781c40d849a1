//! Parsing of kernel files, for machines of every kind and for corrupt files.

mod machine;

use std::fs;
use std::os::unix::fs::symlink;

use accelerator_amd::{Device, Level, LinkKind, Node, PcieLink, ProviderError, Settings, Source};
use machine::{Card, Machine};

fn uuids(devices: &[Device]) -> Vec<&str> {
    devices.iter().map(|device| device.uuid.as_str()).collect()
}

#[test]
fn a_node_of_eight_mi300x_has_eight_devices_in_one_hive() {
    let machine = Machine::with((0..8).map(Card::mi300x));
    let (node, _) = Node::open(machine.settings());
    let devices = node.devices();
    assert_eq!(devices.len(), 8);
    for (slot, device) in devices.iter().enumerate() {
        assert_eq!(device.uuid, format!("amd-a1b2c3d40000000{slot}"));
        assert_eq!(device.model, "AMD Instinct MI300X OAM");
        assert_eq!(device.memory, 192 << 30);
        assert_eq!(device.compute_units, 304);
        assert!((device.tflops - 1307.4).abs() < 0.1);
        assert_eq!(device.numa, slot as i32 / 4);
        assert_eq!(device.pcie, Some(PcieLink { generation: 5, width: 16 }));
        assert_eq!(device.device_node(), Some(format!("/dev/dri/renderD{}", 128 + slot)));
        assert_eq!((device.driver.as_str(), device.firmware.as_str()), ("6.12.12", "113-M3000100-102"));
        assert_eq!((device.source, device.part), (Source::Kernel, None));
    }
    let link = node.link(&devices[0], &devices[7]);
    assert_eq!((link.kind, link.bandwidth_bytes), (LinkKind::Internal, 64_000_000_000));
    // Whole cards are not partitioned unless the settings allow it.
    let can = node.capabilities(&devices[0]);
    assert_eq!((can.partitioning, can.max_partitions, can.isolation), (false, 8, false));
}

#[test]
fn the_dies_of_an_mi250x_are_devices_of_their_own() {
    let machine = Machine::with((0..4).map(Card::mi250x));
    let (node, _) = Node::open(machine.settings());
    let devices = node.devices();
    assert_eq!(
        uuids(&devices),
        [
            "amd-7777000000000000",
            "amd-7777000000000000-d1",
            "amd-7777000000000001",
            "amd-7777000000000001-d1"
        ]
    );
    for device in &devices {
        assert_eq!(device.model, "AMD Instinct MI250X");
        assert_eq!((device.memory, device.compute_units), (64 << 30, 110));
        assert!(!node.capabilities(device).partitioning);
        assert!(node.templates(device).is_empty());
    }
}

#[test]
fn a_card_in_cpx_mode_is_eight_devices_with_an_eighth_each() {
    for numbered in [true, false] {
        let card = Card { numbered, ..Card::mi300x(0).divided("CPX", 8) };
        let machine = Machine::with([card, Card::mi300x(1)]);
        let (node, _) = Node::open(machine.settings());
        let devices = node.devices();
        assert_eq!(devices.len(), 9, "numbered: {numbered}");
        for (part, device) in devices[..8].iter().enumerate() {
            assert_eq!(device.uuid, format!("amd-a1b2c3d400000000-p{part}"));
            assert_eq!(device.card_uuid(), "amd-a1b2c3d400000000");
            assert_eq!((device.memory, device.compute_units, device.dies), (24 << 30, 38, 1));
            assert!((device.tflops - 163.4).abs() < 0.1);
            assert!(node.capabilities(device).partitioning);
        }
        assert_eq!(devices[8].part, None);
        assert_eq!(node.link(&devices[0], &devices[7]).kind, LinkKind::Internal);
        let templates: Vec<String> = node.templates(&devices[0]).iter().map(|it| it.id()).collect();
        assert_eq!(templates, ["spx-nps1", "dpx-nps1", "qpx-nps1", "qpx-nps4", "cpx-nps1", "cpx-nps4"]);
    }
}

#[test]
fn parts_are_given_away_one_by_one_and_taken_back() {
    let machine = Machine::with([Card::mi300x(0).divided("CPX", 8), Card::mi300x(1)]);
    let (node, _) = Node::open(machine.settings());
    let card = "AMD-A1B2C3D400000000";
    let first = node.assign("cpx-nps1", card).unwrap();
    assert_eq!(first.uuid, "amd-a1b2c3d400000000-p0");
    assert_eq!(first.device_nodes, ["/dev/kfd", "/dev/dri/renderD128"]);
    assert_eq!(first.variables, [("ROCR_VISIBLE_DEVICES".to_owned(), "0".to_owned())]);
    let named = node.assign("CPX-NPS1", "amd-a1b2c3d400000000-p5").unwrap();
    assert_eq!(named.variables[0].1, "5");
    assert!(matches!(node.assign("cpx-nps1", &named.uuid), Err(ProviderError::Exhausted(_))));
    for _ in 2..8 {
        node.assign("cpx-nps1", card).unwrap();
    }
    assert!(matches!(node.assign("cpx-nps1", card), Err(ProviderError::Exhausted(_))));
    assert_eq!(node.remove("cpx-nps1", &named.uuid).unwrap(), named.uuid);
    assert!(matches!(node.remove("cpx-nps1", &named.uuid), Err(ProviderError::NotFound(_))));
    // A new discovery keeps the assignments, and the free partition is the one whose assignment was removed.
    node.discover();
    assert_eq!(node.assign("cpx-nps1", card).unwrap().uuid, named.uuid);
    // The unpartitioned card next to it counts as its only partition.
    assert_eq!(node.assign("spx-nps1", "amd-a1b2c3d400000001").unwrap().variables[0].1, "8");
    assert!(matches!(node.assign("mig-1g.7gb", card), Err(ProviderError::NotFound(_))));
    assert!(matches!(node.assign("tpx-nps1", card), Err(ProviderError::NotSupported(_))));
    assert!(matches!(node.assign("cpx-nps1", "amd-none"), Err(ProviderError::NotFound(_))));
}

#[test]
fn an_idle_card_is_divided_when_that_is_allowed_and_a_busy_one_is_not() {
    let mut machine = Machine::with([Card::mi300x(0)]);
    let card = "amd-a1b2c3d400000000";
    let (node, _) = Node::open(machine.settings());
    assert!(matches!(node.assign("cpx-nps1", card), Err(ProviderError::Failed(_))), "not allowed");
    let (node, _) = Node::open(Settings { repartition: true, ..machine.settings() });
    assert!(node.capabilities(&node.devices()[0]).partitioning);
    machine.process(77, machine.gpu_ids[0][0], 1 << 20, 0);
    assert!(matches!(node.assign("cpx-nps1", card), Err(ProviderError::Exhausted(_))), "in use");
    machine.remove("sys/class/kfd/kfd/proc/77");
    let mode = machine.path("sys/devices/pci0000:00/0000:05:00.0/current_compute_partition");
    let given = std::thread::scope(|scope| {
        let asked = scope.spawn(|| node.assign("cpx-nps1", card));
        // Simulates the driver, which applies the mode that is written.
        while fs::read_to_string(&mode).unwrap().trim() != "CPX" {
            assert!(!asked.is_finished(), "no mode was written");
            std::thread::yield_now();
        }
        machine.remove("sys/class/kfd/kfd/topology/nodes/1");
        machine.add_nodes(&Card::mi300x(0).divided("CPX", 8));
        asked.join().unwrap().unwrap()
    });
    assert_eq!(given.uuid, "amd-a1b2c3d400000000-p0");
    assert_eq!(node.devices().len(), 8);
}

#[test]
fn a_mixed_node_has_every_card_by_its_own_kind() {
    let machine = Machine::with([Card::mi300x(0), Card::mi250x(0), Card::mi250x(1), Card::radeon()]);
    let settings = Settings { software: vec!["mi210*2".to_owned()], ..machine.settings() };
    let (node, _) = Node::open(settings);
    let devices = node.devices();
    let models: Vec<&str> = devices.iter().map(|device| device.model.as_str()).collect();
    assert_eq!(
        models,
        [
            "AMD Instinct MI300X OAM",
            "AMD Instinct MI250X",
            "AMD Instinct MI250X",
            "AMD GPU gfx1100",
            "AMD Instinct MI210",
            "AMD Instinct MI210"
        ]
    );
    let radeon = &devices[3];
    // It has no unique id, so its UUID is derived from the machine and the PCI address, and is stable.
    assert!(radeon.uuid.starts_with("amd-") && radeon.uuid.len() == 20, "{}", radeon.uuid);
    assert_eq!(node.discover().0[3].uuid, radeon.uuid);
    assert_eq!(node.link(&devices[0], radeon).kind, LinkKind::System);
    assert_eq!(node.link(&devices[0], &devices[4]).kind, LinkKind::Unknown);
    assert_eq!(devices[4].source, Source::Software);
}

#[test]
fn metrics_come_from_sensors_and_unknown_names_have_none() {
    let machine = Machine::with([Card::mi300x(0), Card::mi300x(1).divided("CPX", 8)]);
    machine.process(4242, machine.gpu_ids[0][0], 5 << 30, 76);
    machine.process(4243, machine.gpu_ids[1][3], 6 << 30, 9999);
    machine.process(4244, 31, 1, 1);
    let (node, _) = Node::open(machine.settings());
    let metrics = node.metrics("amd-a1b2c3d400000000").unwrap();
    assert_eq!(metrics.power_watts, Some(421.0));
    assert_eq!(metrics.temperature, Some(51.0));
    assert_eq!(metrics.utilization, Some(37));
    assert_eq!(metrics.memory_used, Some(3 << 30));
    for (key, value) in [
        ("memory_busy_percent", 12.0),
        ("graphics_clock_mhz", 1800.0),
        ("memory_clock_mhz", 900.0),
        ("power_limit_watts", 750.0),
        ("memory_temperature_celsius", 44.0),
        ("ecc_correctable", 5.0),
        ("ecc_uncorrectable", 0.0),
    ] {
        assert!(metrics.extra.contains(&(key, value)), "{key}: {:?}", metrics.extra);
    }
    // A partition's memory usage is the sum of its processes.
    assert_eq!(node.metrics("amd-a1b2c3d400000001-p3").unwrap().memory_used, Some(6 << 30));
    assert_eq!(node.metrics("amd-a1b2c3d400000001-p4").unwrap().memory_used, Some(0));
    assert_eq!(node.metrics("GPU-nobody"), None);

    let processes = node.processes();
    assert_eq!(processes.len(), 2, "a process on a device that is not ours is none of ours");
    assert_eq!((processes[0].pid, processes[0].device.as_str()), (4242, "amd-a1b2c3d400000000"));
    assert_eq!((processes[0].compute_percent(), processes[0].memory_used), (25.0, 5 << 30));
    assert_eq!((processes[1].occupied_units, processes[1].compute_percent()), (38, 100.0));
}

#[test]
fn a_broken_node_loses_what_is_broken_and_nothing_else() {
    let machine = Machine::with((0..8).map(Card::mi300x));
    let file = |node: u32, name: &str| machine.node_file(node, name);
    // Node 0 is the CPU. Each card from the second on is corrupt in a different way.
    machine.remove(&file(2, "properties"));
    machine.put(&file(3, "properties"), [0xff; 5000]);
    machine.put(&file(4, "gpu_id"), "what?\n");
    machine.put(&file(5, "mem_banks/0/properties"), format!("heap_type 1\nsize_in_bytes {}\n", u64::MAX));
    machine.put("sys/devices/pci0000:00/0000:65:00.0/mem_info_vram_total", "99999999999999999999999999\n");
    let huge = "simd_count 18446744073709551615\nsimd_per_cu 4\n".repeat(100_000);
    machine.put(&file(6, "properties"), huge);
    machine.remove("sys/module/amdgpu/drivers/pci:amdgpu/0000:95:00.0");
    symlink("0000:95:00.0", machine.path("sys/module/amdgpu/drivers/pci:amdgpu/0000:95:00.0")).unwrap();
    machine.remove(&file(8, "mem_banks"));
    machine.remove(&file(8, "io_links"));
    symlink(".", machine.path(&file(8, "io_links"))).unwrap();
    machine.put("sys/devices/pci0000:00/0000:ad:00.0/hwmon/hwmon4/temp2_input", "hot\n");
    machine.put("sys/devices/pci0000:00/0000:ad:00.0/gpu_busy_percent", "4000000000\n");
    machine.put("sys/devices/pci0000:00/0000:ad:00.0/numa_node", "-9999999\n");
    machine.put("sys/class/kfd/kfd/proc/1/vram_", "1\n");
    machine.put("sys/class/kfd/kfd/proc/2/vram_18446744073709551616", "1\n");
    machine.put(&format!("sys/class/kfd/kfd/proc/3/vram_{}", machine.gpu_ids[0][0]), "-1\n");

    let (node, notes) = Node::open(machine.settings());
    let devices = node.devices();
    assert_eq!(
        uuids(&devices),
        ["amd-a1b2c3d400000000", "amd-a1b2c3d400000004", "amd-a1b2c3d400000006", "amd-a1b2c3d400000007"]
    );
    // An implausible memory size counts as zero. Without a memory bank the graphics driver's size is used. A missing graphics driver leaves
    // the other properties.
    assert_eq!(devices.iter().map(|device| device.memory >> 30).collect::<Vec<_>>(), [192, 0, 192, 192]);
    assert_eq!(devices[2].model, "AMD Instinct MI300X", "named by its number");
    assert_eq!((devices[2].numa, devices[3].numa), (-1, -1));
    let metrics = node.metrics("amd-a1b2c3d400000007").unwrap();
    assert_eq!((metrics.utilization, metrics.temperature), (Some(100), Some(44.0)));
    assert_eq!(node.metrics("amd-a1b2c3d400000006").unwrap().utilization, None);
    assert_eq!(node.processes().len(), 1);
    let warnings = notes.iter().filter(|(level, _)| *level == Level::Warn).count();
    // Four invalid nodes, and their four cards.
    assert_eq!(warnings, 8, "{notes:?}");
    assert!(node.discover().1.is_empty(), "nothing is said twice");
}

#[test]
fn a_machine_without_the_driver_has_no_devices() {
    let empty = tempfile::tempdir().unwrap();
    let (node, _) = Node::open(Settings { root: empty.path().to_owned(), ..Settings::default() });
    assert!(node.devices().is_empty());
    assert!(node.processes().is_empty());
    assert!(node.mounts().is_empty());
    let (node, _) = Node::open(Settings { root: "/nonexistent".into(), ..Settings::default() });
    assert!(node.discover().0.is_empty());
}

#[test]
fn bytes_of_every_kind_are_read_as_properties_and_as_answers() {
    let mut random = fastrand::Rng::with_seed(0x2545_f491_4f6c_dd1d);
    let mut bytes = vec![0u8; 4096];
    for _ in 0..200 {
        for byte in &mut bytes {
            // Mostly characters that occur in such files.
            *byte = if random.u8(..8) == 0 {
                random.u8(..)
            } else {
                b"simd_count 0189\n-x:.cp"[random.usize(..22)]
            };
        }
        accelerator_amd::exercise::properties(&bytes);
        accelerator_amd::exercise::answer(
            &[b"HTTP/1.1 409 x\r\n\r\n{\"error\":\"", bytes.as_slice()].concat(),
        );
        accelerator_amd::exercise::answer(&bytes);
    }
}
