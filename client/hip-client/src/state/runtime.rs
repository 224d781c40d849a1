//! The session of this process: created on first use, shared by all threads, dropped in a forked child.

use std::collections::{HashMap, HashSet};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use code_object::TargetId;
use hip_api::types::*;
use parking_lot::{Mutex, RwLock};
use wire::{DeviceSnapshot, Failure, Opcode, Operation, capability};

use crate::graph::capture::Captures;
use crate::graph::executable::Executable;
use crate::graph::memory::GraphMemory;
use crate::graph::object::UserObject;
use crate::graph::{Graph, NodeOf};
use crate::process::{env, open};
use crate::state::advice::Advised;
use crate::state::credit::Credit;
use crate::state::fence::Fences;
use crate::state::handles::{self, Table};
use crate::state::memory::{AddressSpace, Ledger, Place};
use crate::state::module::{Function, Module};
use crate::state::texture::Textures;
use crate::state::thread;
use crate::state::unmirrored::UnmirroredRanges;
use crate::state::virtual_memory::{Physical, VirtualMemory};
use crate::telemetry::report;
use session::Connection;
use session::progress::ProgressMark;

/// All state of a session.
#[derive(Debug)]
pub struct Runtime {
    pub connection: Connection,
    pub devices: Vec<Device>,
    pub memory: AddressSpace,
    pub virtual_memory: VirtualMemory,
    /// The worker's number for this session.
    pub session: u64,
    pub streams: Table<Stream>,
    pub events: Table<Event>,
    pub modules: Table<Module>,
    pub functions: Table<Function>,
    pub pools: Table<Pool>,
    pub physical: Table<Physical>,
    pub libraries: Table<Library>,
    pub contexts: Table<Context>,
    pub graphs: Table<Graph>,
    pub nodes: Table<NodeOf>,
    pub executables: Table<Executable>,
    pub user_objects: Table<UserObject>,
    pub graph_memory: GraphMemory,
    pub textures: Textures,
    pub fences: Fences,
    pub captures: Captures,
    /// Modules of registered fat binaries, by (binary, device).
    pub binaries: Mutex<HashMap<(u64, usize), Arc<Module>>>,
    /// Resolved kernel stubs, by (stub address, device): the hot path of a kernel launch.
    pub stubs: RwLock<HashMap<(usize, usize), Arc<Function>, Spread>>,
    /// Hashes of the code images that this session has sent.
    pub sent_images: Mutex<HashSet<[u8; 32]>>,
    /// Pinned memory that is not mirrored on the worker yet.
    pub unseen: UnmirroredRanges,
    /// Locked while such memory is being mirrored.
    pub exposing: Mutex<()>,
    /// Advice given for managed memory (hipMemAdvise).
    pub advised: Mutex<Advised>,
    /// Bytes of managed variables that are mirrored on the worker.
    pub shared_variables: Mutex<u64>,
    /// Number of events that the program has polled.
    pub polled_events: AtomicU32,
    /// The stream last synchronized by a copy into unpinned memory, and the request count at that time.
    pub waited: Mutex<(u64, u64)>,
    /// Copies that wait for a host function, see [`when_due`](crate::calls::stream::when_due).
    pub copies_due: AtomicUsize,
}

/// Hash for keys that are addresses. Not collision-resistant, because keys are not attacker-chosen; fast, because every
/// launch does a lookup.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spread(u64);

impl std::hash::BuildHasher for Spread {
    type Hasher = Spread;
    fn build_hasher(&self) -> Spread {
        Spread(0)
    }
}

