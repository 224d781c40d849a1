//! Compares the performance model with published measurements: runs the kernels of `conformance/performance-model`, given as code
//! objects for gfx90a and gfx942, and prints a table. Fails if a kernel does not run, not if an estimate misses.

use std::sync::Arc;

use code_object::CodeObject;
use emulator::observe::model::{GpuTiming, Resource};
use emulator::observe::{ObserveOptions, Observer};
use emulator::{Access, Dispatch, Gpu, GpuConfig, Memory, Module};

const PAGE: usize = 4096;
/// Elements of the streaming kernels: arrays of 256 MiB, as large as the Infinity Cache, so that no array stays in it.
const STREAM: u32 = 1 << 25;
/// Elements of the arrays in the published runs.
const PUBLISHED_STREAM: f64 = (1u64 << 28) as f64;
/// Rounds of the vector arithmetic; the time is proportional to them.
const ROUNDS: u32 = 512;

/// Whether a published figure is also the source of a parameter.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Calibration,
    Validation,
}
use Kind::{Calibration, Validation};

struct Row {
    kernel: &'static str,
    gpu: &'static str,
    unit: &'static str,
    published: f64,
    estimated: f64,
    kind: Kind,
    limit: &'static str,
}

fn main() {
    let usage = "usage: model <code object for gfx90a> <code object for gfx942> [part of a kernel's name]";
    let mut arguments = std::env::args().skip(1);
    let cdna2 = arguments.next().expect(usage);
    let cdna3 = arguments.next().expect(usage);
    let only = arguments.next().unwrap_or_default();
    let wanted = |kernel: &str| kernel.contains(only.as_str());
    let mut rows = Vec::new();
    if wanted("stream") {
        // Published: AMD's acceptance guide for MI300X, and AMD's training examples for MI300A, arrays of 2 GiB.
        let published = [
            ("mi300x", [4255.995, 4115.972, 3956.390, 3948.062, 3878.410]),
            ("mi300a", [3859.021, 3789.464, 3719.009, 3787.554, 3105.050]),
        ];
        for (gpu, figures) in published {
            streams(&Rig::new(gpu, &cdna3), gpu, figures, &mut rows);
        }
    }
    if wanted("global_read") {
        // The bandwidths of AMD's roofline microbenchmarks (MI200) and of Chips and Cheese (MI300X).
        let read = |gpu, file, megabytes| global_read(&Rig::new(gpu, file), megabytes);
        rows.push(row(
            "global_read, HBM",
            "mi210",
            "GB/s",
            1388.056,
            Calibration,
            read("mi210", &cdna2, 512),
        ));
        let mall = read("mi300x", &cdna3, 128);
        rows.push(row("global_read, Infinity Cache", "mi300x", "GB/s", 11900.0, Calibration, mall));
    }
    if wanted("chase") {
        let chase = |bytes| chase(&Rig::new("mi300x", &cdna3), bytes);
        rows.push(row("chase, Infinity Cache", "mi300x", "ns", 218.0, Calibration, chase(32 << 20)));
    }
    if wanted("stencil") {
        rows.push(row(
            "stencil_3d",
            "mi250x",
            "ms",
            2.64172,
            Validation,
            stencil(&Rig::new("mi250x", &cdna2)),
        ));
    }
    if wanted("jacobi") {
        // One die of MI250, which has the compute units, clock and memory of MI210.
        jacobi(&Rig::new("mi210", &cdna2), &mut rows);
    }
    for (kernel, published) in [
        ("fma_f32", 20994.682),
        ("fma_f64", 20415.037),
        ("mfma_f16", 164_748.2),
        ("mfma_bf16", 170_339.44),
        ("mfma_f32", 41419.477),
        ("mfma_f64", 41401.164),
        ("mfma_i8", 166_362.59),
    ] {
        if wanted(kernel) {
            let estimate = peak(&Rig::new("mi210", &cdna2), kernel);
            rows.push(row(kernel, "mi210", "GFLOP/s", published, Validation, estimate));
        }
    }
    if wanted("lds_read") {
        let estimate = lds(&Rig::new("mi210", &cdna2));
        rows.push(row("lds_read", "mi210", "GB/s", 17642.881, Validation, estimate));
    }
    for (kernel, gpu, published, kind) in [
        ("gemm_bf16", "mi300x", 708.0, Calibration),
        ("gemm_f16", "mi300x", 654.0, Validation),
        ("gemm_bf16", "mi325x", 843.0, Calibration),
        ("gemm_f16", "mi325x", 794.0, Validation),
    ] {
        if wanted(kernel) {
            rows.push(row(kernel, gpu, "TFLOP/s", published, kind, gemm(&Rig::new(gpu, &cdna3), kernel)));
        }
    }
    print(&rows);
}

