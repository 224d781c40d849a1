//! Stopped and full streams: commands that may not go to the driver yet.
//!
//! The driver waits for all running work of a context at some calls, such as loading a kernel, so a stream that waits for the host
//! must not wait in the driver. A stream stops here at a host function or at a wait for a value, and the commands behind it stay
//! here, with all commands of other streams that must come after them. So do commands that the driver's queues have no room for.
//!
//! A call of the driver takes longer than the preparation of a command. In a burst of commands, a thread of its own makes the calls
//! (`submitter.rs`), while the one that reads requests prepares the next commands.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use backend::{DeviceError, ReadSink, Region, StreamId, Tag, ValueWait};
use parking_lot::{Mutex, MutexGuard};

use crate::device::Shared;
use crate::error::call;
use crate::launch::ReadyLaunch;
use crate::region::{self, Side};
use crate::stream::{Mark, Numbers, Origin, Stream};
use crate::submitter::Submitter;
use crate::types::CuEvent;

/// A command that has been checked, with everything it needs.
pub(crate) enum Work {
    Launch(Box<ReadyLaunch>),
    Copy {
        to: Region,
        from: Region,
    },
    Fill {
        to: Region,
        value: u32,
        element: u32,
    },
    Write {
        to: Region,
        data: Vec<u8>,
    },
    Read {
        from: Region,
        sink: ReadSink,
    },
    RecordEvent {
        handle: usize,
    },
    /// `record` is the end of the event's last record.
    WaitEvent {
        handle: usize,
        record: Mark,
    },
    HostFunction {
        token: u64,
    },
    WaitValue(ValueWait),
    /// Only takes its turn in the stream.
    Nothing,
}

/// A command of a stream.
pub(crate) struct Entry {
    pub(crate) stream: Arc<Stream>,
    pub(crate) numbers: Numbers,
    pub(crate) origin: Origin,
    pub(crate) task: Option<backend::Task>,
    pub(crate) work: Work,
}

/// A stream that is stopped or full, or has commands that must wait.
struct Queue {
    stream: Arc<Stream>,
    /// Place in the order of all commands of the one at which the stream stands.
    stopped: Option<u64>,
    /// Number of the timeline that ends the stop.
    resume: u32,
    /// The waiter will submit more commands when the GPU has ended some.
    awaits_room: bool,
    entries: VecDeque<(u64, Entry)>,
}

/// The streams that are stopped or have commands that must wait.
#[derive(Default)]
pub(crate) struct Schedule {
    state: Mutex<State>,
    /// Lock of the thread that passes commands to the driver; it keeps their order. Locked and unlocked while `state` is locked. The
    /// holder checks the queues again before it unlocks, so a thread that finds it locked only queues its command.
    turn: Mutex<()>,
    pub(crate) submitter: Submitter,
}

#[derive(Default)]
struct State {
    queues: BTreeMap<StreamId, Queue>,
    next: u64,
}

impl State {
    /// Whether a stream has work here that is older than `order`.
    fn has_before(&self, order: u64, is_meant: impl Fn(&Stream) -> bool) -> bool {
        self.queues.values().filter(|queue| is_meant(&queue.stream)).any(|queue| {
            let first = queue.entries.front().map(|(order, _)| *order);
            queue.stopped.is_some_and(|at| at < order) || first.is_some_and(|first| first < order)
        })
    }

    /// Whether the driver may get a command now, if it is the first of its stream.
    fn may_go(&self, order: u64, entry: &Entry) -> bool {
        if let Work::WaitEvent { record, .. } = &entry.work
            && !record.is_submitted()
        {
            return false;
        }
        let stream = &entry.stream;
        if stream.is_full() {
            return false;
        }
        if self.queues.get(&stream.id).is_some_and(|queue| queue.stopped.is_some()) {
            return false;
        }
        // The driver orders the null stream and blocking streams, but only what it has got.
        let other = |it: &Stream| it.device == stream.device && it.id != stream.id && !it.non_blocking;
        if stream.is_null() {
            !self.has_before(order, other)
        } else {
            stream.non_blocking || !self.has_before(order, |it| other(it) && it.is_null())
        }
    }

