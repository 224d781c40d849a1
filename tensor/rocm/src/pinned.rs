//! The pool of pinned host memory, which the device accesses directly: sizes are powers of two, cached for reuse when freed.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

use parking_lot::Mutex;
use tensor_core::error::DeviceError;

use crate::library::{Library, call};

const SMALLEST: usize = 4096;
/// The most bytes of free buffers that are kept.
const KEPT: usize = 512 << 20;

/// Allocation counters, in bytes and calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PinnedStatistics {
    /// Bytes of buffers in use.
    pub in_use: usize,
    /// Bytes of free buffers.
    pub kept: usize,
    /// Buffers handed out.
    pub acquired: u64,
    /// Buffers returned.
    pub released: u64,
    /// Requests served from free buffers.
    pub hits: u64,
    /// Requests that needed the runtime.
    pub misses: u64,
}

/// The pinned memory pool of a process.
#[derive(Debug)]
pub struct PinnedPool {
    library: Arc<Library>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Addresses by size.
    free: HashMap<usize, Vec<usize>>,
    statistics: PinnedStatistics,
}

/// A pinned buffer, with undefined but initialised content; returned to the pool on drop.
#[derive(Debug)]
pub struct PinnedBuffer {
    pool: Arc<PinnedPool>,
    address: usize,
    bytes: usize,
}

impl PinnedBuffer {
    /// The content.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the runtime allocated at least this many bytes. They are initialised: fresh ones are zeroed in `acquire`, and
        // reused ones were written. This is their only owner.
        unsafe { std::slice::from_raw_parts(self.address as *const u8, self.bytes) }
    }

    /// The content, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.address as *mut u8, self.bytes) }
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        let size = rounded(self.bytes);
        let mut state = self.pool.state.lock();
        state.statistics.released += 1;
        state.statistics.in_use -= size;
        if state.statistics.kept + size <= KEPT {
            state.statistics.kept += size;
            state.free.entry(size).or_default().push(self.address);
        } else {
            drop(state);
            let _ = self.pool.free(self.address);
        }
    }
}

impl PinnedPool {
    pub(crate) fn new(library: Arc<Library>) -> Arc<PinnedPool> {
        Arc::new(PinnedPool { library, state: Mutex::default() })
    }

    /// Returns a buffer of at least this size, free or new.
    pub fn acquire(self: &Arc<Self>, bytes: usize) -> Result<PinnedBuffer, DeviceError> {
        let size = rounded(bytes);
        let kept = self.state.lock().free.get_mut(&size).and_then(Vec::pop);
        let address = match kept {
            Some(address) => address,
            None => {
                let mut address: *mut c_void = std::ptr::null_mut();
                call!(self.library, runtime.hipHostMalloc(&mut address, size, 0))?;
                // The runtime's memory may hold anything; buffers must be initialised.
                // SAFETY: the runtime has just allocated `size` bytes here.
                unsafe { std::ptr::write_bytes(address.cast::<u8>(), 0, size) };
                address as usize
            }
        };
        let mut state = self.state.lock();
        let it = &mut state.statistics;
        it.acquired += 1;
        it.in_use += size;
        if kept.is_some() {
            it.kept -= size;
            it.hits += 1;
        } else {
            it.misses += 1;
        }
        Ok(PinnedBuffer { pool: self.clone(), address, bytes })
    }

    /// Allocates buffers of these sizes in advance.
    pub fn warm_up(self: &Arc<Self>, sizes: &[usize]) -> Result<(), DeviceError> {
        let buffers: Result<Vec<PinnedBuffer>, DeviceError> =
            sizes.iter().map(|&bytes| self.acquire(bytes)).collect();
        buffers.map(drop)
    }

    /// Frees all buffers that are not in use.
    pub fn clear(&self) -> Result<(), DeviceError> {
        let addresses: Vec<usize> = {
            let mut state = self.state.lock();
            state.statistics.kept = 0;
            std::mem::take(&mut state.free).into_values().flatten().collect()
        };
        addresses.into_iter().try_for_each(|address| self.free(address))
    }

    /// The counters.
    pub fn statistics(&self) -> PinnedStatistics {
        self.state.lock().statistics
    }

    fn free(&self, address: usize) -> Result<(), DeviceError> {
        call!(self.library, runtime.hipHostFree(address as *mut c_void))
    }
}

impl Drop for PinnedPool {
    fn drop(&mut self) {
        let _ = self.clear();
    }
}

fn rounded(bytes: usize) -> usize {
    bytes.max(SMALLEST).next_power_of_two()
}