fn row(
    kernel: &'static str,
    gpu: &'static str,
    unit: &'static str,
    published: f64,
    kind: Kind,
    (estimated, limit): (f64, &'static str),
) -> Row {
    Row { kernel, gpu, unit, published, estimated, kind, limit }
}

fn print(rows: &[Row]) {
    println!("| kernel | GPU | unit | published | estimated | error | limited by | |");
    println!("|---|---|---|---:|---:|---:|---|---|");
    let mut errors = Vec::new();
    for row in rows {
        let error = 100.0 * (row.estimated / row.published - 1.0);
        let mark = if row.kind == Calibration { "calibration" } else { "" };
        println!(
            "| {} | {} | {} | {} | {} | {error:+.1} % | {} | {mark} |",
            row.kernel,
            row.gpu,
            row.unit,
            figure(row.published),
            figure(row.estimated),
            row.limit,
        );
        if row.kind == Validation {
            errors.push(error.abs());
        }
    }
    errors.sort_by(f64::total_cmp);
    if let (Some(worst), Some(median)) = (errors.last(), errors.get(errors.len() / 2)) {
        println!(
            "\n{} validation rows: median error {median:.1} %, mean {:.1} %, worst {worst:.1} %",
            errors.len(),
            errors.iter().sum::<f64>() / errors.len() as f64
        );
    }
}

fn figure(value: f64) -> String {
    if value < 10.0 { format!("{value:.3}") } else { format!("{value:.0}") }
}

/// A modelled GPU with the kernels.
struct Rig {
    gpu: Gpu,
    timing: &'static GpuTiming,
    memory: Arc<Memory>,
    module: Module,
    _image: Vec<u128>,
}

/// Zeroed memory at the start of a page.
struct Buffer {
    bytes: Vec<u8>,
    memory: Arc<Memory>,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.memory.remove(self.address());
    }
}

impl Buffer {
    fn address(&self) -> u64 {
        (self.bytes.as_ptr() as u64).next_multiple_of(PAGE as u64)
    }
}

/// Estimate of a launch with warm caches.
struct Warm {
    time_ns: f64,
    flops: u64,
    limit_text: &'static str,
}

#[derive(Clone, Copy)]
enum Argument<'a> {
    Buffer(&'a Buffer),
    Word(u32),
    Double(f64),
}
use Argument::{Double, Word};

impl Rig {
    fn new(key: &str, file: &str) -> Rig {
        let timing = GpuTiming::find(key).expect("a modelled GPU");
        let image: Arc<[u8]> = std::fs::read(file).expect("a readable code object").into();
        let object = CodeObject::parse(image).expect("a code object");
        let memory = Arc::new(Memory::new());
        let place = vec![0u128; object.load_size() as usize / 16 + 512];
        let base = (place.as_ptr() as u64).next_multiple_of(PAGE as u64);
        // SAFETY: the block is a page larger than the module and lives as long as the rig.
        let module = unsafe { Module::load(object, timing.arch, base, &memory) }.expect("a loadable module");
        let gpu = Gpu::new(GpuConfig { timing, ..GpuConfig::new(timing.arch) });
        Rig { gpu, timing, memory, module, _image: place }
    }

