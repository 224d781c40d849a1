//! The history: results of requests that the program may know, in the order in which it learned them.
//!
//! Each entry has the number of requests that existed when it arrived. Only later requests can depend on it, so replay sends those
//! after it has seen the result again. A result that differs ends the replay: the program has used the earlier one.

use std::collections::{HashMap, VecDeque};

use crate::receive::progress::WatchTarget;

/// A result that the program may know.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Seen {
    /// The reply to a request, by the request's number.
    Reply(u64),
    /// All bytes of an asynchronous read, by its token.
    Delivery(u64),
    /// A stream reached a host function, by its token.
    Callback(u64),
    /// A stream or event reached a stamp.
    Reached(WatchTarget, u64),
    /// A kernel printed to this descriptor.
    Output(u32),
    /// A posted request failed: low bits of its number, and the error code.
    Late(u32, i32),
}

/// A content: its size, and its hash if it is to be compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Content {
    /// Size in bytes.
    pub bytes: u64,
    /// First half of its BLAKE3 hash. `None` for results that legitimately differ from run to run, like times.
    pub hash: Option<[u8; 16]>,
}

/// Computes a [`Content`] from parts.
#[derive(Clone, Debug, Default)]
pub struct Hashing {
    hasher: blake3::Hasher,
    bytes: u64,
}

impl Hashing {
    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// The content so far.
    pub fn content(&self) -> Content {
        let mut hash = [0; 16];
        hash.copy_from_slice(&self.hasher.finalize().as_bytes()[..16]);
        Content { bytes: self.bytes, hash: Some(hash) }
    }
}

/// A repeated result that differs from the one that the program knows.
#[derive(Debug)]
pub struct Diverged;

#[derive(Clone, Copy, Debug)]
struct Entry {
    seen: Seen,
    /// Number of requests that existed when it arrived.
    after: u64,
    /// Number of the worker's frame that brought it.
    frame: u64,
    content: Content,
}

/// What the program may know, and the state of a replay.
#[derive(Debug, Default)]
pub struct History {
    entries: VecDeque<Entry>,
    /// Asynchronous reads that have arrived in part.
    arriving: HashMap<u64, Hashing>,
    replay: Option<Replay>,
    /// Output and late errors that the program has, and that the worker will repeat.
    printed: HashMap<u32, u64>,
    failed: HashMap<(u32, i32), u64>,
}

/// Which entries a replay has confirmed.
#[derive(Debug, Default)]
struct Replay {
    confirmed: Vec<bool>,
    /// The first entry that is not confirmed.
    next: usize,
    awaited: HashMap<Seen, usize>,
    stamps: HashMap<WatchTarget, VecDeque<(u64, usize)>>,
}

impl History {
    /// Memory used, roughly.
    pub fn bytes(&self) -> u64 {
        (self.entries.len() * size_of::<Entry>()) as u64
    }

    /// Records a result. `after`: the number of requests so far; `frame`: the number of the worker's frame.
    pub fn record(&mut self, seen: Seen, after: u64, frame: u64, content: Content) {
        self.entries.push_back(Entry { seen, after, frame, content });
    }

    /// Records a piece of an asynchronous read. `complete`: it was the last one.
    pub fn record_delivery(&mut self, token: u64, piece: &[u8], complete: bool, after: u64, frame: u64) {
        let hashing = self.arriving.entry(token).or_default();
        hashing.add(piece);
        if complete {
            let content = hashing.content();
            self.arriving.remove(&token);
            self.record(Seen::Delivery(token), after, frame, content);
        }
    }

    /// Drops what happened up to this frame of the worker: a checkpoint covers it.
    pub fn forget(&mut self, frame: u64) {
        self.entries.retain(|entry| entry.frame > frame);
    }

    /// Expects everything again.
    pub fn start_replay(&mut self) {
        let (printed, failed) = (&mut self.printed, &mut self.failed);
        self.entries.retain(|entry| match entry.seen {
            Seen::Output(descriptor) => {
                *printed.entry(descriptor).or_default() += entry.content.bytes;
                false
            }
            Seen::Late(request, code) => {
                *failed.entry((request, code)).or_default() += 1;
                false
            }
            _ => true,
        });
        self.arriving.clear();
        let mut replay = Replay { confirmed: vec![false; self.entries.len()], ..Replay::default() };
        for (index, entry) in self.entries.iter().enumerate() {
            match entry.seen {
                Seen::Reached(target, stamp) => {
                    replay.stamps.entry(target).or_default().push_back((stamp, index))
                }
                seen => drop(replay.awaited.insert(seen, index)),
            }
        }
        self.replay = Some(replay);
    }

