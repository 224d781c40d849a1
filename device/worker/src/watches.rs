//! Records and streams whose completion the client wants to hear of without asking.
//!
//! What is reached is told before any reply that could tell the client so in another way: [`Watches::sweep`] comes before
//! replies that wait for work. Refuses to wait: whoever sweeps may be the thread that reads the connection.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use backend::{Device, Scope, StreamId};
use parking_lot::Mutex;

use crate::outbox::Outbox;

/// What one session may have pending; a client that polls more than this is told of the rest when it asks.
const MOST: usize = 1 << 16;

#[derive(Clone, Copy, Debug)]
struct Watch {
    scope: Scope,
    stamp: u64,
}

/// What one stream is to reach, in its order. The first is waited for, which finds the others.
#[derive(Debug, Default)]
struct Line {
    queue: VecDeque<Watch>,
    awaited: bool,
}

pub(crate) struct Watches {
    device: Arc<dyn Device>,
    outbox: Weak<Outbox>,
    pending: Mutex<HashMap<StreamId, Line>>,
    count: AtomicUsize,
}

impl Watches {
    pub(crate) fn new(device: Arc<dyn Device>, outbox: &Arc<Outbox>) -> Arc<Watches> {
        Arc::new(Watches {
            device,
            outbox: Arc::downgrade(outbox),
            pending: Mutex::default(),
            count: AtomicUsize::new(0),
        })
    }

    /// Tells the client when `scope`, which is on or of `stream`, has ended. A later stamp of the same takes the place of an
    /// earlier one.
    pub(crate) fn add(self: &Arc<Watches>, stream: StreamId, scope: Scope, stamp: u64) {
        let mut pending = self.pending.lock();
        if self.count.load(Ordering::Relaxed) >= MOST {
            return;
        }
        for line in pending.values_mut() {
            line.queue.retain(|watch| watch.scope != scope);
        }
        let line = pending.entry(stream).or_default();
        line.queue.push_back(Watch { scope, stamp });
        let awaited = std::mem::replace(&mut line.awaited, true);
        self.count(&mut pending);
        drop(pending);
        if !awaited {
            self.arm(stream, scope);
        }
    }

    fn count(&self, pending: &mut HashMap<StreamId, Line>) {
        pending.retain(|_, line| line.awaited || !line.queue.is_empty());
        self.count.store(pending.values().map(|line| line.queue.len()).sum(), Ordering::Release);
    }

    /// Tells of everything that is reached. Costs nothing while nothing is watched.
    pub(crate) fn sweep(&self) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let Some(outbox) = self.outbox.upgrade() else { return };
        let mut pending = self.pending.lock();
        for Line { queue, .. } in pending.values_mut() {
            // Told under the lock: a thread that finds nothing left to tell knows that it has been told.
            while let Some(watch) = queue.front() {
                let status = match self.device.query(watch.scope) {
                    Ok(false) => break,
                    Ok(true) => 0,
                    Err(error) => error.code.0 as i32,
                };
                // The client may look at what the work did as soon as it knows that it is done.
                outbox.tell_changes();
                match watch.scope {
                    Scope::Event(event) => {
                        outbox.push_at_once(&wire::EventReached { event, stamp: watch.stamp, status }, &[]);
                    }
                    Scope::Stream(stream) => {
                        outbox.push_at_once(&wire::StreamReached { stream, stamp: watch.stamp, status }, &[]);
                    }
                    Scope::Device(_) | Scope::Everything => {}
                }
                queue.pop_front();
            }
        }
        self.count(&mut pending);
    }

    /// Whether there is nothing left to tell.
    pub(crate) fn are_told(&self) -> bool {
        self.pending.lock().values().all(|line| line.queue.is_empty())
    }

    /// Sweeps when `scope` has ended, and goes on with what its stream is to reach next.
    fn arm(self: &Arc<Watches>, stream: StreamId, scope: Scope) {
        let watches = Arc::clone(self);
        let go_on = Box::new(move |_| {
            watches.sweep();
            let mut pending = watches.pending.lock();
            let Some(line) = pending.get_mut(&stream) else { return };
            let next = line.queue.front().copied();
            line.awaited = next.is_some();
            watches.count(&mut pending);
            drop(pending);
            if let Some(next) = next {
                watches.arm(stream, next.scope);
            }
        });
        self.device.synchronize(scope, go_on);
    }
}