impl std::hash::Hasher for Spread {
    fn finish(&self) -> u64 {
        // Addresses end in zero bits, and so would the product; hash tables use its low bits.
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_usize(usize::from(byte));
        }
    }

    fn write_usize(&mut self, word: usize) {
        self.0 = (self.0.rotate_left(23) ^ word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// A visible device, with everything that can be answered without a round trip.
#[derive(Debug)]
pub struct Device {
    /// Its number on the wire.
    pub ordinal: u32,
    pub target: TargetId,
    pub properties: Box<hipDeviceProp_tR0600>,
    pub snapshot: DeviceSnapshot,
    pub ledger: Ledger,
    pub limits: Mutex<HashMap<u32, u64>>,
    pub flags: AtomicU32,
    pub cache_config: AtomicU32,
    /// Peers that access was enabled to.
    pub peers: Mutex<HashSet<usize>>,
    pub default_pool: AtomicU64,
    pub current_pool: AtomicU64,
    pub primary_context: AtomicU64,
    pub primary_context_users: AtomicU32,
    /// Credit of its null stream.
    pub credit: Credit,
}

#[derive(Debug)]
pub struct Stream {
    pub id: u64,
    pub device: usize,
    pub flags: u32,
    pub priority: i32,
    pub cu_mask: Vec<u32>,
    /// Values set by hipStreamSetAttribute, by attribute.
    pub attributes: Mutex<HashMap<u32, [std::ffi::c_char; 64]>>,
    pub credit: Credit,
}

/// A kernel library (hipLibrary): a module under another handle type.
#[derive(Debug)]
pub struct Library {
    pub module: u64,
}

#[derive(Debug)]
pub struct Event {
    pub id: u64,
    pub device: usize,
    pub flags: u32,
    pub recorded: AtomicBool,
    /// Progress of its records.
    pub mark: Arc<ProgressMark>,
}

/// A memory pool: a label for allocations. Freed memory returns to the device at once, so a pool caches nothing.
#[derive(Debug)]
pub struct Pool {
    pub device: usize,
    /// Its allocations can be exported to other processes.
    pub shareable: bool,
    pub attributes: Mutex<HashMap<u32, u64>>,
    pub used: AtomicU64,
    pub used_high: AtomicU64,
}

#[derive(Debug)]
pub struct Context {
    pub device: usize,
    pub flags: u32,
    pub primary: bool,
}

static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(std::ptr::null_mut());
static MAKING: Mutex<()> = Mutex::new(());

/// Returns the session; connects on first use.
#[inline]
pub fn runtime() -> Result<&'static Runtime, hipError_t> {
    match existing() {
        Some(runtime) => Ok(runtime),
        None => make(),
    }
}

/// Returns the session, if there is one.
#[inline]
pub fn existing() -> Option<&'static Runtime> {
    // SAFETY: the pointer is null or a leaked box, which is never freed.
    unsafe { RUNTIME.load(Ordering::Acquire).as_ref() }
}

#[cold]
fn make() -> Result<&'static Runtime, hipError_t> {
    let _making = MAKING.lock();
    if let Some(runtime) = existing() {
        return Ok(runtime);
    }
    let (connection, welcome) = open::open().map_err(|_already_reported| hipErrorNoDevice)?;
    let runtime = Runtime::new(connection, welcome)?;
    forget_in_forked_children();
    let runtime = Box::leak(Box::new(runtime));
    RUNTIME.store(runtime, Ordering::Release);
    // So that pointers to managed variables are recognized from the first call on. A failure here recurs where it
    // matters.
    if env::mapped() {
        let _ = runtime.share_variables();
    }
    Ok(runtime)
}

/// A forked child has only one thread and must not use its parent's socket: it opens a new session on its next call.
fn forget_in_forked_children() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    extern "C" fn child() {
        RUNTIME.store(std::ptr::null_mut(), Ordering::Release);
        // SAFETY: the child has one thread, so no thread holds a lock that was held while forking.
        unsafe { MAKING.force_unlock_if_locked() };
        thread::forget_streams();
        crate::state::variables::forget_lock_after_fork();
    }
    ONCE.call_once(|| {
        // SAFETY: the handler only stores to atomics and thread-local state.
        unsafe { libc::pthread_atfork(None, None, Some(child)) };
    });
}

trait ForceUnlock {
    /// # Safety
    /// No other thread exists that could hold or wait for the lock.
    unsafe fn force_unlock_if_locked(&self);
}

impl ForceUnlock for Mutex<()> {
    unsafe fn force_unlock_if_locked(&self) {
        if self.is_locked() {
            // SAFETY: guaranteed by the caller.
            unsafe { self.force_unlock() };
        }
    }
}

