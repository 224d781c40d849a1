//! Recording of a launch: exact counts of all workgroups, and the paths and memory accesses of a sample of them.
//!
//! Waves that took the same path share it. The sample depends only on the launch, not on the order in which host threads finish its
//! workgroups: it is thinned out by halves until it fits, and a half that did not fit would not have fitted in any order.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use isa::AccessKind;

use super::coalesce;
use super::site::{Dropped, Programs, Site};
use crate::exec::format::sopp;
use crate::observe::Step;
use crate::observe::accesses::{Access, Space};
use crate::observe::profile::conflicts;
use crate::{Flow, Wave};

/// Instructions of a wave whose order is recorded; later ones are only counted.
const MAX_PATH: usize = 1 << 18;
/// Words of recorded accesses of a wave.
const MAX_TOUCHES: usize = 1 << 18;
/// Words of recorded accesses of a launch: 128 MiB.
const MAX_SAMPLE: usize = 16 << 20;
/// Words of recorded paths of a launch.
const MAX_PATHS: usize = 16 << 20;

/// Exact counts of one instruction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SiteCount {
    pub executions: u64,
    /// Active lanes, summed over executions.
    pub lanes: u64,
    /// Branches: times taken.
    pub taken: u64,
    /// LDS cycles, and those of them lost to bank conflicts.
    pub lds_cycles: u64,
    pub lds_conflicts: u64,
    /// 64-byte blocks of global and private memory, and the bytes that lanes requested.
    pub blocks: u64,
    pub bytes: u64,
}

impl SiteCount {
    fn add(&mut self, other: &SiteCount) {
        self.executions += other.executions;
        self.lanes += other.lanes;
        self.taken += other.taken;
        self.lds_cycles += other.lds_cycles;
        self.lds_conflicts += other.lds_conflicts;
        self.blocks += other.blocks;
        self.bytes += other.bytes;
    }
}

/// How an access uses the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TouchKind {
    Load,
    /// A load that L1 must not serve.
    CoherentLoad,
    Store,
    Atomic,
    ScalarLoad,
}

/// First word of a recorded access: the site, the kind, and the number of runs that follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    pub site: Site,
    pub kind: TouchKind,
    pub runs: usize,
}

impl Touch {
    fn word(self) -> u64 {
        u64::from(self.site.word()) << 32 | (self.kind as u64) << 16 | self.runs as u64
    }

    pub fn from_word(word: u64) -> Touch {
        let kind = match word >> 16 & 0xff {
            0 => TouchKind::Load,
            1 => TouchKind::CoherentLoad,
            2 => TouchKind::Store,
            3 => TouchKind::Atomic,
            _ => TouchKind::ScalarLoad,
        };
        Touch { site: Site::from_word((word >> 32) as u32), kind, runs: (word & 0xffff) as usize }
    }
}

#[derive(Debug, Default)]
struct WaveRecord {
    path: Vec<u32>,
    touches: Vec<u64>,
    /// Address at which the wave continues.
    next: u64,
}

/// Counts by program slot and micro-op.
pub(crate) type Counts = Vec<Vec<SiteCount>>;

/// Records one workgroup.
#[derive(Debug)]
pub(crate) struct Recorder {
    linear: u64,
    sampled: bool,
    waves: Vec<WaveRecord>,
    counts: Counts,
    /// The program that ran last: its base, slot and dropped instructions.
    last: Option<(u64, usize, Arc<Dropped>)>,
    programs: Arc<Programs>,
}

impl Recorder {
    pub fn new(
        linear: u64,
        waves: usize,
        sampled: bool,
        programs: &Arc<Programs>,
        counts: Counts,
    ) -> Recorder {
        let mut records = Vec::new();
        records.resize_with(waves, WaveRecord::default);
        Recorder { linear, sampled, waves: records, counts, last: None, programs: Arc::clone(programs) }
    }

