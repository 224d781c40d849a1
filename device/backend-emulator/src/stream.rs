//! Stream scheduler: command queues, and the threads that execute them.
//!
//! A command at the head of its stream may start when the command counts it depends on have been reached in other streams. That
//! one mechanism implements events, null-stream rules, waits and frees. Cheap commands of an idle stream run on the caller's
//! thread, all others on one of a few threads that stand for hardware queues.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use backend::{
    Command, Completion, DeviceError, EventId, EventRecord, Inventory, Launch, Scope, Span, StreamId,
    StreamRecord, Tag,
};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::error::Failure;
use crate::event::{self, Event, Record};
use crate::queue::{Job, LAST_NULL_STREAM, Load, Need, State, Task, is_cheap, stream, unknown_event};
use crate::waiting::Then;

/// Number of commands that run concurrently, as on hardware with this many compute queues.
const QUEUES: usize = 4;
/// Number of queued commands above which `enqueue` blocks, unless a stream waits for the caller itself. Clients block a thread
/// that fills one stream long before; this limit is for clients that do not, and for many full streams.
const MAX_QUEUED: usize = 1 << 20;
/// Bytes held by queued commands above which `enqueue` blocks; less if the session has little host memory.
const MAX_HELD_BYTES: u64 = 512 << 20;
const LEAST_HELD_BYTES: u64 = 16 << 20;
/// Hard limits: above these the command fails.
const HARD_QUEUED: usize = 1 << 22;
const HARD_HELD_BYTES: u64 = 8 << 30;

/// Operations that the scheduler needs from the device.
pub(crate) trait Work: Send + Sync + 'static {
    /// Runs a command to completion. If there was a `fault` before, only reports it to the command.
    fn run(&self, device: u32, command: Command, fault: Option<&DeviceError>) -> Result<(), Failure>;
    /// Waits until a kernel may begin, or until `give_up` is called after `turn` was read. Called only on queue threads, so only
    /// streams are blocked.
    fn pace(&self, device: u32, turn: u64);
    fn turn(&self) -> u64;
    /// Releases all threads that wait in `pace`, because their work is cancelled.
    fn give_up(&self);
    fn failed(&self, tag: Tag, error: &DeviceError);
    fn host_function(&self, token: u64, fault: Option<&DeviceError>);
    fn spent(&self, span: &Span);
}

/// Who runs the next ready stream after a command has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The thread that ran the command, so that a chain of short commands wakes no other thread.
    Taken,
    /// Another thread, which must be woken.
    ForOthers,
}

struct Shared<W> {
    state: Mutex<State>,
    wake: Condvar,
    room: Condvar,
    origin: Instant,
    /// Value of the device clock at `origin`.
    elapsed_before: AtomicU64,
    /// Whether commands are timed.
    timed: AtomicBool,
    /// Bytes that queued commands may hold before callers block, and before commands fail.
    held: (u64, u64),
    work: W,
}

