//! Timing of commands with a pair of driver events around each.
//!
//! A dedicated thread waits for the events and calls the notifier, so enqueueing never blocks. Device time is converted to host
//! time relative to a base: an event whose host time is known.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::types::*;
use backend::{DeviceError, Span, StreamId, Tag, Task};
use parking_lot::{Condvar, Mutex};

use crate::device::Shared;
use crate::error::call;
use crate::stream::Stream;

/// Maximum number of commands whose time is still unknown; further commands are not timed.
const MOST_PENDING: usize = 1 << 12;
/// The maximum if launches are throttled: clients block a thread before it has queued this many commands.
const MOST_PENDING_PAID: usize = 1 << 16;
/// Age at which a base is replaced. Times between events are `f32` milliseconds, which lose microsecond precision beyond this.
const BASE_LIFE: Duration = Duration::from_secs(8);
const BASE_TRIES: usize = 5;

#[derive(Default)]
pub(crate) struct Spans {
    on: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    pending: VecDeque<Pending>,
    /// The collector thread has popped a command and not yet reported it.
    at_work: bool,
    started: bool,
    /// Reusable events, by device.
    spare: HashMap<u32, Vec<usize>>,
}

struct Pending {
    start: usize,
    stop: usize,
    queued: Instant,
    stream: StreamId,
    device: u32,
    tag: Tag,
    task: Task,
}

/// An event that was reached at a known host time.
struct Base {
    event: usize,
    at: Instant,
}

/// Start event of a command, and when the command was queued.
pub(crate) struct Begun {
    start: usize,
    queued: Instant,
}

impl Spans {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Drops the events and pending commands of a device that was reset.
    pub(crate) fn forget_device(&self, device: u32) {
        let mut state = self.state.lock();
        state.pending.retain(|pending| pending.device != device);
        state.spare.remove(&device);
        self.changed.notify_all();
    }
}

impl Shared {
    /// Turns timing on or off for commands queued from now on. When turned off, returns after all pending spans are reported.
    pub(crate) fn record_spans(self: &Arc<Shared>, on: bool) {
        let spans = &self.spans;
        spans.on.store(on, Ordering::Relaxed);
        if on {
            self.time_commands();
        }
        let mut state = spans.state.lock();
        while !on && (!state.pending.is_empty() || state.at_work) {
            spans.changed.wait(&mut state);
        }
    }

    /// Starts the collector thread, which measures how long commands took.
    pub(crate) fn time_commands(self: &Arc<Shared>) {
        let spans = &self.spans;
        if !std::mem::replace(&mut spans.state.lock().started, true) {
            let shared = Arc::downgrade(self);
            let collect = move || {
                let (mut bases, mut ends) = (HashMap::new(), HashMap::new());
                while let Some(shared) = shared.upgrade() {
                    shared.collect_span(&mut bases, &mut ends);
                }
            };
            if let Err(error) = std::thread::Builder::new().name("cuda-spans".to_owned()).spawn(collect) {
                tracing::warn!("cannot start the thread that times commands, so they are not timed: {error}");
                spans.on.store(false, Ordering::Relaxed);
            }
        }
    }

    /// Records the start event of a command that is about to be queued.
    pub(crate) fn begin_span(&self, stream: &Stream) -> Option<Begun> {
        let queued = Instant::now();
        let start = self.mark(stream).ok()?;
        Some(Begun { start, queued })
    }

    /// Records the end event of a command that was queued.
    pub(crate) fn end_span(&self, stream: &Stream, id: StreamId, tag: Tag, task: Task, begun: Option<Begun>) {
        let stop = begun.and_then(|begun| Some((begun, self.mark(stream).ok()?)));
        let most = if self.pacer.is_some() { MOST_PENDING_PAID } else { MOST_PENDING };
        let mut state = self.spans.state.lock();
        match stop {
            Some((Begun { start, queued }, stop)) if state.pending.len() < most => {
                let device = stream.device;
                state.pending.push_back(Pending { start, stop, queued, stream: id, device, tag, task });
                self.spans.changed.notify_all();
            }
            Some((begun, stop)) => {
                state.spare.entry(stream.device).or_default().extend([begun.start, stop]);
                drop(state);
                self.span_lost();
            }
            None => {
                drop(state);
                self.span_lost();
            }
        }
    }

    /// Returns the start event of a command that was refused to the pool.
    pub(crate) fn drop_span(&self, stream: &Stream, begun: Option<Begun>) {
        let mut state = self.spans.state.lock();
        state.spare.entry(stream.device).or_default().extend(begun.map(|begun| begun.start));
    }

    fn span_lost(&self) {
        if let Some(notifier) = self.notifier.get() {
            notifier.span_lost();
        }
    }

    /// Records an event on a stream. The stream's device must be current.
    fn mark(&self, stream: &Stream) -> Result<usize, DeviceError> {
        let spare = self.spans.state.lock().spare.get_mut(&stream.device).and_then(Vec::pop);
        let event = match spare {
            Some(event) => event,
            None => {
                let mut event = std::ptr::null_mut();
                call!(self.functions, cuEventCreate(&raw mut event, 0))?;
                event as usize
            }
        };
        call!(self.functions, cuEventRecord(event as CuEvent, stream.handle()))?;
        Ok(event)
    }

