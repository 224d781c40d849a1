//! Executes commands: copies and fills in host memory, which serves as device memory, and kernels on the emulator.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use backend::{Command, DeviceError, Launch, ModuleId, Notifier, ReadSink, Region, Span, Tag};
use code_object::ArgKind;
use emulator::observe::model::{GpuTiming, Transfer};
use emulator::{Dispatch, Gpu, GpuConfig, Heap, LoadedKernel, Output};
use isa::Arch;
use limits::Gate;
use parking_lot::Mutex;

use crate::counting::Counting;
use crate::env;
use crate::error::{Failure, from_fault};
use crate::heap::DeviceHeap;
use crate::memory::Memory;
use crate::module::Modules;
use crate::observation::Observation;
use crate::stream::Work;
use crate::value_wait::{FIRST_TOKEN, ValueWaits};

/// One emulated GPU. Its threads start with its first kernel.
pub(crate) struct Engine {
    pub(crate) arch: Arch,
    timing: &'static GpuTiming,
    threads: usize,
    gpu: OnceLock<Gpu>,
    /// The stack limit that the program has set; 0 for the device's default.
    pub(crate) stack_bytes: AtomicU64,
    pub(crate) heap: Arc<DeviceHeap>,
    pub(crate) counting: Counting,
}

impl Engine {
    /// A GPU that runs on `threads` threads.
    pub(crate) fn new(arch: Arch, timing: &'static GpuTiming, threads: usize, heap: DeviceHeap) -> Engine {
        Engine {
            arch,
            timing,
            threads,
            gpu: OnceLock::new(),
            stack_bytes: AtomicU64::new(0),
            heap: Arc::new(heap),
            counting: Counting::default(),
        }
    }

    /// The heap for a kernel that may request memory from the host. Its metadata is in the device's block if the kernel has the
    /// hidden heap argument, else in the kernel's module.
    fn heap_for(&self, module: ModuleId, kernel: &LoadedKernel) -> Option<Heap> {
        let takes = |kind: ArgKind| kernel.kernel.has_arg(&kind);
        if takes(ArgKind::HiddenHeapV1) {
            self.heap.of_device()
        } else if takes(ArgKind::HiddenHostcallBuffer) {
            Some(self.heap.of_module(module))
        } else {
            None
        }
    }

    /// Number of CPUs that the device uses.
    fn threads(&self) -> usize {
        self.threads.max(1)
    }

    fn gpu(&self) -> &Gpu {
        self.gpu.get_or_init(|| {
            let config = GpuConfig::new(self.arch);
            let threads = self.threads();
            let (level, compilation) = (env::level(), env::compilation());
            Gpu::new(GpuConfig { threads, level, compilation, timing: self.timing, ..config })
        })
    }
}

/// Executes commands; holds all the state they access.
pub(crate) struct Runner {
    pub(crate) memory: Arc<Memory>,
    pub(crate) modules: Arc<Mutex<Modules>>,
    pub(crate) engines: Vec<Engine>,
    pub(crate) watchdog: Option<Duration>,
    /// Cancels the running kernels when set; replaced when the device is reset.
    pub(crate) cancel: Mutex<Arc<AtomicBool>>,
    pub(crate) notifier: OnceLock<Arc<dyn Notifier>>,
    /// Sinks for kernel output and for kernel error messages.
    pub(crate) outputs: OnceLock<(Output, Output)>,
    pub(crate) observation: Option<Observation>,
    pub(crate) waits: Arc<ValueWaits>,
    /// Throttles launches, if the devices are shared with other sessions.
    pub(crate) gate: Option<Gate>,
}

impl Runner {
    /// Validates a command before it is queued.
    pub(crate) fn check(&self, command: &Command) -> Result<(), DeviceError> {
        let memory = &self.memory;
        match command {
            Command::Launch(launch) => self.modules.lock().check(launch.function),
            Command::WaitValue(wait) => {
                if !wait.address.is_multiple_of(wait.bytes()) {
                    return Err(DeviceError::invalid_value("the address of a value wait is not aligned"));
                }
                memory.check(wait.address, wait.bytes())
            }
            Command::HostFunction { token } if *token >= FIRST_TOKEN => {
                Err(DeviceError::invalid_value(format!("host function token {token:#x} is reserved")))
            }
            command => command.check_regions(|address, bytes| memory.check(address, bytes)),
        }
    }