impl Runtime {
    fn new(connection: Connection, welcome: wire::Welcome) -> Result<Runtime, hipError_t> {
        let mut devices = Vec::new();
        for snapshot in welcome.devices {
            devices.push(Device::new(snapshot)?);
        }
        let devices = match env::visible_devices() {
            None => devices,
            Some(visible) => {
                let mut all: Vec<Option<Device>> = devices.into_iter().map(Some).collect();
                let visible = visible.iter().map_while(|i| all.get_mut(*i).and_then(Option::take));
                visible.collect()
            }
        };
        let runtime = Runtime {
            connection,
            devices,
            memory: AddressSpace::new(welcome.arena_base, welcome.arena_bytes),
            virtual_memory: VirtualMemory::default(),
            session: welcome.session_id,
            streams: Table::new(handles::Kind::Stream),
            events: Table::new(handles::Kind::Event),
            modules: Table::new(handles::Kind::Module),
            functions: Table::new(handles::Kind::Function),
            pools: Table::new(handles::Kind::MemoryPool),
            physical: Table::new(handles::Kind::PhysicalMemory),
            libraries: Table::new(handles::Kind::Library),
            contexts: Table::new(handles::Kind::Context),
            graphs: Table::new(handles::Kind::Graph),
            nodes: Table::new(handles::Kind::GraphNode),
            executables: Table::new(handles::Kind::Executable),
            user_objects: Table::new(handles::Kind::UserObject),
            graph_memory: GraphMemory::default(),
            textures: Textures::default(),
            fences: Fences::default(),
            captures: Captures::default(),
            binaries: Mutex::default(),
            stubs: RwLock::default(),
            sent_images: Mutex::default(),
            unseen: UnmirroredRanges::default(),
            exposing: Mutex::new(()),
            advised: Mutex::default(),
            shared_variables: Mutex::new(0),
            polled_events: AtomicU32::new(0),
            waited: Mutex::default(),
            copies_due: AtomicUsize::new(0),
        };
        for (index, device) in runtime.devices.iter().enumerate() {
            let context = Context { device: index, flags: 0, primary: true };
            let (context, _) = runtime.contexts.insert_with(|_| context).ok_or(hipErrorOutOfMemory)?;
            device.primary_context.store(context, Ordering::Relaxed);
            let pool = runtime.new_pool(index, false)?;
            device.default_pool.store(pool, Ordering::Relaxed);
            device.current_pool.store(pool, Ordering::Relaxed);
        }
        Ok(runtime)
    }

    pub fn new_pool(&self, device: usize, shareable: bool) -> Result<u64, hipError_t> {
        let pool = Pool {
            device,
            shareable,
            attributes: Mutex::new(HashMap::from([(1, 1), (2, 1), (3, 1)])),
            used: AtomicU64::new(0),
            used_high: AtomicU64::new(0),
        };
        self.pools.insert_with(|_| pool).map(|(handle, _)| handle).ok_or(hipErrorOutOfMemory)
    }

    pub fn device(&self, index: i32) -> Result<&Device, hipError_t> {
        usize::try_from(index).ok().and_then(|i| self.devices.get(i)).ok_or(hipErrorInvalidDevice)
    }

    /// The current device of this thread and its index.
    pub fn current(&self) -> Result<(usize, &Device), hipError_t> {
        let index = thread::device();
        self.devices.get(index).map(|device| (index, device)).ok_or(hipErrorNoDevice)
    }

    /// Sends without waiting. Fails only when the session is over; later failures are reported by a later call.
    #[inline]
    pub fn post<O: Operation>(&self, operation: &O, body: &[u8]) -> Result<(), hipError_t> {
        self.before(O::OPCODE, body)?;
        self.connection.post(operation, body, thread::current_call()).map_err(status)
    }

    /// Sends and waits for the reply. Fails also with a pending error of an earlier posted request.
    pub fn call<O: Operation>(&self, operation: &O) -> Result<O::Reply, hipError_t> {
        self.before(O::OPCODE, &[])?;
        let sent = self.connection.mirrors().sent();
        let result = self.settle(self.connection.call(operation, thread::current_call()));
        if O::OPCODE == Opcode::SynchronizeDevice && self.devices.len() == 1 && result.is_ok() {
            self.connection.mirrors().ended(sent);
        }
        result
    }

    /// Whether other sessions allocate from the same device memory.
    pub fn shares_memory(&self) -> bool {
        self.connection.capabilities() & capability::SHARED_MEMORY != 0
    }

    /// Whether the worker limits mirrored host memory and may refuse it.
    fn limits_host(&self) -> bool {
        self.connection.capabilities() & capability::HOST_LIMIT != 0
    }