    fn queue(&mut self, stream: &Arc<Stream>) -> &mut Queue {
        self.queues.entry(stream.id).or_insert_with(|| Queue {
            stream: Arc::clone(stream),
            stopped: None,
            resume: 0,
            awaits_room: false,
            entries: VecDeque::new(),
        })
    }

    /// Takes the first command that the driver may get now.
    fn next_entry(&mut self) -> Option<Entry> {
        let ready = self.queues.iter().find(|(_, queue)| {
            queue.entries.front().is_some_and(|(order, entry)| self.may_go(*order, entry))
        });
        let id = *ready?.0;
        let (order, entry) = self.queues.get_mut(&id)?.entries.pop_front()?;
        self.stop_at(order, &entry);
        Some(entry)
    }

    /// Stops the stream of a command that is about to go to the driver, if nothing may follow it there yet.
    fn stop_at(&mut self, order: u64, entry: &Entry) {
        if matches!(entry.work, Work::HostFunction { .. } | Work::WaitValue(_)) {
            let queue = self.queue(&entry.stream);
            (queue.stopped, queue.resume) = (Some(order), entry.numbers.last);
        }
    }

    fn tidy(&mut self) {
        self.queues
            .retain(|_, queue| queue.stopped.is_some() || queue.awaits_room || !queue.entries.is_empty());
    }
}

impl Schedule {
    /// Whether the driver has got all commands.
    pub(crate) fn is_clear(&self) -> bool {
        let state = self.state.lock();
        state.queues.is_empty() && self.turn.try_lock().is_some()
    }

    /// Whether commands are on their way to the driver. Their timelines are published when it has got them.
    pub(crate) fn is_submitting(&self) -> bool {
        self.turn.is_locked()
    }

    /// Waits until no command is on its way to the driver.
    pub(crate) fn settle(&self) {
        drop(self.turn.lock());
    }
}

impl Shared {
    /// Gives a command to the driver, or keeps it until it may go there. `make` reserves its numbers.
    pub(crate) fn schedule(
        self: &Arc<Shared>,
        stream: &Arc<Stream>,
        make: impl FnOnce() -> Entry,
    ) -> Result<(), DeviceError> {
        // Held while the driver gets the command, so that the commands of a stream keep their order.
        let mut state = self.schedule.state.lock();
        let entry = make();
        state.next += 1;
        let order = state.next;
        let is_burst = self.schedule.submitter.count();
        let is_first = state.queues.get(&stream.id).is_none_or(|queue| queue.entries.is_empty());
        if !is_burst
            && is_first
            && state.may_go(order, &entry)
            && let Some(_turn) = self.schedule.turn.try_lock()
        {
            state.stop_at(order, &entry);
            return self.submit(entry);
        }
        state.queue(stream).entries.push_back((order, entry));
        if !(is_burst && self.schedule.submitter.wake(self)) {
            self.submit_ready(state, Vec::new());
            self.publish_all();
        }
        Ok(())
    }

    /// Gives the driver all commands that may go there now. Publishes no timeline.
    pub(crate) fn submit_all(self: &Arc<Shared>) {
        self.submit_ready(self.schedule.state.lock(), Vec::new());
    }

    /// Arranges that full streams with commands here continue when the GPU has ended some.
    fn await_room(self: &Arc<Shared>, state: &mut State) {
        let full =
            |queue: &&mut Queue| !queue.awaits_room && !queue.entries.is_empty() && queue.stream.is_full();
        for queue in state.queues.values_mut().filter(full) {
            queue.awaits_room = true;
            let (shared, stream) = (Arc::clone(self), Arc::clone(&queue.stream));
            self.waiter.push(vec![stream.half_empty()], move |result| {
                if result.is_ok() {
                    shared.refill(&stream);
                }
            });
        }
    }

    /// Continues a stream that was full.
    fn refill(self: &Arc<Shared>, stream: &Arc<Stream>) {
        let mut state = self.schedule.state.lock();
        if let Some(queue) = state.queues.get_mut(&stream.id) {
            queue.awaits_room = false;
            drop(state);
            // Others wait for this thread.
            if !self.schedule.submitter.wake(self) {
                self.submit_all();
                self.publish_all();
            }
        }
    }

