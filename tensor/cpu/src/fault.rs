//! Indices out of bounds that a launch has met. Launches are done one at a time, and whoever has had one done asks for them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tensor_core::bounds;
use tensor_core::error::DeviceError;

static MET: AtomicBool = AtomicBool::new(false);
/// The first index, and the bound that it should have been within.
static FIRST: Mutex<Option<(i64, i64)>> = Mutex::new(None);

/// The index, or minus one.
#[inline]
pub fn within(index: i64, bound: i64) -> i64 {
    if (0..bounds::length(bound)).contains(&index) {
        return index;
    }
    meet(index, bound);
    -1
}

#[cold]
fn meet(index: i64, bound: i64) {
    first().get_or_insert((index, bound));
    MET.store(true, Ordering::Release);
}

/// An error if there was an index out of bounds since the last time.
pub fn check() -> Result<(), DeviceError> {
    if !MET.load(Ordering::Acquire) {
        return Ok(());
    }
    let met = first().take();
    MET.store(false, Ordering::Release);
    met.map_or(Ok(()), |(index, bound)| Err(bounds::error(index, bound)))
}

fn first() -> std::sync::MutexGuard<'static, Option<(i64, i64)>> {
    // Whoever panicked held nothing that could be half done.
    FIRST.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