    /// Allocates the worker's side of memory that this process has too. Waits for the reply if the worker limits such
    /// memory, unless a stream waits for this thread: then the worker may not reply before that stream continues.
    pub fn show(&self, operation: &wire::Allocate) -> Result<(), hipError_t> {
        if !self.limits_host() || thread::holds_stream() {
            return self.post(operation, &[]);
        }
        self.before(wire::Allocate::OPCODE, &[])?;
        self.connection.call(operation, thread::current_call()).map(drop).map_err(status)
    }

    /// Allocates device memory that the ledger says is available. If other sessions share the memory, only the worker can
    /// decide that, so the reply is awaited.
    pub fn take<O: Operation>(&self, operation: &O) -> Result<(), hipError_t> {
        if !self.shares_memory() {
            return self.post(operation, &[]);
        }
        self.before(O::OPCODE, &[])?;
        // Does not take late errors of earlier requests: the next call that waits for work reports them.
        self.connection.call(operation, thread::current_call()).map(drop).map_err(status)
    }

    /// Like [`take`](Self::take), with a body of any size.
    pub fn take_shared<O: Operation>(&self, operation: &O, body: &Arc<[u8]>) -> Result<(), hipError_t> {
        if !self.shares_memory() {
            return self.post_shared(operation, body);
        }
        self.connection.call_with_body(operation, body, thread::current_call()).map(drop).map_err(status)
    }

    /// Sends without waiting, with a body of any size. A reference to it is held until it has arrived.
    pub fn post_shared<O: Operation>(&self, operation: &O, body: &Arc<[u8]>) -> Result<(), hipError_t> {
        self.connection.post_shared(operation, body, thread::current_call()).map_err(status)
    }

    /// Sends with a body of any size: a small one is copied and posted, a large one is sent without copying and the reply
    /// is awaited.
    pub fn send<O: Operation>(&self, operation: &O, body: &[u8]) -> Result<(), hipError_t> {
        if body.len() <= Runtime::POSTED_BODY {
            return self.post(operation, body);
        }
        self.before(O::OPCODE, body)?;
        self.settle(self.connection.call_with_body(operation, body, thread::current_call())).map(|_| ())
    }

    /// Sends with a body, without copying it, and waits for the reply.
    pub fn call_with_body<O: Operation>(&self, operation: &O, body: &[u8]) -> Result<O::Reply, hipError_t> {
        self.before(O::OPCODE, body)?;
        self.settle(self.connection.call_with_body(operation, body, thread::current_call()))
    }

    /// Writes device memory in stream order; on return the program may change the bytes.
    pub fn write(&self, stream: u64, destination: u64, bytes: &[u8]) -> Result<(), hipError_t> {
        self.before(Opcode::Write, bytes)?;
        self.connection.write(stream, destination, bytes, thread::current_call()).map_err(status)
    }

    /// Reads device memory in stream order, directly into program memory.
    pub fn read(&self, stream: u64, source: u64, into: &mut [u8]) -> Result<(), hipError_t> {
        if let Some(here) = self.elsewhere(source, into.as_ptr() as u64, into.len()) {
            self.call(&wire::SynchronizeStream { stream })?;
            // SAFETY: the range lies in a mirror, which is memory of this process; it may overlap the destination.
            unsafe { std::ptr::copy(here as *const u8, into.as_mut_ptr(), into.len()) };
            return Ok(());
        }
        self.settle(self.connection.read(stream, source, into, thread::current_call()))
    }

    /// Sends and waits for a reply whose body fills `into`.
    pub fn call_into<O: Operation>(&self, operation: &O, into: &mut [u8]) -> Result<(), hipError_t> {
        self.before(O::OPCODE, &[])?;
        self.settle(self.connection.call_into(operation, into, thread::current_call())).map(|_| ())
    }

    /// Requests device memory in stream order. It has arrived when a call that synchronizes with the stream returns, or
    /// on return if `into` is not pinned.
    ///
    /// # Safety
    /// `into` is valid for writes of `bytes` bytes until then.
    pub unsafe fn read_later(
        &self,
        stream: u64,
        source: u64,
        into: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), hipError_t> {
        if let Some(here) = self.elsewhere(source, into.as_ptr() as u64, bytes) {
            self.call(&wire::SynchronizeStream { stream })?;
            // SAFETY: the range lies in a mirror, which is memory of this process; the caller guarantees the other range.
            unsafe { std::ptr::copy(here as *const u8, into.as_ptr(), bytes) };
            return Ok(());
        }
        if self.memory.find(into.as_ptr() as u64).is_none() {
            // HIP completes copies into unpinned memory during the call, and programs read the result at once.
            // SAFETY: guaranteed by the caller.
            self.read(stream, source, unsafe { std::slice::from_raw_parts_mut(into.as_ptr(), bytes) })?;
            *self.waited.lock() = (stream, self.connection.requests());
            return Ok(());
        }
        let cause = thread::current_call();
        // SAFETY: guaranteed by the caller.
        unsafe { self.connection.read_later(stream, source, into, bytes as u64, cause) }.map_err(status)
    }

