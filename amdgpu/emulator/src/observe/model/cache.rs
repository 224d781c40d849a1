//! A set-associative cache with least-recently-used replacement, which tracks tags but holds no data.

use super::gpu::CacheShape;

/// What an access found, and what it pushed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub hit: bool,
    /// Line that was written and had to leave.
    pub evicted: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Line number plus one; 0 is empty.
    tag: u64,
    dirty: bool,
}

/// Tags of a cache. Within a set, the entry used last comes first.
#[derive(Debug)]
pub(crate) struct Cache {
    ways: usize,
    sets: usize,
    entries: Vec<Entry>,
}

impl Cache {
    /// An empty cache. `part` is the share of the capacity that the modelled part of a launch has, 1 for all of it.
    pub fn new(shape: CacheShape, part: u64) -> Cache {
        let sets = (shape.bytes / shape.line / shape.ways / part.max(1)).max(1) as usize;
        let ways = shape.ways as usize;
        Cache { ways, sets, entries: vec![Entry::default(); sets * ways] }
    }

    /// Accesses a line, which is brought in if it is missing. A write makes it dirty.
    pub fn access(&mut self, line: u64, write: bool) -> Outcome {
        let set = self.set(line);
        let found = set.iter().position(|entry| entry.tag == line + 1);
        let at = found.unwrap_or(set.len() - 1);
        let old = set[at];
        set.copy_within(..at, 1);
        set[0] = Entry { tag: line + 1, dirty: write || found.is_some() && old.dirty };
        let evicted = (found.is_none() && old.tag != 0 && old.dirty).then(|| old.tag - 1);
        Outcome { hit: found.is_some(), evicted }
    }

    /// Whether the line is present. Does not count as a use.
    #[cfg(test)]
    fn contains(&mut self, line: u64) -> bool {
        self.set(line).iter().any(|entry| entry.tag == line + 1)
    }

    /// Marks all lines clean and returns those that were dirty, in ascending order.
    pub fn clean(&mut self) -> Vec<u64> {
        let mut lines = Vec::new();
        for entry in self.entries.iter_mut().filter(|entry| entry.dirty) {
            entry.dirty = false;
            lines.push(entry.tag - 1);
        }
        lines.sort_unstable();
        lines
    }

    fn set(&mut self, line: u64) -> &mut [Entry] {
        // High bits take part, so that arrays whose distance is a power of two do not all meet in one set.
        let folded = line ^ line >> 11 ^ line >> 23;
        let at = (folded % self.sets as u64) as usize * self.ways;
        &mut self.entries[at..at + self.ways]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sets of two lines.
    fn small() -> Cache {
        Cache::new(CacheShape { bytes: 256, line: 64, ways: 2 }, 1)
    }

    #[test]
    fn the_line_that_was_used_least_recently_leaves() {
        let mut cache = small();
        for line in [0, 2, 0] {
            cache.access(line, false);
        }
        assert!(!cache.access(4, false).hit);
        assert!(cache.contains(0) && cache.contains(4) && !cache.contains(2));
        assert!(cache.access(0, false).hit);
    }

    #[test]
    fn only_written_lines_are_written_back() {
        let mut cache = small();
        cache.access(0, true);
        cache.access(2, false);
        cache.access(0, false);
        assert_eq!(cache.access(4, false).evicted, None, "line 2 is clean");
        assert_eq!(cache.access(6, true).evicted, Some(0));
        assert_eq!(cache.clean(), [6]);
        assert_eq!(cache.clean(), []);
    }

    #[test]
    fn a_working_set_larger_than_the_cache_never_hits_in_order() {
        let new = || Cache::new(CacheShape { bytes: 16 << 10, line: 64, ways: 64 }, 1);
        let mut cache = new();
        let pass =
            |cache: &mut Cache, lines: u64| (0..lines).filter(|line| cache.access(*line, false).hit).count();
        pass(&mut cache, 256);
        assert_eq!(pass(&mut cache, 256), 256, "it fits");
        let mut cache = new();
        pass(&mut cache, 512);
        assert_eq!(pass(&mut cache, 512), 0, "it does not");
    }

    #[test]
    fn a_part_of_a_cache_holds_less() {
        let shape = CacheShape { bytes: 8 << 10, line: 128, ways: 4 };
        let mut whole = Cache::new(shape, 1);
        let mut quarter = Cache::new(shape, 4);
        for cache in [&mut whole, &mut quarter] {
            for line in 0..64 {
                cache.access(line, false);
            }
        }
        let held = |cache: &mut Cache| (0..64).filter(|line| cache.contains(*line)).count();
        assert_eq!((held(&mut whole), held(&mut quarter)), (64, 16));
    }
}
