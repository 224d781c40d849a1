//! What the client knows of how far streams and events have come, so that asking again and again costs no round trips.
//!
//! The worker says when something that was watched is reached. Its word travels in order with its replies, and it sweeps what
//! is reached before every reply, so whatever else tells a program that its work is done tells it no sooner than this.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use parking_lot::Mutex;

/// What may be watched, by its number on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Watched {
    Event(u64),
    Stream(u64),
}

/// How far one event or stream has come. Each thing to be reached has a stamp, and later ones have greater stamps.
#[derive(Debug, Default)]
pub struct Mark {
    latest: AtomicU64,
    watched: AtomicU64,
    reached: AtomicU64,
    status: AtomicI32,
    polled: AtomicBool,
    /// Of a stream: how many requests of the session the newest stamp stands for. Held while the worker is asked, so that
    /// stamps are sent in their order.
    pub asked_at: Mutex<u64>,
}

/// What is known without asking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Reached, with 0 or the error that came in between.
    Reached(i32),
    /// Watched: the worker will say.
    Pending,
    /// Only the worker knows.
    Unknown,
}

impl Mark {
    /// Something new is to be reached: its stamp.
    pub fn advance(&self) -> u64 {
        self.latest.fetch_add(1, Ordering::AcqRel) + 1
    }

    pub fn latest(&self) -> u64 {
        self.latest.load(Ordering::Acquire)
    }

    /// Something with this stamp is being watched.
    pub fn watch(&self, stamp: u64) {
        self.watched.fetch_max(stamp, Ordering::AcqRel);
    }

    /// Everything up to this stamp is reached.
    pub fn reach(&self, stamp: u64, status: i32) {
        self.status.store(status, Ordering::Release);
        self.reached.fetch_max(stamp, Ordering::AcqRel);
    }

    /// Where the newest thing stands.
    pub fn standing(&self) -> Standing {
        let latest = self.latest();
        if self.reached.load(Ordering::Acquire) >= latest {
            Standing::Reached(self.status.load(Ordering::Acquire))
        } else if self.watched.load(Ordering::Acquire) >= latest {
            Standing::Pending
        } else {
            Standing::Unknown
        }
    }

    /// Whether the program has ever asked, and so will probably ask again.
    pub fn is_polled(&self) -> bool {
        self.polled.load(Ordering::Relaxed)
    }

    pub fn note_poll(&self) {
        self.polled.store(true, Ordering::Relaxed);
    }
}

/// The marks that the worker may speak of.
#[derive(Debug, Default)]
pub struct Progress {
    marks: Mutex<HashMap<Watched, Arc<Mark>>>,
}

impl Progress {
    /// The mark of something, which the worker may speak of from now on.
    pub fn mark(&self, what: Watched) -> Arc<Mark> {
        Arc::clone(self.marks.lock().entry(what).or_default())
    }

    /// Has the worker's word reach a mark that exists already.
    pub fn attach(&self, what: Watched, mark: &Arc<Mark>) {
        self.marks.lock().insert(what, Arc::clone(mark));
    }

    pub fn forget(&self, what: Watched) {
        self.marks.lock().remove(&what);
    }

    pub fn reached(&self, what: Watched, stamp: u64, status: i32) {
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
        let mark = progress.mark(Watched::Event(7));
        let first = mark.advance();
        mark.watch(first);
        assert_eq!(mark.standing(), Standing::Pending);
        let second = mark.advance();
        assert_eq!(mark.standing(), Standing::Unknown);
        mark.watch(second);
        progress.reached(Watched::Event(7), first, 0);
        assert_eq!(mark.standing(), Standing::Pending);
        progress.reached(Watched::Event(7), second, 719);
        assert_eq!(mark.standing(), Standing::Reached(719));
    }

    #[test]
    fn a_worker_cannot_reach_what_is_not_there_yet_or_any_more() {
        let progress = Progress::default();
        let mark = progress.mark(Watched::Stream(1));
        let stamp = mark.advance();
        progress.reached(Watched::Stream(1), stamp + 1, 0);
        assert_eq!(mark.standing(), Standing::Unknown);
        progress.reached(Watched::Event(1), stamp, 0);
        assert_eq!(mark.standing(), Standing::Unknown);
        progress.forget(Watched::Stream(1));
        progress.reached(Watched::Stream(1), stamp, 0);
        assert_eq!(mark.standing(), Standing::Unknown);
    }
}