    /// Waits for the next timed command and reports it. Returns without one after 200 ms.
    fn collect_span(&self, bases: &mut HashMap<u32, Vec<Base>>, ends: &mut HashMap<StreamId, Instant>) {
        let mut state = self.spans.state.lock();
        let Some(pending) = state.pending.pop_front() else {
            self.spans.changed.wait_for(&mut state, Duration::from_millis(200));
            return;
        };
        state.at_work = true;
        drop(state);
        let last = ends.get(&pending.stream).copied();
        let measured = self.measure(&pending, bases.entry(pending.device).or_default(), last);
        match (measured, self.notifier.get()) {
            (Ok((begin, end)), Some(notifier)) => {
                let Pending { stream, device, tag, task, .. } = pending;
                let span = Span { stream, device, tag, task, begin, end };
                ends.insert(stream, end);
                if let Some(pacer) = self.pacer.as_ref().filter(|_| matches!(task, Task::Kernel { .. })) {
                    pacer.charge(&span);
                }
                if self.spans.is_on() {
                    notifier.spent(&span);
                }
            }
            (Err(error), _) => {
                tracing::debug!("a command could not be timed: {error}");
                // The bases may be invalid now: create a new one for the next command.
                bases.clear();
                self.span_lost();
            }
            (Ok(_), None) => {}
        }
        let mut state = self.spans.state.lock();
        state.spare.entry(pending.device).or_default().extend([pending.start, pending.stop]);
        state.at_work = false;
        self.spans.changed.notify_all();
    }

    /// Start and end of a command; `last` is the end of the one before it.
    fn measure(
        &self,
        pending: &Pending,
        bases: &mut Vec<Base>,
        last: Option<Instant>,
    ) -> Result<(Instant, Instant), DeviceError> {
        self.on(pending.device)?;
        let (start, stop) = (pending.start as CuEvent, pending.stop as CuEvent);
        call!(self.functions, cuEventSynchronize(stop))?;
        let ended = Instant::now();
        if bases.last().is_none_or(|base| base.at.elapsed() > BASE_LIFE) {
            bases.push(self.base()?);
        }
        // The newest base before the command, or else the oldest base, relative to which times may be negative.
        let chosen = bases.iter().rposition(|base| base.at <= pending.queued).unwrap_or(0);
        let base = &mut bases[chosen];
        let elapsed = |from: CuEvent, to: CuEvent| -> Result<f64, DeviceError> {
            let mut milliseconds = 0.0;
            call!(self.functions, cuEventElapsedTime(&raw mut milliseconds, from, to))?;
            Ok(f64::from(milliseconds) / 1000.0)
        };
        let since = elapsed(base.event as CuEvent, start)?;
        let length = Duration::from_secs_f64(elapsed(start, stop)?.max(0.0));
        let begin = |base: &Base| match since >= 0.0 {
            true => base.at + Duration::from_secs_f64(since),
            false => base.at.checked_sub(Duration::from_secs_f64(-since)).unwrap_or(base.at),
        };
        // A command cannot begin before it was queued, or end after its end was observed. Use that to correct the base.
        if let Some(late) = (begin(base) + length).checked_duration_since(ended) {
            base.at = base.at.checked_sub(late).unwrap_or(base.at);
        }
        if let Some(early) = pending.queued.checked_duration_since(begin(base)) {
            base.at += early;
        }
        // Rounding may still put it outside what is certain, or into the command before it.
        let before = last.unwrap_or(pending.queued);
        let begin = begin(base).max(pending.queued).max(before).min(ended);
        // Commands are measured in queue order, so older bases are no longer needed.
        for old in bases.drain(..chosen) {
            let _ = call!(self.functions, cuEventDestroy_v2(old.event as CuEvent));
        }
        Ok((begin, (begin + length).min(ended)))
    }

    /// Creates a base on a non-blocking stream: the most precise of several attempts.
    fn base(&self) -> Result<Base, DeviceError> {
        let mut stream = std::ptr::null_mut();
        call!(self.functions, cuStreamCreateWithPriority(&raw mut stream, STREAM_NON_BLOCKING, 0))?;
        let mut tries: Vec<(Duration, Base)> =
            (0..BASE_TRIES).filter_map(|_| self.try_base(stream).ok()).collect();
        let _ = call!(self.functions, cuStreamDestroy_v2(stream));
        tries.sort_by_key(|(took, _)| *took);
        let mut tries = tries.into_iter().map(|(_, base)| base);
        let best = tries.next();
        for worse in tries {
            let _ = call!(self.functions, cuEventDestroy_v2(worse.event as CuEvent));
        }
        best.ok_or_else(|| DeviceError::invalid_handle("cannot record an event for timing"))
    }

    /// Makes one attempt at a base. The duration is the uncertainty of its host time.
    fn try_base(&self, stream: CuStream) -> Result<(Duration, Base), DeviceError> {
        let mut event = std::ptr::null_mut();
        call!(self.functions, cuEventCreate(&raw mut event, 0))?;
        let before = Instant::now();
        call!(self.functions, cuEventRecord(event, stream))?;
        call!(self.functions, cuEventSynchronize(event))?;
        let took = before.elapsed();
        Ok((took, Base { event: event as usize, at: before + took / 2 }))
    }
}
