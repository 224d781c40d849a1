//! Implements the [`Device`] trait with the scheduler, memory, modules and the emulator.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use backend::{
    Arena, Capabilities, Command, Completion, Counters, Device, DeviceError, DeviceInfo, EventId, FunctionId,
    MemoryKind, MemoryUse, ModuleId, Notifier, Scope, StreamId, Tag,
};
use emulator::observe::model::GpuTiming;
use hip_api::types::{
    hipErrorInvalidDevice, hipErrorLaunchFailure, hipErrorUnsupportedLimit, hipLimitMallocHeapSize,
    hipLimitStackSize,
};
use isa::Arch;
use limits::{Gate, SessionSlot};
use parking_lot::Mutex;

use crate::heap::DeviceHeap;
use crate::host::Host;
use crate::launch::{Engine, Runner};
use crate::memory::{GRANULARITY, Memory};
use crate::model::{MODELS, Model};
use crate::module;
use crate::observation::{Observation, ObserveConfig, ObserveFiles};
use crate::release::Releases;
use crate::stream::Scheduler;

/// Maximum stack size of a work-item, the same as in AMD's runtime.
const MAX_STACK_BYTES: u64 = (128 << 10) - 16;

/// Timeout for observed kernels to end when the session closes.
const LAST_KERNELS: Duration = Duration::from_secs(2);

/// Configuration of one emulated GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceConfig {
    /// The model's key, such as `mi300x`.
    pub model: String,
    /// Bytes of memory; the model's size by default.
    pub memory: Option<u64>,
}

/// Options for opening a session's devices.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The GPUs, by ordinal.
    pub devices: Vec<DeviceConfig>,
    /// Address range to use, if it is free in this process.
    pub arena: Option<Arena>,
    /// Time limit after which a kernel is aborted.
    pub watchdog: Option<Duration>,
    /// Turns on kernel tracing, profiling or checking, which makes kernels much slower.
    pub observe: Option<ObserveConfig>,
    /// Output files of the observation, if they are already open.
    pub observe_files: Option<Arc<ObserveFiles>>,
    /// Limits that this session shares with the worker's other sessions.
    pub seat: Option<SessionSlot>,
    /// Description of the machine, for a sandboxed process that cannot read the machine's files.
    pub host: Option<Host>,
}

/// The emulated GPUs of one session.
pub struct Emulator {
    info: Vec<DeviceInfo>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) scheduler: Scheduler<Runner>,
    releases: Releases,
}

impl std::fmt::Debug for Emulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.info.iter().map(|info| info.name.as_str()).collect();
        write!(f, "Emulator({names:?})")
    }
}