    /// Records a micro-op that has run; `exec` is the mask from before.
    pub fn after(&mut self, step: &Step, exec: u64, wave: &Wave, flow: Flow) {
        // An instruction that will be retried has not happened yet, and preparatory micro-ops are the emulator's own.
        if matches!(flow, Flow::Retry | Flow::Fault) || !step.program.is_whole(step.at) {
            return;
        }
        let base = step.program.base();
        if self.last.as_ref().is_none_or(|last| last.0 != base) {
            self.last = self.programs.slot(step.program).map(|(slot, dropped)| (base, slot, dropped));
        }
        let Some((_, slot, dropped)) = &self.last else { return };
        let slot = *slot;
        if self.counts.len() <= slot {
            self.counts.resize_with(slot + 1, Vec::new);
        }
        if self.counts[slot].is_empty() {
            self.counts[slot] = vec![SiteCount::default(); step.program.uops.len()];
        }
        let count = &mut self.counts[slot][step.at];
        count.executions += 1;
        count.lanes += u64::from(exec.count_ones());
        count.taken += u64::from(flow == Flow::Jump);
        let site = Site::uop(slot, step.at);
        let record = &mut self.waves[wave.index as usize];
        if self.sampled && record.path.len() < MAX_PATH {
            let inst = step.program.uops[step.at].inst as usize;
            if dropped.has_before(inst) {
                let passed = dropped.passed(step.program, inst, record.next);
                record.path.extend(passed.map(|(index, _)| Site::dropped(slot, index).word()));
            }
            record.path.push(site.word());
            record.next = continues(step, wave, flow);
        }
        for access in step.accesses {
            if access.space == Space::Local {
                let cost = conflicts(access);
                count.lds_cycles += cost.cycles;
                count.lds_conflicts += cost.conflicts;
                continue;
            }
            let kind = match access.kind {
                _ if access.scalar => TouchKind::ScalarLoad,
                AccessKind::Load if access.coherent => TouchKind::CoherentLoad,
                AccessKind::Load => TouchKind::Load,
                AccessKind::Store => TouchKind::Store,
                AccessKind::Atomic => TouchKind::Atomic,
            };
            let own = own_shift(step, access);
            let private = private_place(access.space, self.linear, wave.index, wave.private_size);
            let place = |lane, address: u64| private(lane, address.wrapping_add(own));
            let start = record.touches.len();
            record.touches.push(0);
            count.blocks += coalesce::runs(access, place, &mut record.touches);
            count.bytes += u64::from(access.bytes) * u64::from(access.lanes.count_ones());
            let runs = record.touches.len() - start - 1;
            record.touches[start] = Touch { site, kind, runs }.word();
            if !self.sampled || record.touches.len() > MAX_TOUCHES {
                record.touches.truncate(start);
            }
        }
    }
}

/// Address at which a wave continues after a step.
fn continues(step: &Step, wave: &Wave, flow: Flow) -> u64 {
    let address = step.program.address_of(step.at);
    let end = address + u64::from(step.inst.size);
    match flow {
        Flow::Jump if sopp::is_branch(step.inst.op) => {
            end.wrapping_add_signed(i64::from(step.inst.imm as i16) * 4)
        }
        Flow::Far => wave.far,
        // The target of other jumps is a register; nothing dropped is taken to be before it.
        Flow::Jump => u64::MAX,
        _ => end,
    }
}

/// Distance to the place that an access to a buffer of the dispatch itself has for the caches. The host allocates such a buffer
/// anywhere in a page, which must not change the estimate.
fn own_shift(step: &Step, access: &Access) -> u64 {
    const REGION: u64 = 1 << 49;
    const EACH: u64 = 1 << 32;
    let Some((_, address)) = access.iter().next().filter(|_| access.space == Space::Global) else { return 0 };
    let own = step.launch.own.iter().enumerate().find(|(_, own)| address >= own.start && address < own.end);
    own.map_or(0, |(index, own)| (REGION + index as u64 * EACH).wrapping_sub(own.start))
}

/// Where private memory is for the caches: a region of each wave, in which a dword of all lanes is followed by the next dword.
fn private_place(space: Space, group: u64, wave: u32, size: u32) -> impl Fn(u32, u64) -> u64 {
    const REGION: u64 = 1 << 50;
    let base = REGION + (group * 16 + u64::from(wave)) * u64::from(size).max(4) * 64;
    move |lane, address| match space {
        Space::Private => base + address / 4 * 256 + u64::from(lane) * 4 + address % 4,
        _ => address,
    }
}

/// A sampled workgroup: its waves' paths, by number, and their accesses.
#[derive(Debug)]
pub(crate) struct SampledGroup {
    pub paths: Vec<u32>,
    pub touches: Vec<Vec<u64>>,
}

/// Which workgroups are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sampling {
    /// Workgroups of the launch, and those that are resident at once.
    pub groups: u64,
    pub resident: u64,
    pub dies: u64,
    /// Times that the sample was halved.
    pub halvings: u32,
}

impl Sampling {
    pub fn keeps(&self, linear: u64) -> bool {
        let generation = linear / self.resident;
        let (by_generation, within) = self.split();
        generation.is_multiple_of(by_generation)
            && (linear % self.resident / self.dies).is_multiple_of(within)
    }

    /// Part of the resident workgroups that is sampled, as a divisor.
    pub fn part(&self) -> u64 {
        self.split().1
    }

    /// Whole generations of resident workgroups are dropped first, because neighbours share data. Then every other workgroup of the
    /// only one that is left.
    fn split(&self) -> (u64, u64) {
        let generations = self.groups.div_ceil(self.resident).max(1).next_power_of_two();
        let by_generation = generations.min(1 << self.halvings.min(62));
        (by_generation, (1 << self.halvings.min(62)) / by_generation)
    }
}

/// What was recorded of a launch.
#[derive(Debug)]
pub(crate) struct Recording {
    pub sampling: Sampling,
    pub counts: Counts,
    pub groups: BTreeMap<u64, SampledGroup>,
    paths: HashMap<Arc<[u32]>, u32>,
    by_number: Vec<Arc<[u32]>>,
    path_words: usize,
    touch_words: usize,
    /// Counts that no workgroup uses at the moment.
    spare: Vec<Counts>,
}

