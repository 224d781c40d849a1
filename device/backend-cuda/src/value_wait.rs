//! Waits for a value in memory: a thread reads the memory until the value is there. The stream is stopped meanwhile.
//!
//! The driver's own wait compares cyclically, has no mask, and would stop calls that wait for all running work.

use std::sync::Arc;
use std::time::{Duration, Instant};

use backend::ValueWait;
use parking_lot::{Condvar, Mutex};

use crate::device::Shared;
use crate::stream::Stream;

/// Pauses between two reads: the shortest, and the longest.
const SHORT: Duration = Duration::from_micros(20);
const LONG: Duration = Duration::from_millis(1);

struct Waiting {
    wait: ValueWait,
    stream: Arc<Stream>,
}

/// The streams that wait for values.
#[derive(Default)]
pub(crate) struct ValueWaits {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<Waiting>,
    started: bool,
}

impl Shared {
    /// Continues a stopped stream when memory meets the condition.
    pub(crate) fn await_value(self: &Arc<Shared>, wait: ValueWait, stream: Arc<Stream>) {
        let mut state = self.waits.state.lock();
        state.waiting.push(Waiting { wait, stream });
        self.waits.changed.notify_one();
        if !std::mem::replace(&mut state.started, true) {
            let shared = Arc::clone(self);
            let thread = std::thread::Builder::new().name("cuda-values".to_owned());
            if let Err(error) = thread.spawn(move || shared.watch_values()) {
                tracing::error!("cannot start the thread that waits for values: {error}");
            }
        }
    }

    fn watch_values(self: &Arc<Shared>) {
        let mut since = Instant::now();
        loop {
            let waiting = {
                let mut state = self.waits.state.lock();
                while state.waiting.is_empty() {
                    self.waits.changed.wait(&mut state);
                    since = Instant::now();
                }
                std::mem::take(&mut state.waiting)
            };
            let mut unmet = Vec::new();
            for it in waiting {
                match self.is_met(&it.wait) {
                    Some(true) => {
                        self.resume(&it.stream);
                        since = Instant::now();
                    }
                    Some(false) => unmet.push(it),
                    // After a fault nothing is waited for.
                    None => {}
                }
            }
            self.waits.state.lock().waiting.extend(unmet);
            std::thread::sleep((since.elapsed() / 16).clamp(SHORT, LONG));
        }
    }

    fn is_met(&self, wait: &ValueWait) -> Option<bool> {
        let mut found = [0; 8];
        let read = self.read_aside(wait.address, wait.bytes(), &mut |bytes| {
            found[..bytes.len()].copy_from_slice(bytes);
        });
        match read {
            Ok(()) => Some(wait.is_met_by(u64::from_le_bytes(found))),
            Err(error) => {
                self.blame(error);
                None
            }
        }
    }
}
