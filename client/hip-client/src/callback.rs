//! Host functions: callbacks of a stream that run in this process.
//!
//! While any is outstanding, a dedicated thread reads the connection even if no other thread does, because the worker's
//! Callback push must be received. The functions run on another dedicated thread, because they may block.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};
use wire::{Failure, Flags, HostFunctionDone};

use crate::alone;
use crate::connection::Shared;
use crate::outgoing::spawn_quietly;

type Function = Box<dyn FnOnce(i32) + Send>;

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
    /// Registers a function until its Callback arrives.
    pub fn expect(shared: &Arc<Shared>, token: u64, function: Function) -> Result<(), Failure> {
        let callbacks = &shared.callbacks;
        let mut state = callbacks.state.lock();
        if !state.running {
            let failed = |error: std::io::Error| Failure {
                status: 2,
                text: format!("cannot start the thread for host functions: {error}"),
            };
            let reader = shared.clone();
            spawn_quietly("remora-reader", move || reader.run_reader()).map_err(failed)?;
            let runner = shared.clone();
            spawn_quietly(alone::CALLBACKS, move || runner.run_callbacks()).map_err(failed)?;
            state.running = true;
        }
        state.expected.insert(token, function);
        callbacks.outstanding.fetch_add(1, Ordering::SeqCst);
        callbacks.changed.notify_all();
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
}

impl Shared {
    fn run_reader(&self) {
        let callbacks = &self.callbacks;
        while !self.over.load(Ordering::Acquire) {
            let mut state = callbacks.state.lock();
            if callbacks.outstanding.load(Ordering::SeqCst) == 0 {
                callbacks.changed.wait_for(&mut state, std::time::Duration::from_millis(500));
                continue;
            }
            drop(state);
            self.seek(|| callbacks.outstanding.load(Ordering::SeqCst) == 0);
        }
    }

    fn run_callbacks(&self) {
        alone::runs_callbacks();
        loop {
            let mut state = self.callbacks.state.lock();
            let next = state.due.pop_front();
            let Some((token, status)) = next else {
                if self.over.load(Ordering::Acquire) {
                    return;
                }
                self.callbacks.changed.wait_for(&mut state, std::time::Duration::from_millis(500));
                continue;
            };
            let function = state.expected.remove(&token);
            drop(state);
            if let Some(function) = function {
                function(status);
                self.callbacks.outstanding.fetch_sub(1, Ordering::SeqCst);
                // SAFETY: no memory is lent. If the session is over, the worker needs no notification.
                let _ = unsafe { self.request(&HostFunctionDone { token }, &[], None, Flags::POSTED, 0) };
            }
        }
    }
}