/// The streams and events of a session, and the threads that serve them.
pub(crate) struct Scheduler<W: Work> {
    shared: Arc<Shared<W>>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl<W: Work> Scheduler<W> {
    /// Starts the queue threads. `host` is the number of bytes of host memory that the session may use.
    pub(crate) fn new(devices: u32, host: u64, work: W) -> Scheduler<W> {
        let mut state = State::default();
        for device in 0..devices {
            state.streams.insert(u64::from(device), stream(device, true, 0));
            state.loads.push(Load::default());
        }
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            wake: Condvar::new(),
            room: Condvar::new(),
            origin: Instant::now(),
            elapsed_before: AtomicU64::new(0),
            timed: AtomicBool::new(false),
            held: (
                (host / 2).clamp(LEAST_HELD_BYTES, MAX_HELD_BYTES),
                host.clamp(LEAST_HELD_BYTES, HARD_HELD_BYTES),
            ),
            work,
        });
        let threads = (0..QUEUES)
            .filter_map(|index| {
                let shared = Arc::clone(&shared);
                let name = format!("queue-{index}");
                std::thread::Builder::new().name(name).spawn(move || shared.serve()).ok()
            })
            .collect();
        Scheduler { shared, threads }
    }

    pub(crate) fn work(&self) -> &W {
        &self.shared.work
    }

    pub(crate) fn create_stream(
        &self,
        device: u32,
        id: StreamId,
        non_blocking: bool,
        priority: i32,
    ) -> Result<(), DeviceError> {
        let mut state = self.shared.state.lock();
        if device as usize >= state.loads.len() {
            return Err(DeviceError::invalid_device(device));
        }
        if id <= LAST_NULL_STREAM || state.streams.contains_key(&id) {
            return Err(DeviceError::invalid_handle(format!("stream {id:#x} exists already or is reserved")));
        }
        state.streams.insert(id, stream(device, !non_blocking, priority));
        Ok(())
    }

    pub(crate) fn destroy_stream(&self, id: StreamId) -> Result<(), DeviceError> {
        let mut state = self.shared.state.lock();
        if id <= LAST_NULL_STREAM {
            return Err(DeviceError::invalid_handle("a null stream cannot be destroyed"));
        }
        let stream = state.stream_mut(id)?;
        if stream.is_idle() {
            state.streams.remove(&id);
        } else {
            stream.destroyed = true;
        }
        Ok(())
    }

    pub(crate) fn create_event(&self, id: EventId, device: u32, flags: u32) -> Result<(), DeviceError> {
        let mut state = self.shared.state.lock();
        if device as usize >= state.loads.len() {
            return Err(DeviceError::invalid_device(device));
        }
        if id == 0 || state.events.contains_key(&id) {
            return Err(DeviceError::invalid_handle(format!("event {id:#x} exists already or is reserved")));
        }
        state.events.insert(id, Event::new(device, flags));
        Ok(())
    }

    pub(crate) fn destroy_event(&self, id: EventId) -> Result<(), DeviceError> {
        match self.shared.state.lock().events.remove(&id) {
            Some(_) => Ok(()),
            None => Err(unknown_event(id)),
        }
    }

    pub(crate) fn elapsed(&self, start: EventId, stop: EventId) -> Result<f32, DeviceError> {
        let state = self.shared.state.lock();
        if let Some(fault) = &state.fault {
            return Err(fault.clone());
        }
        let from = state.events.get(&start).ok_or_else(|| unknown_event(start))?;
        let to = state.events.get(&stop).ok_or_else(|| unknown_event(stop))?;
        event::elapsed((start, from), (stop, to))
    }

    /// Queues a command, or runs it at once if it is cheap and nothing is queued before it.
    pub(crate) fn enqueue(&self, id: StreamId, tag: Tag, command: Command) -> Result<(), DeviceError> {
        let shared = &*self.shared;
        let mut state = shared.state.lock();
        if let Err(error) = state.admit(id) {
            drop(state);
            return command.refuse(error);
        }
        let held = command.held_bytes();
        while state.queued > MAX_QUEUED || (state.held_bytes + held > shared.held.0 && state.held_bytes > 0) {
            if state.queued > HARD_QUEUED || state.held_bytes + held > shared.held.1 {
                let text = format!("too much work is queued ({} commands)", state.queued);
                drop(state);
                return command.refuse(DeviceError::out_of_memory(text));
            }
            if !state.paused.is_empty() || state.stopping {
                break;
            }
            shared.room.wait(&mut state);
            if let Err(error) = state.admit(id) {
                drop(state);
                return command.refuse(error);
            }
        }
        let mut needs = state.needs_of(id);
        let (tail, device) = {
            let stream = state.stream_mut(id)?;
            (Need { ticket: stream.submitted + 1, ..stream.tail() }, stream.device)
        };
        let record = |state: &mut State, event: EventId| -> Result<Arc<Record>, DeviceError> {
            let record = Record::new(Arc::clone(&tail.progress), tail.ticket);
            let event = state.events.get_mut(&event).ok_or_else(|| unknown_event(event))?;
            event.record = Some(Arc::clone(&record));
            Ok(record)
        };
        let (mut start, mut stop) = (None, None);
        let job = match command {
            Command::RecordEvent(event) => Job::Stamp(record(&mut state, event)?),
            Command::WaitEvent(event) => {
                let event = state.events.get(&event).ok_or_else(|| unknown_event(event))?;
                match &event.record {
                    Some(record) if !record.is_done() => {
                        needs.push(Need { progress: Arc::clone(&record.progress), ticket: record.ticket })
                    }
                    // Never recorded, or already reached: nothing to wait for.
                    _ => return Ok(()),
                }
                Job::Wait
            }
            Command::HostFunction { token } => Job::Host(token),
            Command::Launch(launch) => {
                let Launch { start_event, stop_event, .. } = launch;
                if start_event != 0 {
                    start = Some(record(&mut state, start_event)?);
                }
                if stop_event != 0 {
                    stop = Some(record(&mut state, stop_event)?);
                }
                Job::Run(Command::Launch(launch))
            }
            other => Job::Run(other),
        };
        let stream = state.submit(id)?;
        let is_head = stream.is_idle();
        let runs_now = needs.is_empty() && is_head;
        // The head of a stream registers its dependencies now, other tasks when they become the head.
        let waits_now = if is_head { std::mem::take(&mut needs) } else { Vec::new() };
        let task = Task { tag, device, job, needs, start, stop };
        if runs_now && is_cheap(&task.job) {
            stream.busy = true;
            shared.run_task(state, id, task, Next::ForOthers);
            return Ok(());
        }
        stream.queue.push_back(task);
        state.queued += 1;
        state.held_bytes += held;
        if is_head && state.waiting.add(waits_now, Then::Start(id)).is_some() {
            state.make_ready(id);
            if state.sleeping > 0 {
                shared.wake.notify_one();
            }
        }
        Ok(())
    }

    /// Runs `fill` as the next command of an idle stream; `None` if the stream is not idle or does not exist.
    pub(crate) fn run_if_idle<R>(&self, id: StreamId, fill: impl FnOnce() -> R) -> Option<R> {
        let mut state = self.shared.state.lock();
        if state.admit(id).is_err() || !state.needs_of(id).is_empty() {
            return None;
        }
        if !state.stream_mut(id).ok()?.is_idle() {
            return None;
        }
        state.submit(id).ok()?.busy = true;
        drop(state);
        let result = fill();
        let state = self.shared.state.lock();
        self.shared.finish(state, id, Next::ForOthers);
        Some(result)
    }

    pub(crate) fn host_function_done(&self, token: u64) -> Result<(), DeviceError> {
        self.shared.host_function_done(token)
    }

    /// Returns a callback that calls `host_function_done`, and does nothing once the scheduler is gone.
    pub(crate) fn resumer(&self) -> impl Fn(u64) + Send + 'static {
        let shared = Arc::downgrade(&self.shared);
        move |token| {
            if let Some(shared) = shared.upgrade() {
                // Fails if the stream was reset and no longer waits.
                let _ = shared.host_function_done(token);
            }
        }
    }

    pub(crate) fn synchronize(&self, scope: Scope, done: Completion) {
        let mut state = self.shared.state.lock();
        if let Some(fault) = state.fault.clone() {
            drop(state);
            return done(Err(fault));
        }
        match state.needs_for(scope) {
            Err(error) => {
                drop(state);
                done(Err(error));
            }
            Ok(needs) if needs.is_empty() => {
                drop(state);
                done(Ok(()));
            }
            Ok(needs) => {
                // The dependencies are unmet and cannot be met while the lock is held, so `add` keeps the callback.
                state.waiting.add(needs, Then::Call(done));
            }
        }
    }

    /// Total number of submitted commands. If it has not changed, nothing was queued in between.
    pub(crate) fn submissions(&self) -> u64 {
        self.shared.state.lock().submissions
    }

    /// Like `synchronize`, but also calls `then` after a fault, once the work in `scope` has ended.
    pub(crate) fn after(&self, scope: Scope, then: impl FnOnce() + Send + 'static) {
        let mut state = self.shared.state.lock();
        match state.needs_for(scope) {
            Ok(needs) if !needs.is_empty() => {
                state.waiting.add(needs, Then::Call(Box::new(move |_| then())));
            }
            _ => {
                drop(state);
                then();
            }
        }
    }

    pub(crate) fn query(&self, scope: Scope) -> Result<bool, DeviceError> {
        let state = self.shared.state.lock();
        match &state.fault {
            Some(fault) => Err(fault.clone()),
            None => Ok(state.needs_for(scope)?.is_empty()),
        }
    }

    /// Whether a stream waits for a host function, which the caller must complete.
    pub(crate) fn waits_for_host(&self) -> bool {
        !self.shared.state.lock().paused.is_empty()
    }

    /// Waits until nothing is queued or running.
    pub(crate) fn drain(&self) {
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let opener = Arc::clone(&gate);
        self.after(Scope::Everything, move || {
            *opener.0.lock() = true;
            opener.1.notify_all();
        });
        let mut open = gate.0.lock();
        while !*open {
            gate.1.wait(&mut open);
        }
    }

    /// Sets a fault: queued commands are cancelled with this error.
    pub(crate) fn poison(&self, fault: DeviceError) {
        let mut state = self.shared.state.lock();
        state.fault.get_or_insert(fault);
        self.shared.room.notify_all();
        let released: Vec<StreamId> = state.paused.drain().map(|(_, id)| id).collect();
        drop(state);
        self.shared.work.give_up();
        for id in released {
            self.shared.finish(self.shared.state.lock(), id, Next::ForOthers);
        }
    }

    /// Clears the fault and removes the streams and events of a device. Nothing may be queued.
    pub(crate) fn reset(&self, device: u32) {
        let mut state = self.shared.state.lock();
        state.fault = None;
        state.streams.retain(|id, stream| *id <= LAST_NULL_STREAM || stream.device != device);
        state.events.retain(|_, event| event.device != device);
        let State { pending, streams, .. } = &mut *state;
        pending.retain(|id| streams.contains_key(id));
    }

    /// Records streams and events. Fails if work is pending.
    pub(crate) fn capture(&self, inventory: &mut Inventory) -> Result<(), DeviceError> {
        let state = self.shared.state.lock();
        if let Some(fault) = &state.fault {
            return Err(fault.clone());
        }
        if !state.needs_for(Scope::Everything)?.is_empty() {
            return Err(DeviceError::not_ready("work is still queued or running"));
        }
        let own = state.streams.iter().filter(|(id, it)| **id > LAST_NULL_STREAM && !it.destroyed);
        inventory.streams.extend(own.map(|(id, it)| StreamRecord {
            device: it.device,
            stream: *id,
            non_blocking: !it.blocking,
            priority: it.priority,
        }));
        inventory.events.extend(state.events.iter().map(|(id, it)| EventRecord {
            event: *id,
            device: it.device,
            flags: it.flags,
            reached: it.record.as_ref().map(|record| record.nanos()),
        }));
        inventory.clock = self.shared.now();
        Ok(())
    }

    /// Restores the clock, streams and events of a snapshot.
    pub(crate) fn restore(&self, inventory: &Inventory) -> Result<(), DeviceError> {
        self.shared.elapsed_before.store(inventory.clock, Ordering::Relaxed);
        for it in &inventory.streams {
            self.create_stream(it.device, it.stream, it.non_blocking, it.priority)?;
        }
        for it in &inventory.events {
            self.create_event(it.event, it.device, it.flags)?;
            if let (Some(nanos), Some(event)) =
                (it.reached, self.shared.state.lock().events.get_mut(&it.event))
            {
                event.record = Some(Record::past(nanos));
            }
        }
        Ok(())
    }

    /// Turns timing on or off. Spans are reported as soon as they end, so none are pending when timing is turned off.
    pub(crate) fn record_spans(&self, on: bool) {
        self.shared.timed.store(on, Ordering::Relaxed);
    }

    pub(crate) fn busy_ns(&self, device: u32) -> u64 {
        let state = self.shared.state.lock();
        state
            .loads
            .get(device as usize)
            .map_or(0, |load| load.nanos + load.since.map_or(0, |since| since.elapsed().as_nanos() as u64))
    }
}