    /// Whether a replay is under way.
    pub fn is_replaying(&self) -> bool {
        self.replay.is_some()
    }

    /// Whether every result was seen again.
    pub fn is_confirmed(&self) -> bool {
        self.replay.as_ref().is_none_or(|replay| replay.next == replay.confirmed.len())
    }

    /// The last request that may be sent now: later ones may depend on a result that was not seen again yet.
    pub fn limit(&self) -> u64 {
        let waiting = self.replay.as_ref().and_then(|replay| {
            (replay.next < replay.confirmed.len()).then(|| self.entries[replay.next].after)
        });
        waiting.unwrap_or(u64::MAX)
    }

    /// The first result that was not seen again, for error messages.
    pub fn waits_for(&self) -> Option<Seen> {
        let replay = self.replay.as_ref().filter(|replay| replay.next < replay.confirmed.len())?;
        Some(self.entries[replay.next].seen)
    }

    /// Ends the replay.
    pub fn end_replay(&mut self) {
        self.replay = None;
    }

    /// The content that the program knows, if the replay expects this result again.
    pub fn expected(&self, seen: Seen) -> Option<Content> {
        let replay = self.replay.as_ref()?;
        let index = *replay.awaited.get(&seen)?;
        (!replay.confirmed[index]).then(|| self.entries[index].content)
    }

    /// Confirms an expected result. `content` is compared with the one that the program knows.
    pub fn confirm(&mut self, seen: Seen, content: Content, frame: u64) -> Result<(), Diverged> {
        let Some(replay) = &mut self.replay else { return Ok(()) };
        let Some(&index) = replay.awaited.get(&seen) else { return Ok(()) };
        let known = self.entries[index].content;
        if known.hash.is_some() && known != content {
            return Err(Diverged);
        }
        self.entries[index].frame = frame;
        replay.confirm(index);
        Ok(())
    }

    /// Adds a piece of an asynchronous read that the program already has, and confirms it with its last piece.
    pub fn confirm_delivery(&mut self, token: u64, piece: &[u8], frame: u64) -> Result<(), Diverged> {
        let Some(known) = self.expected(Seen::Delivery(token)) else { return Ok(()) };
        let hashing = self.arriving.entry(token).or_default();
        hashing.add(piece);
        if hashing.bytes < known.bytes {
            return Ok(());
        }
        let content = hashing.content();
        self.arriving.remove(&token);
        self.confirm(Seen::Delivery(token), content, frame)
    }

    /// Confirms that a stream or event has reached a stamp, and with it all earlier ones. Returns whether the program knew it.
    pub fn confirm_reached(&mut self, target: WatchTarget, stamp: u64, frame: u64) -> bool {
        let Some(replay) = &mut self.replay else { return false };
        let Some(stamps) = replay.stamps.get_mut(&target) else { return false };
        let mut confirmed = Vec::new();
        stamps.retain(|(known, index)| {
            let reached = *known <= stamp;
            if reached {
                confirmed.push((*known, *index));
            }
            !reached
        });
        for (_, index) in &confirmed {
            self.entries[*index].frame = frame;
            replay.confirm(*index);
        }
        confirmed.iter().any(|(known, _)| *known == stamp)
    }

    /// Records output of `bytes` bytes. Returns how many of them the program has printed already.
    pub fn print(&mut self, descriptor: u32, bytes: u64, after: u64, frame: u64) -> u64 {
        let content = Content { bytes, hash: None };
        self.record(Seen::Output(descriptor), after, frame, content);
        let left = self.printed.entry(descriptor).or_default();
        let skipped = bytes.min(*left);
        *left -= skipped;
        skipped
    }

