//! Measures how kernels of `bench/kernels.hip`, given as a compiled code object for gfx942, become faster with more threads.
//!
//! Every row also shows what the process used in the fastest run: CPU time per second of elapsed time, page faults and context
//! switches. The first rows are loops in native code without any shared state; they show what the machine itself can do, because
//! two hardware threads of one core are not two cores.

use std::sync::Arc;
use std::time::{Duration, Instant};

use code_object::CodeObject;
use emulator::{Access, Dispatch, Gpu, GpuConfig, Memory, Module};
use isa::Arch;

const USAGE: &str =
    "usage: scaling <code object> [threads, such as 1,2,4,8,16] [kernel|native|all] [seconds per row]";

/// Size of a huge page.
const HUGE: usize = 2 << 20;
/// Elements of each vector.
const ELEMENTS: usize = 8 << 20;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect(USAGE);
    let threads: Vec<usize> = arguments
        .next()
        .unwrap_or_else(|| "1,2,4,8,16".to_owned())
        .split(',')
        .map(|count| count.parse().expect("numbers of threads"))
        .collect();
    let only = arguments.next().filter(|only| only != "all");
    let seconds: f64 = arguments.next().map_or(0.5, |seconds| seconds.parse().expect("seconds"));
    let wanted = |name: &str| only.as_ref().is_none_or(|only| only == name);

    describe_machine();
    println!(
        "{:18} {:>3} {:>10} {:>8} {:>6} {:>7} {:>6} {:>8} {:>6} {:>9} {:>9}",
        "kernel", "thr", "ms", "speed", "x", "user/s", "sys/s", "faults", "major", "voluntary", "involunt."
    );
    let buffers: [Pages; 3] = std::array::from_fn(|_| Pages::new(4 * ELEMENTS));
    if wanted("native") {
        measure("native fma", "GFLOP/s", &threads, seconds, |threads| {
            Box::new(move || {
                let rounds = 1 << 21;
                in_threads(threads, |index| native::multiply_add(rounds / threads, index));
                (rounds / threads * threads) as f64 * native::FLOPS_PER_ROUND
            })
        });
        measure("native saxpy", "GB/s", &threads, seconds, |threads| {
            let (y, x) = (&buffers[0], &buffers[1]);
            Box::new(move || {
                in_threads(threads, |index| native::saxpy(y.part(index, threads), x.part(index, threads)));
                12.0 * ELEMENTS as f64
            })
        });
    }

    let image: Arc<[u8]> = std::fs::read(&path).expect("a readable code object").into();
    let object = CodeObject::parse(image).expect("a code object");
    let memory = Arc::new(Memory::new());
    let place = vec![0u128; object.load_size() as usize / 16 + 512];
    let base = (place.as_ptr() as u64).next_multiple_of(4096);
    // SAFETY: the block is a page larger than the module and lives until the program ends.
    let module = unsafe { Module::load(object, Arch::Gfx942, base, &memory) }.expect("a module for gfx942");
    for pages in &buffers {
        memory.insert(pages.address(), pages.bytes as u64, Access::ReadWrite).expect("distinct buffers");
    }
    let kernels = kernels(buffers.each_ref().map(Pages::address));
    for kernel in kernels.iter().filter(|kernel| wanted(kernel.row)) {
        let loaded = module.kernel(kernel.name).expect("a kernel of the module");
        measure(kernel.row, kernel.unit, &threads, seconds, |threads| {
            let gpu = Gpu::new(GpuConfig { threads, ..GpuConfig::new(Arch::Gfx942) });
            let mut dispatch = Dispatch::new(
                loaded.clone(),
                memory.clone(),
                [kernel.workgroups * kernel.workgroup, 1, 1],
                [kernel.workgroup, 1, 1],
            );
            dispatch.kernarg = kernel.kernarg.clone();
            Box::new(move || {
                for _ in 0..kernel.launches {
                    gpu.launch(&dispatch).expect("a launch without a fault");
                }
                kernel.work * f64::from(kernel.launches)
            })
        });
    }
}

/// A kernel with its launch. The work is the same for any number of threads.
struct Kernel {
    row: &'static str,
    name: &'static str,
    unit: &'static str,
    workgroups: u32,
    workgroup: u32,
    kernarg: Vec<u8>,
    launches: u32,
    /// Float operations or bytes of one launch; launches times 1e9 for an empty one.
    work: f64,
}

