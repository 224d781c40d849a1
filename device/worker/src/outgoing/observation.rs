//! The observation of a session: totals of what its commands did, which only an observer outside of the session gets.
//!
//! Costs one relaxed load per span while there is no observer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use backend::{Span, Task};
use parking_lot::Mutex;

/// The observation of one session.
#[derive(Default)]
pub(crate) struct Observation {
    on: AtomicBool,
    totals: Mutex<Totals>,
}

/// What commands did since the start of a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Start of the first command and end of the last one.
    pub(crate) extent: Option<(Instant, Instant)>,
    pub(crate) kernels: u64,
    /// Bytes that were copied on devices, filled, written from the host, and read to the host.
    pub(crate) copied: u64,
    pub(crate) filled: u64,
    pub(crate) written: u64,
    pub(crate) read: u64,
    /// Commands whose times are not known.
    pub(crate) lost: u64,
}

impl Observation {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Turns the observation on or off, and starts from zero.
    pub(crate) fn turn(&self, on: bool) {
        *self.totals.lock() = Totals::default();
        self.on.store(on, Ordering::Relaxed);
    }

    pub(crate) fn totals(&self) -> Totals {
        *self.totals.lock()
    }

    pub(crate) fn add(&self, span: &Span) {
        if self.is_on() {
            self.totals.lock().add(span);
        }
    }

    /// Counts a command whose times are not known.
    pub(crate) fn lose(&self) {
        if self.is_on() {
            self.totals.lock().lost += 1;
        }
    }
}

impl Totals {
    fn add(&mut self, span: &Span) {
        let (begin, end) = self.extent.unwrap_or((span.begin, span.end));
        self.extent = Some((begin.min(span.begin), end.max(span.end)));
        let (total, amount) = match span.task {
            Task::Kernel { .. } => (&mut self.kernels, 1),
            Task::Copy { bytes } => (&mut self.copied, bytes),
            Task::Fill { bytes } => (&mut self.filled, bytes),
            Task::Write { bytes } => (&mut self.written, bytes),
            Task::Read { bytes } => (&mut self.read, bytes),
        };
        *total = total.saturating_add(amount);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn span(task: Task, begin: Instant, milliseconds: u64) -> Span {
        Span { stream: 0, device: 0, tag: 0, task, begin, end: begin + Duration::from_millis(milliseconds) }
    }

    #[test]
    fn totals_cover_all_streams_from_the_first_start_to_the_last_end() {
        let observation = Observation::default();
        let start = Instant::now();
        observation.add(&span(Task::Read { bytes: 5 }, start, 1));
        assert_eq!(observation.totals(), Totals::default(), "nothing is recorded without an observer");
        observation.turn(true);
        let kernel = Task::Kernel { function: 1, work_items: 64 };
        observation.add(&span(kernel, start + Duration::from_millis(5), 10));
        observation.add(&span(kernel, start + Duration::from_millis(2), 1));
        observation.add(&span(Task::Write { bytes: 7 }, start + Duration::from_millis(6), 1));
        observation.lose();
        let extent = Some((start + Duration::from_millis(2), start + Duration::from_millis(15)));
        let expected = Totals { extent, kernels: 2, written: 7, lost: 1, ..Totals::default() };
        assert_eq!(observation.totals(), expected);
        observation.turn(true);
        assert_eq!(observation.totals(), Totals::default(), "each measurement starts from zero");
    }
}