    fn buffer(&self, bytes: usize) -> Buffer {
        let buffer = Buffer { bytes: vec![0; bytes + PAGE], memory: Arc::clone(&self.memory) };
        self.memory.insert(buffer.address(), bytes as u64, Access::ReadWrite).expect("distinct buffers");
        buffer
    }

    fn observer() -> Arc<Observer> {
        Arc::new(Observer::new(ObserveOptions { model: true, ..ObserveOptions::default() }, None))
    }

    fn launch(
        &self,
        observer: Option<&Arc<Observer>>,
        kernel: &str,
        groups: [u32; 3],
        block: u32,
        arguments: &[Argument],
    ) {
        let mut kernarg: Vec<u8> = Vec::new();
        let mut put = |bytes: &[u8]| {
            kernarg.resize(kernarg.len().next_multiple_of(bytes.len()), 0);
            kernarg.extend(bytes);
        };
        for argument in arguments {
            match argument {
                Argument::Buffer(buffer) => put(&buffer.address().to_le_bytes()),
                Argument::Word(word) => put(&word.to_le_bytes()),
                Argument::Double(double) => put(&double.to_le_bytes()),
            }
        }
        let kernel = self.module.kernel(kernel).unwrap_or_else(|| panic!("no kernel {kernel}")).clone();
        let grid = [groups[0] * block, groups[1], groups[2]];
        let mut dispatch = Dispatch::new(kernel, self.memory.clone(), grid, [block, 1, 1]);
        dispatch.kernarg = kernarg;
        dispatch.observer = observer.cloned();
        self.gpu.launch(&dispatch).expect("a launch without a fault");
    }

    /// Estimate of the second of two launches: the first one warms the caches.
    fn warm(&self, kernel: &str, groups: [u32; 3], block: u32, arguments: &[Argument]) -> Warm {
        let observer = Rig::observer();
        self.launch(Some(&observer), kernel, groups, block, arguments);
        let first = observer.model().expect("a model").remove(0);
        self.launch(Some(&observer), kernel, groups, block, arguments);
        let both = observer.model().expect("a model").remove(0);
        // Sums over the launches: the differences are those of the second one. Its start does not count, because the published runs
        // are long.
        let times =
            both.resources.iter().zip(&first.resources).filter(|(row, _)| row.resource != Resource::Launch);
        let longest =
            times.max_by(|a, b| (a.0.time_ns - a.1.time_ns).total_cmp(&(b.0.time_ns - b.1.time_ns)));
        Warm {
            time_ns: both.time_ns - first.time_ns,
            flops: both.flops - first.flops,
            limit_text: longest.map_or("", |(row, _)| row.name),
        }
    }

    /// Time of a launch that does `scale` times the work of an estimated one.
    fn extrapolated(&self, time_ns: f64, scale: f64) -> f64 {
        self.timing.launch_ns + (time_ns - self.timing.launch_ns) * scale
    }
}