    /// Records a late error. Returns whether the program knows it.
    pub fn fail(&mut self, request: u32, code: i32, after: u64, frame: u64) -> bool {
        self.record(Seen::Late(request, code), after, frame, Content::default());
        match self.failed.get_mut(&(request, code)) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }
}

impl Replay {
    fn confirm(&mut self, index: usize) {
        self.confirmed[index] = true;
        while self.confirmed.get(self.next) == Some(&true) {
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(bytes: &[u8]) -> Content {
        let mut hashing = Hashing::default();
        hashing.add(bytes);
        hashing.content()
    }

    #[test]
    fn requests_wait_for_the_results_that_came_before_them() {
        let mut history = History::default();
        history.record(Seen::Reply(3), 5, 1, content(b"three"));
        history.record(Seen::Callback(70), 6, 2, Content::default());
        history.record(Seen::Reply(8), 8, 3, Content::default());
        history.start_replay();
        assert_eq!(history.limit(), 5);
        history.confirm(Seen::Callback(70), Content::default(), 1).unwrap();
        assert_eq!(history.limit(), 5, "the first result is still missing");
        history.confirm(Seen::Reply(3), content(b"three"), 2).unwrap();
        assert_eq!((history.limit(), history.waits_for()), (8, Some(Seen::Reply(8))));
        assert!(history.expected(Seen::Reply(3)).is_none() && history.expected(Seen::Reply(8)).is_some());
        history.confirm(Seen::Reply(8), content(b"a time"), 3).unwrap();
        assert!(history.is_confirmed() && history.limit() == u64::MAX);
    }

    #[test]
    fn a_result_that_differs_is_a_divergence_and_a_time_is_not() {
        let mut history = History::default();
        history.record(Seen::Reply(1), 1, 1, content(b"sum 1"));
        history.record_delivery(9, b"first ", false, 1, 2);
        history.record_delivery(9, b"second", true, 1, 3);
        history.start_replay();
        assert!(history.confirm(Seen::Reply(1), content(b"sum 2"), 1).is_err());
        history.confirm_delivery(9, b"first second"[..3].as_ref(), 1).unwrap();
        history.confirm_delivery(9, b"first second"[3..].as_ref(), 2).unwrap();
        assert!(history.expected(Seen::Delivery(9)).is_none());
        history.start_replay();
        assert!(history.confirm_delivery(9, b"first SECOND", 2).is_err());
    }

    #[test]
    fn a_later_stamp_confirms_the_earlier_ones_of_its_target() {
        let mut history = History::default();
        let target = WatchTarget::Event(4);
        history.record(Seen::Reached(target, 1), 1, 1, Content::default());
        history.record(Seen::Reached(target, 2), 2, 2, Content::default());
        history.record(Seen::Reached(target, 5), 9, 3, Content::default());
        history.start_replay();
        assert!(!history.confirm_reached(WatchTarget::Stream(4), 9, 1));
        assert!(!history.confirm_reached(target, 3, 1), "a stamp that the program has not seen");
        assert_eq!(history.limit(), 9);
        assert!(history.confirm_reached(target, 5, 2) && history.is_confirmed());
    }

    #[test]
    fn output_and_late_errors_are_shown_once_however_often_a_session_is_replayed() {
        let mut history = History::default();
        assert_eq!(history.print(1, 10, 0, 1), 0);
        assert!(!history.fail(7, 719, 0, 2));
        for _ in 0..2 {
            history.start_replay();
            assert!(history.is_confirmed(), "nothing waits for output");
            assert_eq!((history.print(1, 4, 0, 1), history.print(1, 8, 0, 2)), (4, 6));
            assert!(history.fail(7, 719, 0, 3) && !history.fail(7, 719, 0, 4));
            // The next replay repeats what was new in this one.
            history.entries.retain(|entry| entry.frame != 4 && entry.frame != 2);
            history.print(1, 6, 0, 5);
        }
    }

    #[test]
    fn what_a_checkpoint_covers_is_not_expected_again() {
        let mut history = History::default();
        history.record(Seen::Reply(1), 1, 10, Content::default());
        history.record(Seen::Reply(2), 2, 11, Content::default());
        history.forget(10);
        history.start_replay();
        assert!(history.expected(Seen::Reply(1)).is_none() && history.expected(Seen::Reply(2)).is_some());
    }
}