fn kernels(buffers: [u64; 3]) -> Vec<Kernel> {
    let address = |k: usize| buffers[k].to_le_bytes();
    let fma = |iterations: u32| {
        [&address(0)[..], &0.5f32.to_le_bytes(), &1f32.to_le_bytes(), &iterations.to_le_bytes()].concat()
    };
    let saxpy = |count: usize| {
        [&address(0)[..], &address(1), &2f32.to_le_bytes(), &(count as u32).to_le_bytes()].concat()
    };
    let nbody = |bodies: u32| [&address(1)[..], &address(2), &bodies.to_le_bytes()].concat();
    let mfma = |iterations: u32| [&address(0)[..], &iterations.to_le_bytes()].concat();
    let kernel = |row, name, unit, workgroups, workgroup, kernarg, launches, work| Kernel {
        row,
        name,
        unit,
        workgroups,
        workgroup,
        kernarg,
        launches,
        work,
    };
    let squared = |bodies: u32| 20.0 * f64::from(bodies).powi(2);
    vec![
        kernel("fma", "fma_loop", "GFLOP/s", 256, 256, fma(4096), 1, 2.0 * 32.0 * 4096.0 * 256.0 * 256.0),
        kernel(
            "saxpy",
            "saxpy",
            "GB/s",
            (ELEMENTS / 256) as u32,
            256,
            saxpy(ELEMENTS),
            1,
            12.0 * ELEMENTS as f64,
        ),
        // Fits into the caches: shows the cost of a workgroup without that of memory.
        kernel("saxpy-256k", "saxpy", "GB/s", 1024, 256, saxpy(1 << 18), 16, 12.0 * f64::from(1 << 18)),
        kernel("nbody-8k", "nbody", "GFLOP/s", 32, 256, nbody(8192), 1, squared(8192)),
        kernel("nbody-32k", "nbody", "GFLOP/s", 128, 256, nbody(32768), 1, squared(32768)),
        kernel("mfma-f16", "mfma_half", "GFLOP/s", 256, 64, mfma(4096), 1, 16384.0 * 4096.0 * 256.0),
        kernel("mfma-f32", "mfma_float", "GFLOP/s", 256, 64, mfma(16384), 1, 2048.0 * 16384.0 * 256.0),
        kernel("empty", "empty", "launches/s", 1, 64, Vec::new(), 1000, 1e9),
        // Enough waves that other threads are woken: shows the cost of waking.
        kernel("empty-64", "empty", "launches/s", 64, 256, Vec::new(), 1000, 1e9),
    ]
}

/// A measured loop: does all its work and returns the amount.
type Job<'a> = Box<dyn FnMut() -> f64 + 'a>;

/// Runs the job of each number of threads again and again for some seconds and prints the fastest run.
fn measure<'a>(name: &str, unit: &str, threads: &[usize], seconds: f64, job: impl Fn(usize) -> Job<'a>) {
    let mut first = None;
    for count in threads {
        let mut job = job(*count);
        // Compiles hot code and starts the threads.
        job();
        let begun = Instant::now();
        let mut best: Option<(f64, f64, Usage)> = None;
        let mut runs = 0;
        while runs < 3 || begun.elapsed().as_secs_f64() < seconds {
            let (start, before) = (Instant::now(), Usage::now());
            let work = job();
            let time = start.elapsed().as_secs_f64();
            let used = Usage::now().since(&before);
            if best.as_ref().is_none_or(|(least, ..)| time < *least) {
                best = Some((time, work, used));
            }
            runs += 1;
        }
        let Some((time, work, used)) = best else { return };
        let speed = work / time * 1e-9;
        let per_thread = *first.get_or_insert(speed / *count as f64);
        println!(
            "{name:18} {count:3} {:10.3} {speed:8.2} {:6.2} {:7.2} {:6.2} {:8} {:6} {:9} {:9}  {unit}",
            time * 1e3,
            speed / per_thread,
            used.user.as_secs_f64() / time,
            used.system.as_secs_f64() / time,
            used.minor_faults,
            used.major_faults,
            used.voluntary,
            used.involuntary,
        );
    }
}

/// Resources that the process has used.
struct Usage {
    user: Duration,
    system: Duration,
    minor_faults: i64,
    major_faults: i64,
    voluntary: i64,
    involuntary: i64,
}

impl Usage {
    fn now() -> Usage {
        // SAFETY: the struct is plain data, and `getrusage` fills it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
            usage
        };
        let time = |value: libc::timeval| {
            Duration::from_secs(value.tv_sec as u64) + Duration::from_micros(value.tv_usec as u64)
        };
        Usage {
            user: time(usage.ru_utime),
            system: time(usage.ru_stime),
            minor_faults: usage.ru_minflt,
            major_faults: usage.ru_majflt,
            voluntary: usage.ru_nvcsw,
            involuntary: usage.ru_nivcsw,
        }
    }

    fn since(&self, before: &Usage) -> Usage {
        Usage {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            minor_faults: self.minor_faults - before.minor_faults,
            major_faults: self.major_faults - before.major_faults,
            voluntary: self.voluntary - before.voluntary,
            involuntary: self.involuntary - before.involuntary,
        }
    }
}

