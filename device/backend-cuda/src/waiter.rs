//! Waiting for the GPU: calls what is to happen when work has ended, and notices faults.
//!
//! The timelines in pinned memory are read. The thread that queues commands does this itself for a short while when it has
//! nothing else to do, because waking another thread takes longer than a short kernel. After that a thread of its own does it: it
//! polls without a pause at first and ever less often after that.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use backend::DeviceError;
use parking_lot::{Condvar, Mutex};

use crate::device::Shared;
use crate::stream::Mark;

/// How long the thread polls without a pause after the last progress.
const EAGER: Duration = Duration::from_micros(60);
/// Longest pause between two polls.
const PAUSE: Duration = Duration::from_micros(100);
/// Time between two checks for a fault.
const CHECK: Duration = Duration::from_millis(2);
/// Time between two checks if nothing is known to wait.
const IDLE_CHECK: Duration = Duration::from_millis(5);
/// How long the thread that queues commands polls, in microseconds: usually, and at least, after it has polled in vain.
const ATTENTION: u32 = 500;
const LEAST_ATTENTION: u32 = 4;
/// Polls between two looks at the clock and for other work.
const POLLS: u32 = 64;

type Action = Box<dyn FnOnce(Result<(), DeviceError>) + Send>;

struct Item {
    marks: Vec<Mark>,
    action: Action,
    /// It passes on what a command has read, for which others wait.
    is_read: bool,
    /// The action takes long, so the thread that queues commands must not call it.
    is_long: bool,
}

impl Item {
    fn is_due(&self) -> bool {
        match self.is_read {
            true => self.marks.iter().all(Mark::is_executed),
            false => self.marks.iter().all(Mark::is_reached),
        }
    }
}

/// Actions to call when work has ended.
pub(crate) struct Waiter {
    new: Mutex<Vec<Item>>,
    /// Who holds the lock polls.
    items: Mutex<Vec<Item>>,
    /// Number of items in both lists.
    count: AtomicUsize,
    changed: Condvar,
    /// The waiting thread sleeps.
    asleep: AtomicBool,
    /// The thread that calls [`Waiter::attend`] before it waits for anything else.
    attendant: OnceLock<ThreadId>,
    /// How long it polls, in microseconds.
    attention: AtomicU32,
    /// Commands may be running that nothing waits for.
    busy: AtomicBool,
    closed: AtomicBool,
}

impl Default for Waiter {
    fn default() -> Waiter {
        Waiter {
            new: Mutex::default(),
            items: Mutex::default(),
            count: AtomicUsize::new(0),
            changed: Condvar::new(),
            asleep: AtomicBool::new(false),
            attendant: OnceLock::new(),
            attention: AtomicU32::new(ATTENTION),
            busy: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }
}

impl Waiter {
    /// Calls `action` when all marks are reached, or with the fault that prevents it. Never calls it before this returns. The
    /// marks must have been published.
    pub(crate) fn push(
        &self,
        marks: Vec<Mark>,
        action: impl FnOnce(Result<(), DeviceError>) + Send + 'static,
    ) {
        self.add(Item { marks, action: Box::new(action), is_read: false, is_long: false });
    }

    /// Calls `action`, which passes on what a command has read, when the GPU has executed the command.
    pub(crate) fn push_read(
        &self,
        mark: Mark,
        is_long: bool,
        action: impl FnOnce(Result<(), DeviceError>) + Send + 'static,
    ) {
        self.add(Item { marks: vec![mark], action: Box::new(action), is_read: true, is_long });
    }

    fn add(&self, item: Item) {
        let is_long = item.is_long;
        let mut new = self.new.lock();
        new.push(item);
        self.count.fetch_add(1, Ordering::AcqRel);
        drop(new);
        if is_long || self.attendant.get() != Some(&std::thread::current().id()) {
            self.wake();
        }
    }

    /// Wakes the waiting thread if anything is waited for. Needed before the thread that calls [`Waiter::attend`] waits for
    /// anything else.
    pub(crate) fn wake(&self) {
        if self.count.load(Ordering::Acquire) > 0 {
            self.notify();
        }
    }

    fn notify(&self) {
        if self.asleep.swap(false, Ordering::SeqCst) {
            // The thread holds this lock from setting the flag until it sleeps.
            drop(self.new.lock());
            self.changed.notify_one();
        }
    }

    /// Says that a command was queued, so that the thread looks for faults. Called after the command has its number on the
    /// timeline: until then the streams may look idle.
    #[inline]
    pub(crate) fn note_work(&self) {
        if !self.busy.swap(true, Ordering::SeqCst) {
            self.notify();
        }
    }