impl Emulator {
    /// Opens the devices of a session. Their threads start with their first kernels.
    pub fn open(options: &Options) -> Result<Emulator, DeviceError> {
        let host = options.host.clone().unwrap_or_else(Host::look);
        let mut info = Vec::new();
        let mut archs = Vec::new();
        for (device, ordinal) in options.devices.iter().zip(0..) {
            let model = Model::find(&device.model).ok_or_else(|| {
                let known: Vec<&str> = MODELS.iter().map(|model| model.key).collect();
                let text =
                    format!("unknown device model \"{}\"; known models: {}", device.model, known.join(", "));
                DeviceError::new(hipErrorInvalidDevice, text)
            })?;
            let allowed = options.seat.as_ref().and_then(|seat| seat.memory(ordinal));
            let allowed = allowed.map_or(u64::MAX, |(_, limit)| limit);
            // By default a device gets at most an equal share of the machine's memory.
            let part = host.memory / options.devices.len() as u64 / GRANULARITY * GRANULARITY;
            let total = device.memory.unwrap_or(model.memory_bytes.min(part)).min(allowed);
            info.push(model.describe(ordinal, total, total));
            let arch = if model.processor == "gfx90a" { Arch::Gfx90a } else { Arch::Gfx942 };
            archs.push((arch, GpuTiming::find(model.key).unwrap_or(GpuTiming::of(arch))));
        }
        let quotas = info.iter().map(|info| info.quota).collect();
        let totals = info.iter().map(|info| info.total_memory).collect();
        let wanted = options.arena.filter(|arena| arena.bytes > 0);
        let memory = Memory::new(wanted, quotas, totals, options.seat.clone(), host.pages)?;
        let checked = options.observe.as_ref().is_some_and(|observe| observe.check);
        let memory = Arc::new(if checked { memory.checked() } else { memory });
        let engines = archs.into_iter().zip(&info).zip(0..).map(|(((arch, timing), info), ordinal)| {
            let heap = DeviceHeap::new(ordinal, info.quota, Arc::clone(&memory));
            Engine::new(arch, timing, if checked { 1 } else { host.threads }, heap)
        });
        let engines = engines.collect();
        let observation = options.observe.as_ref();
        let observation = observation
            .map(|config| Observation::open(config, options.observe_files.as_deref()))
            .transpose()?;
        let runner = Runner {
            memory: Arc::clone(&memory),
            modules: Arc::default(),
            engines,
            watchdog: options.watchdog,
            cancel: Mutex::new(Arc::new(AtomicBool::new(false))),
            notifier: std::sync::OnceLock::new(),
            outputs: std::sync::OnceLock::new(),
            observation,
            waits: Arc::default(),
            gate: options.seat.clone().map(Gate::new),
        };
        let limit = options.seat.as_ref().map_or(host.memory, |seat| seat.page().host_limit());
        let scheduler = Scheduler::new(info.len() as u32, limit, runner);
        Ok(Emulator { info, memory, scheduler, releases: Releases::default() })
    }

    fn runner(&self) -> &Runner {
        self.scheduler.work()
    }

    /// Waits until a pending `unmap` of the range has taken effect. Gives up if the work it depends on waits for a host function,
    /// which only the caller can complete; mapping the range then fails.
    pub(crate) fn settle(&self, address: u64, bytes: u64) {
        self.memory.wait_for(address, bytes, || self.scheduler.waits_for_host());
    }

    fn engine(&self, device: u32) -> Result<&Engine, DeviceError> {
        self.runner().engines.get(device as usize).ok_or_else(|| DeviceError::invalid_device(device))
    }
}

impl Device for Emulator {
    fn info(&self) -> &[DeviceInfo] {
        &self.info
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { placed_modules: true, direct_writes: true }
    }

    fn arena(&self) -> Arena {
        self.memory.arena()
    }

    fn notify(&self, notifier: Arc<dyn Notifier>) {
        // One notifier per session; a second call is a bug of the caller and has no effect.
        let _ = self.runner().notifier.set(notifier);
    }

    fn map(&self, device: u32, kind: MemoryKind, address: u64, bytes: u64) -> Result<(), DeviceError> {
        self.settle(address, bytes);
        self.memory.map(device, kind, address, bytes)
    }

    fn unmap(&self, address: u64) -> Result<(), DeviceError> {
        self.memory.leave(address)?;
        if let Some(batch) = self.releases.add(self.scheduler.submissions(), address) {
            let memory = Arc::clone(&self.memory);
            self.scheduler.after(Scope::Everything, move || {
                let addresses = batch.lock().take();
                addresses.into_iter().flatten().for_each(|address| memory.unmap(address));
            });
        }
        Ok(())
    }

    fn memory(&self, device: u32) -> Result<MemoryUse, DeviceError> {
        self.memory.usage(device)
    }

    fn check(&self, address: u64, bytes: u64) -> Result<(), DeviceError> {
        self.memory.check(address, bytes)
    }

