//! Benchmarks kernels of `bench/kernels.hip`, given as a compiled code object for gfx942, directly on the device without a
//! worker.

use std::sync::Arc;
use std::time::Instant;

use code_object::CodeObject;
use emulator::{Access, Compilation, Dispatch, Gpu, GpuConfig, Level, Memory, Module, rate};
use isa::Arch;

fn main() {
    let usage = "usage: throughput <code object> [threads] [never|hot] [kernel|all] [base|v3]";
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect(usage);
    let threads = arguments.next().map_or(1, |threads| threads.parse().expect("a number of threads"));
    let compilation = match arguments.next().as_deref() {
        Some("never") => Compilation::Never,
        _ => Compilation::default(),
    };
    let only = arguments.next().filter(|only| only != "all");
    let level = match arguments.next().as_deref() {
        Some("base") => Some(Level::Base),
        Some("v3") => Some(Level::V3),
        _ => None,
    };
    let image: Arc<[u8]> = std::fs::read(&path).expect("a readable code object").into();
    let object = CodeObject::parse(image).expect("a code object");
    let memory = Arc::new(Memory::new());
    let place = vec![0u128; object.load_size() as usize / 16 + 512];
    let base = (place.as_ptr() as u64).next_multiple_of(4096);
    // SAFETY: the block is a page larger than the module and lives until the program ends.
    let module = unsafe { Module::load(object, Arch::Gfx942, base, &memory) }.expect("a module for gfx942");
    let gpu = Gpu::new(GpuConfig { threads, compilation, level, ..GpuConfig::new(Arch::Gfx942) });
    let elements = 8usize << 20;
    // Page-aligned buffers, like a device's allocations.
    const PAGE: usize = 4096;
    let buffers: Vec<Vec<f32>> = (0..3).map(|_| vec![1.0f32; elements + PAGE / 4]).collect();
    let address = |k: usize| (buffers[k].as_ptr() as u64).next_multiple_of(PAGE as u64);
    for k in 0..buffers.len() {
        memory.insert(address(k), 4 * elements as u64, Access::ReadWrite).expect("distinct buffers");
    }
    let address = |k: usize| address(k).to_le_bytes();
    // Best of three runs, in seconds per launch.
    let launch = |name: &str, grid: [u32; 3], workgroup: [u32; 3], kernarg: Vec<u8>| {
        if only.as_ref().is_some_and(|only| only != name) {
            return f64::NAN;
        }
        let kernel = module.kernel(name).expect("a kernel of the module").clone();
        let mut dispatch = Dispatch::new(kernel, memory.clone(), grid, workgroup);
        dispatch.kernarg = kernarg;
        gpu.launch(&dispatch).expect("a launch without a fault");
        let run = || {
            let (start, begun) = (Instant::now(), rate::thread_time());
            let instructions = gpu.launch(&dispatch).expect("a launch without a fault").instructions;
            // With one thread, only the caller works; its CPU time is steadier than wall-clock time.
            let time = if threads == 1 { rate::thread_time() - begun } else { start.elapsed() };
            (time.as_secs_f64(), instructions)
        };
        let (time, instructions) = (0..if only.is_some() { 20 } else { 5 })
            .map(|_| run())
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .expect("five runs");
        print!("{name:16} {:7.1} M wave-instructions/s  ", instructions as f64 / time / 1e6);
        time
    };
    let kernarg = |iterations: u32| {
        [&address(0)[..], &0.5f32.to_le_bytes(), &1f32.to_le_bytes(), &iterations.to_le_bytes()].concat()
    };
    for name in ["fma_loop", "packed_fma_loop"] {
        let time = launch(name, [8 * 256, 1, 1], [256, 1, 1], kernarg(4096));
        println!("{:.2} GFLOP/s", 2.0 * 32.0 * 4096.0 * 8.0 * 256.0 / time / 1e9);
    }
    let kernarg =
        [&address(0)[..], &address(1), &2f32.to_le_bytes(), &(elements as u32).to_le_bytes()].concat();
    let time = launch("saxpy", [elements as u32, 1, 1], [256, 1, 1], kernarg);
    println!("{:.2} GB/s", 12.0 * elements as f64 / time / 1e9);
    let n = 512u32;
    let kernarg = [&address(0)[..], &address(1), &address(2), &n.to_le_bytes()].concat();
    let time = launch("matmul", [n, n, 1], [16, 16, 1], kernarg);
    println!("{:.2} GFLOP/s", 2.0 * f64::from(n).powi(3) / time / 1e9);
    let n = 4096u32;
    let kernarg = [&address(0)[..], &address(2), &n.to_le_bytes()].concat();
    let time = launch("nbody", [n, 1, 1], [256, 1, 1], kernarg);
    println!("{:.2} GFLOP/s", 20.0 * f64::from(n).powi(2) / time / 1e9);
    for (name, flops, iterations) in [("mfma_half", 32 * 32 * 8, 8192u32), ("mfma_float", 16 * 16 * 4, 32768)]
    {
        let kernarg = [&address(0)[..], &iterations.to_le_bytes()].concat();
        let time = launch(name, [16 * 64, 1, 1], [64, 1, 1], kernarg);
        println!("{:.2} GFLOP/s", 2.0 * f64::from(flops) * f64::from(iterations) * 16.0 / time / 1e9);
    }
    let time = launch("empty", [64, 1, 1], [64, 1, 1], Vec::new());
    println!("{:.2} us", time * 1e6);
}
