//! Parameters and results of a kernel launch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

use isa::Arch;

use crate::heap::Heap;
use crate::hostcall::Output;
use crate::memory::Memory;
use crate::module::LoadedKernel;
use crate::observe::Observer;
use crate::observe::model::{GpuTiming, PeerMemory};
use crate::{Compilation, Level};

/// Configuration of a software GPU.
#[derive(Clone, Copy, Debug)]
pub struct GpuConfig {
    /// Instruction set of the device.
    pub arch: Arch,
    /// Threads that execute workgroups, including the caller of [`crate::Gpu::launch`].
    pub threads: usize,
    /// CPU level (x86-64 feature level) to run at. `None` selects the best level of this machine; a level that the machine lacks
    /// is lowered to it.
    pub level: Option<Level>,
    /// Maximum LDS (local memory) of a workgroup.
    pub lds_bytes: u32,
    /// Stack size per work-item for kernels whose stack size the compiler could not determine.
    pub stack_bytes: u32,
    /// When hot code is compiled to native code.
    pub compilation: Compilation,
    /// Maximum register and scratch memory that the workgroups of one dispatch may hold while they wait for each other.
    pub resident_bytes: u64,
    /// Hardware parameters for the performance model of observed launches.
    pub timing: &'static GpuTiming,
}

impl GpuConfig {
    /// The default configuration of a device of this architecture.
    pub fn new(arch: Arch) -> GpuConfig {
        GpuConfig {
            arch,
            threads: std::thread::available_parallelism().map_or(1, |threads| threads.get()),
            level: None,
            lds_bytes: 64 << 10,
            stack_bytes: 16 << 10,
            compilation: Compilation::default(),
            resident_bytes: 1 << 30,
            timing: GpuTiming::of(arch),
        }
    }
}

/// One kernel launch.
#[derive(Clone)]
pub struct Dispatch {
    /// The kernel to run.
    pub kernel: Arc<LoadedKernel>,
    /// Work-items in each dimension. The last workgroup is partial if this is not a multiple of the workgroup size.
    pub grid: [u32; 3],
    /// Size of a full workgroup in work-items.
    pub workgroup: [u32; 3],
    /// LDS bytes in addition to what the kernel declares.
    pub dynamic_lds: u32,
    /// The explicit arguments, laid out according to the kernel's metadata. The emulator fills in the hidden arguments.
    pub kernarg: Vec<u8>,
    /// The memory that the kernel may access.
    pub memory: Arc<Memory>,
    /// Receives the kernel's `printf` output.
    pub output: Option<Output>,
    /// Receives the kernel's error output, such as failed assertions; `None` sends it to `output`.
    pub error_output: Option<Output>,
    /// When the watchdog aborts the dispatch.
    pub deadline: Option<Instant>,
    /// Cancels the dispatch when set. Any thread may set it.
    pub cancel: Option<Arc<AtomicBool>>,
    /// Cooperative launch: all workgroups must be in flight at the same time.
    pub cooperative: bool,
    /// The device's heap, for kernels that call `malloc`.
    pub heap: Option<Heap>,
    /// Stack size per work-item for kernels with a dynamic stack; `None` selects the device's default.
    pub stack_bytes: Option<u32>,
    /// Observer of the execution (trace, profile, checks). It makes the dispatch much slower.
    pub observer: Option<Arc<Observer>>,
    /// Memory of other devices. Only the performance model distinguishes it.
    pub peers: Arc<PeerMemory>,
    /// Accumulates the CPU time, in nanoseconds, of the pool threads that help the calling thread.
    pub helpers_time: Option<Arc<AtomicU64>>,
}

impl std::fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatch")
            .field("kernel", &self.kernel.name())
            .field("grid", &self.grid)
            .field("workgroup", &self.workgroup)
            .field("dynamic_lds", &self.dynamic_lds)
            .finish_non_exhaustive()
    }
}

impl Dispatch {
    /// Creates a launch of `kernel` without arguments, limits or output.
    pub fn new(
        kernel: Arc<LoadedKernel>,
        memory: Arc<Memory>,
        grid: [u32; 3],
        workgroup: [u32; 3],
    ) -> Dispatch {
        Dispatch {
            kernel,
            grid,
            workgroup,
            dynamic_lds: 0,
            kernarg: Vec::new(),
            memory,
            output: None,
            error_output: None,
            deadline: None,
            cancel: None,
            cooperative: false,
            heap: None,
            stack_bytes: None,
            observer: None,
            peers: Arc::default(),
            helpers_time: None,
        }
    }
}
