//! Compute throttling on NVIDIA GPUs: launches wait in their streams, and their run time is measured with events.
//!
//! A host function queued before each launch does the waiting, so the thread that enqueues never blocks. The charge is the time in
//! which kernels ran; time in which several ran concurrently counts once.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Instant;

use backend::{DeviceError, Span};
use limits::{Gate, SessionSlot};
use parking_lot::Mutex;

use crate::device::Shared;
use crate::error::call;
use crate::stream::Stream;

/// Launch gate of a session, and the time up to which each device has been charged.
pub(crate) struct Pacer {
    gate: Arc<Gate>,
    charged: Mutex<HashMap<u32, Charged>>,
}

struct Charged {
    until: Instant,
    nanoseconds: u64,
}

struct Waiting {
    gate: Arc<Gate>,
    device: u32,
    generation: u64,
}

impl Pacer {
    pub(crate) fn new(seat: SessionSlot) -> Pacer {
        Pacer { gate: Arc::new(Gate::new(seat)), charged: Mutex::default() }
    }

    pub(crate) fn seat(&self) -> &SessionSlot {
        self.gate.seat()
    }

    /// Queues a wait at the gate in the stream, before a launch.
    pub(crate) fn hold(&self, shared: &Shared, stream: &Stream) -> Result<(), DeviceError> {
        let device = stream.device;
        self.seat().count_launch(device);
        if !self.seat().is_paced(device) {
            return Ok(());
        }
        let waiting = Waiting { gate: Arc::clone(&self.gate), device, generation: self.gate.generation() };
        let waiting = Box::into_raw(Box::new(waiting));
        let queued =
            call!(shared.functions, cuLaunchHostFunc(stream.handle(), Some(wait), waiting.cast::<c_void>()));
        if queued.is_err() {
            // SAFETY: the driver rejected the call, so it holds no pointer and this is the only owner of the box.
            drop(unsafe { Box::from_raw(waiting) });
        }
        queued
    }

    /// Charges the part of a completed command's time that has not been charged yet.
    pub(crate) fn charge(&self, span: &Span) {
        let mut charged = self.charged.lock();
        let known = charged.entry(span.device).or_insert(Charged { until: span.begin, nanoseconds: 0 });
        let from = span.begin.max(known.until);
        let Some(spent) = span.end.checked_duration_since(from) else { return };
        let spent = spent.as_nanos() as u64;
        known.until = span.end;
        known.nanoseconds += spent;
        drop(charged);
        let ago = span.begin.elapsed().as_nanos() as u64;
        self.seat().charge(span.device, limits::now().saturating_sub(ago), spent);
    }

    /// Nanoseconds that a device has been busy for this session.
    pub(crate) fn busy_ns(&self, device: u32) -> u64 {
        self.charged.lock().get(&device).map_or(0, |charged| charged.nanoseconds)
    }

    /// Releases all launches that wait at the gate.
    pub(crate) fn give_up(&self) {
        self.gate.release_all();
    }
}

/// Callback that the driver invokes when a stream reaches a launch. The stream blocks until it returns.
unsafe extern "C" fn wait(data: *mut c_void) {
    // SAFETY: `data` is the box that was leaked for this call; the driver calls back once.
    let waiting = unsafe { Box::from_raw(data.cast::<Waiting>()) };
    waiting.gate.wait(waiting.device, waiting.generation);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use backend::Task;
    use limits::{LimitConfig, Page};

    use super::*;

    #[test]
    fn time_in_which_kernels_ran_side_by_side_is_charged_once() {
        let limits = LimitConfig { compute: Some(50.0), ..LimitConfig::default() };
        let page = Arc::new(Page::create(&limits, 1, 1).unwrap());
        let pacer = Pacer::new(SessionSlot::new(Arc::clone(&page), 0).unwrap());
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        for (begin, end) in [(0, 10), (5, 15), (6, 12), (20, 30)] {
            let task = Task::Kernel { function: 0, work_items: 1 };
            pacer.charge(&Span { stream: 0, device: 0, tag: 0, task, begin: at(begin), end: at(end) });
        }
        assert_eq!(page.account(0).spent, 25_000_000);
        assert_eq!(pacer.busy_ns(0), 25_000_000);
    }
}
