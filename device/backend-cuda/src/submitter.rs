//! The thread that gives the commands of a burst to the driver.
//!
//! The first commands after a pause go to the driver at once, on the thread that reads requests: handing one over takes longer than
//! a call of the driver.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crate::device::Shared;

/// Commands after a pause that are not a burst yet.
const FEW: u32 = 8;
/// Fewest processors: with fewer, the thread would be in the program's way. Tests run everywhere.
const LEAST_PROCESSORS: usize = if cfg!(test) { 1 } else { 4 };
/// How long the thread looks for further commands before it sleeps.
const PATIENCE: Duration = Duration::from_micros(200);

/// Who gives commands to the driver.
#[derive(Default)]
pub(crate) struct Submitter {
    /// Commands since the last pause.
    commands: AtomicU32,
    /// There may be commands that nobody has looked at.
    wanted: AtomicBool,
    /// Something waits for commands that the driver did not have yet.
    publishes: AtomicBool,
    asleep: AtomicBool,
    closed: AtomicBool,
    /// Started at the first burst; `None` if there is no such thread.
    thread: OnceLock<Option<Thread>>,
}

impl Submitter {
    /// Counts a command. Returns whether it belongs to a burst.
    pub(crate) fn count(&self) -> bool {
        let before = self.commands.load(Ordering::Relaxed);
        self.commands.store(before.saturating_add(1), Ordering::Relaxed);
        before >= FEW
    }

    /// Ends a burst, on the thread that reads requests. It makes the calls that the other thread has not begun with.
    pub(crate) fn pause(&self, shared: &Arc<Shared>) {
        self.commands.store(0, Ordering::Relaxed);
        if self.wanted.swap(false, Ordering::SeqCst) {
            shared.submit_all();
        }
        // Either this thread sees that the other one has let go, or that one sees the pause.
        fence(Ordering::SeqCst);
        if !shared.schedule.is_submitting() {
            shared.publish_all();
        }
    }

    /// Says that something waits for commands that the driver has not got: their timelines are to be published when it has.
    pub(crate) fn expect(&self) {
        self.publishes.store(true, Ordering::Relaxed);
    }

    /// Makes the thread look for commands. Returns whether there is such a thread.
    pub(crate) fn wake(&self, shared: &Arc<Shared>) -> bool {
        let Some(thread) = self.thread.get_or_init(|| start(shared)) else { return false };
        self.wanted.store(true, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) {
            thread.unpark();
        }
        true
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        if let Some(Some(thread)) = self.thread.get() {
            thread.unpark();
        }
    }

    fn serve(&self, shared: &Arc<Shared>) {
        let mut since = Instant::now();
        while !self.closed.load(Ordering::SeqCst) {
            if self.wanted.swap(false, Ordering::SeqCst) {
                shared.submit_all();
                fence(Ordering::SeqCst);
                let is_pause = self.commands.load(Ordering::Relaxed) == 0;
                if self.publishes.swap(false, Ordering::Relaxed) || is_pause {
                    shared.publish_all();
                }
                since = Instant::now();
            } else if since.elapsed() < PATIENCE {
                std::hint::spin_loop();
            } else {
                self.asleep.store(true, Ordering::SeqCst);
                // A command that came before the flag was set is not overlooked.
                if !self.wanted.load(Ordering::SeqCst) && !self.closed.load(Ordering::SeqCst) {
                    std::thread::park();
                }
                self.asleep.store(false, Ordering::SeqCst);
                since = Instant::now();
            }
        }
    }
}

fn start(shared: &Arc<Shared>) -> Option<Thread> {
    if std::thread::available_parallelism().map_or(1, |count| count.get()) < LEAST_PROCESSORS {
        return None;
    }
    let serving = Arc::clone(shared);
    let thread = std::thread::Builder::new().name("cuda-submit".to_owned());
    match thread.spawn(move || serving.schedule.submitter.serve(&serving)) {
        Ok(thread) => Some(thread.thread().clone()),
        Err(error) => {
            tracing::warn!("bursts of commands are slower: cannot start a thread: {error}");
            None
        }
    }
}