impl<W: Work> Drop for Scheduler<W> {
    fn drop(&mut self) {
        self.shared.state.lock().stopping = true;
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            // If the thread panicked, the panic hook has reported it.
            let _ = thread.join();
        }
    }
}

impl<W: Work> Shared<W> {
    /// The device clock in nanoseconds, which event times refer to.
    fn now(&self) -> u64 {
        self.elapsed_before.load(Ordering::Relaxed) + self.origin.elapsed().as_nanos() as u64
    }

    /// Main loop of a queue thread.
    fn serve(&self) {
        let mut state = self.state.lock();
        let mut has_yielded = false;
        loop {
            let Some(id) = state.ready.pop_front() else {
                if state.stopping {
                    return;
                }
                // On a busy machine this lets the submitting thread run and queue several commands before it has to wake this
                // thread, which would take its CPU each time. On an idle machine it returns at once.
                if !std::mem::replace(&mut has_yielded, true) {
                    MutexGuard::unlocked(&mut state, std::thread::yield_now);
                    continue;
                }
                state.sleeping += 1;
                self.wake.wait(&mut state);
                state.sleeping -= 1;
                continue;
            };
            has_yielded = false;
            let Some(task) = state.streams.get_mut(&id).and_then(|stream| stream.queue.pop_front()) else {
                continue;
            };
            state.queued -= 1;
            state.held_bytes -= match &task.job {
                Job::Run(command) => command.held_bytes(),
                _ => 0,
            };
            if state.queued <= MAX_QUEUED / 2 || state.held_bytes <= self.held.0 / 2 {
                self.room.notify_all();
            }
            if state.fault.is_none() && matches!(&task.job, Job::Run(Command::Launch(_))) {
                // Read while there is no fault: a later fault calls `give_up`, which releases this thread.
                let turn = self.work.turn();
                MutexGuard::unlocked(&mut state, || self.work.pace(task.device, turn));
            }
            self.run_task(state, id, task, Next::Taken);
            state = self.state.lock();
        }
    }

