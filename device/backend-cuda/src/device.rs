//! Implements the [`Device`] trait with calls of NVIDIA's driver.
//!
//! The driver orders the work. No call here waits for it: `waiter.rs` watches the timelines of the streams and calls what is to
//! happen when work has ended.

use std::collections::HashMap;
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use backend::{
    Arena, Capabilities, Command, Completion, Device, DeviceError, DeviceInfo, EventId, FunctionId,
    MemoryKind, MemoryUse, ModuleId, Notifier, Scope, StreamId, Tag,
};
use backend_emulator::{MODELS, Model};
use hip_api::types::{
    hipErrorInvalidDevice, hipErrorInvalidHandle, hipErrorNoDevice, hipErrorUnsupportedLimit,
    hipLimitMallocHeapSize, hipLimitPrintfFifoSize, hipLimitStackSize,
};
use isa::Arch;
use limits::SessionSlot;
use parking_lot::Mutex;

use crate::cache::Cache;
use crate::describe::describe;
use crate::error::call;
use crate::event::Events;
use crate::functions::Functions;
use crate::gpu::Gpu;
use crate::hostcall::Services;
use crate::launch::queue_descriptor;
use crate::linger::Linger;
use crate::memory::{Memory, What};
use crate::module::{Module, Modules};
use crate::pace::Pacer;
use crate::pinned::{Piece, Pinned};
use crate::program::Programs;
use crate::scatter::Scatter;
use crate::schedule::{Entry, Schedule, Work};
use crate::spans::Spans;
use crate::stream::{Mark, Origin, Stream, Streams};
use crate::translate::Translator;
use crate::types::*;
use crate::value_wait::ValueWaits;
use crate::virtual_memory::Physical;
use crate::waiter::Waiter;

/// Copies from and to the host are cut into pieces of this size, so that copying to pinned memory and on to the GPU overlap.
pub(crate) const PIECE_BYTES: usize = 4 << 20;
/// Maximum stack size of a lane, the same as in AMD's runtime.
const MAX_STACK_BYTES: u32 = (128 << 10) - 16;
/// Maximum size of the cache of compiled kernels.
const CACHE_BYTES: u64 = 1 << 30;

/// Options for opening a session's GPUs.
#[derive(Debug)]
pub struct Options {
    /// Path of the driver library; `None` searches the usual paths.
    pub library: Option<PathBuf>,
    /// Key of the AMD model that the GPUs imitate, such as `mi300x`.
    pub model: String,
    /// Address range to use.
    pub arena: Option<Arena>,
    /// Limits that this session shares with the worker's other sessions.
    pub seat: Option<SessionSlot>,
    /// Folder for compiled kernels; `None` compiles them in every session.
    pub cache: Option<PathBuf>,
    /// Translator of kernels.
    pub translator: Arc<dyn Translator>,
}

/// The NVIDIA GPUs of this machine.
pub struct Cuda {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) functions: Arc<Functions>,
    pub(crate) gpus: Arc<Vec<Gpu>>,
    arch: Arch,
    devices: Vec<DeviceInfo>,
    pub(crate) pinned: Arc<Pinned>,
    pub(crate) memory: Memory,
    pub(crate) physical: Mutex<Physical>,
    pub(crate) streams: Mutex<Streams>,
    pub(crate) events: Mutex<Events>,
    pub(crate) modules: Mutex<Modules>,
    pub(crate) programs: Programs,
    /// Queue descriptor of each device.
    pub(crate) queues: Vec<Piece>,
    pub(crate) waits: ValueWaits,
    /// Hostcall buffer and heap of each device.
    pub(crate) services: Vec<Services>,
    pub(crate) notifier: OnceLock<Arc<dyn Notifier>>,
    pub(crate) spans: Spans,
    /// Throttles launches, if the devices are shared with other sessions.
    pub(crate) pacer: Option<Pacer>,
    pub(crate) waiter: Waiter,
    linger: Linger,
    fault: OnceLock<DeviceError>,
    pub(crate) schedule: Schedule,
    /// Streams with a host function that has not returned, by token.
    stops: Mutex<HashMap<u64, Arc<Stream>>>,
    pub(crate) dispatches: AtomicU64,
    pub(crate) scatter: Scatter,
    pub(crate) names: Names,
}

