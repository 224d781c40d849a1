//! Indices out of bounds found by a launch. Launches run one at a time, and the thread that ran one collects its error.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tensor_core::bounds;
use tensor_core::error::DeviceError;

static MET: AtomicBool = AtomicBool::new(false);
/// The first bad index, and its bound.
static FIRST: Mutex<Option<(i64, i64)>> = Mutex::new(None);

/// Returns the index if it is within the bound, else records it and returns minus one.
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

/// Returns an error if an index was out of bounds since the last call.
pub fn check() -> Result<(), DeviceError> {
    if !MET.load(Ordering::Acquire) {
        return Ok(());
    }
    let met = first().take();
    MET.store(false, Ordering::Release);
    met.map_or(Ok(()), |(index, bound)| Err(bounds::error(index, bound)))
}

fn first() -> std::sync::MutexGuard<'static, Option<(i64, i64)>> {
    // The value under the lock is replaced at once, so a panic while holding it leaves nothing inconsistent.
    FIRST.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
