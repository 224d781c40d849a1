//! Upload optimizations for slow links: deduplication by content hash (the worker keeps contents from earlier runs) and
//! LZ4 compression.
//!
//! Both cost CPU time, so uploads are hashed only if they are large, the link is slower than the hash, and the
//! destination was not written before in this session. Model weights are like that; batches of training data are not.
//! Uploads are compressed only if a sample predicts that they shrink.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use wire::{MAX_PACKED_BYTES, Operation, Packed};

/// The smallest copy that is hashed.
pub const LEAST: usize = 1 << 20;
/// Latency from which a link is assumed to be slower than the hash.
const FAR: Duration = Duration::from_millis(2);
/// Throughput in bytes per second below which a link counts as slower than the hash.
const SLOW: f64 = 300e6;
/// Limit of remembered destination addresses.
const MOST_PLACES: usize = 1 << 16;

/// Sizes of bodies that are compressed, and the largest compression ratio of the sample for it.
const PACKED_SIZES: std::ops::RangeInclusive<usize> = 64 << 10..=MAX_PACKED_BYTES as usize;
const WORTH_PACKING: f64 = 0.85;
/// Number and size of samples: about a hundredth of a piece, so that incompressible data costs no more than that.
const SAMPLES: usize = 3;
const SAMPLE: usize = 16 << 10;

/// Policy of an optimization that may not pay off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum When {
    /// When measurements say that it pays off.
    #[default]
    Measured,
    /// Without measuring.
    Always,
    /// Not at all.
    Never,
}

/// The hash of a content (BLAKE3).
pub fn hash(content: &[u8]) -> [u8; 32] {
    *blake3::hash(content).as_bytes()
}

/// Contents known to be on the worker, and the measured speed of the link.
#[derive(Debug)]
pub struct Uploads {
    hashing: When,
    packing: When,
    distance: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// First halves of the hashes of contents that the worker has.
    known: HashSet<[u8; 16]>,
    places: HashSet<u64>,
    slow: bool,
}

impl Uploads {
    /// `hashes`: concatenated first halves of the hashes that the worker has. `distance`: the worker's response time.
    pub fn new(hashing: When, packing: When, hashes: &[u8], distance: Duration) -> Uploads {
        let (known, _) = hashes.as_chunks::<16>();
        let known = known.iter().copied().collect();
        let state = State { known, places: HashSet::new(), slow: distance >= FAR };
        Uploads { hashing, packing, distance, state: Mutex::new(state) }
    }

    /// Whether the worker is expected to have this content.
    pub fn is_known(&self, hash: &[u8; 32]) -> bool {
        let mut half = [0; 16];
        half.copy_from_slice(&hash[..16]);
        self.hashing != When::Never && self.state.lock().known.contains(&half)
    }

    /// Records that the worker was sent this content.
    pub fn note(&self, hash: &[u8; 32]) {
        let mut half = [0; 16];
        half.copy_from_slice(&hash[..16]);
        self.state.lock().known.insert(half);
    }

    /// Clears the known contents: the session continues on a worker that may not have them.
    pub fn forget(&self) {
        self.state.lock().known.clear();
    }

    /// Whether an upload should be hashed.
    pub fn is_worth_it(&self, destination: u64, bytes: usize) -> bool {
        if bytes < LEAST || self.hashing == When::Never {
            return false;
        }
        let mut state = self.state.lock();
        if self.hashing == When::Measured && !state.slow {
            return false;
        }
        state.places.len() < MOST_PLACES && state.places.insert(destination)
    }

    /// Measures the link: `bytes` bytes were sent from `start` until now and have arrived.
    pub fn measured(&self, bytes: usize, start: Instant) {
        if bytes >= LEAST {
            let taken = start.elapsed().saturating_sub(self.distance).max(Duration::from_micros(1));
            self.state.lock().slow = (bytes as f64) / taken.as_secs_f64() < SLOW;
        }
    }

    /// Returns the operation with a compressed body, if the link is slow and the result is smaller.
    pub fn pack<O: Operation>(&self, operation: &O, body: &[u8]) -> Option<(Packed, Arc<[u8]>)> {
        let wanted = match self.packing {
            When::Always => true,
            When::Never => false,
            When::Measured => self.state.lock().slow,
        };
        if !wanted || !PACKED_SIZES.contains(&body.len()) || !will_shrink(body) {
            return None;
        }
        let mut bytes = Vec::with_capacity(64);
        operation.put(&mut bytes);
        if bytes.len() > 64 {
            return None;
        }
        bytes.resize(64, 0);
        let (halves, _) = bytes.as_chunks::<32>();
        let packed = lz4_flex::block::compress(body);
        let head =
            Packed { opcode: O::OPCODE.number(), bytes: body.len() as u64, fields: [halves[0], halves[1]] };
        (packed.len() < body.len()).then(|| (head, packed.into()))
    }
}

fn will_shrink(body: &[u8]) -> bool {
    let mut left = 0;
    for sample in 0..SAMPLES {
        let at = (body.len() - SAMPLE) / (SAMPLES - 1) * sample;
        left += lz4_flex::block::compress(&body[at..at + SAMPLE]).len();
    }
    (left as f64) < WORTH_PACKING * (SAMPLES * SAMPLE) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Write;

    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            (state >> 24) as u8
        };
        (0..bytes).map(|_| next()).collect()
    }

    #[test]
    fn only_what_shrinks_is_packed_and_only_where_it_is_wanted() {
        let write = Write { stream: 1, destination: 0x1000 };
        let zeros = vec![0; 1 << 20];
        let uploads = |packing, distance| Uploads::new(When::Never, packing, &[], distance);
        let (head, body) = uploads(When::Always, Duration::ZERO).pack(&write, &zeros).unwrap();
        assert_eq!((head.opcode, head.bytes), (Write::OPCODE.number(), 1 << 20));
        assert_eq!(lz4_flex::block::decompress(&body, zeros.len()).unwrap(), zeros);
        assert!(uploads(When::Always, Duration::ZERO).pack(&write, &noise(1 << 20)).is_none());
        assert!(uploads(When::Always, Duration::ZERO).pack(&write, &zeros[..1000]).is_none());
        assert!(uploads(When::Measured, Duration::ZERO).pack(&write, &zeros).is_none());
        assert!(uploads(When::Measured, FAR).pack(&write, &zeros).is_some());
        assert!(uploads(When::Never, FAR).pack(&write, &zeros).is_none());
    }

    #[test]
    fn only_large_first_uploads_over_slow_links_are_hashed() {
        let near = Uploads::new(When::Measured, When::Never, &[], Duration::ZERO);
        assert!(!near.is_worth_it(0x1000, LEAST));
        near.measured(LEAST, Instant::now() - Duration::from_secs(1));
        assert!(near.is_worth_it(0x1000, LEAST));
        let far = Uploads::new(When::Measured, When::Never, &[], FAR);
        assert!(!far.is_worth_it(0x1000, LEAST - 1));
        assert!(far.is_worth_it(0x1000, LEAST));
        assert!(!far.is_worth_it(0x1000, LEAST), "the second write to the address");
        assert!(!Uploads::new(When::Never, When::Never, &[], FAR).is_worth_it(0x1000, LEAST));
    }

    #[test]
    fn what_the_worker_told_or_was_sent_is_known_and_nothing_else() {
        let content = hash(b"weights");
        let uploads = Uploads::new(When::Always, When::Never, &content[..16], Duration::ZERO);
        assert!(uploads.is_known(&content) && !uploads.is_known(&hash(b"others")));
        uploads.note(&hash(b"others"));
        assert!(uploads.is_known(&hash(b"others")));
    }
}
