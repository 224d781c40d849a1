//! The session of this process: created on first use, shared by all threads, dropped in a forked child.

use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use hip_api::types::*;
use parking_lot::Mutex;
use session::Connection;

use super::device::Device;
use super::fence::Fences;
use super::host_memory::HostMemory;
use super::memory::AddressSpace;
use super::module::Kernels;
use super::objects::{Context, Pool};
use super::tables::Tables;
use super::virtual_memory::VirtualMemory;
use super::{thread, variables};
use crate::graph::capture::Captures;
use crate::graph::tables::GraphTables;
use crate::os::hooks;
use crate::process::{env, open};
use crate::telemetry::report;

/// All state of a session.
#[derive(Debug)]
pub struct Runtime {
    pub connection: Connection,
    pub devices: Vec<Device>,
    /// The worker's number for this session.
    pub session: u64,
    /// Address ranges of the device and of pinned memory.
    pub memory: AddressSpace,
    pub virtual_memory: VirtualMemory,
    pub host_memory: HostMemory,
    /// Objects behind handles.
    pub tables: Tables,
    pub graphs: GraphTables,
    pub kernels: Kernels,
    pub fences: Fences,
    pub captures: Captures,
    pub waits: Waits,
}

/// What is known of the program's waits, so that some of them cost no round trip.
#[derive(Debug, Default)]
pub struct Waits {
    /// Number of events that the program has polled.
    pub polled_events: AtomicU32,
    /// The stream last synchronized by a copy into unpinned memory, and the request count at that time.
    pub idle_stream: Mutex<(u64, u64)>,
    /// Copies that wait for a host function, see [`when_due`](Runtime::when_due).
    pub copies_due: AtomicUsize,
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

/// Abandons a session that is lost and opens a new one. Handles and device addresses of the old one become invalid, as with every
/// reset of a device. The old state is kept: other threads may be using it.
pub fn replace(lost: &Runtime) -> Result<(), hipError_t> {
    {
        let _making = MAKING.lock();
        // Another thread may have replaced it already.
        if existing().is_some_and(|current| std::ptr::eq(current, lost)) {
            RUNTIME.store(std::ptr::null_mut(), Ordering::Release);
        }
    }
    thread::forget_streams();
    let fresh = runtime()?;
    report::line(format_args!(
        "the session was lost; hipDeviceReset opened a new one, {}",
        wire::SessionId(fresh.session)
    ));
    Ok(())
}

/// A forked child has only one thread and must not use its parent's socket: it opens a new session on its next call.
fn forget_in_forked_children() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    extern "C" fn child() {
        RUNTIME.store(std::ptr::null_mut(), Ordering::Release);
        // SAFETY: the child has one thread, so no thread holds a lock that was held while forking.
        unsafe { MAKING.force_unlock_if_locked() };
        thread::forget_streams();
        variables::forget_lock_after_fork();
    }
    ONCE.call_once(|| {
        hooks::at_fork(child);
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
            session: welcome.session_id,
            memory: AddressSpace::new(welcome.arena_base, welcome.arena_bytes),
            virtual_memory: VirtualMemory::default(),
            host_memory: HostMemory::default(),
            tables: Tables::new(),
            graphs: GraphTables::new(),
            kernels: Kernels::default(),
            fences: Fences::default(),
            captures: Captures::default(),
            waits: Waits::default(),
        };
        for (index, device) in runtime.devices.iter().enumerate() {
            let context = Context { device: index, flags: 0, primary: true };
            let (context, _) = runtime.tables.contexts.insert_with(|_| context).ok_or(hipErrorOutOfMemory)?;
            device.primary_context.store(context, Ordering::Relaxed);
            let pool = runtime.new_pool(index, false)?;
            device.default_pool.store(pool, Ordering::Relaxed);
            device.current_pool.store(pool, Ordering::Relaxed);
        }
        Ok(runtime)
    }

    /// Whether the session ended without the program's request.
    pub fn is_lost(&self) -> bool {
        self.connection.ending().is_some_and(|failure| failure.status != session::status::CLOSED)
    }

    /// Creates a memory pool; returns its handle.
    pub fn new_pool(&self, device: usize, shareable: bool) -> Result<u64, hipError_t> {
        let pool = Pool {
            device,
            shareable,
            attributes: Mutex::new(HashMap::from([(1, 1), (2, 1), (3, 1)])),
            used: AtomicU64::new(0),
            used_high: AtomicU64::new(0),
        };
        self.tables.pools.insert_with(|_| pool).map(|(handle, _)| handle).ok_or(hipErrorOutOfMemory)
    }

    /// The device with this number of the program.
    pub fn device(&self, index: i32) -> Result<&Device, hipError_t> {
        usize::try_from(index).ok().and_then(|i| self.devices.get(i)).ok_or(hipErrorInvalidDevice)
    }

    /// The current device of this thread and its index.
    pub fn current(&self) -> Result<(usize, &Device), hipError_t> {
        let index = thread::device();
        self.devices.get(index).map(|device| (index, device)).ok_or(hipErrorNoDevice)
    }
}