/// Names of commands in messages.
pub(crate) struct Names {
    copy: Arc<str>,
    fill: Arc<str>,
    pub(crate) write: Arc<str>,
    read: Arc<str>,
    wait: Arc<str>,
    event: Arc<str>,
    pub(crate) host: Arc<str>,
}

impl std::fmt::Debug for Cuda {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cuda({:?})", self.shared.functions)
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        self.shared.waiter.close();
        self.shared.schedule.submitter.close();
    }
}

/// Loads the driver and opens all GPUs.
fn open_gpus(library: Option<&Path>, most: Option<usize>) -> Result<(Arc<Functions>, Vec<Gpu>), DeviceError> {
    // Kernels are loaded when they are translated. Lazy loading would load them at their first launch, which may wait for all
    // running work; so may a stream that shares its queue with another one. Read by the driver when it starts, which makes four
    // channels for each queue and needs 4 ms for each channel. AMD's runtime has four queues by default.
    // The driver's own cache is in the home folder, which a session may not write to.
    let settings = [
        (c"CUDA_MODULE_LOADING", c"EAGER"),
        (c"CUDA_DEVICE_MAX_CONNECTIONS", c"8"),
        (c"CUDA_CACHE_DISABLE", c"1"),
    ];
    for (name, value) in settings {
        // SAFETY: both are NUL-terminated. A session's process sets this before it starts threads that read the environment.
        unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 0) };
    }
    let begin = Instant::now();
    let functions = Arc::new(Functions::load(library)?);
    let loaded = begin.elapsed();
    call!(functions, cuInit(0))?;
    let initialised = begin.elapsed();
    let mut count = 0;
    call!(functions, cuDeviceGetCount(&raw mut count))?;
    if count <= 0 {
        return Err(DeviceError::new(hipErrorNoDevice, "NVIDIA's driver found no GPU"));
    }
    let count = most.map_or(count as usize, |most| most.min(count as usize));
    let gpus = (0..count).map(|ordinal| Gpu::open(&functions, ordinal as u32)).collect::<Result<_, _>>()?;
    tracing::debug!(
        "the driver was loaded in {} ms and initialised after {} ms; contexts of {count} GPUs after {} ms",
        loaded.as_millis(),
        initialised.as_millis(),
        begin.elapsed().as_millis()
    );
    Ok((functions, gpus))
}

impl Cuda {
    /// Loads the driver and opens its GPUs.
    pub fn open(options: Options) -> Result<Cuda, DeviceError> {
        let model = Model::find(&options.model).ok_or_else(|| {
            let known: Vec<&str> = MODELS.iter().map(|model| model.key).collect();
            let text = format!("unknown model {:?}; known are {}", options.model, known.join(", "));
            DeviceError::new(hipErrorInvalidDevice, text)
        })?;
        // A seat has slots for the devices the worker found at its start; devices that appeared later are not offered.
        let most = options.seat.as_ref().map(|seat| seat.page().devices() as usize);
        let begin = Instant::now();
        let (functions, gpus) = open_gpus(options.library.as_deref(), most)?;
        let cuda = Cuda::over(functions, gpus, model, options)?;
        tracing::debug!("opened the GPUs with everything in {} ms", begin.elapsed().as_millis());
        Ok(cuda)
    }

