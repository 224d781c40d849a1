//! Value waits of streams (`hipStreamWaitValue`): one thread polls memory, as the command processor of a GPU does.
//!
//! For the scheduler such a wait is a host function that this file completes. The memory stays mapped while a stream waits,
//! because a range is unmapped only when all earlier work has ended.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use backend::{DeviceError, ValueWait};
use parking_lot::{Condvar, Mutex};

/// Host function tokens from here on are value waits.
pub(crate) const FIRST_TOKEN: u64 = 1 << 63;
/// Polling interval while a stream waits.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

#[derive(Default)]
struct State {
    /// Waits that are queued and not yet at the head of their streams.
    queued: HashMap<u64, ValueWait>,
    /// Waits at the head of their streams, which are polled.
    active: Vec<(u64, ValueWait)>,
    watching: bool,
    count: u64,
}

/// The value waits of a session.
#[derive(Default)]
pub(crate) struct ValueWaits {
    state: Mutex<State>,
    changed: Condvar,
}

impl ValueWaits {
    /// Registers a wait that is about to be queued and returns its token. The first call starts the polling thread; `resume`
    /// creates the callback with which that thread resumes a stream.
    pub(crate) fn add<R: Fn(u64) + Send + 'static>(
        self: &Arc<ValueWaits>,
        wait: ValueWait,
        resume: impl FnOnce() -> R,
    ) -> Result<u64, DeviceError> {
        let mut state = self.state.lock();
        if !state.watching {
            let (waits, resume) = (Arc::downgrade(self), resume());
            let watch = move || {
                while let Some(waits) = waits.upgrade() {
                    waits.look(&resume);
                }
            };
            std::thread::Builder::new()
                .name("value-wait".to_owned())
                .spawn(watch)
                .map_err(|error| DeviceError::out_of_memory(error.to_string()))?;
            state.watching = true;
        }
        state.count += 1;
        let token = FIRST_TOKEN + state.count;
        state.queued.insert(token, wait);
        Ok(token)
    }

    /// Starts polling for a wait that the stream has reached; if `waits` is false, drops it.
    pub(crate) fn begin(&self, token: u64, waits: bool) {
        let mut state = self.state.lock();
        if let Some(wait) = state.queued.remove(&token)
            && waits
        {
            state.active.push((token, wait));
            self.changed.notify_all();
        }
    }

    /// Drops all waits. No memory is polled after this returns.
    pub(crate) fn clear(&self) {
        let mut state = self.state.lock();
        state.queued.clear();
        state.active.clear();
    }

    /// Polls all active waits once, then sleeps for the polling interval.
    fn look(&self, resume: &impl Fn(u64)) {
        let mut state = self.state.lock();
        let met = |(_, wait): &mut (u64, ValueWait)| wait.is_met_by(value(wait));
        let done: Vec<u64> = state.active.extract_if(.., met).map(|(token, _)| token).collect();
        if done.is_empty() {
            // Without waits the thread wakes up rarely, only to notice the end of the session.
            let pause = if state.active.is_empty() { 1000 * LOOK_AGAIN } else { LOOK_AGAIN };
            self.changed.wait_for(&mut state, pause);
            return;
        }
        drop(state);
        done.into_iter().for_each(resume);
    }
}

/// The current value in memory.
fn value(wait: &ValueWait) -> u64 {
    // SAFETY: aligned and mapped, as checked when the wait was queued; atomic, because kernels and copies may write it concurrently.
    unsafe {
        if wait.wide {
            AtomicU64::from_ptr(wait.address as *mut u64).load(Ordering::Acquire)
        } else {
            u64::from(AtomicU32::from_ptr(wait.address as *mut u32).load(Ordering::Acquire))
        }
    }
}
