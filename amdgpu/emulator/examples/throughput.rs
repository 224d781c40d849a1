//! Times the kernels of `tests/kernels/throughput.hip`, given as a compiled code object for gfx942.

use std::sync::Arc;
use std::time::Instant;

use code_object::CodeObject;
use emulator::{Access, Dispatch, Gpu, GpuConfig, Memory, Module, rate};
use isa::Arch;

fn main() {
    let path = std::env::args().nth(1).expect("usage: throughput <code object> [threads]");
    let threads = std::env::args().nth(2).map_or(1, |threads| threads.parse().expect("a number of threads"));
    let image: Arc<[u8]> = std::fs::read(&path).expect("a readable code object").into();
    let object = CodeObject::parse(image).expect("a code object");
    let memory = Arc::new(Memory::new());
    let place = vec![0u128; object.load_size() as usize / 16 + 512];
    let base = (place.as_ptr() as u64).next_multiple_of(4096);
    // SAFETY: the block is a page larger than the module and lives to the end.
    let module = unsafe { Module::load(object, Arch::Gfx942, base, &memory) }.expect("a module for gfx942");
    let gpu = Gpu::new(GpuConfig { threads, ..GpuConfig::new(Arch::Gfx942) });
    let n = 512u32;
    let elements = 1 << 22;
    let buffers: Vec<Vec<f32>> = (0..3).map(|_| vec![1.0f32; elements]).collect();
    for buffer in &buffers {
        memory
            .insert(buffer.as_ptr() as u64, 4 * elements as u64, Access::ReadWrite)
            .expect("distinct buffers");
    }
    let address = |k: usize| (buffers[k].as_ptr() as u64).to_le_bytes();
    let launch = |kernel: &str, grid: [u32; 3], workgroup: [u32; 3], kernarg: Vec<u8>, times: u32| {
        let kernel = module.kernel(kernel).expect("a kernel of the module").clone();
        let mut dispatch = Dispatch::new(kernel, memory.clone(), grid, workgroup);
        dispatch.kernarg = kernarg;
        gpu.launch(&dispatch).expect("a launch without a fault");
        let mut instructions = 0;
        let (start, begun) = (Instant::now(), rate::thread_time());
        for _ in 0..times {
            instructions += gpu.launch(&dispatch).expect("a launch without a fault").instructions;
        }
        // One thread is the caller's own, whose processor time is steadier than the clock on the wall.
        let time = if threads == 1 { rate::thread_time() - begun } else { start.elapsed() };
        (time.as_secs_f64(), instructions)
    };
    let (time, _) = launch("empty", [64, 1, 1], [64, 1, 1], Vec::new(), 20_000);
    println!("empty launch: {:.2} us", time / 20_000.0 * 1e6);
    let kernarg =
        [&(elements as u32).to_le_bytes()[..], &2f32.to_le_bytes(), &address(0), &address(1)].concat();
    let (time, instructions) = launch("saxpy", [elements as u32, 1, 1], [256, 1, 1], kernarg, 5);
    println!(
        "saxpy: {:.2} GB/s, {:.1} M wave-instructions/s",
        5.0 * 12.0 * elements as f64 / time / 1e9,
        instructions as f64 / time / 1e6
    );
    let kernarg = [&address(0)[..], &address(1), &address(2), &n.to_le_bytes()].concat();
    let (time, instructions) = launch("matmul", [n, n, 1], [16, 16, 1], kernarg, 2);
    println!(
        "matmul: {:.2} GFLOP/s, {:.1} M wave-instructions/s",
        2.0 * 2.0 * f64::from(n).powi(3) / time / 1e9,
        instructions as f64 / time / 1e6
    );
}
