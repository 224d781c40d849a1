//! Watches: events and streams whose completion is pushed to the client, so that it can poll without a round trip.
//!
//! A completion is pushed before any reply that implies it: [`Watches::sweep`] runs before replies that wait for work. Nothing
//! here blocks, because the caller of a sweep may be the thread that reads the connection.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use backend::{Device, Scope, StreamId};
use parking_lot::Mutex;

use crate::outgoing::Outgoing;

/// Limit on pending watches of one session; completions beyond it are reported only when the client queries.
const MOST: usize = 1 << 16;

#[derive(Clone, Copy, Debug)]
struct Watch {
    scope: Scope,
    stamp: u64,
}

/// Watches of one stream, in stream order. Only the first has a completion callback, whose sweep finds the others.
#[derive(Debug, Default)]
struct Line {
    queue: VecDeque<Watch>,
    awaited: bool,
}

pub(crate) struct Watches {
    device: Arc<dyn Device>,
    outgoing: Weak<Outgoing>,
    pending: Mutex<HashMap<StreamId, Line>>,
    count: AtomicUsize,
}

impl Watches {
    pub(crate) fn new(device: Arc<dyn Device>, outgoing: &Arc<Outgoing>) -> Arc<Watches> {
        Arc::new(Watches {
            device,
            outgoing: Arc::downgrade(outgoing),
            pending: Mutex::default(),
            count: AtomicUsize::new(0),
        })
    }

    /// Notifies the client when `scope`, which is on or of `stream`, has ended. Replaces an earlier watch of the same scope.
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

    /// Pushes every completion that is due. Costs one atomic load while nothing is watched.
    pub(crate) fn sweep(&self) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let Some(outgoing) = self.outgoing.upgrade() else { return };
        let mut pending = self.pending.lock();
        for Line { queue, .. } in pending.values_mut() {
            // Pushed under the lock: a thread that finds nothing left can rely on it having been pushed.
            while let Some(watch) = queue.front() {
                let status = match self.device.query(watch.scope) {
                    Ok(false) => break,
                    Ok(true) => 0,
                    Err(error) => error.code.0 as i32,
                };
                // The client may read what the work changed as soon as it sees the completion.
                outgoing.tell_changes();
                match watch.scope {
                    Scope::Event(event) => {
                        outgoing
                            .outbox
                            .push_at_once(&wire::EventReached { event, stamp: watch.stamp, status }, &[]);
                    }
                    Scope::Stream(stream) => {
                        outgoing
                            .outbox
                            .push_at_once(&wire::StreamReached { stream, stamp: watch.stamp, status }, &[]);
                    }
                    Scope::Device(_) | Scope::Everything => {}
                }
                queue.pop_front();
            }
        }
        self.count(&mut pending);
    }

    /// Whether every watch has been reported.
    pub(crate) fn are_told(&self) -> bool {
        self.pending.lock().values().all(|line| line.queue.is_empty())
    }

    /// Sweeps when `scope` has ended, then waits for the next watch of its stream.
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
