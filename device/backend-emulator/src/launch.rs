//! Executes commands: copies and fills in host memory, which serves as device memory, and kernels on the emulator.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use backend::{Command, DeviceError, Extent, Launch, ModuleId, Notifier, Pitched, ReadSink, Span, Tag};
use code_object::ArgKind;
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
use crate::stream::{Work, refuse};
use crate::value_wait::{FIRST_TOKEN, ValueWaits};

/// One emulated GPU. Its threads start with its first kernel.
pub(crate) struct Engine {
    pub(crate) arch: Arch,
    threads: usize,
    gpu: OnceLock<Gpu>,
    /// The stack limit that the program has set; 0 for the device's default.
    pub(crate) stack_bytes: AtomicU64,
    pub(crate) heap: Arc<DeviceHeap>,
    pub(crate) counting: Counting,
}

impl Engine {
    /// A GPU that runs on `threads` threads.
    pub(crate) fn new(arch: Arch, threads: usize, heap: DeviceHeap) -> Engine {
        Engine {
            arch,
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
            Gpu::new(GpuConfig { threads, level: env::level(), compilation: env::compilation(), ..config })
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
        let region = |at: &Pitched, extent: &Extent| memory.check(at.address, at.span(extent)?);
        let rect = |address: u64, pitch: u64, width: u64, height: u64| {
            region(&Pitched::flat(address, pitch), &Extent::flat(width, height))
        };
        match command {
            Command::Launch(launch) => self.modules.lock().check(launch.function),
            Command::Copy { destination, source, bytes } => {
                memory.check(*destination, *bytes)?;
                memory.check(*source, *bytes)
            }
            Command::Fill { destination, width, count, .. } => {
                check_element(*width)?;
                memory.check(*destination, count.saturating_mul(u64::from(*width)))
            }
            Command::Write { destination, data } => memory.check(*destination, data.len() as u64),
            Command::Read { source, bytes, .. } => memory.check(*source, *bytes),
            Command::WriteRect { destination, pitch, width, height, data } => {
                if Some(data.len() as u64) != width.checked_mul(*height) {
                    return Err(DeviceError::invalid_value(
                        "the size of the data differs from the size of the rectangle",
                    ));
                }
                rect(*destination, *pitch, *width, *height)
            }
            Command::ReadRect { source, pitch, width, height, .. } => rect(*source, *pitch, *width, *height),
            Command::CopyRect { destination, destination_pitch, source, source_pitch, width, height } => {
                rect(*destination, *destination_pitch, *width, *height)?;
                rect(*source, *source_pitch, *width, *height)
            }
            Command::FillRect { destination, pitch, width, height, .. } => {
                rect(*destination, *pitch, *width, *height)
            }
            Command::WriteBox { to, extent, data } => {
                if Some(data.len() as u64) != extent.volume() {
                    return Err(DeviceError::invalid_value(
                        "the size of the data differs from the volume of the box",
                    ));
                }
                region(to, extent)
            }
            Command::ReadBox { from, extent, .. } => region(from, extent),
            Command::CopyBox { to, from, extent } => {
                region(to, extent)?;
                region(from, extent)
            }
            Command::FillBox { to, extent, width, .. } => {
                check_element(*width)?;
                if !extent.width.is_multiple_of(u64::from(*width)) {
                    return Err(DeviceError::invalid_value(
                        "the row width is not a multiple of the element width",
                    ));
                }
                region(to, extent)
            }
            Command::WaitValue(wait) => {
                if !wait.address.is_multiple_of(wait.bytes()) {
                    return Err(DeviceError::invalid_value("the address of a value wait is not aligned"));
                }
                memory.check(wait.address, wait.bytes())
            }
            Command::HostFunction { token } if *token >= FIRST_TOKEN => {
                Err(DeviceError::invalid_value(format!("host function token {token:#x} is reserved")))
            }
            Command::RecordEvent(_) | Command::WaitEvent(_) | Command::HostFunction { .. } => Ok(()),
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
        match engine.gpu().launch(&dispatch) {
            Ok(_) => Ok(()),
            Err(fault) => Err(from_fault(&fault, launch.cooperative)),
        }
    }

    /// Packs the rows of a box and passes them to the sink.
    fn read_box(&self, from: Pitched, extent: Extent, sink: ReadSink) {
        let mut packed = Vec::with_capacity(extent.volume().unwrap_or(0) as usize);
        for row in from.rows_of(extent) {
            // SAFETY: the whole box was checked when the command was queued; `unmap` waits for it.
            packed.extend_from_slice(unsafe { self.memory.bytes(row, extent.width) });
        }
        sink(Ok(&packed));
    }

    fn write_box(&self, to: Pitched, extent: Extent, data: &[u8]) {
        if extent.is_empty() {
            return;
        }
        for (row, data) in to.rows_of(extent).zip(data.chunks_exact(extent.width as usize)) {
            self.write(row, data);
        }
    }

    fn copy_box(&self, to: Pitched, from: Pitched, extent: Extent) {
        for (to, from) in to.rows_of(extent).zip(from.rows_of(extent)) {
            self.copy(to, from, extent.width);
        }
    }

    fn fill_box(&self, to: Pitched, extent: Extent, value: u32, width: u32) {
        for row in to.rows_of(extent) {
            self.fill(row, value, width, extent.width / u64::from(width));
        }
    }

    fn copy(&self, destination: u64, source: u64, bytes: u64) {
        // SAFETY: both ranges were checked when the command was queued, and `unmap` waits for it; `copy` may overlap.
        unsafe { std::ptr::copy(source as *const u8, destination as *mut u8, bytes as usize) };
    }

    fn write(&self, destination: u64, data: &[u8]) {
        // SAFETY: as for `copy`; `data` is a buffer of this process outside the arena, so the ranges do not overlap.
        unsafe { self.memory.bytes_mut(destination, data.len() as u64) }.copy_from_slice(data);
    }

    fn fill(&self, destination: u64, value: u32, width: u32, count: u64) {
        // SAFETY: as for `copy`.
        let bytes = unsafe { self.memory.bytes_mut(destination, count * u64::from(width)) };
        let pattern = &value.to_le_bytes()[..width as usize];
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
        self.gate.as_ref().map_or(0, Gate::turn)
    }

    fn pace(&self, device: u32, turn: u64) {
        if let Some(gate) = &self.gate {
            gate.pass(device, turn);
        }
    }

    fn give_up(&self) {
        if let Some(gate) = &self.gate {
            gate.throw_open();
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
            let _ = refuse(command, fault.clone());
            return Ok(());
        }
        let _still = self.memory.still.read();
        match command {
            Command::Launch(launch) => return self.launch(device, launch, helpers.cloned()),
            Command::Copy { destination, source, bytes } => self.copy(destination, source, bytes),
            Command::Fill { destination, value, width, count } => self.fill(destination, value, width, count),
            Command::Write { destination, data } => self.write(destination, &data),
            // SAFETY: checked when the command was queued; `unmap` waits for it.
            Command::Read { source, bytes, sink } => sink(Ok(unsafe { self.memory.bytes(source, bytes) })),
            Command::WriteRect { destination, pitch, width, height, data } => {
                self.write_box(Pitched::flat(destination, pitch), Extent::flat(width, height), &data);
            }
            Command::ReadRect { source, pitch, width, height, sink } => {
                self.read_box(Pitched::flat(source, pitch), Extent::flat(width, height), sink);
            }
            Command::CopyRect { destination, destination_pitch, source, source_pitch, width, height } => {
                let to = Pitched::flat(destination, destination_pitch);
                self.copy_box(to, Pitched::flat(source, source_pitch), Extent::flat(width, height));
            }
            Command::FillRect { destination, pitch, value, width, height } => {
                self.fill_box(Pitched::flat(destination, pitch), Extent::flat(width, height), value, 1);
            }
            Command::WriteBox { to, extent, data } => self.write_box(to, extent, &data),
            Command::ReadBox { from, extent, sink } => self.read_box(from, extent, sink),
            Command::CopyBox { to, from, extent } => self.copy_box(to, from, extent),
            Command::FillBox { to, extent, value, width } => self.fill_box(to, extent, value, width),
            // The scheduler handles these itself.
            Command::RecordEvent(_)
            | Command::WaitEvent(_)
            | Command::WaitValue(_)
            | Command::HostFunction { .. } => {}
        }
        Ok(())
    }
}

fn check_element(width: u32) -> Result<(), DeviceError> {
    if [1, 2, 4].contains(&width) {
        Ok(())
    } else {
        Err(DeviceError::invalid_value(format!("invalid fill width {width}: it must be 1, 2 or 4 bytes")))
    }
}