    /// Runs one task of a stream that is marked busy, and finishes it.
    fn run_task(&self, mut state: MutexGuard<'_, State>, id: StreamId, task: Task, next: Next) {
        let Task { tag, device, job, start, stop, .. } = task;
        let fault = state.fault.clone();
        if let Job::Host(token) = job {
            if fault.is_none() {
                state.paused.insert(token, id);
                // The thread that waits for room may be the one that completes the host function.
                self.room.notify_all();
                drop(state);
                return self.work.host_function(token, None);
            }
            drop(state);
            self.work.host_function(token, fault.as_ref());
            return self.finish(self.state.lock(), id, next);
        }
        let Job::Run(command) = job else {
            if let Job::Stamp(record) = job {
                record.stamp(self.now());
            }
            return self.finish(state, id, next);
        };
        state.begin(device);
        drop(state);
        if let Some(record) = start {
            record.stamp(self.now());
        }
        let timed = (self.timed.load(Ordering::Relaxed) && fault.is_none())
            .then(|| command.task())
            .flatten()
            .map(|task| (task, Instant::now()));
        let result = self.work.run(device, command, fault.as_ref());
        if let Some((task, begin)) = timed {
            self.work.spent(&Span { stream: id, device, tag, task, begin, end: Instant::now() });
        }
        if let Some(record) = stop {
            record.stamp(self.now());
        }
        let mut state = self.state.lock();
        state.end(device);
        let mut failure = None;
        if let Err(Failure { error, is_fault }) = result
            && fault.is_none()
            && state.fault.is_none()
        {
            if is_fault {
                state.fault = Some(error.clone());
                self.room.notify_all();
                self.work.give_up();
            }
            failure = Some(error);
        }
        if let Some(error) = failure {
            drop(state);
            self.work.failed(tag, &error);
            state = self.state.lock();
        }
        self.finish(state, id, next);
    }