fn streams(rig: &Rig, gpu: &'static str, published: [f64; 5], rows: &mut Vec<Row>) {
    let bytes = 8 * STREAM as usize;
    let (a, b, c) = (rig.buffer(bytes), rig.buffer(bytes), rig.buffer(bytes));
    let sums = rig.buffer(8 * 4096);
    let [a, b, c, sums] = [&a, &b, &c, &sums].map(Argument::Buffer);
    let groups = [STREAM / 1024, 1, 1];
    // BabelStream's reduction has one workgroup per compute unit times four on AMD GPUs.
    let dot = [4 * rig.timing.cus() as u32, 1, 1];
    let kernels: [(&'static str, [u32; 3], &[Argument], f64); 5] = [
        ("stream_copy", groups, &[a, c], 2.0),
        ("stream_mul", groups, &[b, c], 2.0),
        ("stream_add", groups, &[a, b, c], 3.0),
        ("stream_triad", groups, &[a, b, c], 3.0),
        ("stream_dot", dot, &[a, b, sums, Word(STREAM)], 2.0),
    ];
    for ((kernel, groups, arguments, arrays), published) in kernels.into_iter().zip(published) {
        let estimate = rig.warm(kernel, groups, 1024, arguments);
        let scale = PUBLISHED_STREAM / f64::from(STREAM);
        let rate = arrays * 8.0 * PUBLISHED_STREAM / rig.extrapolated(estimate.time_ns, scale);
        let kind = if kernel == "stream_copy" && gpu == "mi300x" { Calibration } else { Validation };
        rows.push(row(kernel, gpu, "GB/s", published, kind, (rate, estimate.limit_text)));
    }
}

fn global_read(rig: &Rig, megabytes: usize) -> (f64, &'static str) {
    let bytes = megabytes << 20;
    let (input, out) = (rig.buffer(bytes), rig.buffer(4 * 1024 * 4096));
    let groups = [2 * rig.timing.cus() as u32, 1, 1];
    let count = (bytes / 16) as u32;
    let arguments = [Argument::Buffer(&input), Argument::Buffer(&out), Word(count)];
    let estimate = rig.warm("global_read", groups, 1024, &arguments);
    // The published figures leave the start of a kernel out by reading an array many times.
    let time = rig.extrapolated(estimate.time_ns, 1000.0);
    (1000.0 * bytes as f64 / time, estimate.limit_text)
}

fn chase(rig: &Rig, bytes: usize) -> (f64, &'static str) {
    let (next, out) = (rig.buffer(bytes), rig.buffer(PAGE));
    let (lines, steps) = (bytes / 128, 16384);
    // A step of an odd number of lines visits every line before it returns.
    let words = next.address() as *mut u32;
    for line in 0..lines {
        let after = (line + 4099) % lines;
        // SAFETY: the buffer has this many lines, and no kernel runs.
        unsafe { words.add(32 * line).write(32 * after as u32) };
    }
    let arguments = [Argument::Buffer(&next), Argument::Buffer(&out), Word(steps)];
    let observer = Rig::observer();
    // One pass brings the lines of the chain into the Infinity Cache; L2 is too small for them.
    rig.launch(
        Some(&observer),
        "chase",
        [1, 1, 1],
        1,
        &[Argument::Buffer(&next), Argument::Buffer(&out), Word(lines as u32)],
    );
    let before = observer.model().expect("a model").remove(0);
    rig.launch(Some(&observer), "chase", [1, 1, 1], 1, &arguments);
    let both = observer.model().expect("a model").remove(0);
    let time = both.time_ns - before.time_ns - rig.timing.launch_ns;
    (time / f64::from(steps), both.limit_text)
}

fn stencil(rig: &Rig) -> (f64, &'static str) {
    // A quarter of the published cube: as many points in a plane, and so the same reuse in L2, but fewer planes.
    let (nx, ny, nz, published) = (512u32, 512u32, 128u32, 512.0);
    let bytes = 8 * (nx * ny * nz) as usize;
    let (f, u) = (rig.buffer(bytes), rig.buffer(bytes));
    let mut arguments = vec![Argument::Buffer(&f), Argument::Buffer(&u), Word(nx), Word(ny), Word(nz)];
    arguments.extend([Double(1.0), Double(1.0), Double(1.0), Double(-6.0)]);
    let observer = Rig::observer();
    rig.launch(Some(&observer), "stencil_3d", [nx / 256, ny, nz], 256, &arguments);
    let estimate = observer.model().expect("a model").remove(0);
    let scale = published / f64::from(nz);
    println!(
        "stencil_3d: {:.3} GB of HBM traffic (published 3.078), L2 hits {:.1} % (published 65.0 %)\n",
        scale * estimate.hbm_bytes as f64 / 1e9,
        100.0 * estimate.l2.rate().unwrap_or(0.0)
    );
    (rig.extrapolated(estimate.time_ns, scale) / 1e6, estimate.limit_text)
}

fn jacobi(rig: &Rig, rows: &mut Vec<Row>) {
    let (width, count) = (4096u32, 4096u32 * 4096);
    let new = || rig.buffer(8 * count as usize);
    let (right, product, residual, u) = (new(), new(), new(), new());
    let [right, product, residual, u] = [&right, &product, &residual, &u].map(Argument::Buffer);
    let groups = [count / 256, 1, 1];
    let sums = rig.buffer(PAGE);
    let update: &[Argument] = &[Word(count), Double(0.25), right, product, residual, u];
    let update = rig.warm("jacobi_update", groups, 256, update);
    let new = || rig.buffer(8 * count as usize);
    let (u, product) = (new(), new());
    let stencil = [
        Word(width),
        Word(width - 2),
        Double(1.0),
        Double(1.0),
        Argument::Buffer(&u),
        Argument::Buffer(&product),
    ];
    let stencil = rig.warm("jacobi_stencil", groups, 256, &stencil);
    let norm = [Argument::Buffer(&u), Argument::Buffer(&sums), Word(count)];
    let norm = rig.warm("jacobi_norm", [256, 1, 1], 512, &norm);
    for (kernel, published, estimate) in
        [("jacobi_update", 0.51, update), ("jacobi_stencil", 0.22, stencil), ("jacobi_norm", 0.10, norm)]
    {
        let found = (estimate.time_ns / 1e6, estimate.limit_text);
        rows.push(row(kernel, "mi210", "ms", published, Validation, found));
    }
}

fn peak(rig: &Rig, kernel: &str) -> (f64, &'static str) {
    let groups = 8 * rig.timing.cus() as u32;
    let out = rig.buffer(8 * 256 * groups as usize);
    let estimate = match kernel {
        "fma_f32" => rig.warm(kernel, [groups, 1, 1], 256, &[Argument::Buffer(&out), Word(1), Word(ROUNDS)]),
        "fma_f64" => {
            rig.warm(kernel, [groups, 1, 1], 256, &[Argument::Buffer(&out), Double(0.5), Word(ROUNDS)])
        }
        _ => rig.warm(kernel, [groups, 1, 1], 256, &[Argument::Buffer(&out), Word(16)]),
    };
    (estimate.flops as f64 / (estimate.time_ns - rig.timing.launch_ns), estimate.limit_text)
}

fn lds(rig: &Rig) -> (f64, &'static str) {
    let groups = 8 * rig.timing.cus() as u32;
    let out = rig.buffer(4 * 256 * groups as usize);
    let rounds = 256;
    let estimate = rig.warm("lds_read", [groups, 1, 1], 256, &[Argument::Buffer(&out), Word(rounds)]);
    // Four reads of 16 bytes in each round of each work-item.
    let bytes = f64::from(groups) * 256.0 * 64.0 * f64::from(rounds);
    (bytes / (estimate.time_ns - rig.timing.launch_ns), estimate.limit_text)
}

/// Rate of a product of 4096 x 4864 with a depth of 32896, from a smaller depth.
fn gemm(rig: &Rig, kernel: &str) -> (f64, &'static str) {
    let (m, n, k, depth) = (4096u32, 4864u32, 512u32, 32896.0);
    let (a, b) = (rig.buffer(2 * (m * k) as usize), rig.buffer(2 * (n * k) as usize));
    let c = rig.buffer(4 * (m * n) as usize);
    let arguments = [Argument::Buffer(&a), Argument::Buffer(&b), Argument::Buffer(&c), Word(n), Word(k / 4)];
    let observer = Rig::observer();
    rig.launch(Some(&observer), kernel, [n / 128, m / 128, 1], 256, &arguments);
    let estimate = observer.model().expect("a model").remove(0);
    let time = rig.extrapolated(estimate.time_ns, depth / f64::from(k));
    (2.0 * f64::from(m) * f64::from(n) * depth / time / 1000.0, estimate.limit_text)
}
