//! Coalescing: the distinct 64-byte blocks that the lanes of a wave access in one instruction.

use crate::observe::accesses::Access;

/// Bytes of a block, the unit in which accesses are recorded.
pub(crate) const BLOCK: u64 = 64;
/// Bits of a recorded run for its length; the rest is the number of its first block.
const LENGTH_BITS: u32 = 12;

/// Consecutive blocks, packed into one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run(u64);

impl Run {
    fn new(first: u64, blocks: u64) -> Run {
        Run(first << LENGTH_BITS | blocks)
    }

    pub fn from_word(word: u64) -> Run {
        Run(word)
    }

    pub fn word(self) -> u64 {
        self.0
    }

    /// Number of the first block.
    pub fn first(self) -> u64 {
        self.0 >> LENGTH_BITS
    }

    /// Number of blocks.
    pub fn blocks(self) -> u64 {
        self.0 & ((1 << LENGTH_BITS) - 1)
    }
}

/// Appends the blocks of an access to `out` as runs, each block once, in ascending order. Returns their number. `place` maps a lane's
/// address to the address that the caches see.
pub(crate) fn runs(access: &Access, place: impl Fn(u32, u64) -> u64, out: &mut Vec<u64>) -> u64 {
    let mut spans = [(0u64, 0u64); 64];
    let mut count = 0;
    for (lane, address) in access.iter() {
        let address = place(lane, address);
        let last = address.saturating_add(u64::from(access.bytes).max(1) - 1);
        spans[count] = (address / BLOCK, last / BLOCK);
        count += 1;
    }
    let spans = &mut spans[..count];
    if !spans.is_sorted() {
        spans.sort_unstable();
    }
    let mut blocks = 0;
    let mut current: Option<(u64, u64)> = None;
    let mut close = |(first, last): (u64, u64)| {
        out.push(Run::new(first, last - first + 1).word());
        blocks += last - first + 1;
    };
    for (first, last) in spans.iter().copied() {
        // 64 lanes of at most 16 bytes touch at most 128 blocks, so a run's length always fits.
        current = match current {
            Some((start, end)) if first <= end + 1 => Some((start, end.max(last))),
            Some(run) => {
                close(run);
                Some((first, last))
            }
            None => Some((first, last)),
        };
    }
    if let Some(run) = current {
        close(run);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::accesses::Space;
    use isa::AccessKind;

    fn blocks(bytes: u32, lanes: u64, address: impl Fn(u64) -> u64) -> (u64, Vec<(u64, u64)>) {
        let access = Access {
            space: Space::Global,
            kind: AccessKind::Load,
            bytes,
            lanes,
            scalar: false,
            coherent: false,
            data: None,
            addresses: std::array::from_fn(|lane| address(lane as u64)),
        };
        let mut out = Vec::new();
        let count = runs(&access, |_, address| address, &mut out);
        let runs = out.into_iter().map(|word| (Run::from_word(word).first(), Run::from_word(word).blocks()));
        (count, runs.collect())
    }

    #[test]
    fn consecutive_lanes_share_blocks_and_distant_lanes_do_not() {
        assert_eq!(blocks(4, !0, |lane| 0x1000 + 4 * lane), (4, vec![(64, 4)]), "consecutive dwords");
        assert_eq!(blocks(4, !0, |lane| 0x1004 + 4 * lane), (5, vec![(64, 5)]), "one dword off");
        assert_eq!(blocks(4, !0, |_| 0x1000), (1, vec![(64, 1)]), "one address");
        assert_eq!(blocks(16, !0, |lane| 0x1000 + 16 * (63 - lane)), (16, vec![(64, 16)]), "backwards");
        assert_eq!(blocks(4, !0, |lane| 0x1000 + 256 * lane).0, 64, "a block each");
        assert_eq!(blocks(8, 1, |_| 0x103c), (2, vec![(64, 2)]), "across a block");
        assert_eq!(
            blocks(4, 0x3, |lane| 0x2000_u64.wrapping_sub(0x1000 * lane)),
            (2, vec![(64, 1), (128, 1)]),
            "two lanes"
        );
    }
}
