//! Uploads that the worker may have from an earlier run: a hash is sent in their place.
//!
//! Hashing costs time, so only what is worth it is hashed: large copies, over a link that is slower than the hash, to memory
//! that was not written before in this session. Weights are like that; batches of training data are not.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Copies from this size on are worth a hash.
pub const LEAST: usize = 1 << 20;
/// A worker this far away is reached over a link slower than the hash.
const FAR: Duration = Duration::from_millis(2);
/// So is one that took bytes no faster than this, a second.
const SLOW: f64 = 300e6;
/// Places that are remembered as written.
const MOST_PLACES: usize = 1 << 16;

/// When uploads are hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Hashing {
    /// When it is worth it.
    #[default]
    Measured,
    Always,
    Never,
}

/// The hash of a content.
pub fn hash(content: &[u8]) -> [u8; 32] {
    *blake3::hash(content).as_bytes()
}

/// What is known of the worker's store and of the link.
#[derive(Debug)]
pub struct Uploads {
    hashing: Hashing,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The first halves of hashes.
    known: HashSet<[u8; 16]>,
    places: HashSet<u64>,
    slow: bool,
}

impl Uploads {
    /// `told` are the first halves of the hashes the worker has, one after another; `far` is how long it took to answer.
    pub fn new(hashing: Hashing, told: &[u8], far: Duration) -> Uploads {
        let (known, _) = told.as_chunks::<16>();
        let state =
            State { known: known.iter().copied().collect(), places: HashSet::new(), slow: far >= FAR };
        Uploads { hashing, state: Mutex::new(state) }
    }

    /// Nothing is ever known.
    pub fn off() -> Uploads {
        Uploads::new(Hashing::Never, &[], Duration::ZERO)
    }

    /// Whether the worker is believed to have this content.
    pub fn is_known(&self, hash: &[u8; 32]) -> bool {
        let mut half = [0; 16];
        half.copy_from_slice(&hash[..16]);
        self.hashing != Hashing::Never && self.state.lock().known.contains(&half)
    }

    /// The worker was sent it.
    pub fn note(&self, hash: &[u8; 32]) {
        let mut half = [0; 16];
        half.copy_from_slice(&hash[..16]);
        self.state.lock().known.insert(half);
    }

    /// Whether an upload should be hashed.
    pub fn is_worth_it(&self, destination: u64, bytes: usize) -> bool {
        if bytes < LEAST || self.hashing == Hashing::Never {
            return false;
        }
        let mut state = self.state.lock();
        if self.hashing == Hashing::Measured && !state.slow {
            return false;
        }
        state.places.len() < MOST_PLACES && state.places.insert(destination)
    }

    /// So many bytes were sent as they are since `start`, and have arrived.
    pub fn measured(&self, bytes: usize, start: Instant) {
        if bytes >= LEAST && self.hashing == Hashing::Measured {
            self.state.lock().slow = bytes as f64 / start.elapsed().as_secs_f64() < SLOW;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_first_uploads_over_slow_links_are_hashed() {
        let near = Uploads::new(Hashing::Measured, &[], Duration::ZERO);
        assert!(!near.is_worth_it(0x1000, LEAST));
        near.measured(LEAST, Instant::now() - Duration::from_secs(1));
        assert!(near.is_worth_it(0x1000, LEAST));
        let far = Uploads::new(Hashing::Measured, &[], FAR);
        assert!(!far.is_worth_it(0x1000, LEAST - 1));
        assert!(far.is_worth_it(0x1000, LEAST));
        assert!(!far.is_worth_it(0x1000, LEAST), "written again");
        assert!(!Uploads::off().is_worth_it(0x1000, LEAST));
    }

    #[test]
    fn what_the_worker_told_or_was_sent_is_known_and_nothing_else() {
        let content = hash(b"weights");
        let uploads = Uploads::new(Hashing::Always, &content[..16], Duration::ZERO);
        assert!(uploads.is_known(&content) && !uploads.is_known(&hash(b"others")));
        uploads.note(&hash(b"others"));
        assert!(uploads.is_known(&hash(b"others")));
    }
}
