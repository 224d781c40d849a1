//! Measures what launches, waits, allocations and copies cost on an NVIDIA GPU. Prints the numbers; checks the copied bytes.

mod gpu;

use std::sync::mpsc;
use std::time::{Duration, Instant};

use backend::{Command, Device, Launch, MemoryKind, Region, Scope};

const PATIENCE: Duration = Duration::from_secs(60);
const STREAM: u64 = 0x100;

fn wait(device: &dyn Device) {
    let (sender, receiver) = mpsc::channel();
    device.synchronize(Scope::Everything, Box::new(move |result| drop(sender.send(result))));
    receiver.recv_timeout(PATIENCE).expect("work ends").expect("no fault");
}

fn each(begin: Instant, count: u32) -> f64 {
    begin.elapsed().as_secs_f64() * 1e6 / f64::from(count)
}

#[test]
fn launches_and_copies_are_measured_and_correct() {
    let Some(device) = gpu::open("launches_and_copies_are_measured_and_correct") else { return };
    let base = device.arena().base;
    device.load_module(0, 1, base, backend_suite::KERNELS).unwrap();
    device.define_function(1, 1, "add_one").unwrap();
    device.create_stream(0, STREAM, true, 0).unwrap();
    let at = base + (1 << 30);
    device.map(0, MemoryKind::Device, at, 1 << 30).unwrap();
    let launch = || {
        let mut arguments = at.to_le_bytes().to_vec();
        arguments.extend_from_slice(&64i32.to_le_bytes());
        let launch = Launch {
            function: 1,
            grid: [64, 1, 1],
            block: [64, 1, 1],
            shared_bytes: 0,
            cooperative: false,
            start_event: 0,
            stop_event: 0,
            arguments,
        };
        device.enqueue(STREAM, 1, Command::Launch(launch)).unwrap();
    };
    let begin = Instant::now();
    launch();
    wait(&*device);
    println!("first launch: {:.1} ms", each(begin, 1000));
    let begin = Instant::now();
    (0..20_000).for_each(|_| launch());
    let queued = each(begin, 20_000);
    wait(&*device);
    println!("launch: {queued:.2} us to queue, {:.2} us until done", each(begin, 20_000));
    let begin = Instant::now();
    for _ in 0..2000 {
        launch();
        wait(&*device);
    }
    println!("launch and wait: {:.2} us", each(begin, 2000));
    let begin = Instant::now();
    for _ in 0..200 {
        device.map(0, MemoryKind::Device, at + (8 << 30), 4096).unwrap();
        device.unmap(at + (8 << 30)).unwrap();
    }
    println!("map and unmap 4 KiB: {:.1} us", each(begin, 200));
    for bytes in [4usize << 10, 1 << 20, 64 << 20, 512 << 20] {
        let data: Vec<u8> = (0..bytes).map(|at| (at / 7) as u8).collect();
        let mut times = (0.0, 0.0);
        for _ in 0..3 {
            let copy = data.clone();
            let begin = Instant::now();
            device.enqueue(STREAM, 1, Command::write_flat(at, copy)).unwrap();
            wait(&*device);
            times.0 = begin.elapsed().as_secs_f64();
            let (sender, receiver) = mpsc::channel();
            let begin = Instant::now();
            let expected = data.clone();
            let sink = Box::new(move |result: Result<&[u8], backend::DeviceError>| {
                let time = begin.elapsed().as_secs_f64();
                let _ = sender.send((result.is_ok_and(|bytes| bytes == expected), time));
            });
            let from = Region::flat(at, bytes as u64);
            device.enqueue(STREAM, 1, Command::Read { from, sink }).unwrap();
            let (same, time) = receiver.recv_timeout(PATIENCE).unwrap();
            assert!(same, "{bytes} bytes come back as they were written");
            times.1 = time;
        }
        let rate = |time: f64| bytes as f64 / time / 1e9;
        println!("{bytes} bytes: write {:.2} GB/s, read {:.2} GB/s", rate(times.0), rate(times.1));
    }
}
