//! Implements the [`Device`] trait with calls into AMD's HIP runtime.
//!
//! The runtime orders the work. Blocking calls run on separate threads, so the caller never blocks.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::io::Read;
use std::os::fd::FromRawFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use backend::{
    Arena, Capabilities, Command, Completion, Device, DeviceError, DeviceInfo, EventId, FunctionId,
    MemoryKind, MemoryUse, ModuleId, Notifier, ReadSink, Region, Scope, StreamId, Tag,
};
use hip_api::types::*;
use limits::SessionSlot;
use parking_lot::{Condvar, Mutex};

use crate::error::call;
use crate::event::Events;
use crate::functions::Functions;
use crate::launch::launch;
use crate::memory::Memory;
use crate::module::Modules;
use crate::pace::Pacer;
use crate::region;
use crate::spans::Spans;
use crate::stream::{Stream, Streams};
use crate::virtual_memory::Physical;

/// The GPUs of this machine through AMD's runtime.
pub struct Hip {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) functions: Arc<Functions>,
    pub(crate) devices: Vec<DeviceInfo>,
    pub(crate) memory: Memory,
    pub(crate) physical: Mutex<Physical>,
    streams: Mutex<Streams>,
    events: Mutex<Events>,
    modules: Mutex<Modules>,
    pub(crate) notifier: OnceLock<Arc<dyn Notifier>>,
    pub(crate) spans: Spans,
    /// Throttles launches, if the devices are shared with other sessions.
    pub(crate) pacer: Option<Pacer>,
    /// Host functions by token; true once the client has completed them.
    pending: Mutex<HashMap<u64, bool>>,
    answered: Condvar,
    /// Stream for copies that are not ordered with any other stream; created on first use.
    aside: Mutex<Option<usize>>,
}

impl std::fmt::Debug for Hip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hip({:?})", self.shared.functions)
    }
}

impl Hip {
    /// Loads the runtime and initialises it. Without a GPU this returns the runtime's `hipErrorNoDevice`.
    pub fn open(
        library: Option<&Path>,
        arena: Option<Arena>,
        seat: Option<SessionSlot>,
    ) -> Result<Hip, DeviceError> {
        let functions = Arc::new(Functions::load(library)?);
        tracing::info!("loaded {functions:?}");
        // Also initialises the runtime. This call returns hipErrorNoDevice in every version of the runtime.
        let mut count = 0;
        call!(functions, hipGetDeviceCount(&raw mut count))?;
        if count <= 0 {
            return Err(DeviceError::new(hipErrorNoDevice, "AMD's HIP runtime found no GPU"));
        }
        // A seat has slots for the devices the worker found at its start; devices that appeared later are not offered.
        let count = seat.as_ref().map_or(count, |seat| count.min(seat.page().devices() as c_int));
        let mut devices =
            (0..count).map(|device| describe(&functions, device)).collect::<Result<Vec<_>, _>>()?;
        for (info, device) in devices.iter_mut().zip(0..) {
            if let Some((_, limit)) = seat.as_ref().and_then(|seat| seat.memory(device)) {
                info.total_memory = info.total_memory.min(limit);
                info.quota = info.quota.min(limit);
                info.properties.totalGlobalMem = info.properties.totalGlobalMem.min(limit as usize);
            }
        }
        let memory = Memory::new(&functions, count as u32, arena, seat.clone())?;
        let shared = Arc::new(Shared {
            functions,
            devices,
            memory,
            physical: Mutex::default(),
            streams: Mutex::default(),
            events: Mutex::default(),
            modules: Mutex::default(),
            notifier: OnceLock::new(),
            spans: Spans::default(),
            pacer: seat.map(Pacer::new),
            pending: Mutex::default(),
            answered: Condvar::new(),
            aside: Mutex::new(None),
        });
        if shared.pacer.is_some() {
            shared.time_commands();
        }
        Ok(Hip { shared })
    }

    /// The PCI address of each GPU, in the runtime's order.
    pub fn pci_addresses(&self) -> Vec<String> {
        let address = |info: &DeviceInfo| {
            let it = &info.properties;
            format!("{:04x}:{:02x}:{:02x}.0", it.pciDomainID, it.pciBusID, it.pciDeviceID)
        };
        self.shared.devices.iter().map(address).collect()
    }