    /// Gives the driver all commands that may go there now, unless another thread does.
    fn submit_ready(
        self: &Arc<Shared>,
        mut state: MutexGuard<'_, State>,
        mut failures: Vec<(Tag, DeviceError)>,
    ) {
        if let Some(turn) = self.schedule.turn.try_lock() {
            loop {
                // Before the look for the next command: a stream that gets room after it is not overlooked.
                self.await_room(&mut state);
                let Some(entry) = state.next_entry() else { break };
                let tag = entry.origin.tag;
                let submitted = MutexGuard::unlocked(&mut state, || {
                    self.on(entry.stream.device).and_then(|_| self.submit(entry))
                });
                if let Err(error) = submitted {
                    failures.push((tag, error));
                }
            }
            state.tidy();
            drop(turn);
        }
        drop(state);
        for (tag, error) in failures {
            let is_fault = error.is_fault();
            let error = self.blame(error);
            if let Some(notifier) = self.notifier.get().filter(|_| !is_fault) {
                notifier.failed(tag, &error);
            }
        }
    }

    /// Continues a stopped stream.
    pub(crate) fn resume(self: &Arc<Shared>, stream: &Arc<Stream>) {
        let mut state = self.schedule.state.lock();
        let Some(queue) = state.queues.get_mut(&stream.id).filter(|queue| queue.stopped.is_some()) else {
            return;
        };
        queue.stopped = None;
        let origin = self.origin(0, &self.names.host);
        let mut failures = Vec::new();
        let ended = self
            .on(stream.device)
            .and_then(|_| stream.submit(&self.functions, queue.resume, &origin, |_| Ok(())));
        if let Err(error) = ended {
            failures.push((0, error));
        }
        self.submit_ready(state, failures);
        // What waits for these commands may have been told before the driver got them.
        self.publish_all();
    }

    /// Drops the commands that have not gone to the driver, of one device or of all: readers get the error.
    pub(crate) fn cancel(&self, device: Option<u32>, error: &DeviceError) {
        let mut state = self.schedule.state.lock();
        let mut entries: Vec<Entry> = Vec::new();
        state.queues.retain(|_, queue| {
            let stays = device.is_some_and(|it| it != queue.stream.device);
            if !stays {
                entries.extend(queue.entries.drain(..).map(|(_, entry)| entry));
            }
            stays
        });
        drop(state);
        for entry in entries {
            match entry.work {
                Work::Read { sink, .. } => sink(Err(error.clone())),
                Work::HostFunction { token } => {
                    if let Some(notifier) = self.notifier.get() {
                        notifier.host_function(token, Err(error.clone()));
                    }
                }
                _ => {}
            }
        }
    }

    pub(crate) fn origin(&self, tag: Tag, what: &Arc<str>) -> Origin {
        Origin { tag, what: Arc::clone(what), is_kernel: false }
    }

