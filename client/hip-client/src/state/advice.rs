//! Advice for ranges of managed memory (hipMemAdvise and hipMemPrefetchAsync), stored so that programs can query it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// hipCpuDeviceId and hipInvalidDeviceId.
pub const HOST: i32 = -1;
pub const NOWHERE: i32 = -2;

/// The advice of one byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    pub read_mostly: bool,
    pub coarse_grained: bool,
    pub preferred: i32,
    pub prefetched: i32,
    pub accessed_by: BTreeSet<i32>,
}

impl Default for Advice {
    fn default() -> Advice {
        Advice {
            read_mostly: false,
            coarse_grained: false,
            preferred: NOWHERE,
            prefetched: NOWHERE,
            accessed_by: BTreeSet::new(),
        }
    }
}

/// Advice by address range. Other addresses have the default.
#[derive(Debug, Default)]
pub struct Advised {
    /// By start: end and advice. Ranges do not overlap.
    stretches: BTreeMap<u64, (u64, Advice)>,
}

impl Advised {
    /// Changes the advice of a range.
    pub fn change(&mut self, range: Range<u64>, change: impl Fn(&mut Advice)) {
        self.cut(range.start);
        self.cut(range.end);
        let mut from = range.start;
        let mut gaps = Vec::new();
        for (start, (end, advice)) in self.stretches.range_mut(range.clone()) {
            if from < *start {
                gaps.push(from..*start);
            }
            change(advice);
            from = *end;
        }
        if from < range.end {
            gaps.push(from..range.end);
        }
        for gap in gaps {
            let mut advice = Advice::default();
            change(&mut advice);
            self.stretches.insert(gap.start, (gap.end, advice));
        }
    }

    /// Drops the advice of a freed range.
    pub fn forget(&mut self, range: Range<u64>) {
        self.cut(range.start);
        self.cut(range.end);
        self.stretches.retain(|start, _| !range.contains(start));
    }

    /// The value of `ask` if it is the same for the whole range, else `None`.
    pub fn common<T: PartialEq>(&self, range: Range<u64>, ask: impl Fn(&Advice) -> T) -> Option<T> {
        let mut answers = self.over(range).into_iter().map(|advice| ask(&advice));
        let first = answers.next()?;
        answers.all(|other| other == first).then_some(first)
    }

    /// The devices advised to access every byte of a range.
    pub fn accessed_by(&self, range: Range<u64>) -> BTreeSet<i32> {
        let sets = self.over(range).into_iter().map(|advice| advice.accessed_by);
        sets.reduce(|all, other| &all & &other).unwrap_or_default()
    }

    fn over(&self, range: Range<u64>) -> Vec<Advice> {
        let first =
            self.stretches.range(..=range.start).next_back().filter(|(_, (end, _))| *end > range.start);
        let rest = self.stretches.range(range.start.saturating_add(1)..range.end.max(range.start + 1));
        let mut from = range.start;
        let mut found = Vec::new();
        for (start, (end, advice)) in first.into_iter().chain(rest) {
            if from < *start {
                found.push(Advice::default());
            }
            found.push(advice.clone());
            from = *end;
        }
        if from < range.end {
            found.push(Advice::default());
        }
        found
    }

    /// Splits the range that contains `at`, if any.
    fn cut(&mut self, at: u64) {
        let Some((_, (end, advice))) = self.stretches.range_mut(..at).next_back() else { return };
        if *end > at {
            let rest = (*end, advice.clone());
            *end = at;
            self.stretches.insert(at, rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_holds_for_the_bytes_it_was_given_for() {
        let mut advised = Advised::default();
        advised.change(100..200, |advice| advice.read_mostly = true);
        advised.change(150..300, |advice| advice.preferred = 1);
        let read_mostly = |range| advised.common(range, |advice| advice.read_mostly);
        assert_eq!(read_mostly(100..200), Some(true));
        assert_eq!(read_mostly(120..160), Some(true));
        assert_eq!(read_mostly(99..200), None);
        assert_eq!(read_mostly(200..300), Some(false));
        assert_eq!(read_mostly(1000..2000), Some(false));
        let preferred = |range| advised.common(range, |advice| advice.preferred);
        assert_eq!((preferred(150..300), preferred(100..150)), (Some(1), Some(NOWHERE)));
        assert_eq!((preferred(100..300), preferred(299..301)), (None, None));
        advised.forget(120..180);
        assert_eq!(advised.common(120..180, Clone::clone), Some(Advice::default()));
        assert_eq!(
            advised.common(180..200, |advice| (advice.read_mostly, advice.preferred)),
            Some((true, 1))
        );
    }

    #[test]
    fn a_device_uses_a_range_if_it_uses_all_of_it() {
        let mut advised = Advised::default();
        advised.change(0..100, |advice| advice.accessed_by.extend([0]));
        advised.change(0..50, |advice| advice.accessed_by.extend([HOST]));
        assert_eq!(advised.accessed_by(0..50), BTreeSet::from([HOST, 0]));
        assert_eq!(advised.accessed_by(0..100), BTreeSet::from([0]));
        assert!(advised.accessed_by(0..101).is_empty());
    }

    #[test]
    fn any_changes_hold_as_if_kept_byte_by_byte() {
        let mut advised = Advised::default();
        let mut bytes = vec![NOWHERE; 64];
        let mut seed = 99u64;
        let mut random = |most: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % most
        };
        for turn in 0..2000 {
            let start = random(63);
            let end = start + 1 + random(64 - start);
            if random(5) == 0 {
                advised.forget(start..end);
                bytes[start as usize..end as usize].fill(NOWHERE);
            } else {
                advised.change(start..end, |advice| advice.preferred = turn % 3);
                bytes[start as usize..end as usize].fill(turn % 3);
            }
            let start = random(63);
            let end = start + 1 + random(64 - start);
            let part = &bytes[start as usize..end as usize];
            let wanted = part.iter().all(|byte| *byte == part[0]).then_some(part[0]);
            assert_eq!(advised.common(start..end, |advice| advice.preferred), wanted);
        }
    }
}