    /// Serves a session with these GPUs.
    pub(crate) fn over(
        functions: Arc<Functions>,
        gpus: Vec<Gpu>,
        model: &Model,
        options: Options,
    ) -> Result<Cuda, DeviceError> {
        let Options { arena, seat, cache, translator, .. } = options;
        let mut devices: Vec<DeviceInfo> =
            gpus.iter().zip(0..).map(|(gpu, ordinal)| describe(gpu, model, ordinal)).collect();
        for (info, device) in devices.iter_mut().zip(0..) {
            if let Some((_, limit)) = seat.as_ref().and_then(|seat| seat.memory(device)) {
                info.total_memory = info.total_memory.min(limit);
                info.quota = info.quota.min(limit);
                info.properties.totalGlobalMem = info.properties.totalGlobalMem.min(limit as usize);
            }
        }
        let gpus = Arc::new(gpus);
        let memory = Memory::new(&functions, &gpus, arena, seat.clone())?;
        let pinned = Pinned::new(&functions);
        let mut streams = Streams::default();
        let mut queues = Vec::new();
        for (gpu, device) in gpus.iter().zip(0..) {
            gpu.enter()?;
            let words = pinned.take(1)?;
            streams.insert(Stream::new(u64::from(device), device, false, LEGACY_STREAM, words));
            queues.push(queue_descriptor(pinned.take(256)?));
        }
        let mut driver_version = 0;
        call!(functions, cuDriverGetVersion(&raw mut driver_version))?;
        let cache = cache.and_then(|folder| {
            let opened = Cache::open(&folder, CACHE_BYTES);
            opened
                .inspect_err(|error| {
                    tracing::warn!("compiled kernels are not cached: {}: {error}", folder.display());
                })
                .ok()
        });
        let name = |text: &str| Arc::from(text);
        let shared = Arc::new(Shared {
            programs: Programs { functions: Arc::clone(&functions), translator, cache, driver_version },
            waits: ValueWaits::default(),
            services: gpus.iter().map(|_| Services::default()).collect(),
            schedule: Schedule::default(),
            scatter: Scatter::new(gpus.len()),
            functions,
            gpus,
            arch: if model.processor == "gfx90a" { Arch::Gfx90a } else { Arch::Gfx942 },
            devices,
            pinned,
            memory,
            physical: Mutex::default(),
            streams: Mutex::new(streams),
            events: Mutex::default(),
            modules: Mutex::default(),
            queues,
            notifier: OnceLock::new(),
            spans: Spans::default(),
            pacer: seat.map(Pacer::new),
            waiter: Waiter::default(),
            linger: Linger::default(),
            fault: OnceLock::new(),
            stops: Mutex::default(),
            dispatches: AtomicU64::new(1),
            names: Names {
                copy: name("copy"),
                fill: name("fill"),
                write: name("write"),
                read: name("read"),
                wait: name("wait for a value"),
                event: name("event"),
                host: name("host function"),
            },
        });
        let serving = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("cuda-wait".to_owned());
        thread.spawn(move || serving.waiter.serve(&serving)).map_err(|error| {
            DeviceError::out_of_memory(format!("cannot start a thread that waits for the GPU: {error}"))
        })?;
        if shared.pacer.is_some() {
            shared.time_commands();
        }
        Ok(Cuda { shared })
    }