    /// Whether a stream is known to be idle: a copy has synchronized with it, and nothing was sent since.
    pub fn has_waited_for(&self, stream: u64) -> bool {
        *self.waited.lock() == (stream, self.connection.requests()) && !self.connection.mirrors().any()
    }

    /// Runs `function` in this process when the stream reaches it.
    pub fn host_function(
        &self,
        stream: u64,
        function: impl FnOnce(hipError_t) + Send + 'static,
    ) -> Result<(), hipError_t> {
        self.connection.host_function(stream, thread::current_call(), turn(function)).map_err(status)
    }

    /// Sends the program's changes of mirrored memory, and mirrors pinned memory that the changes point to.
    pub fn flush(&self) -> Result<(), hipError_t> {
        let cause = thread::current_call();
        let post =
            |number, changes: &[u8]| self.connection.post(&wire::MirrorWrite { number }, changes, cause);
        loop {
            let mut found = Vec::new();
            let look = |bytes: &[u8]| found.extend(self.unseen.search(bytes));
            self.connection.mirrors().flush(look, post).map_err(status)?;
            if found.is_empty() {
                return Ok(());
            }
            for start in found {
                self.expose(start)?;
            }
        }
    }

    /// Where a copy finds `bytes` bytes at `address`: mirrored host memory counts as device memory.
    pub fn locate(&self, address: u64, bytes: u64) -> Result<(u64, Place), hipError_t> {
        match self.memory.view(address, bytes) {
            Some(view) => Ok((view, Place::Device)),
            None => Ok((address, self.memory.place(address, bytes)?)),
        }
    }

    /// The host address of a mirror to read from, unless `into` is that address: the worker treats what was read from a
    /// mirror as up to date on this side.
    fn elsewhere(&self, source: u64, into: u64, bytes: usize) -> Option<u64> {
        self.connection.mirrors().host_of(source, bytes as u64).filter(|here| *here != into)
    }

    /// Called before a request is sent: sends the memory changes that its work may read.
    #[inline]
    fn before(&self, opcode: Opcode, body: &[u8]) -> Result<(), hipError_t> {
        let nothing = !self.connection.mirrors().any() && self.unseen.is_empty();
        if nothing { Ok(()) } else { self.before_work(opcode, body) }
    }

    #[cold]
    fn before_work(&self, opcode: Opcode, body: &[u8]) -> Result<(), hipError_t> {
        if !opcode.effect().is_work() {
            return Ok(());
        }
        self.expose_in(body)?;
        if self.connection.mirrors().any() {
            self.connection.mirrors().worked();
            if opcode.effect() != wire::Effect::Writes {
                return self.flush();
            }
        }
        Ok(())
    }

    /// Registers a function until the worker's Callback arrives.
    pub fn expect_turn(
        &self,
        token: u64,
        function: impl FnOnce(hipError_t) + Send + 'static,
    ) -> Result<(), hipError_t> {
        self.connection.expect_turn(token, turn(function)).map_err(status)
    }

    /// Bodies up to this size are copied.
    const POSTED_BODY: usize = 256 << 10;

    /// The result of a call that waited: its own failure, or the first late error of an earlier posted request.
    fn settle<T>(&self, outcome: Result<T, Failure>) -> Result<T, hipError_t> {
        let late = self.connection.take_late_error();
        match (outcome, late) {
            (Err(failure), _) => Err(status(failure)),
            (Ok(_), Some(late)) => Err(hipError_t(late.code as u32)),
            (Ok(reply), None) => Ok(reply),
        }
    }
}

