//! Requests of kernels to the host (`printf`, failed assertions, memory for `malloc`), served by a thread through pinned memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use backend::DeviceError;
use emulator::{Hostcall, Output, Pages};
use hip_api::types::hipErrorLaunchFailure;
use parking_lot::{Condvar, Mutex};

use crate::device::Shared;
use crate::error::call;
use crate::heap::{DEFAULT_BYTES, Heap};
use crate::launch::BARRIER_BYTES;
use crate::memory::properties;
use crate::pinned::Piece;
use crate::stream::Mark;
use crate::types::CuMemory;

/// Packets of a buffer: at least the waves that can be in flight on any GPU.
const PACKETS: u64 = 1 << 14;
/// Device memory for barriers of grids.
const BARRIERS_BYTES: u64 = 2 << 20;
/// Longest pause between two looks at the doorbell.
const PAUSE: Duration = Duration::from_micros(200);
/// Time after which the packets are looked at although the doorbell did not ring.
const LOOK: Duration = Duration::from_millis(2);

/// Hostcall buffer and heap of one device, made when the first kernel needs them, and limits of its kernels.
#[derive(Default)]
pub(crate) struct Services {
    state: Mutex<State>,
    /// A launch was added that may make requests.
    launched: Condvar,
    /// Size of the heap that the program has asked for; 0 for the default.
    pub(crate) heap_bytes: AtomicU64,
    /// Stack of a lane that the program has asked for; 0 for the default.
    pub(crate) stack_bytes: AtomicU32,
}

#[derive(Default)]
struct State {
    heap: Option<Arc<Heap>>,
    hostcall: Option<Arc<Hostcall>>,
    /// The memory of the buffer.
    _memory: Option<Piece>,
    /// Ends of the launches that may make requests.
    running: Vec<Mark>,
    /// Device memory for barriers of grids, and the next free place in it.
    barriers: Option<u64>,
    next_barrier: u64,
}

impl Shared {
    /// Address of a device's hostcall buffer. The device's context must be current.
    pub(crate) fn hostcall(self: &Arc<Shared>, device: u32) -> Result<u64, DeviceError> {
        let services = &self.services[device as usize];
        let mut state = services.state.lock();
        if let Some(hostcall) = &state.hostcall {
            return Ok(hostcall.address());
        }
        let pages: Arc<dyn Pages> = self.heap(device, &mut state)?;
        let mut memory = self.pinned.take(Hostcall::bytes(PACKETS))?;
        memory.bytes_mut(Hostcall::bytes(PACKETS)).fill(0);
        let output = |shared: &Arc<Shared>, is_error: bool| -> Output {
            let shared = Arc::downgrade(shared);
            Arc::new(move |text: &[u8]| {
                let shared = shared.upgrade();
                match shared.as_ref().and_then(|shared| shared.notifier.get()) {
                    Some(notifier) if is_error => notifier.error_output(text),
                    Some(notifier) => notifier.output(text),
                    None => {}
                }
            })
        };
        let (printed, complaints) = (output(self, false), output(self, true));
        // SAFETY: the piece has this size, was zeroed, is aligned to more than 8, and is kept beside the buffer.
        let hostcall = unsafe {
            Hostcall::over(memory.as_ptr().cast(), PACKETS, Some(printed), Some(complaints), Some(pages))
        };
        let hostcall = Arc::new(hostcall);
        state.hostcall = Some(Arc::clone(&hostcall));
        state._memory = Some(memory);
        let (shared, address) = (Arc::clone(self), hostcall.address());
        let thread = std::thread::Builder::new().name("cuda-hostcall".to_owned());
        thread.spawn(move || shared.serve_kernels(device, &hostcall)).map_err(|error| {
            DeviceError::out_of_memory(format!("cannot start the thread that serves kernels: {error}"))
        })?;
        Ok(address)
    }

    /// Says that a launch may make requests until `end`.
    pub(crate) fn expect_requests(&self, device: u32, end: Mark) {
        let services = &self.services[device as usize];
        services.state.lock().running.push(end);
        services.launched.notify_one();
    }