impl Recording {
    pub fn new(sampling: Sampling) -> Recording {
        Recording {
            sampling,
            counts: Vec::new(),
            groups: BTreeMap::new(),
            paths: HashMap::new(),
            by_number: Vec::new(),
            path_words: 0,
            touch_words: 0,
            spare: Vec::new(),
        }
    }

    pub fn spare_counts(&mut self) -> Counts {
        self.spare.pop().unwrap_or_default()
    }

    /// The path with a number.
    pub fn path(&self, number: u32) -> &[u32] {
        &self.by_number[number as usize]
    }

    /// Number of distinct paths.
    pub fn paths(&self) -> u32 {
        self.by_number.len() as u32
    }

    /// Adds a workgroup that has ended.
    pub fn add(&mut self, recorder: Recorder) {
        self.spare.push(recorder.counts);
        if !recorder.sampled || !self.sampling.keeps(recorder.linear) {
            return;
        }
        let mut group = SampledGroup { paths: Vec::new(), touches: Vec::new() };
        for wave in recorder.waves {
            group.paths.push(self.number(wave.path));
            self.touch_words += wave.touches.len();
            group.touches.push(wave.touches.into_boxed_slice().into_vec());
        }
        self.groups.insert(recorder.linear, group);
        while self.is_full() && self.groups.len() > 1 {
            self.sampling.halvings += 1;
            let sampling = self.sampling;
            self.groups.retain(|linear, _| sampling.keeps(*linear));
            self.recount();
        }
    }

    /// Sums up the counts when the launch has ended.
    pub fn finish(&mut self) {
        for counts in std::mem::take(&mut self.spare) {
            if self.counts.len() < counts.len() {
                self.counts.resize_with(counts.len(), Vec::new);
            }
            for (to, from) in self.counts.iter_mut().zip(counts) {
                if to.is_empty() {
                    *to = from;
                } else {
                    to.iter_mut().zip(&from).for_each(|(to, from)| to.add(from));
                }
            }
        }
    }

    fn is_full(&self) -> bool {
        self.touch_words > MAX_SAMPLE || self.path_words > MAX_PATHS
    }

    fn number(&mut self, path: Vec<u32>) -> u32 {
        if let Some(number) = self.paths.get(path.as_slice()) {
            return *number;
        }
        let number = self.by_number.len() as u32;
        let path: Arc<[u32]> = path.into();
        self.path_words += path.len();
        self.by_number.push(Arc::clone(&path));
        self.paths.insert(path, number);
        number
    }

    /// Forgets the paths that no sampled workgroup takes, and counts what is left.
    fn recount(&mut self) {
        let groups = self.groups.values();
        self.touch_words = groups.flat_map(|group| &group.touches).map(Vec::len).sum();
        let paths = std::mem::take(&mut self.by_number);
        self.paths.clear();
        self.path_words = 0;
        let mut numbers = HashMap::new();
        for group in self.groups.values_mut() {
            for number in &mut group.paths {
                *number = *numbers.entry(*number).or_insert_with(|| {
                    let path = &paths[*number as usize];
                    self.path_words += path.len();
                    self.by_number.push(Arc::clone(path));
                    self.paths.insert(Arc::clone(path), self.by_number.len() as u32 - 1);
                    self.by_number.len() as u32 - 1
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_drops_whole_generations_before_parts_of_one() {
        let mut sampling = Sampling { groups: 100, resident: 32, dies: 8, halvings: 0 };
        let kept = |sampling: &Sampling| (0..100).filter(|linear| sampling.keeps(*linear)).count();
        assert_eq!(kept(&sampling), 100);
        sampling.halvings = 1;
        assert_eq!((kept(&sampling), sampling.part()), (64, 1), "generations 0 and 2");
        sampling.halvings = 2;
        assert_eq!((kept(&sampling), sampling.part()), (32, 1), "generation 0");
        sampling.halvings = 3;
        assert_eq!((kept(&sampling), sampling.part()), (16, 2), "half of generation 0");
        assert!((0..8).all(|die| sampling.keeps(die)), "all dies have some");
    }

    #[test]
    fn a_smaller_sample_is_part_of_a_larger_one() {
        for groups in [1, 7, 64, 1000] {
            let at = |halvings| Sampling { groups, resident: 24, dies: 6, halvings };
            for halvings in 0..12 {
                for linear in 0..groups {
                    assert!(
                        !at(halvings + 1).keeps(linear) || at(halvings).keeps(linear),
                        "{groups} {linear}"
                    );
                }
                assert!(at(halvings).keeps(0));
            }
        }
    }

    #[test]
    fn an_access_keeps_its_site_kind_and_length_in_a_word() {
        for kind in [
            TouchKind::Load,
            TouchKind::CoherentLoad,
            TouchKind::Store,
            TouchKind::Atomic,
            TouchKind::ScalarLoad,
        ] {
            let touch = Touch::from_word(Touch { site: Site::uop(3, 77), kind, runs: 64 }.word());
            assert_eq!((touch.site, touch.kind, touch.runs), (Site::uop(3, 77), kind, 64));
        }
    }
}
