//! Streams that wait for a value in memory: one thread looks, as the command processor of a GPU does.
//!
//! To the scheduler such a wait is a host function whose answer comes from here. While a stream waits, the memory stays: a
//! range is unmapped only when all work before has ended.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use backend::{DeviceError, ValueWait};
use parking_lot::{Condvar, Mutex};

/// Host functions with numbers from here on are waits of this file.
pub(crate) const FIRST_TOKEN: u64 = 1 << 63;
/// How often memory is looked at while a stream waits.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

#[derive(Default)]
struct State {
    /// Queued, and not yet at the head of their streams.
    queued: HashMap<u64, ValueWait>,
    /// Waiting now.
    active: Vec<(u64, ValueWait)>,
    watching: bool,
    count: u64,
}

/// The waits of a session.
#[derive(Default)]
pub(crate) struct ValueWaits {
    state: Mutex<State>,
    changed: Condvar,
}

impl ValueWaits {
    /// A number for a wait that is about to be queued. The thread that looks starts with the first; `resume` tells how it lets
    /// a stream go on.
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

    /// The stream has come to a wait, or will never: then it is forgotten.
    pub(crate) fn begin(&self, token: u64, waits: bool) {
        let mut state = self.state.lock();
        if let Some(wait) = state.queued.remove(&token)
            && waits
        {
            state.active.push((token, wait));
            self.changed.notify_all();
        }
    }

    /// Forgets all of them; none is looked at when this returns.
    pub(crate) fn clear(&self) {
        let mut state = self.state.lock();
        state.queued.clear();
        state.active.clear();
    }

    /// Looks once at everything that is waited for, then waits a moment.
    fn look(&self, resume: &impl Fn(u64)) {
        let mut state = self.state.lock();
        let met = |(_, wait): &mut (u64, ValueWait)| wait.is_met_by(value(wait));
        let done: Vec<u64> = state.active.extract_if(.., met).map(|(token, _)| token).collect();
        if done.is_empty() {
            // A session without waits is looked at rarely, so that its end is noticed.
            let pause = if state.active.is_empty() { 1000 * LOOK_AGAIN } else { LOOK_AGAIN };
            self.changed.wait_for(&mut state, pause);
            return;
        }
        drop(state);
        done.into_iter().for_each(resume);
    }
}

/// The value in memory now.
fn value(wait: &ValueWait) -> u64 {
    // SAFETY: aligned and mapped, as was checked when the wait was queued; kernels and copies may write it meanwhile.
    unsafe {
        if wait.wide {
            AtomicU64::from_ptr(wait.address as *mut u64).load(Ordering::Acquire)
        } else {
            u64::from(AtomicU32::from_ptr(wait.address as *mut u32).load(Ordering::Acquire))
        }
    }
}