    /// Address of the metadata of a device's heap. The device's context must be current.
    pub(crate) fn heap_block(&self, device: u32) -> Result<u64, DeviceError> {
        let mut state = self.services[device as usize].state.lock();
        self.heap(device, &mut state).map(|heap| heap.block)
    }

    fn heap(&self, device: u32, state: &mut State) -> Result<Arc<Heap>, DeviceError> {
        if let Some(heap) = &state.heap {
            return Ok(Arc::clone(heap));
        }
        let asked = self.services[device as usize].heap_bytes.load(std::sync::atomic::Ordering::Relaxed);
        let bytes = if asked == 0 { DEFAULT_BYTES } else { asked };
        // Metadata and the alignment of slabs need some more.
        let bytes = bytes.saturating_add(4 << 20).checked_next_multiple_of(2 << 20);
        let bytes = bytes.ok_or_else(|| DeviceError::out_of_memory("the heap limit is too large"))?;
        self.memory.take(device, bytes)?;
        let made = self.map_anywhere(device, bytes).and_then(|start| Heap::new(start, bytes));
        let heap = Arc::new(made.inspect_err(|_| self.memory.give(device, bytes))?);
        state.heap = Some(Arc::clone(&heap));
        Ok(heap)
    }

    /// Device memory for the barrier of a grid. A place is used again after many launches.
    pub(crate) fn barrier(&self, device: u32) -> Result<u64, DeviceError> {
        let mut state = self.services[device as usize].state.lock();
        let start = match state.barriers {
            Some(start) => start,
            None => self.map_anywhere(device, BARRIERS_BYTES)?,
        };
        state.barriers = Some(start);
        state.next_barrier = (state.next_barrier + BARRIER_BYTES) % BARRIERS_BYTES;
        Ok(start + state.next_barrier)
    }

    /// Maps zeroed memory at an address of the driver's choice. It stays until the session ends.
    fn map_anywhere(&self, device: u32, bytes: u64) -> Result<u64, DeviceError> {
        let (functions, size) = (&self.functions, bytes as usize);
        let gpu = self.on(device)?;
        let mut address = 0;
        call!(functions, cuMemAddressReserve(&raw mut address, size, 2 << 20, 0, 0))?;
        let properties = properties(gpu);
        let mut handle: CuMemory = 0;
        let mapped =
            call!(functions, cuMemCreate(&raw mut handle, size, &raw const properties, 0)).and_then(|()| {
                self.memory.map_physical(device, address, bytes, handle).inspect_err(|_| {
                    let _ = call!(functions, cuMemRelease(handle));
                })
            });
        mapped.and_then(|()| gpu.zero(address, bytes)).inspect_err(|_| {
            let _ = call!(functions, cuMemAddressFree(address, size));
        })?;
        Ok(address)
    }

    /// Body of the thread that serves the requests of a device's kernels.
    fn serve_kernels(&self, device: u32, hostcall: &Hostcall) {
        let services = &self.services[device as usize];
        let (mut doorbell, mut looked, mut served) = (0, Instant::now(), Instant::now());
        loop {
            {
                let mut state = services.state.lock();
                state.running.retain(|end| !end.is_reached());
                if state.running.is_empty() {
                    services.launched.wait(&mut state);
                    served = Instant::now();
                }
            }
            let rung = hostcall.doorbell();
            if rung != doorbell || looked.elapsed() >= LOOK {
                (doorbell, looked) = (rung, Instant::now());
                match hostcall.serve_marked() {
                    Ok(0) => {}
                    Ok(_) => served = Instant::now(),
                    // The kernel waits for the answer forever, so this is the end of the session's work.
                    Err(text) => {
                        self.blame(DeviceError::new(hipErrorLaunchFailure, text));
                        return;
                    }
                }
            }
            match served.elapsed() {
                short if short < Duration::from_micros(100) => std::hint::spin_loop(),
                long => std::thread::sleep((long / 8).min(PAUSE)),
            }
        }
    }
}
