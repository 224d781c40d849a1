//! Reports of indices out of bounds, which kernels find asynchronously: a few words of device memory that are read with the next
//! download.
//!
//! Nothing waits for them separately. They are copied to pinned memory asynchronously, and the copy completes before the
//! operation that the caller waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tensor_core::bounds;
use tensor_core::error::DeviceError;

use crate::memory::{Block, MemoryPool};
use crate::pinned::{PinnedBuffer, PinnedPool};
use crate::stream::Stream;

/// A flag, the first bad index, and its bound.
const WORDS: usize = 3;

#[derive(Debug)]
pub(crate) struct Faults {
    stream: Arc<Stream>,
    /// Whether a launch with bounds checks ran since the last report.
    looked: AtomicBool,
    places: Mutex<Option<Places>>,
}

#[derive(Debug)]
struct Places {
    there: Block,
    here: PinnedBuffer,
}

impl Faults {
    pub(crate) fn new(stream: Arc<Stream>) -> Faults {
        Faults { stream, looked: AtomicBool::new(false), places: Mutex::new(None) }
    }

    /// Returns the device address where a launch records indices out of bounds.
    pub(crate) fn place(&self, pool: &Arc<MemoryPool>, pinned: &Arc<PinnedPool>) -> Result<u64, DeviceError> {
        let mut places = self.places.lock();
        let address = match &*places {
            Some(places) => places.there.address,
            None => {
                let (there, here) = (pool.allocate(WORDS * 8)?, pinned.acquire(WORDS * 8)?);
                self.stream.upload(there.address, &[0; WORDS * 8])?;
                places.insert(Places { there, here }).there.address
            }
        };
        self.looked.store(true, Ordering::Release);
        Ok(address)
    }

    /// Runs `wait`, then returns an error for an index that was out of bounds before.
    pub(crate) fn with(&self, wait: impl FnOnce() -> Result<(), DeviceError>) -> Result<(), DeviceError> {
        if !self.looked.swap(false, Ordering::AcqRel) {
            return wait();
        }
        let mut places = self.places.lock();
        let Some(Places { there, here }) = &mut *places else { return wait() };
        self.stream.select()?;
        self.stream.download_later(there.address, here)?;
        wait()?;
        let words: Vec<i64> =
            here.bytes().as_chunks().0.iter().map(|word| i64::from_le_bytes(*word)).collect();
        let &[met, index, bound] = words.as_slice() else { return Ok(()) };
        if met == 0 {
            return Ok(());
        }
        self.stream.upload(there.address, &[0; WORDS * 8])?;
        Err(bounds::error(index, bound))
    }
}
