//! Memory of other GPUs, which a kernel reaches through a link.

use std::ops::Range;

/// Address ranges of the memory of other GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerMemory(Vec<Range<u64>>);

impl PeerMemory {
    /// Collects ranges, which must not overlap.
    pub fn new(ranges: impl IntoIterator<Item = Range<u64>>) -> PeerMemory {
        let mut ranges: Vec<Range<u64>> = ranges.into_iter().collect();
        ranges.sort_by_key(|range| range.start);
        PeerMemory(ranges)
    }

    /// Returns whether an address is in the memory of another GPU.
    pub fn contains(&self, address: u64) -> bool {
        let after = self.0.partition_point(|range| range.start <= address);
        after > 0 && address < self.0[after - 1].end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_include_their_start_and_exclude_their_end() {
        let peers = PeerMemory::new([100..200, 10..20, 200..201]);
        let found: Vec<u64> =
            [9, 10, 19, 20, 99, 100, 199, 200, 201].into_iter().filter(|at| peers.contains(*at)).collect();
        assert_eq!(found, [10, 19, 100, 199, 200]);
        assert!(!PeerMemory::default().contains(0));
    }
}