    /// Polls for a short while, on the thread that queues commands, until `has_news` returns true. After that the waiting thread
    /// does it. Returns whether nothing is left to wait for.
    pub(crate) fn attend(&self, shared: &Shared, has_news: &mut dyn FnMut() -> bool) -> bool {
        let _ = self.attendant.set(std::thread::current().id());
        if self.count.load(Ordering::Acquire) == 0 {
            return true;
        }
        let begin = Instant::now();
        let limit = self.attention.load(Ordering::Relaxed);
        let (mut polls, mut in_vain) = (0u32, false);
        // If another thread holds the lock, the waiting thread is awake.
        if let Some(mut items) = self.items.try_lock() {
            while self.count.load(Ordering::Acquire) > 0 {
                items.append(&mut self.new.lock());
                self.call_due(&mut items, shared.fault(), false);
                // The waiting thread is awake for a long action, and needs the lock.
                if items.iter().any(|item| item.is_long) {
                    break;
                }
                if polls.is_multiple_of(POLLS) {
                    in_vain = begin.elapsed() > Duration::from_micros(limit.into());
                    if in_vain || has_news() {
                        break;
                    }
                }
                polls += 1;
                std::hint::spin_loop();
            }
        }
        if self.count.load(Ordering::Acquire) == 0 {
            self.attention.store(ATTENTION, Ordering::Relaxed);
            return true;
        }
        if in_vain {
            self.attention.store((limit / 2).max(LEAST_ATTENTION), Ordering::Relaxed);
        }
        self.wake();
        false
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        drop(self.new.lock());
        self.changed.notify_one();
    }

    /// Body of the thread.
    pub(crate) fn serve(&self, shared: &Arc<Shared>) {
        // Pauses are rounded up by 50 us otherwise. If that is refused, waits are a little longer.
        // SAFETY: takes a number and changes only this thread.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1000 as libc::c_ulong, 0, 0, 0) };
        let mut checked = Instant::now();
        while !self.closed.load(Ordering::Relaxed) {
            {
                let mut new = self.new.lock();
                if self.count.load(Ordering::Acquire) == 0 && !self.closed.load(Ordering::Relaxed) {
                    // Set before the look at `busy`, so that work noted meanwhile wakes the thread.
                    self.asleep.store(true, Ordering::SeqCst);
                    let busy = self.busy.load(Ordering::SeqCst);
                    let limit = if busy { IDLE_CHECK } else { Duration::from_secs(1) };
                    self.changed.wait_for(&mut new, limit);
                    self.asleep.store(false, Ordering::SeqCst);
                }
            }
            self.watch(shared, &mut checked);
            if self.busy.load(Ordering::Relaxed) && checked.elapsed() >= IDLE_CHECK {
                checked = Instant::now();
                shared.publish_all();
                shared.look_for_fault();
                // Cleared before the look at the streams, so that a command queued meanwhile is not overlooked.
                self.busy.store(false, Ordering::SeqCst);
                if !shared.is_idle() {
                    self.busy.store(true, Ordering::SeqCst);
                }
            }
        }
        let closed = DeviceError::not_ready("the session has ended");
        let mut items = std::mem::take(&mut *self.items.lock());
        items.append(&mut self.new.lock());
        for item in items {
            (item.action)(Err(closed.clone()));
        }
    }

    /// Polls until nothing is waited for.
    fn watch(&self, shared: &Arc<Shared>, checked: &mut Instant) {
        let begin = Instant::now();
        let mut progress = begin;
        while self.count.load(Ordering::Acquire) > 0 && !self.closed.load(Ordering::Relaxed) {
            if checked.elapsed() >= CHECK {
                *checked = Instant::now();
                shared.publish_all();
                shared.look_for_fault();
            }
            let called = {
                let mut items = self.items.lock();
                items.append(&mut self.new.lock());
                self.call_due(&mut items, shared.fault(), true)
            };
            if called {
                progress = Instant::now();
                // The thread that queues commands would have been done as soon.
                if begin.elapsed() < Duration::from_micros(ATTENTION.into()) {
                    self.attention.store(ATTENTION, Ordering::Relaxed);
                }
            }
            let age = progress.elapsed();
            if age < EAGER {
                std::thread::yield_now();
            } else {
                std::thread::sleep((age / 16).min(PAUSE));
            }
        }
    }