impl Device {
    fn new(snapshot: DeviceSnapshot) -> Result<Device, hipError_t> {
        let properties = hipDeviceProp_tR0600::from_bytes(&snapshot.properties.0).ok_or_else(|| {
            report::line(format_args!(
                "the worker's properties of device {} have {} bytes, expected {}: use client and worker of the same version",
                snapshot.ordinal,
                snapshot.properties.0.len(),
                size_of::<hipDeviceProp_tR0600>()
            ));
            hipErrorNoDevice
        })?;
        let snapshot = DeviceSnapshot { attributes: attributes(&snapshot), ..snapshot };
        let properties = across_a_network(properties);
        let target = snapshot.isa.parse::<TargetId>().map_err(|error| {
            report::line(format_args!("device {}: {error}", snapshot.ordinal));
            hipErrorNoDevice
        })?;
        Ok(Device {
            ordinal: snapshot.ordinal,
            target,
            properties: Box::new(properties),
            ledger: Ledger::new(snapshot.quota),
            limits: Mutex::new(
                snapshot.limits.iter().map(|(limit, value)| (*limit as u32, *value)).collect(),
            ),
            flags: AtomicU32::new(0),
            cache_config: AtomicU32::new(0),
            peers: Mutex::default(),
            default_pool: AtomicU64::new(0),
            current_pool: AtomicU64::new(0),
            primary_context: AtomicU64::new(0),
            primary_context_users: AtomicU32::new(0),
            credit: Credit::default(),
            snapshot,
        })
    }
}

/// Wraps a host function of the program: marks the thread as holding its stream, and flushes mirrors afterwards.
fn turn(function: impl FnOnce(hipError_t) + Send + 'static) -> impl FnOnce(i32) + Send + 'static {
    move |code| {
        thread::set_holds_stream(true);
        function(hipError_t(code as u32));
        // Later work of the stream may read what the function wrote.
        if let Some(runtime) = existing() {
            let _ = runtime.flush();
        }
        thread::set_holds_stream(false);
    }
}

/// Device attributes for host memory, overridden because the device is behind a network: it sees only memory allocated
/// for it, and only at the synchronization points HIP defines.
const HOST_MEMORY: [(hipDeviceAttribute_t, fn() -> i32); 9] = [
    (hipDeviceAttributeCanMapHostMemory, || env::mapped().into()),
    (hipDeviceAttributeManagedMemory, || env::mapped().into()),
    (hipDeviceAttributeConcurrentManagedAccess, || 0),
    (hipDeviceAttributeDirectManagedMemAccessFromHost, || 0),
    (hipDeviceAttributePageableMemoryAccess, || 0),
    (hipDeviceAttributePageableMemoryAccessUsesHostPageTables, || 0),
    (hipDeviceAttributeHostNativeAtomicSupported, || 0),
    // The reverse direction: the program cannot access device memory.
    (hipDeviceAttributeIsLargeBar, || 0),
    // A stream would have to wait for host memory that the program writes without a call.
    (hipDeviceAttributeCanUseStreamWaitValue, || 0),
];

fn attributes(snapshot: &DeviceSnapshot) -> Vec<(i32, i32)> {
    let mut all = snapshot.attributes.clone();
    for (known, value) in &mut all {
        let fixed = HOST_MEMORY.iter().find(|(attribute, _)| attribute.0 as i32 == *known);
        if let Some((_, fixed)) = fixed {
            *value = fixed();
        }
    }
    all
}

fn across_a_network(mut properties: hipDeviceProp_tR0600) -> hipDeviceProp_tR0600 {
    properties.canMapHostMemory = env::mapped().into();
    properties.managedMemory = env::mapped().into();
    properties.concurrentManagedAccess = 0;
    properties.directManagedMemAccessFromHost = 0;
    properties.pageableMemoryAccess = 0;
    properties.pageableMemoryAccessUsesHostPageTables = 0;
    properties.hostNativeAtomicSupported = 0;
    properties.isLargeBar = 0;
    properties
}

/// The HIP error of a failed request. The text is only printed for debugging.
fn status(failure: Failure) -> hipError_t {
    report::debug(format_args!("{} (error {})", failure.text, failure.status));
    hipError_t(failure.status as u32)
}

/// Destroys the per-thread stream of a thread that ends.
pub fn forget_thread_stream(stream: u64) {
    if let Some(runtime) = existing()
        && let Some(gone) = runtime.streams.remove(stream)
    {
        gone.credit.forget(runtime);
        let _ = runtime.post(&wire::DestroyStream { stream }, &[]);
    }
}