    fn outputs(&self) -> Option<&(Output, Output)> {
        let notifier = self.notifier.get()?;
        Some(self.outputs.get_or_init(|| {
            let (printed, complaints) = (Arc::clone(notifier), Arc::clone(notifier));
            (
                Arc::new(move |text: &[u8]| printed.output(text)),
                Arc::new(move |text: &[u8]| complaints.error_output(text)),
            )
        }))
    }

    fn launch(&self, device: u32, launch: Launch, helpers: Option<Arc<AtomicU64>>) -> Result<(), Failure> {
        let (module, kernel) = self.modules.lock().function(launch.function)?;
        let engine = &self.engines[device as usize];
        let heap = engine.heap_for(module, &kernel);
        let mut dispatch =
            Dispatch::new(kernel, Arc::clone(self.memory.table(device)), launch.grid, launch.block);
        dispatch.dynamic_lds = launch.shared_bytes;
        dispatch.kernarg = launch.arguments;
        dispatch.cooperative = launch.cooperative;
        dispatch.heap = heap;
        dispatch.helpers_time = helpers;
        dispatch.deadline = self.watchdog.map(|limit| Instant::now() + limit);
        dispatch.cancel = Some(Arc::clone(&self.cancel.lock()));
        if let Some(outputs) = self.outputs() {
            dispatch.output = Some(Arc::clone(&outputs.0));
            dispatch.error_output = Some(Arc::clone(&outputs.1));
        }
        let stack = engine.stack_bytes.load(Ordering::Relaxed);
        dispatch.stack_bytes = u32::try_from(stack).ok().filter(|stack| *stack > 0);
        let observation = self.observation.as_ref().map(|observation| Arc::clone(&observation.observer));
        // An observation that the operator configured takes precedence over the client's counters.
        dispatch.observer = observation.or_else(|| engine.counting.observer());
        if dispatch.observer.is_some() && self.engines.len() > 1 {
            dispatch.peers = Arc::new(self.memory.peers(device));
        }
        match engine.gpu().launch(&dispatch) {
            Ok(_) => Ok(()),
            Err(fault) => Err(from_fault(&fault, launch.cooperative)),
        }
    }

    /// Adds the time of a copy or fill to the estimate of a device, if counting is on.
    fn estimate_transfer(&self, device: u32, command: &Command) {
        let engine = &self.engines[device as usize];
        if !engine.counting.is_on() {
            return;
        }
        let (region, transfer) = match command {
            Command::Copy { to, from } => {
                let owners = [to, from].map(|region| self.memory.owner(region.address));
                let transfer = match owners {
                    [None, _] | [_, None] => Transfer::Host,
                    [Some(to), Some(from)] if to == from => Transfer::Copy,
                    _ => Transfer::Peer,
                };
                (to, transfer)
            }
            Command::Fill { to, .. } => (to, Transfer::Fill),
            Command::Write { to, .. } => (to, Transfer::Host),
            Command::Read { from, .. } => (from, Transfer::Host),
            _ => return,
        };
        let bytes = region.bytes().unwrap_or(0);
        engine.counting.add_transfer(transfer, engine.timing.transfer_ns(transfer, bytes));
    }

    /// Passes the bytes of a region to the sink: device memory itself if the region is flat, else a packed copy.
    fn read(&self, from: &Region, sink: ReadSink) {
        if let Some(bytes) = from.flat_bytes() {
            // SAFETY: the whole region was checked when the command was queued; `unmap` waits for it.
            return sink(Ok(unsafe { self.memory.bytes(from.address, bytes) }));
        }
        let mut packed = Vec::with_capacity(from.bytes().unwrap_or(0) as usize);
        for row in from.row_addresses() {
            // SAFETY: as above; the row is a part of the region.
            packed.extend_from_slice(unsafe { self.memory.bytes(row, from.extent.width) });
        }
        sink(Ok(&packed));
    }

    /// Writes packed bytes, as many as the region has, to a region.
    fn write(&self, to: &Region, data: &[u8]) {
        if to.flat_bytes().is_some() {
            return self.write_row(to.address, data);
        }
        for (row, data) in to.row_addresses().zip(data.chunks_exact(to.extent.width as usize)) {
            self.write_row(row, data);
        }
    }

    /// Copies between regions of the same extent.
    fn copy(&self, to: &Region, from: &Region) {
        if let (Some(bytes), Some(_)) = (to.flat_bytes(), from.flat_bytes()) {
            return self.copy_row(to.address, from.address, bytes);
        }
        for (row, source) in to.row_addresses().zip(from.row_addresses()) {
            self.copy_row(row, source, to.extent.width);
        }
    }