    fn read_unordered(
        &self,
        address: u64,
        bytes: u64,
        show: &mut dyn FnMut(&[u8]),
    ) -> Result<(), DeviceError> {
        self.memory.check(address, bytes)?;
        // SAFETY: just checked; `read_unordered` and `unmap` have the same caller, so the range stays mapped during this call.
        show(unsafe { self.memory.bytes(address, bytes) });
        Ok(())
    }

    fn write_unordered(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.memory.check(address, bytes.len() as u64)?;
        // SAFETY: just checked; `write_unordered` and `unmap` have the same caller, so the range stays mapped during this call.
        unsafe { self.memory.bytes_mut(address, bytes.len() as u64) }.copy_from_slice(bytes);
        Ok(())
    }

    fn map_host_range(&self, device: u32, address: u64, bytes: u64) -> Result<(), DeviceError> {
        self.settle(address, bytes);
        self.memory.map_host_range(device, address, bytes)
    }

    fn resident(&self, address: u64, bytes: u64) -> Option<NonNull<u8>> {
        self.memory.check(address, bytes).ok()?;
        NonNull::new(address as *mut u8)
    }

    fn direct(
        &self,
        stream: StreamId,
        destination: u64,
        bytes: u64,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Option<bool> {
        self.memory.check(destination, bytes).ok()?;
        self.scheduler.run_if_idle(stream, || {
            let _still = self.memory.still.read();
            // SAFETY: just checked; this counts as a queued command, and `unmap` waits for it.
            fill(unsafe { self.memory.bytes_mut(destination, bytes) })
        })
    }

    fn create_stream(
        &self,
        device: u32,
        stream: StreamId,
        non_blocking: bool,
        priority: i32,
    ) -> Result<(), DeviceError> {
        self.scheduler.create_stream(device, stream, non_blocking, priority)
    }

    fn destroy_stream(&self, stream: StreamId) -> Result<(), DeviceError> {
        self.scheduler.destroy_stream(stream)
    }

    fn enqueue(&self, stream: StreamId, tag: Tag, command: Command) -> Result<(), DeviceError> {
        match self.runner().check(&command) {
            Ok(()) => match command {
                Command::WaitValue(wait) => {
                    let token = self.runner().waits.add(wait, || self.scheduler.resumer())?;
                    let queued = self.scheduler.enqueue(stream, tag, Command::HostFunction { token });
                    queued.inspect_err(|_| self.runner().waits.begin(token, false))
                }
                command => self.scheduler.enqueue(stream, tag, command),
            },
            Err(error) => command.refuse(error),
        }
    }

    fn host_function_done(&self, token: u64) -> Result<(), DeviceError> {
        self.scheduler.host_function_done(token)
    }

    fn synchronize(&self, scope: Scope, done: Completion) {
        self.scheduler.synchronize(scope, done);
    }

    fn query(&self, scope: Scope) -> Result<bool, DeviceError> {
        self.scheduler.query(scope)
    }

    fn create_event(&self, event: EventId, device: u32, flags: u32) -> Result<(), DeviceError> {
        self.scheduler.create_event(event, device, flags)
    }

    fn destroy_event(&self, event: EventId) -> Result<(), DeviceError> {
        self.scheduler.destroy_event(event)
    }

    fn elapsed(&self, start: EventId, stop: EventId) -> Result<f32, DeviceError> {
        self.scheduler.elapsed(start, stop)
    }

    fn load_module(&self, device: u32, module: ModuleId, base: u64, image: &[u8]) -> Result<(), DeviceError> {
        let arch = self.engine(device)?.arch;
        self.settle(base, image.len() as u64);
        self.runner().modules.lock().load(&self.memory, device, arch, module, base, image)
    }

    fn unload_module(&self, module: ModuleId) -> Result<(), DeviceError> {
        let loaded = self.runner().modules.lock().unload(module)?;
        self.memory.leave(loaded.module.base())?;
        let memory = Arc::clone(&self.memory);
        let heap = Arc::clone(&self.engine(loaded.device)?.heap);
        let modules = Arc::clone(&self.runner().modules);
        self.scheduler.after(Scope::Everything, move || {
            modules.lock().forget(&loaded);
            heap.release(module);
            module::release(&memory, &loaded);
        });
        Ok(())
    }

    fn global(&self, module: ModuleId, name: &str) -> Result<(u64, u64), DeviceError> {
        self.runner().modules.lock().global(module, name)
    }

    fn define_function(&self, function: FunctionId, module: ModuleId, name: &str) -> Result<(), DeviceError> {
        self.runner().modules.lock().define(function, module, name)
    }

    fn begin_counting(&self, device: u32) -> Result<(), DeviceError> {
        self.engine(device)?.counting.begin();
        Ok(())
    }

    fn end_counting(&self, device: u32) -> Result<Counters, DeviceError> {
        self.engine(device)?.counting.end()
    }

    fn set_limit(&self, device: u32, limit: i32, value: u64) -> Result<u64, DeviceError> {
        let engine = self.engine(device)?;
        if limit == hipLimitStackSize.0 as i32 {
            if value > MAX_STACK_BYTES {
                let text = format!("stack size of {value} bytes exceeds the maximum of {MAX_STACK_BYTES}");
                return Err(DeviceError::invalid_value(text));
            }
            let value = value.next_multiple_of(16);
            engine.stack_bytes.store(value, Ordering::Relaxed);
            return Ok(value);
        }
        if limit == hipLimitMallocHeapSize.0 as i32 {
            let total = self.info[device as usize].total_memory;
            if value >= total {
                let text = format!("heap size of {value} bytes exceeds the device's {total} bytes");
                return Err(DeviceError::invalid_value(text));
            }
            engine.heap.set_limit(value);
            return Ok(value);
        }
        // Other limits of the device have no effect in the emulator, so any value is accepted.
        let known = self.info[device as usize].limits.iter().any(|(known, _)| *known == limit);
        if known {
            Ok(value)
        } else {
            Err(DeviceError::new(hipErrorUnsupportedLimit, format!("unsupported limit {limit}")))
        }
    }

    fn reset(&self, device: u32) -> Result<(), DeviceError> {
        let engine = self.engine(device)?;
        let runner = self.runner();
        runner.cancel.lock().store(true, Ordering::Relaxed);
        runner.waits.clear();
        self.scheduler.poison(DeviceError::new(hipErrorLaunchFailure, "the device was reset"));
        self.scheduler.drain();
        for loaded in runner.modules.lock().take_device(device) {
            module::release(&self.memory, &loaded);
        }
        engine.heap.clear();
        self.memory.clear(device);
        *runner.cancel.lock() = Arc::new(AtomicBool::new(false));
        self.scheduler.reset(device);
        Ok(())
    }

    /// Reports PCI Express with one hop, as for cards in one machine.
    fn link(&self, from: u32, to: u32) -> Result<(u32, u32), DeviceError> {
        const PCI_EXPRESS: u32 = 2;
        self.engine(from)?;
        self.engine(to)?;
        if from == to { Err(DeviceError::invalid_device(to)) } else { Ok((PCI_EXPRESS, 1)) }
    }

    fn record_spans(&self, on: bool) {
        self.scheduler.record_spans(on);
    }

    fn busy_ns(&self, device: u32) -> u64 {
        self.scheduler.busy_ns(device)
    }

    fn close(&self) {
        let Some(observation) = &self.runner().observation else { return };
        // Kernels that are still running belong to the results: cancel them and count what they did.
        self.runner().cancel.lock().store(true, Ordering::Relaxed);
        let deadline = Instant::now() + LAST_KERNELS;
        while matches!(self.scheduler.query(Scope::Everything), Ok(false)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        observation.tell();
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.runner().cancel.lock().store(true, Ordering::Relaxed);
        self.runner().waits.clear();
        self.scheduler.poison(DeviceError::new(hipErrorLaunchFailure, "the session has ended"));
    }
}