    /// Calls the actions that are due, without long ones unless `all`. Returns whether there were any.
    fn call_due(&self, items: &mut Vec<Item>, fault: Option<&DeviceError>, all: bool) -> bool {
        let (mut at, mut called) = (0, false);
        while let Some(item) = items.get(at) {
            let result = match (item.is_due(), fault) {
                _ if item.is_long && !all => None,
                (true, _) => Some(Ok(())),
                (false, Some(fault)) => Some(Err(fault.clone())),
                (false, None) => None,
            };
            let Some(result) = result else {
                at += 1;
                continue;
            };
            let item = items.remove(at);
            (item.action)(result);
            self.count.fetch_sub(1, Ordering::AcqRel);
            called = true;
        }
        called
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::ThreadId;
    use std::time::Duration;

    use backend::{Command, Device, DeviceError, Region, Scope};

    use crate::stand_in::{AT, StandIn};

    const PATIENCE: Duration = Duration::from_secs(20);

    /// Waits for everything; the receiver gets the result and the thread that it came on.
    fn wait(device: &dyn Device) -> mpsc::Receiver<(Result<(), DeviceError>, ThreadId)> {
        let (sender, receiver) = mpsc::channel();
        let done = move |result| drop(sender.send((result, std::thread::current().id())));
        device.synchronize(Scope::Everything, Box::new(done));
        receiver
    }

    fn fill(device: &dyn Device) {
        let to = Region::flat(AT, 64);
        device.enqueue(0, 1, Command::Fill { to, value: 1, element: 1 }).unwrap();
    }

    #[test]
    fn work_that_ends_soon_is_told_on_the_thread_that_has_nothing_else_to_do() {
        let gpu = StandIn::open();
        gpu.device.idle(&mut || true);
        gpu.hold();
        fill(&gpu.device);
        let ended = wait(&gpu.device);
        assert!(ended.try_recv().is_err(), "the GPU is still working");
        gpu.device.idle(&mut || {
            gpu.go_on();
            false
        });
        assert_eq!(ended.try_recv(), Ok((Ok(()), std::thread::current().id())));
    }

    #[test]
    fn work_that_ends_late_is_told_by_another_thread() {
        let gpu = StandIn::open();
        gpu.device.idle(&mut || true);
        gpu.hold();
        fill(&gpu.device);
        let ended = wait(&gpu.device);
        gpu.device.idle(&mut || false);
        assert!(ended.try_recv().is_err(), "the GPU is still working");
        gpu.go_on();
        let (result, thread) = ended.recv_timeout(PATIENCE).unwrap();
        assert!(result.is_ok() && thread != std::thread::current().id());
    }

    #[test]
    fn a_thread_that_is_never_idle_is_told_all_the_same() {
        let gpu = StandIn::open();
        gpu.device.idle(&mut || true);
        gpu.hold();
        fill(&gpu.device);
        let ended = wait(&gpu.device);
        gpu.go_on();
        assert!(ended.recv_timeout(PATIENCE).unwrap().0.is_ok());
    }

    #[test]
    fn who_waits_for_a_stream_has_what_was_read_before() {
        for bytes in [4, 1 << 20] {
            let gpu = StandIn::open();
            gpu.device.idle(&mut || true);
            for idles in [true, false] {
                let (sender, order) = mpsc::channel();
                let read = sender.clone();
                let sink = Box::new(move |result: Result<&[u8], DeviceError>| {
                    std::thread::sleep(Duration::from_millis(5));
                    let _ = read.send(("read", result.is_ok_and(|it| it.len() == bytes)));
                });
                let from = Region::flat(AT, bytes as u64);
                gpu.device.enqueue(0, 1, Command::Read { from, sink }).unwrap();
                // The GPU has ended the command; its bytes have not been passed on.
                let done = move |result: Result<(), DeviceError>| {
                    let _ = sender.send(("wait", result.is_ok()));
                };
                gpu.device.synchronize(Scope::Stream(0), Box::new(done));
                if idles {
                    gpu.device.idle(&mut || false);
                }
                let first = order.recv_timeout(PATIENCE).unwrap();
                assert_eq!([first, order.recv_timeout(PATIENCE).unwrap()], [("read", true), ("wait", true)]);
                assert_eq!(gpu.device.query(Scope::Stream(0)), Ok(true));
            }
        }
    }

    #[test]
    fn timelines_advance_when_that_is_needed_and_not_after_every_command() {
        let gpu = StandIn::open();
        let before = gpu.advances();
        (0..100).for_each(|_| fill(&gpu.device));
        gpu.device.idle(&mut || true);
        assert!(wait(&gpu.device).recv_timeout(PATIENCE).unwrap().0.is_ok());
        let advances = gpu.advances() - before;
        assert!((1..50).contains(&advances), "{advances} advances for 100 commands");
        let before = gpu.advances();
        gpu.device.create_event(7, 0, 0).unwrap();
        gpu.device.enqueue(0, 1, Command::RecordEvent(7)).unwrap();
        assert_eq!(gpu.advances() - before, 1, "what waits for an event must not wait for later work");
    }

    #[test]
    fn a_fault_ends_every_wait() {
        let gpu = StandIn::open();
        gpu.device.idle(&mut || true);
        gpu.hold();
        fill(&gpu.device);
        let ended = wait(&gpu.device);
        gpu.break_down();
        gpu.device.idle(&mut || false);
        assert!(ended.recv_timeout(PATIENCE).unwrap().0.unwrap_err().is_fault());
        assert!(gpu.device.query(Scope::Stream(0)).unwrap_err().is_fault());
        gpu.device.unmap(AT).expect("memory can still be freed");
    }
}