    /// Fills a region with the low `element` bytes of `value`.
    fn fill(&self, to: &Region, value: u32, element: u32) {
        if let Some(bytes) = to.flat_bytes() {
            return self.fill_row(to.address, bytes, value, element);
        }
        to.row_addresses().for_each(|row| self.fill_row(row, to.extent.width, value, element));
    }

    fn copy_row(&self, to: u64, from: u64, bytes: u64) {
        // SAFETY: both regions were checked when the command was queued, and `unmap` waits for it; `copy` may overlap.
        unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes as usize) };
    }

    fn write_row(&self, to: u64, data: &[u8]) {
        // SAFETY: as for `copy_row`; `data` is a buffer of this process outside the arena, so the ranges do not overlap.
        unsafe { self.memory.bytes_mut(to, data.len() as u64) }.copy_from_slice(data);
    }

    fn fill_row(&self, to: u64, bytes: u64, value: u32, element: u32) {
        // SAFETY: as for `copy_row`.
        let bytes = unsafe { self.memory.bytes_mut(to, bytes) };
        let pattern = &value.to_le_bytes()[..element as usize];
        if pattern.iter().all(|byte| *byte == pattern[0]) {
            bytes.fill(pattern[0]);
        } else {
            bytes.chunks_exact_mut(pattern.len()).for_each(|chunk| chunk.copy_from_slice(pattern));
        }
    }
}

impl Work for Runner {
    fn spent(&self, span: &Span) {
        if let Some(notifier) = self.notifier.get() {
            notifier.spent(span);
        }
    }

    fn turn(&self) -> u64 {
        self.gate.as_ref().map_or(0, Gate::generation)
    }

    fn pace(&self, device: u32, turn: u64) {
        if let Some(gate) = &self.gate {
            gate.wait(device, turn);
        }
    }

    fn give_up(&self) {
        if let Some(gate) = &self.gate {
            gate.release_all();
        }
    }

    fn run(&self, device: u32, command: Command, fault: Option<&DeviceError>) -> Result<(), Failure> {
        let Some(gate) = self.gate.as_ref().filter(|_| fault.is_none()) else {
            return self.execute(device, command, fault, None);
        };
        let helpers = Arc::new(AtomicU64::new(0));
        let (begun, before) = (limits::now(), limits::thread_time());
        if matches!(command, Command::Launch(_)) {
            gate.seat().count_launch(device);
        }
        let result = self.execute(device, command, None, Some(&helpers));
        // CPU time divided by the number of the device's threads is the device time used.
        let used = limits::thread_time().saturating_sub(before) + helpers.load(Ordering::Relaxed);
        gate.seat().charge(device, begun, used / self.engines[device as usize].threads() as u64);
        result
    }

    fn failed(&self, tag: Tag, error: &DeviceError) {
        tracing::debug!("{error}");
        if let Some(notifier) = self.notifier.get() {
            notifier.failed(tag, error);
        }
    }

    fn host_function(&self, token: u64, fault: Option<&DeviceError>) {
        if token >= FIRST_TOKEN {
            return self.waits.begin(token, fault.is_none());
        }
        if let Some(notifier) = self.notifier.get() {
            notifier.host_function(token, fault.cloned().map_or(Ok(()), Err));
        }
    }
}

impl Runner {
    /// Runs a command to completion, on this thread and on helper threads.
    fn execute(
        &self,
        device: u32,
        command: Command,
        fault: Option<&DeviceError>,
        helpers: Option<&Arc<AtomicU64>>,
    ) -> Result<(), Failure> {
        if let Some(fault) = fault {
            // After a fault nothing runs, but the sink of a read must still be called.
            let _ = command.refuse(fault.clone());
            return Ok(());
        }
        let _still = self.memory.still.read();
        self.estimate_transfer(device, &command);
        match command {
            Command::Launch(launch) => return self.launch(device, launch, helpers.cloned()),
            Command::Copy { to, from } => self.copy(&to, &from),
            Command::Fill { to, value, element } => self.fill(&to, value, element),
            Command::Write { to, data } => self.write(&to, &data),
            Command::Read { from, sink } => self.read(&from, sink),
            // The scheduler handles these itself.
            Command::RecordEvent(_)
            | Command::WaitEvent(_)
            | Command::WaitValue(_)
            | Command::HostFunction { .. } => {}
        }
        Ok(())
    }
}