    /// The name of each GPU of this machine.
    pub fn names(library: Option<&Path>) -> Result<Vec<String>, DeviceError> {
        let (_, gpus) = open_gpus(library, None)?;
        Ok(gpus.into_iter().map(|gpu| gpu.name).collect())
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Shared {
    /// Makes a device's context current.
    pub(crate) fn on(&self, device: u32) -> Result<&Gpu, DeviceError> {
        let gpu = self.gpus.get(device as usize).ok_or_else(|| DeviceError::invalid_device(device))?;
        gpu.enter()?;
        Ok(gpu)
    }

    /// The fault that has ended the session's contexts.
    pub(crate) fn fault(&self) -> Option<&DeviceError> {
        self.fault.get()
    }

    fn check_fault(&self) -> Result<(), DeviceError> {
        self.fault.get().map_or(Ok(()), |fault| Err(fault.clone()))
    }

    /// Asks the driver whether a kernel has ended its context.
    pub(crate) fn look_for_fault(&self) {
        for gpu in self.gpus.iter() {
            if let Err(error) = gpu.health() {
                self.blame(error);
            }
        }
    }

    /// Whether all streams are idle.
    pub(crate) fn is_idle(&self) -> bool {
        self.streams.lock().all().all(|stream| stream.end().is_reached())
    }

    /// If an error is a fault, finds the command that caused it and reports that once. Returns the error to give to the caller.
    pub(crate) fn blame(&self, error: DeviceError) -> DeviceError {
        if !error.is_fault() {
            return error;
        }
        let mut told = None;
        let fault = self.fault.get_or_init(|| {
            let pending: Vec<_> = self.streams.lock().all().flat_map(|it| it.suspects()).collect();
            let mut kernels: Vec<&str> = Vec::new();
            for kernel in pending.iter().filter(|it| it.is_kernel).map(|it| &*it.what) {
                if !kernels.contains(&kernel) {
                    kernels.push(kernel);
                }
            }
            let text = match &kernels[..] {
                [] => error.text.clone(),
                [kernel] => format!("kernel {kernel}: {}", error.text),
                several => format!("one of the kernels {}: {}", several.join(", "), error.text),
            };
            told = pending.iter().find(|it| it.is_kernel).or(pending.first()).map(|it| it.tag);
            DeviceError::new(error.code, text)
        });
        if let (Some(tag), Some(notifier)) = (told, self.notifier.get()) {
            notifier.failed(tag, fault);
        }
        self.cancel(None, fault);
        fault.clone()
    }

    /// The ends of the work in a scope, published.
    pub(crate) fn marks(&self, scope: Scope) -> Result<Vec<Mark>, DeviceError> {
        let streams = self.streams.lock();
        let end = |stream: &Arc<Stream>| -> Result<Mark, DeviceError> {
            // After a fault the driver takes nothing.
            if self.fault().is_none() {
                if stream.end().is_submitted() {
                    self.on(stream.device)?;
                    stream.publish(&self.functions)?;
                } else {
                    self.schedule.submitter.expect();
                }
            }
            Ok(stream.end())
        };
        match scope {
            Scope::Stream(id) => {
                let stream = streams.get(id)?;
                // Waiting for a null stream includes the device's blocking streams.
                let also = |it: &&Arc<Stream>| {
                    stream.is_null() && it.device == stream.device && !it.non_blocking && it.id != stream.id
                };
                streams.all().filter(also).chain([&stream]).map(end).collect()
            }
            Scope::Device(device) if device as usize >= self.gpus.len() => {
                Err(DeviceError::invalid_device(device))
            }
            Scope::Device(device) => {
                streams.all().filter(|stream| stream.device == device).map(end).collect()
            }
            Scope::Everything => streams.all().map(end).collect(),
            Scope::Event(id) => Ok(self.events.lock().recorded(id)?.into_iter().collect()),
        }
    }

    /// Makes the GPU advance the timelines after everything that the driver has got.
    pub(crate) fn publish_all(&self) {
        let streams: Vec<Arc<Stream>> =
            self.streams.lock().all().filter(|it| it.is_unpublished()).cloned().collect();
        for stream in streams {
            let published = self.on(stream.device).and_then(|_| stream.publish(&self.functions));
            if let Err(error) = published {
                self.blame(error);
            }
        }
    }

    /// Calls `action` when all work queued so far has ended: now, if it has.
    fn after_all(
        self: &Arc<Shared>,
        action: impl FnOnce(&Shared) + Send + 'static,
    ) -> Result<(), DeviceError> {
        let marks = self.marks(Scope::Everything).or_else(|error| {
            self.blame(error);
            self.marks(Scope::Everything)
        })?;
        if marks.iter().all(Mark::is_reached) {
            action(self);
            return Ok(());
        }
        let shared = Arc::clone(self);
        self.waiter.push(marks, move |_| action(&shared));
        Ok(())
    }

    /// Checks a command and schedules it. The context of the stream's device must be current.
    fn run(self: &Arc<Shared>, stream: &Arc<Stream>, tag: Tag, command: Command) -> Result<(), DeviceError> {
        let (memory, names) = (&self.memory, &self.names);
        if let Err(error) = command.check_regions(|address, bytes| memory.check(address, bytes)) {
            return command.refuse(error);
        }
        let task = command.task();
        let mut what = names.of(&command);
        let (mut numbers, mut records) = (1, [0; 2]);
        let work = match command {
            Command::Launch(launch) => {
                records = [launch.start_event, launch.stop_event];
                let (ready, name) = self.prepare_launch(stream.device, &launch)?;
                what = name;
                Work::Launch(Box::new(ready))
            }
            Command::Copy { to, from } => Work::Copy { to, from },
            Command::Fill { to, value, element } => Work::Fill { to, value, element },
            Command::Write { to, data } => {
                numbers = Shared::write_parts(&to);
                Work::Write { to, data }
            }
            Command::Read { from, sink } => Work::Read { from, sink },
            Command::WaitValue(it) => {
                if !it.address.is_multiple_of(it.bytes()) {
                    return Err(DeviceError::invalid_value("the address of a value wait is not aligned"));
                }
                memory.check(it.address, it.bytes())?;
                numbers = 2;
                Work::WaitValue(it)
            }
            Command::RecordEvent(id) => {
                records[0] = id;
                Work::RecordEvent { handle: self.events.lock().get(id)? as usize }
            }
            Command::WaitEvent(id) => {
                let events = self.events.lock();
                match events.recorded(id)? {
                    Some(record) => Work::WaitEvent { handle: events.get(id)? as usize, record },
                    None => Work::Nothing,
                }
            }
            Command::HostFunction { token } => {
                numbers = 2;
                let mut stops = self.stops.lock();
                if stops.contains_key(&token) {
                    let text = format!("host function {token:#x} is pending already");
                    return Err(DeviceError::invalid_value(text));
                }
                stops.insert(token, Arc::clone(stream));
                Work::HostFunction { token }
            }
        };
        let is_kernel = matches!(work, Work::Launch(_));
        let origin = Origin { tag, what, is_kernel };
        self.schedule(stream, || {
            let numbers = stream.reserve(numbers);
            for event in records.into_iter().filter(|event| *event != 0) {
                self.events.lock().record(event, stream.mark(numbers.last));
            }
            Entry { stream: Arc::clone(stream), numbers, origin, task, work }
        })
    }
}

impl Names {
    fn of(&self, command: &Command) -> Arc<str> {
        Arc::clone(match command {
            Command::Copy { .. } => &self.copy,
            Command::Fill { .. } => &self.fill,
            Command::Write { .. } => &self.write,
            Command::Read { .. } => &self.read,
            Command::WaitValue(_) => &self.wait,
            Command::HostFunction { .. } => &self.host,
            Command::Launch(_) | Command::RecordEvent(_) | Command::WaitEvent(_) => &self.event,
        })
    }
}

impl Device for Cuda {
    fn info(&self) -> &[DeviceInfo] {
        &self.shared.devices
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { placed_modules: true, direct_writes: false }
    }

    fn arena(&self) -> Arena {
        self.shared.memory.arena()
    }

    fn notify(&self, notifier: Arc<dyn Notifier>) {
        // Set once: each session has a separate process, so there is no second notifier.
        let _ = self.shared.notifier.set(notifier);
    }

    fn map(&self, device: u32, kind: MemoryKind, address: u64, bytes: u64) -> Result<(), DeviceError> {
        self.shared.check_fault()?;
        self.shared.on(device)?;
        // This may wait for an allocation that is being freed.
        self.shared.waiter.wake();
        let what = if kind == MemoryKind::PinnedHost { What::Host } else { What::Device };
        self.shared.memory.map(device, address, bytes, what).map_err(|error| self.shared.blame(error))
    }

    fn unmap(&self, address: u64) -> Result<(), DeviceError> {
        self.shared.memory.unmap(address, false)?;
        self.shared.after_all(move |shared| shared.memory.release(address))
    }

    fn memory(&self, device: u32) -> Result<MemoryUse, DeviceError> {
        let gpu = self.shared.gpus.get(device as usize).ok_or_else(|| DeviceError::invalid_device(device))?;
        let (mut free, mut total) = gpu.memory().map_err(|error| self.shared.blame(error))?;
        if let Some((left, limit)) = self.shared.memory.allowance(device) {
            (free, total) = (free.min(left), total.min(limit));
        }
        Ok(MemoryUse { free, total, used: self.shared.memory.used(device) })
    }

    fn check(&self, address: u64, bytes: u64) -> Result<(), DeviceError> {
        self.shared.memory.check(address, bytes)
    }

    fn read_unordered(
        &self,
        address: u64,
        bytes: u64,
        show: &mut dyn FnMut(&[u8]),
    ) -> Result<(), DeviceError> {
        self.check(address, bytes)?;
        self.shared.read_aside(address, bytes, show).map_err(|error| self.shared.blame(error))
    }

    fn write_unordered(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.check(address, bytes.len() as u64)?;
        self.shared.write_aside(address, bytes).map_err(|error| self.shared.blame(error))
    }

    fn write_runs_unordered(&self, runs: &[(u64, &[u8])]) -> Result<(), DeviceError> {
        runs.iter().try_for_each(|(address, bytes)| self.check(*address, bytes.len() as u64))?;
        self.shared.write_runs_aside(runs).map_err(|error| self.shared.blame(error))
    }

    fn map_host_range(&self, device: u32, address: u64, bytes: u64) -> Result<(), DeviceError> {
        self.shared.on(device)?;
        self.shared.memory.map_outside(device, address, bytes)
    }

    fn resident(&self, _address: u64, _bytes: u64) -> Option<NonNull<u8>> {
        None
    }

    fn direct(
        &self,
        stream: StreamId,
        destination: u64,
        bytes: u64,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Option<bool> {
        self.shared.direct(stream, destination, bytes, fill)
    }

    fn create_stream(
        &self,
        device: u32,
        id: StreamId,
        non_blocking: bool,
        priority: i32,
    ) -> Result<(), DeviceError> {
        let shared = &self.shared;
        if !shared.streams.lock().is_free(id) {
            return Err(DeviceError::invalid_handle(format!("stream {id:#x} exists already or is reserved")));
        }
        shared.on(device)?;
        let flags = if non_blocking { STREAM_NON_BLOCKING } else { 0 };
        let mut handle = std::ptr::null_mut();
        call!(shared.functions, cuStreamCreateWithPriority(&raw mut handle, flags, priority as c_int))
            .map_err(|error| shared.blame(error))?;
        let words = shared.pinned.take(1)?;
        shared.streams.lock().insert(Stream::new(id, device, non_blocking, handle as usize, words));
        Ok(())
    }

    fn destroy_stream(&self, id: StreamId) -> Result<(), DeviceError> {
        let shared = &self.shared;
        let stream = shared.streams.lock().remove(id)?;
        let destroy = move |shared: &Shared| {
            let _ = shared.on(stream.device);
            let _ = call!(shared.functions, cuStreamDestroy_v2(stream.handle()));
            shared.streams.lock().forget(&stream);
        };
        // The null stream may still have to wait for the stream's work, and the stream's number is in use until that has ended.
        shared.after_all(destroy)
    }

    fn enqueue(&self, id: StreamId, tag: Tag, command: Command) -> Result<(), DeviceError> {
        let shared = &self.shared;
        let stream = match shared.streams.lock().get(id) {
            Ok(stream) => stream,
            Err(error) => return command.refuse(error),
        };
        if let Some(fault) = shared.fault() {
            return command.refuse(fault.clone());
        }
        if let Err(error) = shared.on(stream.device) {
            return command.refuse(shared.blame(error));
        }
        let queued = shared.run(&stream, tag, command);
        shared.waiter.note_work();
        queued.map_err(|error| shared.blame(error))
    }

    fn host_function_done(&self, token: u64) -> Result<(), DeviceError> {
        let stopped = self.shared.stops.lock().remove(&token);
        let stream = stopped.ok_or_else(|| {
            DeviceError::invalid_value(format!("no stream waits for host function {token:#x}"))
        })?;
        self.shared.resume(&stream);
        Ok(())
    }

    fn synchronize(&self, scope: Scope, done: Completion) {
        let shared = &self.shared;
        if let Some(fault) = shared.fault() {
            return done(Err(fault.clone()));
        }
        match shared.marks(scope) {
            Err(error) => done(Err(shared.blame(error))),
            Ok(marks) if marks.iter().all(Mark::is_reached) => done(Ok(())),
            Ok(marks) => shared.waiter.push(marks, done),
        }
    }

    fn query(&self, scope: Scope) -> Result<bool, DeviceError> {
        self.shared.check_fault()?;
        let marks = self.shared.marks(scope).map_err(|error| self.shared.blame(error))?;
        Ok(marks.iter().all(Mark::is_reached))
    }

    fn idle(&self, has_news: &mut dyn FnMut() -> bool) {
        self.shared.schedule.submitter.pause(&self.shared);
        if self.shared.waiter.attend(&self.shared, has_news) {
            self.shared.linger.wait(has_news);
        }
    }

    fn create_event(&self, id: EventId, device: u32, flags: u32) -> Result<(), DeviceError> {
        let shared = &self.shared;
        if !shared.events.lock().is_free(id) {
            return Err(DeviceError::invalid_handle(format!("event {id:#x} exists already or is reserved")));
        }
        shared.on(device)?;
        let mut handle = std::ptr::null_mut();
        call!(shared.functions, cuEventCreate(&raw mut handle, flags & EVENT_FLAGS))
            .map_err(|error| shared.blame(error))?;
        shared.events.lock().insert(id, device, handle);
        Ok(())
    }

    fn destroy_event(&self, id: EventId) -> Result<(), DeviceError> {
        let event = self.shared.events.lock().remove(id)? as usize;
        // Commands that use it may still be on their way to the driver.
        self.shared.after_all(move |shared| {
            let _ = call!(shared.functions, cuEventDestroy_v2(event as CuEvent));
        })
    }

    fn elapsed(&self, start: EventId, stop: EventId) -> Result<f32, DeviceError> {
        let shared = &self.shared;
        shared.check_fault()?;
        let (start, stop) = {
            let events = shared.events.lock();
            for id in [start, stop] {
                match events.recorded(id)? {
                    None => {
                        let text = format!("event {id:#x} was never recorded");
                        return Err(DeviceError::new(hipErrorInvalidHandle, text));
                    }
                    Some(mark) if !mark.is_reached() => {
                        return Err(DeviceError::not_ready(format!("event {id:#x} is not reached")));
                    }
                    Some(_) => {}
                }
            }
            (events.get(start)?, events.get(stop)?)
        };
        let mut milliseconds = 0.0;
        call!(shared.functions, cuEventElapsedTime(&raw mut milliseconds, start, stop))
            .map_err(|error| shared.blame(error))?;
        Ok(milliseconds)
    }

    fn load_module(&self, device: u32, id: ModuleId, base: u64, image: &[u8]) -> Result<(), DeviceError> {
        let shared = &self.shared;
        shared.check_fault()?;
        if !shared.modules.lock().is_free(id) {
            return Err(DeviceError::invalid_handle(format!("module {id:#x} exists already")));
        }
        shared.on(device)?;
        shared.waiter.wake();
        let module = Module::parse(id, device, base, shared.arch, image)?;
        shared.memory.map(device, base, module.image().len().max(1) as u64, What::Module)?;
        if let Err(error) = shared.write_aside(base, module.image()) {
            shared.memory.unmap(base, true)?;
            shared.memory.release(base);
            return Err(shared.blame(error));
        }
        shared.modules.lock().insert(module);
        Ok(())
    }

    fn unload_module(&self, id: ModuleId) -> Result<(), DeviceError> {
        let shared = &self.shared;
        let module = shared.modules.lock().remove(id)?;
        shared.memory.unmap(module.base, true)?;
        shared.after_all(move |shared| {
            shared.memory.release(module.base);
            let loaded: Vec<usize> =
                module.translations.lock().loaded().map(|it| it.module() as usize).collect();
            shared.unload(module.device, loaded);
        })
    }

    fn global(&self, id: ModuleId, name: &str) -> Result<(u64, u64), DeviceError> {
        self.shared.modules.lock().get(id)?.symbol(name)
    }

    fn define_function(&self, id: FunctionId, of: ModuleId, name: &str) -> Result<(), DeviceError> {
        self.shared.modules.lock().define(id, of, name)
    }

    fn set_limit(&self, device: u32, limit: i32, value: u64) -> Result<u64, DeviceError> {
        self.shared.on(device)?;
        let limit = limit as u32;
        if limit == hipLimitMallocHeapSize.0 {
            // Takes effect if no kernel has used the heap yet.
            self.shared.services[device as usize].heap_bytes.store(value, Ordering::Relaxed);
            return Ok(value);
        }
        if limit == hipLimitStackSize.0 {
            let stack = u32::try_from(value).ok().filter(|bytes| *bytes <= MAX_STACK_BYTES);
            let stack = stack.map(|bytes| bytes.next_multiple_of(16));
            let stack = stack.ok_or_else(|| {
                let text = format!("stack size of {value} bytes exceeds the maximum of {MAX_STACK_BYTES}");
                DeviceError::invalid_value(text)
            })?;
            // Kernels that have been translated for another size are translated again.
            self.shared.services[device as usize].stack_bytes.store(stack, Ordering::Relaxed);
            return Ok(stack.into());
        }
        // Output is not buffered.
        if limit == hipLimitPrintfFifoSize.0 {
            return Ok(value);
        }
        Err(DeviceError::new(hipErrorUnsupportedLimit, format!("limit {limit} is not supported")))
    }

    /// After a fault this fails: the driver gives a process no new context then.
    fn reset(&self, device: u32) -> Result<(), DeviceError> {
        let shared = &self.shared;
        shared.on(device)?;
        shared.check_fault()?;
        if let Some(pacer) = &shared.pacer {
            pacer.give_up();
        }
        shared.reset(device)
    }

    fn link(&self, from: u32, to: u32) -> Result<(u32, u32), DeviceError> {
        const PCI_EXPRESS: u32 = 2;
        const XGMI: u32 = 4;
        let shared = &self.shared;
        let gpu =
            |device: u32| shared.gpus.get(device as usize).ok_or_else(|| DeviceError::invalid_device(device));
        let (from, to) = (gpu(from)?, gpu(to)?);
        let mut reaches = 0;
        call!(shared.functions, cuDeviceCanAccessPeer(&raw mut reaches, from.device, to.device))?;
        Ok(if reaches != 0 { (XGMI, 1) } else { (PCI_EXPRESS, 2) })
    }

    fn record_spans(&self, on: bool) {
        self.shared.waiter.wake();
        self.shared.record_spans(on);
    }

    /// Measured only if launches are throttled, because timing takes two events per command; otherwise 0.
    fn busy_ns(&self, device: u32) -> u64 {
        self.shared.pacer.as_ref().map_or(0, |pacer| pacer.busy_ns(device))
    }
}

impl Shared {
    /// Unloads modules of the driver on another thread, because that may wait for running work.
    fn unload(&self, device: u32, modules: Vec<usize>) {
        if modules.is_empty() {
            return;
        }
        let (functions, gpus) = (Arc::clone(&self.functions), Arc::clone(&self.gpus));
        let body = move || {
            let _ = gpus[device as usize].enter();
            for module in modules {
                let _ = call!(functions, cuModuleUnload(module as CuModule));
            }
        };
        if let Err(error) = std::thread::Builder::new().name("cuda-unload".to_owned()).spawn(body) {
            tracing::warn!("compiled kernels stay loaded until the session ends: {error}");
        }
    }

    /// Frees the objects and the memory of a device once its work has ended.
    fn reset(self: &Arc<Shared>, device: u32) -> Result<(), DeviceError> {
        // Work behind a host function would never end.
        self.stops.lock().retain(|_, stream| stream.device != device);
        self.cancel(Some(device), &DeviceError::invalid_value("the device was reset"));
        self.schedule.settle();
        self.publish_all();
        self.waiter.wake();
        call!(self.functions, cuCtxSynchronize()).map_err(|error| self.blame(error))?;
        let modules = self.modules.lock().of_device(device);
        let cuda = Cuda { shared: Arc::clone(self) };
        let result = modules.into_iter().try_for_each(|id| cuda.unload_module(id));
        // Dropping it would end the thread that waits.
        std::mem::forget(cuda);
        result?;
        for address in self.memory.of_device(device) {
            self.memory.unmap(address, false)?;
            self.memory.release(address);
        }
        let streams: Vec<StreamId> = {
            let streams = self.streams.lock();
            streams.all().filter(|it| it.device == device && !it.is_null()).map(|it| it.id).collect()
        };
        for id in streams {
            if let Ok(stream) = self.streams.lock().remove(id) {
                let _ = call!(self.functions, cuStreamDestroy_v2(stream.handle()));
                self.streams.lock().forget(&stream);
            }
        }
        for event in self.events.lock().take_device(device) {
            let _ = call!(self.functions, cuEventDestroy_v2(event as CuEvent));
        }
        self.spans.forget_device(device);
        Ok(())
    }
}
