//! Host functions: callbacks of a stream that run in this process.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use wire::Failure;

use crate::status;

/// The name of the thread that runs host functions. Threads that a host function creates inherit it.
pub const HOST_FUNCTION_THREAD: &str = "hip-callbacks";
/// How often an idle thread checks whether the session is over.
const IDLE_CHECK: Duration = Duration::from_millis(500);

/// A function to run; its argument is 0 or the error that prevented the stream from reaching it.
pub type Function = Box<dyn FnOnce(i32) + Send>;

/// The registered functions.
#[derive(Default)]
pub struct Callbacks {
    state: Mutex<State>,
    changed: Condvar,
    outstanding: AtomicUsize,
}

#[derive(Default)]
struct State {
    expected: HashMap<u64, Function>,
    due: VecDeque<(u64, i32)>,
    running: bool,
}

impl std::fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Callbacks").field("outstanding", &self.outstanding).finish_non_exhaustive()
    }
}

impl Callbacks {
    /// Registers a function until its Callback arrives. `start` starts the threads that read and run, on first use.
    pub fn expect(
        &self,
        token: u64,
        function: Function,
        start: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), Failure> {
        let mut state = self.state.lock();
        if !state.running {
            start().map_err(|error| Failure {
                status: status::OUT_OF_MEMORY,
                text: format!("cannot start the thread for host functions: {error}"),
            })?;
            state.running = true;
        }
        state.expected.insert(token, function);
        self.outstanding.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_all();
        Ok(())
    }

    /// Whether a function is pending or running.
    pub fn any_outstanding(&self) -> bool {
        self.outstanding.load(Ordering::SeqCst) > 0
    }

    /// Drops a function whose request could not be sent.
    pub fn forget(&self, token: u64) {
        if self.state.lock().expected.remove(&token).is_some() {
            self.outstanding.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Queues a function whose turn has come.
    pub fn arrived(&self, token: u64, status: i32) {
        let mut state = self.state.lock();
        if state.expected.contains_key(&token) {
            state.due.push_back((token, status));
            self.changed.notify_all();
        }
    }

    /// Queues every pending function with the error status, because the session is over.
    pub fn fail_all(&self, status: i32) {
        let mut state = self.state.lock();
        let mut tokens: Vec<u64> = state.expected.keys().copied().collect();
        tokens.sort_unstable();
        for token in tokens {
            if !state.due.iter().any(|(due, _)| *due == token) {
                state.due.push_back((token, status));
            }
        }
        self.changed.notify_all();
    }

    /// Takes the next function that is due, with its token and status.
    pub fn take_due(&self, is_over: impl FnOnce() -> bool) -> Due {
        let mut state = self.state.lock();
        if let Some((token, status)) = state.due.pop_front() {
            return match state.expected.remove(&token) {
                Some(function) => Due::Run { token, status, function },
                None => Due::Nothing,
            };
        }
        if is_over() {
            return Due::Over;
        }
        self.changed.wait_for(&mut state, IDLE_CHECK);
        Due::Nothing
    }

    /// Counts a function that has run.
    pub fn ran(&self) {
        self.outstanding.fetch_sub(1, Ordering::SeqCst);
    }

    /// Waits a while for a function to be registered. Returns whether any is outstanding.
    pub fn wait_for_any(&self) -> bool {
        let mut state = self.state.lock();
        if !self.any_outstanding() {
            self.changed.wait_for(&mut state, IDLE_CHECK);
            return false;
        }
        true
    }
}

/// What the thread for host functions has to do.
pub enum Due {
    /// Run this function.
    Run {
        /// Its token.
        token: u64,
        /// Its argument.
        status: i32,
        /// The function.
        function: Function,
    },
    /// Ask again.
    Nothing,
    /// End: the session is over and every function has run.
    Over,
}

impl std::fmt::Debug for Due {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Due::Run { .. } => "Run",
            Due::Nothing => "Nothing",
            Due::Over => "Over",
        })
    }
}