/// Runs `job` on this many threads, the caller's included.
fn in_threads(threads: usize, job: impl Fn(usize) + Sync) {
    std::thread::scope(|scope| {
        for index in 1..threads {
            let job = &job;
            scope.spawn(move || job(index));
        }
        job(0);
    });
}

/// Page-aligned memory, in huge pages if the system has some, as a device's allocations are.
struct Pages {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: the pages are plain memory; who accesses which part is up to the user, as for a GPU's memory.
unsafe impl Sync for Pages {}

impl Pages {
    fn new(bytes: usize) -> Pages {
        let layout = std::alloc::Layout::from_size_align(bytes, HUGE).expect("a valid size");
        // SAFETY: the size is not zero. The pages are inside the block, which lives until the program ends.
        unsafe {
            let start = std::alloc::alloc(layout);
            assert!(!start.is_null(), "no memory");
            libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE);
            std::slice::from_raw_parts_mut(start.cast::<f32>(), bytes / 4).fill(1.0);
            Pages { start, bytes }
        }
    }

    fn address(&self) -> u64 {
        self.start as u64
    }

    /// One of `parts` equal parts.
    #[expect(clippy::mut_from_ref, reason = "each thread has a part of its own")]
    fn part(&self, index: usize, parts: usize) -> &mut [f32] {
        let length = self.bytes / 4 / parts;
        // SAFETY: the part is inside the block; no two threads ask for the same one, and kernels run at other times.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast::<f32>().add(index * length), length) }
    }
}

/// Prints what decides how much faster more threads can be.
fn describe_machine() {
    let read =
        |path: &str| std::fs::read_to_string(path).map_or("?".to_owned(), |text| text.trim().to_owned());
    let information = read("/proc/cpuinfo");
    let model = information.lines().find(|line| line.starts_with("model name")).unwrap_or("model name: ?");
    let allowed = std::thread::available_parallelism().map_or(1, |count| count.get());
    println!("{model}; {allowed} CPUs allowed");
    println!(
        "threads on the core of CPU 0: {}",
        read("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")
    );
    println!(
        "CPUs that share its last-level cache: {}",
        read("/sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list")
    );
    println!(
        "NUMA nodes: {}; CPU quota: {}",
        read("/sys/devices/system/node/online"),
        read("/sys/fs/cgroup/cpu.max")
    );
    println!("huge pages: {}", read("/sys/kernel/mm/transparent_hugepage/enabled"));
    println!("load: {}", read("/proc/loadavg"));
}

/// Loops without shared state.
mod native {
    /// Float operations of a round of [`multiply_add`].
    pub const FLOPS_PER_ROUND: f64 = 8.0 * 16.0 * 2.0 * 16.0;

    /// Multiply-adds in registers.
    pub fn multiply_add(rounds: usize, seed: usize) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the CPU has these instructions.
            return unsafe { multiply_add_v3(rounds, seed) };
        }
        chains(rounds, seed);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn multiply_add_v3(rounds: usize, seed: usize) {
        chains(rounds, seed);
    }

    #[inline(always)]
    fn chains(rounds: usize, seed: usize) {
        // Eight independent chains hide the latency of an addition.
        let mut sums = [[seed as f32; 8]; 8];
        let (factor, summand) = (std::hint::black_box(0.5f32), std::hint::black_box(1f32));
        for _ in 0..rounds {
            for _ in 0..32 {
                for chain in &mut sums {
                    for sum in chain {
                        *sum = sum.mul_add(factor, summand);
                    }
                }
            }
        }
        std::hint::black_box(sums);
    }

    pub fn saxpy(y: &mut [f32], x: &[f32]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the CPU has these instructions.
            return unsafe { saxpy_v3(y, x) };
        }
        add_scaled(y, x);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn saxpy_v3(y: &mut [f32], x: &[f32]) {
        add_scaled(y, x);
    }

    #[inline(always)]
    fn add_scaled(y: &mut [f32], x: &[f32]) {
        let factor = std::hint::black_box(1e-3f32);
        for (y, x) in y.iter_mut().zip(x) {
            *y = x.mul_add(factor, *y);
        }
    }
}