    fn host_function_done(&self, token: u64) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        let Some(id) = state.paused.remove(&token) else {
            return Err(DeviceError::invalid_value(format!("no stream waits for host function {token:#x}")));
        };
        self.finish(state, id, Next::ForOthers);
        Ok(())
    }

    /// Counts a command as completed and starts the streams and callbacks that waited for it.
    fn finish(&self, mut state: MutexGuard<'_, State>, id: StreamId, next: Next) {
        let Some(stream) = state.streams.get_mut(&id) else { return };
        let progress = Arc::clone(&stream.progress);
        progress.advance();
        stream.busy = false;
        let idle = progress.reached(stream.submitted);
        let head = stream.queue.front_mut().map(|head| std::mem::take(&mut head.needs));
        if head.is_none() && stream.destroyed {
            state.streams.remove(&id);
        }
        if idle {
            state.pending.remove(&id);
        }
        let mut free = state.waiting.reached(&progress);
        free.extend(head.and_then(|needs| state.waiting.add(needs, Then::Start(id))));
        let mut done = Vec::new();
        for then in free {
            match then {
                Then::Start(id) => state.make_ready(id),
                Then::Call(call) => done.push(call),
            }
        }
        let taken = usize::from(next == Next::Taken && done.is_empty());
        for _ in 0..state.ready.len().saturating_sub(taken).min(state.sleeping) {
            self.wake.notify_one();
        }
        if done.is_empty() {
            return;
        }
        let fault = state.fault.clone();
        drop(state);
        for call in done {
            call(fault.clone().map_or(Ok(()), Err));
        }
    }
}
