//! Indices out of bounds, which kernels find and nobody waits for: a few words on the device that are asked for with the next download.
//!
//! Nothing waits for them alone. They come to pinned memory, so that the copy is only asked for, and are there when what is waited for is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tensor_core::bounds;
use tensor_core::error::DeviceError;

use crate::memory::{Block, MemoryPool};
use crate::pinned::{PinnedBuffer, PinnedPool};
use crate::stream::Stream;

/// Whether there was one, the first, and its bound.
const WORDS: usize = 3;

#[derive(Debug)]
pub(crate) struct Faults {
    stream: Arc<Stream>,
    /// A launch looked since somebody asked.
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

    /// Where a launch that looks at indices tells of them.
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

    /// Waits with `wait`, and tells of an index that was out of bounds before.
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