    fn submit(self: &Arc<Shared>, entry: Entry) -> Result<(), DeviceError> {
        let Entry { stream, numbers, origin, task, work } = entry;
        let timed = task.filter(|_| self.spans.is_on() || self.pacer.is_some());
        let begun = timed.and_then(|_| self.begin_span(&stream));
        let functions = &self.functions;
        let plain = |queue: &dyn Fn(crate::types::CuStream) -> Result<(), DeviceError>| {
            stream.submit(functions, numbers.last, &origin, queue)
        };
        let submitted = match work {
            Work::Launch(launch) => self.submit_launch(&stream, numbers.last, &origin, *launch),
            Work::Copy { to, from } => {
                plain(&|it| region::copy(functions, (&to, Side::Device), (&from, Side::Device), it))
            }
            Work::Fill { to, value, element } => {
                plain(&|it| region::fill(functions, &to, value, element, it))
            }
            Work::Write { to, data } => self.submit_write(&stream, numbers, &origin, &to, &data),
            Work::Read { from, sink } => {
                self.submit_read(&stream, numbers.last, &origin, &from, sink);
                Ok(())
            }
            // Published at once: what waits for the event must not wait for later work.
            Work::RecordEvent { handle } => {
                plain(&|it| call!(functions, cuEventRecord(handle as CuEvent, it)))
                    .and_then(|()| stream.publish(functions))
            }
            Work::WaitEvent { handle, .. } => {
                plain(&|it| call!(functions, cuStreamWaitEvent(it, handle as CuEvent, 0)))
            }
            Work::Nothing => plain(&|_| Ok(())),
            Work::HostFunction { token } => {
                let reached = stream
                    .submit(functions, numbers.first, &origin, |_| Ok(()))
                    .and_then(|()| stream.publish(functions));
                let shared = Arc::clone(self);
                self.waiter.push(vec![stream.mark(numbers.first)], move |result| {
                    if let Some(notifier) = shared.notifier.get() {
                        notifier.host_function(token, result);
                    }
                });
                reached
            }
            Work::WaitValue(wait) => {
                let reached = stream
                    .submit(functions, numbers.first, &origin, |_| Ok(()))
                    .and_then(|()| stream.publish(functions));
                let (shared, waiting) = (Arc::clone(self), Arc::clone(&stream));
                self.waiter.push(vec![stream.mark(numbers.first)], move |result| {
                    if result.is_ok() {
                        shared.await_value(wait, waiting);
                    }
                });
                reached
            }
        };
        match (timed, &submitted) {
            (Some(task), Ok(())) => self.end_span(&stream, stream.id, origin.tag, task, begun),
            (Some(_), Err(_)) => self.drop_span(&stream, begun),
            (None, _) => {}
        }
        submitted
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use backend::{Command, Device, Region, Scope};

    use crate::stand_in::{AT, StandIn};
    use crate::stream::MOST_SUBMITTED;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn eventually(holds: impl Fn() -> bool) {
        let begin = Instant::now();
        while !holds() {
            assert!(begin.elapsed() < PATIENCE, "it did not happen");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn commands_of_a_burst_keep_their_order() {
        let gpu = StandIn::open();
        gpu.device.create_stream(0, 0x100, true, 0).unwrap();
        for round in 0..200 {
            let before = gpu.filled().len();
            for value in 0..50 {
                let to = Region::flat(AT, 64);
                gpu.device.enqueue(0x100, 1, Command::Fill { to, value, element: 1 }).unwrap();
                // The thread of the burst may be asleep, busy, or about to sleep.
                if value % 16 == round % 16 {
                    gpu.device.idle(&mut || true);
                }
            }
            let (sender, ended) = mpsc::channel();
            gpu.device.synchronize(Scope::Stream(0x100), Box::new(move |it| drop(sender.send(it))));
            gpu.device.idle(&mut || true);
            assert_eq!(ended.recv_timeout(PATIENCE), Ok(Ok(())), "round {round}");
            assert_eq!(gpu.filled()[before..], (0..50).collect::<Vec<u8>>(), "round {round}");
        }
    }

    #[test]
    fn a_full_stream_blocks_neither_its_caller_nor_other_streams() {
        const FILLS: usize = 5000;
        let gpu = StandIn::open();
        gpu.device.create_stream(0, 0x100, true, 0).unwrap();
        gpu.device.create_stream(0, 0x101, true, 0).unwrap();
        let fill = |stream| {
            let to = Region::flat(AT, 64);
            gpu.device.enqueue(stream, 1, Command::Fill { to, value: 1, element: 1 }).unwrap();
        };
        gpu.hold();
        let before = gpu.fills();
        (0..FILLS).for_each(|_| fill(0x100));
        let most = MOST_SUBMITTED as usize;
        eventually(|| gpu.fills() - before == most);
        fill(0x101);
        eventually(|| gpu.fills() - before == most + 1);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(gpu.fills() - before, most + 1, "the driver would block");
        let (sender, ended) = mpsc::channel();
        gpu.device.synchronize(Scope::Stream(0x100), Box::new(move |it| drop(sender.send(it))));
        assert!(ended.try_recv().is_err(), "commands that the driver has not got count as well");
        gpu.go_on();
        assert_eq!(ended.recv_timeout(PATIENCE), Ok(Ok(())));
        assert_eq!(gpu.fills() - before, FILLS + 1);
    }
}
