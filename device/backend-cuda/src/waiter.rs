//! The thread that waits for the GPU: calls what is to happen when work has ended, and notices faults.
//!
//! It reads the timelines in pinned memory. It polls without a pause at first, for short commands, and ever less often after that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use backend::DeviceError;
use parking_lot::{Condvar, Mutex};

use crate::device::Shared;
use crate::stream::Mark;

/// How long the thread polls without a pause after the last progress.
const EAGER: Duration = Duration::from_micros(60);
/// Longest pause between two polls.
const PAUSE: Duration = Duration::from_micros(250);
/// Time between two checks for a fault.
const CHECK: Duration = Duration::from_millis(2);
/// Time between two checks if nothing waits.
const IDLE_CHECK: Duration = Duration::from_millis(20);

type Action = Box<dyn FnOnce(Result<(), DeviceError>) + Send>;

struct Item {
    marks: Vec<Mark>,
    action: Action,
}

/// Actions to call when work has ended.
#[derive(Default)]
pub(crate) struct Waiter {
    new: Mutex<Vec<Item>>,
    changed: Condvar,
    /// Commands may be running that nothing waits for.
    busy: AtomicBool,
    closed: AtomicBool,
}

impl Waiter {
    /// Calls `action` when all marks are reached, or with the fault that prevents it. Never calls it on this thread.
    pub(crate) fn push(
        &self,
        marks: Vec<Mark>,
        action: impl FnOnce(Result<(), DeviceError>) + Send + 'static,
    ) {
        self.new.lock().push(Item { marks, action: Box::new(action) });
        self.changed.notify_one();
    }

    /// Says that a command was queued, so that the thread looks for faults. Called after the command has its number on the
    /// timeline: until then the streams may look idle.
    #[inline]
    pub(crate) fn note_work(&self) {
        if !self.busy.swap(true, Ordering::SeqCst) {
            self.changed.notify_one();
        }
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// Body of the thread.
    pub(crate) fn serve(&self, shared: &Arc<Shared>) {
        let mut items: Vec<Item> = Vec::new();
        let (mut progress, mut checked) = (Instant::now(), Instant::now());
        while !self.closed.load(Ordering::Relaxed) {
            {
                let mut new = self.new.lock();
                if items.is_empty() && new.is_empty() {
                    if self.busy.load(Ordering::Relaxed) {
                        self.changed.wait_for(&mut new, IDLE_CHECK);
                    } else {
                        self.changed.wait_for(&mut new, Duration::from_secs(1));
                    }
                }
                if !new.is_empty() {
                    progress = Instant::now();
                    items.append(&mut new);
                }
            }
            let limit = if items.is_empty() { IDLE_CHECK } else { CHECK };
            let may_fault = self.busy.load(Ordering::Relaxed) || !items.is_empty();
            if may_fault && checked.elapsed() >= limit {
                checked = Instant::now();
                shared.look_for_fault();
                if items.is_empty() {
                    // Cleared before the look at the streams, so that a command queued meanwhile is not overlooked.
                    self.busy.store(false, Ordering::SeqCst);
                    if !shared.is_idle() {
                        self.busy.store(true, Ordering::SeqCst);
                    }
                }
            }
            let fault = shared.fault();
            let mut waiting = Vec::with_capacity(items.len());
            for item in items.drain(..) {
                if item.marks.iter().all(Mark::is_reached) {
                    (item.action)(Ok(()));
                    progress = Instant::now();
                } else if let Some(fault) = fault {
                    (item.action)(Err(fault.clone()));
                } else {
                    waiting.push(item);
                }
            }
            items = waiting;
            let age = progress.elapsed();
            if items.is_empty() || age < EAGER {
                std::thread::yield_now();
            } else {
                std::thread::sleep((age / 8).min(PAUSE));
            }
        }
        let closed = DeviceError::not_ready("the session has ended");
        let rest = std::mem::take(&mut *self.new.lock());
        for item in items.into_iter().chain(rest) {
            (item.action)(Err(closed.clone()));
        }
    }
}
