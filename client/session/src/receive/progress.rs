//! Client-side progress of streams and events, so that repeated polling costs no round trips.
//!
//! The worker pushes a notification when a watched event or stream position is reached. Notifications are ordered with
//! replies, and the worker sends all due ones before every reply. No other message can therefore reveal completed work
//! earlier than its notification.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use parking_lot::Mutex;

/// Something that can be watched, by its number on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WatchTarget {
    /// An event.
    Event(u64),
    /// A stream.
    Stream(u64),
}

/// Progress of one event or stream. Each recorded position has a stamp; later positions have greater stamps.
#[derive(Debug, Default)]
pub struct ProgressMark {
    latest: AtomicU64,
    watched: AtomicU64,
    reached: AtomicU64,
    status: AtomicI32,
    polled: AtomicBool,
    /// For a stream: the session's request count that the newest stamp covers. Locked while the request is sent, so that
    /// stamps are sent in order.
    pub asked_at: Mutex<u64>,
}

/// The state known without a round trip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completion {
    /// Reached, with 0 or the error that occurred before it.
    Reached(i32),
    /// WatchTarget: the worker will send a notification.
    Pending,
    /// Needs a query to the worker.
    Unknown,
}

impl ProgressMark {
    /// Starts a new position and returns its stamp.
    pub fn advance(&self) -> u64 {
        self.latest.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The stamp of the newest position.
    pub fn latest(&self) -> u64 {
        self.latest.load(Ordering::Acquire)
    }

    /// Records that the worker was asked to watch this stamp.
    pub fn watch(&self, stamp: u64) {
        self.watched.fetch_max(stamp, Ordering::AcqRel);
    }

    /// Records that everything up to this stamp is reached.
    pub fn reach(&self, stamp: u64, status: i32) {
        self.status.store(status, Ordering::Release);
        self.reached.fetch_max(stamp, Ordering::AcqRel);
    }

    /// State of the newest position.
    pub fn completion(&self) -> Completion {
        let latest = self.latest();
        if self.reached.load(Ordering::Acquire) >= latest {
            Completion::Reached(self.status.load(Ordering::Acquire))
        } else if self.watched.load(Ordering::Acquire) >= latest {
            Completion::Pending
        } else {
            Completion::Unknown
        }
    }

    /// Whether the program has ever polled, and so probably will again.
    pub fn is_polled(&self) -> bool {
        self.polled.load(Ordering::Relaxed)
    }

    /// Records that the program polls.
    pub fn note_poll(&self) {
        self.polled.store(true, Ordering::Relaxed);
    }
}

/// The marks that notifications of the worker update.
#[derive(Debug, Default)]
pub struct Progress {
    marks: Mutex<HashMap<WatchTarget, Arc<ProgressMark>>>,
}

impl Progress {
    /// Returns the mark of an event or stream, and registers it for notifications.
    pub fn mark(&self, what: WatchTarget) -> Arc<ProgressMark> {
        Arc::clone(self.marks.lock().entry(what).or_default())
    }

    /// Registers an existing mark for notifications.
    pub fn attach(&self, what: WatchTarget, mark: &Arc<ProgressMark>) {
        self.marks.lock().insert(what, Arc::clone(mark));
    }

    /// Removes a mark: later notifications for it are ignored.
    pub fn forget(&self, what: WatchTarget) {
        self.marks.lock().remove(&what);
    }

    /// Applies a notification of the worker.
    pub fn reached(&self, what: WatchTarget, stamp: u64, status: i32) {
        if let Some(mark) = self.marks.lock().get(&what)
            && stamp <= mark.latest()
        {
            mark.reach(stamp, status);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_stamp_says_nothing_of_a_newer_one() {
        let progress = Progress::default();
        let mark = progress.mark(WatchTarget::Event(7));
        let first = mark.advance();
        mark.watch(first);
        assert_eq!(mark.completion(), Completion::Pending);
        let second = mark.advance();
        assert_eq!(mark.completion(), Completion::Unknown);
        mark.watch(second);
        progress.reached(WatchTarget::Event(7), first, 0);
        assert_eq!(mark.completion(), Completion::Pending);
        progress.reached(WatchTarget::Event(7), second, 719);
        assert_eq!(mark.completion(), Completion::Reached(719));
    }

    #[test]
    fn a_worker_cannot_reach_what_is_not_there_yet_or_any_more() {
        let progress = Progress::default();
        let mark = progress.mark(WatchTarget::Stream(1));
        let stamp = mark.advance();
        progress.reached(WatchTarget::Stream(1), stamp + 1, 0);
        assert_eq!(mark.completion(), Completion::Unknown);
        progress.reached(WatchTarget::Event(1), stamp, 0);
        assert_eq!(mark.completion(), Completion::Unknown);
        progress.forget(WatchTarget::Stream(1));
        progress.reached(WatchTarget::Stream(1), stamp, 0);
        assert_eq!(mark.completion(), Completion::Unknown);
    }
}
