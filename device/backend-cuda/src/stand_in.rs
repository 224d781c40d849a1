//! A driver for tests without a GPU: nothing is computed, and the timelines of the streams advance when a test says so.

use std::alloc::{Layout, alloc_zeroed};
use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use backend::{Arena, Device, MemoryKind};
use backend_emulator::Model;
use parking_lot::{Mutex, MutexGuard};

use crate::device::{Cuda, Options};
use crate::functions::Functions;
use crate::gpu::Gpu;
use crate::translate::Lifter;
use crate::types::*;

/// Address of the mapped memory.
pub(crate) const AT: u64 = ARENA.base;
const ARENA: Arena = Arena { base: 0x2000_0000_0000, bytes: 1 << 32 };
const MAPPED_BYTES: u64 = 8 << 20;
const ILLEGAL_ADDRESS: CuResult = CuResult(700);

/// The driver has no state of its own, so tests use it one after another.
static ONE: Mutex<()> = Mutex::new(());
/// Advances of timelines that the GPU has not come to.
static HELD: Mutex<Vec<(u64, u32)>> = Mutex::new(Vec::new());
static IS_HELD: AtomicBool = AtomicBool::new(false);
static IS_BROKEN: AtomicBool = AtomicBool::new(false);
static ADVANCES: AtomicUsize = AtomicUsize::new(0);
/// Values of the fills that the driver has got.
static FILLS: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// A device over the stand-in, with some mapped memory.
pub(crate) struct StandIn {
    pub(crate) device: Cuda,
    _one: MutexGuard<'static, ()>,
}

impl StandIn {
    pub(crate) fn open() -> StandIn {
        let one = ONE.lock();
        HELD.lock().clear();
        FILLS.lock().clear();
        IS_HELD.store(false, Ordering::SeqCst);
        IS_BROKEN.store(false, Ordering::SeqCst);
        let mut functions = Functions::idle();
        functions.cuDeviceGetAttribute = attribute;
        functions.cuDeviceTotalMem_v2 = total_memory;
        functions.cuMemGetAllocationGranularity = granularity;
        functions.cuMemAddressReserve = reserve;
        functions.cuMemHostAlloc = allocate_host;
        functions.cuMemGetInfo_v2 = memory_info;
        functions.cuStreamWriteValue32_v2 = advance;
        functions.cuStreamQuery = query;
        functions.cuMemsetD8Async = fill;
        let functions = Arc::new(functions);
        let gpus = vec![Gpu::open(&functions, 0).expect("a GPU")];
        let model = Model::find("mi300x").expect("a model");
        let options = Options {
            library: None,
            model: "mi300x".to_owned(),
            arena: Some(ARENA),
            seat: None,
            cache: None,
            translator: Arc::new(Lifter),
        };
        let device = Cuda::over(functions, gpus, model, options).expect("a device");
        device.map(0, MemoryKind::Device, AT, MAPPED_BYTES).expect("memory");
        StandIn { device, _one: one }
    }

    /// Stops the GPU: commands do not end.
    pub(crate) fn hold(&self) {
        IS_HELD.store(true, Ordering::SeqCst);
    }

    /// Ends everything that was queued.
    pub(crate) fn go_on(&self) {
        let mut held = HELD.lock();
        IS_HELD.store(false, Ordering::SeqCst);
        held.drain(..).for_each(|(address, value)| store(address, value));
    }

    /// Ends the context with a fault.
    pub(crate) fn break_down(&self) {
        IS_BROKEN.store(true, Ordering::SeqCst);
    }

    /// How often a timeline was to be advanced.
    pub(crate) fn advances(&self) -> usize {
        ADVANCES.load(Ordering::SeqCst)
    }

    /// How many fills the driver has got.
    pub(crate) fn fills(&self) -> usize {
        FILLS.lock().len()
    }

    /// Their values.
    pub(crate) fn filled(&self) -> Vec<u8> {
        FILLS.lock().clone()
    }
}

fn store(address: u64, value: u32) {
    // SAFETY: the address of a word in memory of `allocate_host`, which is never freed.
    unsafe { AtomicU32::from_ptr(address as *mut u32) }.store(value, Ordering::SeqCst);
}

fn status() -> CuResult {
    if IS_BROKEN.load(Ordering::SeqCst) { ILLEGAL_ADDRESS } else { SUCCESS }
}

unsafe extern "C" fn attribute(value: *mut c_int, number: c_int, _: CuDevice) -> CuResult {
    // SAFETY: the caller passes a variable.
    unsafe { *value = if number == attribute::CAPABILITY_MAJOR { 9 } else { 1 } };
    SUCCESS
}

unsafe extern "C" fn total_memory(bytes: *mut usize, _: CuDevice) -> CuResult {
    // SAFETY: the caller passes a variable.
    unsafe { *bytes = 1 << 32 };
    SUCCESS
}

unsafe extern "C" fn memory_info(free: *mut usize, total: *mut usize) -> CuResult {
    // SAFETY: the caller passes variables.
    unsafe { (*free, *total) = (1 << 32, 1 << 32) };
    SUCCESS
}

unsafe extern "C" fn granularity(bytes: *mut usize, _: *const MemAllocationProp, _: c_uint) -> CuResult {
    // SAFETY: the caller passes a variable.
    unsafe { *bytes = 2 << 20 };
    SUCCESS
}

unsafe extern "C" fn reserve(at: *mut CuAddress, _: usize, _: usize, wanted: CuAddress, _: u64) -> CuResult {
    // SAFETY: the caller passes a variable.
    unsafe { *at = wanted };
    SUCCESS
}

unsafe extern "C" fn allocate_host(start: *mut *mut c_void, bytes: usize, _: c_uint) -> CuResult {
    let Ok(layout) = Layout::from_size_align(bytes, 4096) else { return CuResult(2) };
    // SAFETY: the size is not zero; the caller passes a variable.
    unsafe { *start = alloc_zeroed(layout).cast() };
    SUCCESS
}

unsafe extern "C" fn advance(_: CuStream, address: CuAddress, value: u32, _: c_uint) -> CuResult {
    ADVANCES.fetch_add(1, Ordering::SeqCst);
    let mut held = HELD.lock();
    if IS_HELD.load(Ordering::SeqCst) {
        held.push((address, value));
    } else {
        store(address, value);
    }
    status()
}

unsafe extern "C" fn query(_: CuStream) -> CuResult {
    status()
}

unsafe extern "C" fn fill(_: CuAddress, value: u8, _: usize, _: CuStream) -> CuResult {
    FILLS.lock().push(value);
    status()
}
