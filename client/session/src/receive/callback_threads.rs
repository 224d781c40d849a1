//! The threads of host functions.
//!
//! While any function is outstanding, a dedicated thread reads the connection even if no other thread does, because the
//! worker's Callback push must be received. The functions run on another dedicated thread, because they may block.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use transport::spawn_quietly;
use wire::{Failure, Flags, HostFunctionDone};

use super::callbacks::{Due, Function, HOST_FUNCTION_THREAD};
use crate::shared::Shared;

impl Shared {
    /// Registers a host function until its Callback arrives; starts the threads on first use.
    pub fn expect_callback(self: &Arc<Shared>, token: u64, function: Function) -> Result<(), Failure> {
        self.arrivals.callbacks.expect(token, function, || self.start_callback_threads())
    }

    fn start_callback_threads(self: &Arc<Shared>) -> io::Result<()> {
        let reader = Arc::clone(self);
        spawn_quietly("remora-reader", move || reader.run_callback_reader())?;
        let runner = Arc::clone(self);
        spawn_quietly(HOST_FUNCTION_THREAD, move || runner.run_callbacks())?;
        Ok(())
    }

    fn run_callback_reader(&self) {
        let callbacks = &self.arrivals.callbacks;
        while !self.ending.over.load(Ordering::Acquire) {
            if callbacks.wait_for_any() {
                self.read_until(|| !callbacks.any_outstanding());
            }
        }
    }

    fn run_callbacks(&self) {
        self.config.host.host_functions_start();
        let callbacks = &self.arrivals.callbacks;
        loop {
            match callbacks.take_due(|| self.ending.over.load(Ordering::Acquire)) {
                Due::Run { token, status, function } => {
                    function(status);
                    callbacks.ran();
                    // SAFETY: no memory is lent. If the session is over, the worker needs no notification.
                    let _ = unsafe { self.request(&HostFunctionDone { token }, &[], None, Flags::POSTED, 0) };
                }
                Due::Nothing => {}
                Due::Over => return,
            }
        }
    }
}