    /// The name of each GPU.
    pub fn names(&self) -> Vec<String> {
        self.shared.devices.iter().map(|info| info.name.clone()).collect()
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }
}

impl Shared {
    fn count(&self) -> u32 {
        self.devices.len() as u32
    }

    pub(crate) fn on(&self, device: u32) -> Result<(), DeviceError> {
        if device >= self.count() {
            return Err(DeviceError::invalid_device(device));
        }
        call!(self.functions, hipSetDevice(device as c_int))
    }

    /// Looks up a stream and makes its device current.
    fn stream(&self, id: StreamId) -> Result<Stream, DeviceError> {
        let stream = self.streams.lock().get(id, self.count())?;
        self.on(stream.device)?;
        Ok(stream)
    }

    pub(crate) fn wait(&self, scope: Scope) -> Result<(), DeviceError> {
        match scope {
            Scope::Stream(id) => {
                let stream = self.stream(id)?;
                call!(self.functions, hipStreamSynchronize(stream.handle()))
            }
            Scope::Event(id) => {
                let event = self.events.lock().get(id)?;
                call!(self.functions, hipEventSynchronize(event))
            }
            Scope::Device(device) => {
                self.on(device)?;
                call!(self.functions, hipDeviceSynchronize())
            }
            Scope::Everything => {
                for device in 0..self.count() {
                    self.on(device)?;
                    call!(self.functions, hipDeviceSynchronize())?;
                }
                Ok(())
            }
        }
    }

