//! Pinned memory that is not mirrored on the worker yet: mostly copy buffers, which cost nothing until a kernel uses
//! them.
//!
//! A kernel can only use an address that was sent to the device. So everything that is sent is searched for addresses of
//! such memory, and the ranges found are exposed to the device first. A kernel that computes an address it was never
//! given finds no memory mapped there: a fault, not wrong data.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

use parking_lot::RwLock;
use session::quietly;

/// Up to this many bytes are searched at every offset, larger ones only at multiples of four.
const EVERY_OFFSET: usize = 4096;
/// How far before a range an address may point and still count as a pointer to it.
const BEFORE: u64 = 64;
const BLOCK: usize = 512;
/// Bodies from this size on are searched while they are sent, in pieces of this size and by this many threads: one thread searches
/// about as fast as one sends.
pub const LARGE: usize = 8 << 20;
const PIECE: usize = 4 << 20;
const SEARCHERS: usize = 2;

/// The ranges not exposed to the device.
#[derive(Debug, Default)]
pub struct UnmirroredRanges {
    /// From the start of the first to the end of the last range: most words are ruled out by this.
    low: AtomicU64,
    span: AtomicU64,
    ranges: RwLock<BTreeMap<u64, u64>>,
}

impl UnmirroredRanges {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.span.load(Ordering::Acquire) == 0
    }

    pub fn insert(&self, range: Range<u64>) {
        let mut ranges = self.ranges.write();
        ranges.insert(range.start, range.end);
        self.measure(&ranges);
    }

    pub fn remove(&self, start: u64) {
        let mut ranges = self.ranges.write();
        ranges.remove(&start);
        self.measure(&ranges);
    }

    fn measure(&self, ranges: &BTreeMap<u64, u64>) {
        let ends = ranges.first_key_value().zip(ranges.last_key_value());
        let (low, high) = ends.map_or((0, 0), |((first, _), (_, end))| (first - BEFORE, end + 1));
        self.low.store(low, Ordering::Release);
        self.span.store(high - low, Ordering::Release);
    }

    /// Searches `bytes` on other threads while `run` is running. `run` gets a function that waits until as many bytes as it is given
    /// are searched, and returns the starts of the ranges found since the last call.
    pub fn search_ahead<R>(
        &self,
        bytes: &[u8],
        run: impl FnOnce(&mut dyn FnMut(usize) -> Vec<u64>) -> R,
    ) -> R {
        // Addresses across the end of a piece count to the piece that they begin in.
        let piece = |index: usize| {
            let start = (index * PIECE).min(bytes.len());
            &bytes[start..bytes.len().min(start + PIECE + 7)]
        };
        let count = bytes.len().div_ceil(PIECE);
        std::thread::scope(|scope| {
            let searchers: Vec<_> = (0..SEARCHERS)
                .map(|first| {
                    let (sender, found) = channel();
                    let search = move || {
                        for index in (first..count).step_by(SEARCHERS) {
                            if sender.send(self.search(piece(index))).is_err() {
                                return;
                            }
                        }
                    };
                    let name = "remora-search".to_owned();
                    let started =
                        quietly(|| std::thread::Builder::new().name(name).spawn_scoped(scope, search));
                    started.ok().map(|_| found)
                })
                .collect();
            let mut searched = 0;
            run(&mut |end| {
                let mut all = Vec::new();
                while searched * PIECE < end.min(bytes.len()) {
                    let found = searchers[searched % SEARCHERS].as_ref().and_then(|found| found.recv().ok());
                    // The thread could not be started: this thread searches the piece.
                    all.extend(found.unwrap_or_else(|| self.search(piece(searched))));
                    searched += 1;
                }
                all
            })
        })
    }

    /// The starts of the ranges whose addresses occur in `bytes`.
    pub fn search(&self, bytes: &[u8]) -> Vec<u64> {
        let mut found = Vec::new();
        if self.is_empty() || bytes.len() < 8 {
            return found;
        }
        let ranges = self.ranges.read();
        let (low, span) = (self.low.load(Ordering::Acquire), self.span.load(Ordering::Acquire));
        // All these addresses have one of very few upper halves, so search for those.
        let upper = (low >> 32) as u32;
        let uppers = ((low + span) >> 32) as u32 - upper;
        let near = |half: &[u8; 4]| u32::from_le_bytes(*half).wrapping_sub(upper) <= uppers;
        let offsets = if bytes.len() <= EVERY_OFFSET { 4 } else { 1 };
        for offset in 0..offsets {
            let from = offset + 4;
            for (index, block) in bytes[from.min(bytes.len())..].chunks(BLOCK).enumerate() {
                let (halves, _) = block.as_chunks::<4>();
                // No early exit, so that the loop is vectorized.
                if !halves.iter().fold(false, |any, half| any | near(half)) {
                    continue;
                }
                for (half, at) in halves.iter().zip((from - 4 + index * BLOCK..).step_by(4)) {
                    let word = bytes[at..].first_chunk().map(|word| u64::from_le_bytes(*word));
                    if let Some(address) = word.filter(|_| near(half))
                        && address.wrapping_sub(low) < span
                        && let Some((start, end)) = ranges.range(..=address + BEFORE).next_back()
                        && address <= *end
                        && !found.contains(start)
                    {
                        found.push(*start);
                    }
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x2000_0000_0000;

    fn unseen() -> UnmirroredRanges {
        let unseen = UnmirroredRanges::default();
        unseen.insert(BASE..BASE + 4096);
        unseen.insert(BASE + 0x10_0000..BASE + 0x20_0000);
        unseen
    }

    #[test]
    fn an_address_is_found_wherever_it_lies() {
        let unseen = unseen();
        for length in [8, 64, 4096, 4100, 100_000] {
            for at in [0, 1, 4, 12, 2052, length - 8] {
                if at + 8 > length || (length > EVERY_OFFSET && at % 4 != 0) {
                    continue;
                }
                let mut bytes = vec![0; length];
                bytes[at..at + 8].copy_from_slice(&(BASE + 0x10_0010).to_le_bytes());
                assert_eq!(unseen.search(&bytes), [BASE + 0x10_0000], "{at} of {length}");
            }
        }
    }

    #[test]
    fn first_and_last_addresses_count_and_others_do_not() {
        let unseen = unseen();
        let search = |address: u64| unseen.search(&address.to_le_bytes());
        for inside in [BASE - 8, BASE, BASE + 4095, BASE + 4096] {
            assert_eq!(search(inside), [BASE], "{inside:#x}");
        }
        for outside in [BASE - 100, BASE + 4097, BASE + 0x20_0001, 0, u64::MAX, 7] {
            assert!(search(outside).is_empty(), "{outside:#x}");
        }
        assert!(unseen.search(&[1; 7]).is_empty());
        unseen.remove(BASE);
        assert!(search(BASE + 10).is_empty());
        assert_eq!(search(BASE + 0x10_0000), [BASE + 0x10_0000]);
        unseen.remove(BASE + 0x10_0000);
        assert!(unseen.is_empty() && search(BASE + 0x10_0000).is_empty());
    }

    #[test]
    fn a_search_ahead_finds_what_a_search_finds() {
        let unseen = unseen();
        let mut bytes = vec![0; 3 * PIECE + 1000];
        let mut put = |at: usize| bytes[at..at + 8].copy_from_slice(&(BASE + 0x10_0010).to_le_bytes());
        put(PIECE - 4);
        put(3 * PIECE + 992);
        let found = unseen.search_ahead(&bytes, |found| {
            [
                found(100),
                found(PIECE),
                found(PIECE + 1),
                found(3 * PIECE),
                found(usize::MAX),
                found(usize::MAX),
            ]
        });
        let second = vec![BASE + 0x10_0000];
        assert_eq!(found, [second.clone(), vec![], vec![], vec![], second, vec![]]);
    }

    #[test]
    fn each_range_is_named_once() {
        let words = [BASE, BASE + 1, BASE + 0x10_0000, BASE + 2, BASE + 0x11_0000];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut found = unseen().search(&bytes);
        found.sort_unstable();
        assert_eq!(found, [BASE, BASE + 0x10_0000]);
    }
}
