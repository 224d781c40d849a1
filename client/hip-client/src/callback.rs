//! Host functions: work of a stream that runs in this process.
//!
//! While any is outstanding a thread reads the connection even if no other does, for the worker's word that a
//! function's turn has come must be heard. The functions run on a thread of their own: they may block.

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
    /// Keeps a function until its turn comes.
    pub fn expect(shared: &Arc<Shared>, token: u64, function: Function) -> Result<(), Failure> {
        let callbacks = &shared.callbacks;
        let mut state = callbacks.state.lock();
        if !state.running {
            let failed = |error: std::io::Error| Failure {
                status: 2,
                text: format!("no thread for host functions can be started: {error}"),
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

    /// Whether a function has not yet been run to its end.
    pub fn any_outstanding(&self) -> bool {
        self.outstanding.load(Ordering::SeqCst) > 0
    }

    /// The request for it could not be sent.
    pub fn forget(&self, token: u64) {
        if self.state.lock().expected.remove(&token).is_some() {
            self.outstanding.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Its turn has come.
    pub fn arrived(&self, token: u64, status: i32) {
        let mut state = self.state.lock();
        if state.expected.contains_key(&token) {
            state.due.push_back((token, status));
            self.changed.notify_all();
        }
    }

    /// The session is over: every function is told.
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
                // SAFETY: nothing is lent. A session that is over needs no word.
                let _ = unsafe { self.request(&HostFunctionDone { token }, &[], None, Flags::POSTED, 0) };
            }
        }
    }
}