    fn is_done(&self, scope: Scope) -> Result<bool, DeviceError> {
        let state = match scope {
            Scope::Stream(id) => {
                let stream = self.stream(id)?;
                call!(self.functions, hipStreamQuery(stream.handle()))
            }
            Scope::Event(id) => {
                let event = self.events.lock().get(id)?;
                call!(self.functions, hipEventQuery(event))
            }
            Scope::Device(_) | Scope::Everything => return Ok(false),
        };
        match state {
            Ok(()) => Ok(true),
            Err(error) if error.code == hipErrorNotReady => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Copies synchronously on a dedicated non-blocking stream, not ordered with any other stream.
    fn copy_aside(
        &self,
        to: *mut c_void,
        from: *const c_void,
        bytes: usize,
        kind: hipMemcpyKind,
    ) -> Result<(), DeviceError> {
        let mut aside = self.aside.lock();
        if aside.is_none() {
            self.on(0)?;
            let mut handle = std::ptr::null_mut();
            call!(self.functions, hipStreamCreateWithFlags(&raw mut handle, hipStreamNonBlocking))?;
            *aside = Some(handle as usize);
        }
        let stream = aside.unwrap_or_default() as hipStream_t;
        call!(self.functions, hipMemcpyAsync(to, from, bytes, kind, stream))?;
        call!(self.functions, hipStreamSynchronize(stream))
    }

    /// Copies a region to a host buffer in stream order and passes the buffer to the sink once the copy has completed.
    fn read(self: &Arc<Shared>, stream: Stream, from: &Region, sink: ReadSink) {
        if from.is_empty() {
            return sink(Ok(&[]));
        }
        let mut buffer = vec![0u8; from.bytes().unwrap_or(0) as usize];
        let to = Region::packed(buffer.as_mut_ptr() as u64, from.extent);
        // Pitched even if flat: HIP allows hipMemcpyAsync to block until a copy to pageable memory has ended.
        let queued = region::copy_pitched(&self.functions, &to, from, hipMemcpyDeviceToHost, stream.handle());
        if let Err(error) = queued {
            return sink(Err(error));
        }
        let shared = Arc::clone(self);
        off_thread(move || {
            let done = shared
                .on(stream.device)
                .and_then(|()| call!(shared.functions, hipStreamSynchronize(stream.handle())));
            match done {
                Ok(()) => sink(Ok(&buffer)),
                Err(error) => sink(Err(error)),
            }
        });
    }

    fn run(self: &Arc<Shared>, stream: Stream, command: Command) -> Result<(), DeviceError> {
        let functions = &self.functions;
        let handle = stream.handle();
        let memory = &self.memory;
        if let Err(error) = command.check_regions(|address, bytes| memory.check(address, bytes)) {
            return command.refuse(error);
        }
        match command {
            Command::Launch(mut it) => {
                let function = self.modules.lock().function(it.function)?;
                let (start, stop) = {
                    let events = self.events.lock();
                    (events.optional(it.start_event)?, events.optional(it.stop_event)?)
                };
                launch(functions, function, handle, &mut it, start, stop)
            }
            Command::Copy { to, from } => {
                region::copy(functions, &to, &from, hipMemcpyDeviceToDevice, handle)
            }
            Command::Fill { to, value, element } => region::fill(functions, &to, value, element, handle),
            Command::Write { to, data } => {
                // The source is pageable memory, so the call returns only after the bytes have been copied out of it.
                let from = Region::packed(data.as_ptr() as u64, to.extent);
                region::copy(functions, &to, &from, hipMemcpyHostToDevice, handle)
            }
            Command::Read { from, sink } => {
                self.read(stream, &from, sink);
                Ok(())
            }
            Command::WaitValue(it) => {
                memory.check(it.address, it.bytes())?;
                region::wait(functions, &it, handle)
            }
            Command::RecordEvent(id) => {
                let event = self.events.lock().get(id)?;
                call!(functions, hipEventRecord(event, handle))
            }
            Command::WaitEvent(id) => {
                let event = self.events.lock().get(id)?;
                call!(functions, hipStreamWaitEvent(handle, event, 0))
            }
            Command::HostFunction { token } => {
                self.pending.lock().insert(token, false);
                let call = Box::into_raw(Box::new(HostCall { shared: Arc::clone(self), token }));
                let queued = call!(functions, hipLaunchHostFunc(handle, Some(host_function), call.cast()));
                if queued.is_err() {
                    // SAFETY: the runtime rejected the call, so it holds no pointer and this is the only owner of the box.
                    drop(unsafe { Box::from_raw(call) });
                    self.pending.lock().remove(&token);
                }
                queued
            }
        }
    }
}

struct HostCall {
    shared: Arc<Shared>,
    token: u64,
}

/// Callback that the runtime invokes when a stream reaches a host function. The stream blocks until it returns.
unsafe extern "C" fn host_function(data: *mut c_void) {
    // SAFETY: `data` is the box that was leaked for this call; the runtime calls back once.
    let call = unsafe { Box::from_raw(data.cast::<HostCall>()) };
    let Some(notifier) = call.shared.notifier.get() else { return };
    notifier.host_function(call.token, Ok(()));
    let mut pending = call.shared.pending.lock();
    while pending.get(&call.token) == Some(&false) {
        call.shared.answered.wait(&mut pending);
    }
    pending.remove(&call.token);
}

impl Device for Hip {
    fn info(&self) -> &[DeviceInfo] {
        &self.shared.devices
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { placed_modules: false, direct_writes: false }
    }

    fn arena(&self) -> Arena {
        self.shared.memory.arena()
    }

    fn notify(&self, notifier: Arc<dyn Notifier>) {
        // Set once: each session has a separate process, so there is no second notifier.
        let is_first = self.shared.notifier.set(notifier).is_ok();
        // Only a session process redirects its standard output. A worker that probes its GPUs still has to print its address there.
        if is_first {
            capture_output(&self.shared);
        }
    }

    fn map(&self, device: u32, _kind: MemoryKind, address: u64, bytes: u64) -> Result<(), DeviceError> {
        self.shared.on(device)?;
        self.shared.memory.map(device, address, bytes)
    }

    fn unmap(&self, address: u64) -> Result<(), DeviceError> {
        let device = self.shared.memory.device_of(address);
        let device = device
            .ok_or_else(|| DeviceError::invalid_value(format!("nothing is allocated at {address:#x}")))?;
        // hipFree also waits for the device.
        self.shared.wait(Scope::Device(device))?;
        self.shared.memory.unmap(address)
    }

    fn memory(&self, device: u32) -> Result<MemoryUse, DeviceError> {
        self.shared.on(device)?;
        let (mut free, mut total) = (0, 0);
        call!(self.shared.functions, hipMemGetInfo(&raw mut free, &raw mut total))?;
        let (mut free, mut total) = (free as u64, total as u64);
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
        let mut buffer = vec![0u8; bytes as usize];
        let (to, from) = (buffer.as_mut_ptr().cast(), address as *const c_void);
        self.shared.copy_aside(to, from, buffer.len(), hipMemcpyDeviceToHost)?;
        show(&buffer);
        Ok(())
    }

    fn write_unordered(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.check(address, bytes.len() as u64)?;
        let (to, from) = (address as *mut c_void, bytes.as_ptr().cast());
        self.shared.copy_aside(to, from, bytes.len(), hipMemcpyHostToDevice)
    }

    /// Not supported: the runtime maps memory only into ranges it has reserved itself.
    fn map_host_range(&self, _device: u32, address: u64, bytes: u64) -> Result<(), DeviceError> {
        Err(DeviceError::not_supported(format!(
            "AMD's runtime cannot map {bytes} bytes at {address:#x}, outside the arena"
        )))
    }

    fn resident(&self, _address: u64, _bytes: u64) -> Option<NonNull<u8>> {
        None
    }

    fn direct(
        &self,
        _stream: StreamId,
        _destination: u64,
        _bytes: u64,
        _fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Option<bool> {
        None
    }

    fn create_stream(
        &self,
        device: u32,
        id: StreamId,
        non_blocking: bool,
        priority: i32,
    ) -> Result<(), DeviceError> {
        if !self.shared.streams.lock().is_free(id) {
            return Err(DeviceError::invalid_handle(format!("stream {id:#x} exists already or is reserved")));
        }
        self.shared.on(device)?;
        let flags = if non_blocking { hipStreamNonBlocking } else { hipStreamDefault };
        let mut handle = std::ptr::null_mut();
        call!(self.shared.functions, hipStreamCreateWithPriority(&raw mut handle, flags, priority))?;
        self.shared.streams.lock().insert(id, device, handle);
        Ok(())
    }

    fn destroy_stream(&self, id: StreamId) -> Result<(), DeviceError> {
        let stream = self.shared.streams.lock().remove(id)?;
        self.shared.on(stream.device)?;
        call!(self.shared.functions, hipStreamDestroy(stream.handle()))
    }

    fn enqueue(&self, id: StreamId, tag: Tag, command: Command) -> Result<(), DeviceError> {
        match self.shared.stream(id) {
            Ok(stream) if self.shared.spans.is_on() || self.shared.pacer.is_some() => match command.task() {
                Some(task) => {
                    if let Some(pacer) = &self.shared.pacer {
                        pacer.hold(&self.shared, stream, &command)?;
                    }
                    let begun = self.shared.begin_span(stream);
                    let queued = self.shared.run(stream, command);
                    match queued {
                        Ok(()) => self.shared.end_span(stream, id, tag, task, begun),
                        Err(_) => self.shared.drop_span(stream, begun),
                    }
                    queued
                }
                None => self.shared.run(stream, command),
            },
            Ok(stream) => self.shared.run(stream, command),
            Err(error) => command.refuse(error),
        }
    }

    fn host_function_done(&self, token: u64) -> Result<(), DeviceError> {
        let mut pending = self.shared.pending.lock();
        let Some(done) = pending.get_mut(&token) else {
            return Err(DeviceError::invalid_value(format!("no stream waits for host function {token:#x}")));
        };
        *done = true;
        self.shared.answered.notify_all();
        Ok(())
    }

    fn synchronize(&self, scope: Scope, done: Completion) {
        match self.shared.is_done(scope) {
            Ok(true) => return done(Ok(())),
            Ok(false) => {}
            Err(error) => return done(Err(error)),
        }
        let shared = Arc::clone(&self.shared);
        off_thread(move || done(shared.wait(scope)));
    }

    fn query(&self, scope: Scope) -> Result<bool, DeviceError> {
        self.shared.is_done(scope)
    }

    fn create_event(&self, id: EventId, device: u32, flags: u32) -> Result<(), DeviceError> {
        if !self.shared.events.lock().is_free(id) {
            return Err(DeviceError::invalid_handle(format!("event {id:#x} exists already or is reserved")));
        }
        self.shared.on(device)?;
        let mut handle = std::ptr::null_mut();
        call!(self.shared.functions, hipEventCreateWithFlags(&raw mut handle, flags))?;
        self.shared.events.lock().insert(id, device, handle);
        Ok(())
    }

    fn destroy_event(&self, id: EventId) -> Result<(), DeviceError> {
        let event = self.shared.events.lock().remove(id)?;
        call!(self.shared.functions, hipEventDestroy(event))
    }

    fn elapsed(&self, start: EventId, stop: EventId) -> Result<f32, DeviceError> {
        let (start, stop) = {
            let events = self.shared.events.lock();
            (events.get(start)?, events.get(stop)?)
        };
        let mut milliseconds = 0.0;
        call!(self.shared.functions, hipEventElapsedTime(&raw mut milliseconds, start, stop))?;
        Ok(milliseconds)
    }

    fn load_module(&self, device: u32, id: ModuleId, _base: u64, image: &[u8]) -> Result<(), DeviceError> {
        if !self.shared.modules.lock().is_free(id) {
            return Err(DeviceError::invalid_handle(format!("module {id:#x} exists already")));
        }
        self.shared.on(device)?;
        let mut handle = std::ptr::null_mut();
        call!(self.shared.functions, hipModuleLoadData(&raw mut handle, image.as_ptr().cast()))?;
        self.shared.modules.lock().insert(id, device, handle);
        Ok(())
    }

    fn unload_module(&self, id: ModuleId) -> Result<(), DeviceError> {
        // Queued launches may still use the module's functions.
        let device = self.shared.modules.lock().get(id)?.device;
        self.shared.wait(Scope::Device(device))?;
        let module = self.shared.modules.lock().remove(id)?;
        call!(self.shared.functions, hipModuleUnload(module.handle()))
    }

    fn global(&self, id: ModuleId, name: &str) -> Result<(u64, u64), DeviceError> {
        let module = self.shared.modules.lock().get(id)?;
        self.shared.on(module.device)?;
        let name = c_name(name)?;
        let (mut address, mut bytes) = (std::ptr::null_mut(), 0);
        call!(
            self.shared.functions,
            hipModuleGetGlobal(&raw mut address, &raw mut bytes, module.handle(), name.as_ptr())
        )?;
        Ok((address as u64, bytes as u64))
    }

    fn define_function(&self, id: FunctionId, of: ModuleId, name: &str) -> Result<(), DeviceError> {
        let module = self.shared.modules.lock().get(of)?;
        self.shared.on(module.device)?;
        let name = c_name(name)?;
        let mut handle = std::ptr::null_mut();
        call!(self.shared.functions, hipModuleGetFunction(&raw mut handle, module.handle(), name.as_ptr()))?;
        self.shared.modules.lock().define(id, of, handle);
        Ok(())
    }

    fn set_limit(&self, device: u32, limit: i32, value: u64) -> Result<u64, DeviceError> {
        self.shared.on(device)?;
        let limit = hipLimit_t(limit as u32);
        call!(self.shared.functions, hipDeviceSetLimit(limit, value as usize))?;
        let mut now = 0;
        call!(self.shared.functions, hipDeviceGetLimit(&raw mut now, limit))?;
        Ok(now as u64)
    }

    fn reset(&self, device: u32) -> Result<(), DeviceError> {
        self.shared.on(device)?;
        if let Some(pacer) = &self.shared.pacer {
            pacer.give_up();
        }
        call!(self.shared.functions, hipDeviceReset())?;
        self.shared.streams.lock().forget_device(device);
        self.shared.events.lock().forget_device(device);
        self.shared.modules.lock().forget_device(device);
        self.shared.spans.forget_device(device);
        if device == 0 {
            self.shared.aside.lock().take();
        }
        Ok(())
    }

    fn link(&self, from: u32, to: u32) -> Result<(u32, u32), DeviceError> {
        let (mut kind, mut hops) = (0, 0);
        call!(
            self.shared.functions,
            hipExtGetLinkTypeAndHopCount(from as c_int, to as c_int, &raw mut kind, &raw mut hops)
        )?;
        Ok((kind, hops))
    }

    fn record_spans(&self, on: bool) {
        self.shared.record_spans(on);
    }

    /// Measured only if launches are throttled, because timing takes two events per command; otherwise 0.
    fn busy_ns(&self, device: u32) -> u64 {
        self.shared.pacer.as_ref().map_or(0, |pacer| pacer.busy_ns(device))
    }
}

fn describe(functions: &Functions, device: c_int) -> Result<DeviceInfo, DeviceError> {
    let mut properties = Box::<hipDeviceProp_tR0600>::default();
    call!(functions, hipGetDevicePropertiesR0600(&raw mut *properties, device))?;
    let mut attributes = Vec::new();
    for (_, number) in hipDeviceAttribute_t::CONSTANTS {
        let mut value = 0;
        let asked =
            call!(functions, hipDeviceGetAttribute(&raw mut value, hipDeviceAttribute_t(*number), device));
        if asked.is_ok() && !attributes.contains(&(*number as i32, value)) {
            attributes.push((*number as i32, value));
        }
    }
    call!(functions, hipSetDevice(device))?;
    let mut limits = Vec::new();
    for limit in [hipLimitStackSize, hipLimitPrintfFifoSize, hipLimitMallocHeapSize] {
        let mut value = 0;
        if call!(functions, hipDeviceGetLimit(&raw mut value, limit)).is_ok() {
            limits.push((limit.0 as i32, value as u64));
        }
    }
    let (mut least, mut greatest, mut driver, mut runtime) = (0, 0, 0, 0);
    call!(functions, hipDeviceGetStreamPriorityRange(&raw mut least, &raw mut greatest))?;
    call!(functions, hipDriverGetVersion(&raw mut driver))?;
    call!(functions, hipRuntimeGetVersion(&raw mut runtime))?;
    let text = |field: &[c_char]| -> String {
        field.iter().take_while(|c| **c != 0).map(|c| *c as u8 as char).collect()
    };
    Ok(DeviceInfo {
        name: text(&properties.name),
        isa: text(&properties.gcnArchName),
        attributes,
        limits,
        total_memory: properties.totalGlobalMem as u64,
        quota: properties.totalGlobalMem as u64,
        least_priority: least,
        greatest_priority: greatest,
        driver_version: driver,
        runtime_version: runtime,
        properties,
    })
}

/// Redirects standard output, to which the runtime writes kernel `printf` output, to the client.
fn capture_output(shared: &Arc<Shared>) {
    let mut ends = [0; 2];
    // SAFETY: a new pipe replaces standard output, which a session process uses for nothing else.
    let ready =
        unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) == 0 && libc::dup2(ends[1], 1) >= 0 };
    if !ready {
        tracing::warn!("cannot capture kernel printf output: {}", std::io::Error::last_os_error());
        return;
    }
    // SAFETY: both descriptors were just created; the write end stays open as descriptor 1.
    let mut pipe = unsafe {
        libc::close(ends[1]);
        std::fs::File::from_raw_fd(ends[0])
    };
    let shared = Arc::downgrade(shared);
    off_thread(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(bytes @ 1..) = pipe.read(&mut buffer) {
            let Some(shared) = shared.upgrade() else { return };
            if let Some(notifier) = shared.notifier.get() {
                notifier.output(&buffer[..bytes]);
            }
        }
    });
}

fn off_thread(body: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name("hip-wait".to_owned()).spawn(body) {
        tracing::error!("cannot start a thread that waits for the GPU: {error}");
    }
}

fn c_name(name: &str) -> Result<CString, DeviceError> {
    CString::new(name).map_err(|_| DeviceError::invalid_value("the symbol name contains a NUL byte"))
}
