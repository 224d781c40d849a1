//! Device properties, and programs that use several devices.

use std::process::Command;

use backend_emulator::MODELS;
use e2e::{Recipe, Running, Worker, WorkerOptions, remora};

#[test]
fn every_model_is_what_its_row_of_the_table_says() {
    // The newest headers have the most attributes.
    let program = Recipe::test("properties").with_series(7).build();
    // SAFETY: sysconf takes a number and has no side effects.
    let installed = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) * libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    for (ordinal, model) in MODELS.iter().enumerate() {
        let worker =
            Worker::start_with(&WorkerOptions { device: model.key.into(), ..WorkerOptions::default() });
        let ended = program.run(&worker, &[]);
        ended.expect_silent_success().expect_line("PASS properties");
        let text =
            |name: &str, wanted: &str| assert_eq!(ended.value(name), wanted, "{name} of {}", model.key);
        let number = |name: &str, wanted: u64| text(name, &wanted.to_string());
        text("name", model.name);
        text("gcnArchName", &format!("{}:sramecc+:xnack-", model.processor));
        let memory: u64 = ended.value("totalGlobalMem").parse().unwrap();
        assert!(memory > 0 && memory <= model.memory_bytes.min(installed), "{memory} bytes of {}", model.key);
        number("multiProcessorCount", model.compute_units.into());
        number("clockRate", model.clock_khz.into());
        number("memoryClockRate", model.memory_clock_khz.into());
        number("memoryBusWidth", model.memory_bus_bits.into());
        number("l2CacheSize", model.l2_bytes.into());
        number("xccs", model.xccs.into());
        number("pciChipId", model.pci_chip.into());
        number("integrated", model.integrated.into());
        number("minor", if model.processor == "gfx90a" { 0 } else { 4 });
        // Properties that are the same for all models.
        for (name, wanted) in [
            ("major", 9),
            ("warpSize", 64),
            ("sharedMemPerBlock", 65536),
            ("maxSharedMemoryPerMultiProcessor", 65536),
            ("regsPerBlock", 65536),
            ("maxThreadsPerBlock", 1024),
            ("maxThreadsPerMultiProcessor", 2048),
            ("maxGridSize[0]", 0x7fff_ffff),
            ("wallClockRate", 100_000),
        ] {
            number(name, wanted);
        }
        assert_eq!(listed(ordinal)["name"], model.name);
        assert_eq!(listed(ordinal)["memory_total"], model.memory_bytes);
        assert_eq!(listed(ordinal)["compute_units"], model.compute_units);
    }
}

/// An entry of `remora devices`, which without a worker lists the models that can be emulated.
fn listed(ordinal: usize) -> serde_json::Value {
    let mut command = Command::new(remora());
    command.args(["devices", "--json"]);
    for variable in ["REMORA_WORKER", "TF_WORKER_HOST", "TF_WORKER_PORT"] {
        command.env_remove(variable);
    }
    let ended = Running::start(&mut command).finish();
    let shown: serde_json::Value = serde_json::from_str(&ended.expect_success().stdout).unwrap();
    shown["devices"][ordinal].clone()
}

#[test]
fn two_devices_copy_to_each_other_and_use_each_others_memory() {
    let program = Recipe::test("peers").for_architectures(&["gfx90a", "gfx942"]).build();
    for device in ["mi210", "mi300x"] {
        let second = WorkerOptions::with(&["--device", device]);
        let worker = Worker::start_with(&WorkerOptions { device: device.into(), ..second });
        program.run(&worker, &[]).expect_silent_success().expect_line("PASS peers");
    }
}

#[test]
fn the_heap_of_kernels_has_a_limit_and_ends_with_a_reset() {
    let program = Recipe::test("heap_limit").for_architectures(&["gfx90a", "gfx942"]).build();
    for device in ["mi210", "mi300x"] {
        let worker = Worker::start_with(&WorkerOptions { device: device.into(), ..WorkerOptions::default() });
        program.run(&worker, &[]).expect_silent_success().expect_line("PASS heap_limit");
    }
}
