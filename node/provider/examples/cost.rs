//! Benchmark of the library, run by `cargo xtask bench provider`. Files simulate the machine: eight MI300X in CPX mode with a process on
//! each of their 64 partitions. Prints `key best median name`, in microseconds.

#[path = "../tests/machine/mod.rs"]
mod machine;

use std::time::Instant;

use accelerator_amd::Node;
use machine::{Card, Machine};

const ROUNDS: usize = 31;

fn main() {
    let machine = Machine::with((0..8).map(|slot| Card::mi300x(slot).divided("CPX", 8)));
    for (number, gpu_id) in machine.gpu_ids.iter().flatten().enumerate() {
        machine.process(1000 + number as u32, *gpu_id, 1 << 30, 19);
    }
    let (node, _) = Node::open(machine.settings());
    let devices = node.devices();
    let uuids: Vec<&str> = devices.iter().map(|device| device.uuid.as_str()).collect();
    assert_eq!(uuids.len(), 64);
    measure("open", "start and find 64 devices", || Node::open(machine.settings()).0.devices().len());
    measure("discovery", "find 64 devices again", || node.discover().0.len());
    measure("topology", "find them again, and the links between all", || {
        node.discover();
        let near = |from| devices.iter().filter(|to| node.link(from, to).bandwidth_bytes > 0).count();
        devices.iter().map(near).sum::<usize>() / 63
    });
    measure("metrics", "metrics of all 64", || node.metrics_of(&uuids).into_iter().flatten().count());
    measure("processes", "64 processes", || node.processes().len());
}

fn measure(key: &str, name: &str, mut act: impl FnMut() -> usize) {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            assert_eq!(act(), 64, "{name}");
            started.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{key} {:.1} {:.1} {name}", times[0], times[ROUNDS / 2]);
}
