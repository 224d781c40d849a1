//! The memory hierarchy: private L1 of each compute unit, L2 of each die, Infinity Cache and HBM, fed with the addresses of the sample.
//!
//! L1 is write-through and is empty when a kernel starts. L2 is write-back, keeps its lines between kernels, and writes dirty lines
//! back when a kernel ends. The Infinity Cache is on the memory side: it sees what L2 reads and writes back.

use std::collections::HashMap;

use serde::Serialize;

use super::cache::Cache;
use super::coalesce::{BLOCK, Run};
use super::gpu::GpuTiming;
use super::peer::PeerMemory;
use super::record::{SampledGroup, Touch, TouchKind};
use super::site::Site;

/// Size of a page of physical memory. Pages are handed out in the order in which they are first accessed, so that the estimate does
/// not depend on where the host placed an allocation.
const PAGE: u64 = 4096;

/// Hits and accesses of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HitCount {
    /// Accesses that found their line.
    pub hits: u64,
    /// All accesses.
    pub accesses: u64,
}

impl HitCount {
    fn count(&mut self, hit: bool) {
        self.hits += u64::from(hit);
        self.accesses += 1;
    }

    /// Part of the accesses that hit, if there are any.
    pub fn rate(&self) -> Option<f64> {
        (self.accesses > 0).then(|| self.hits as f64 / self.accesses as f64)
    }

    pub(crate) fn add(&mut self, other: &HitCount) {
        self.hits += other.hits;
        self.accesses += other.accesses;
    }
}

/// Traffic of the sampled accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryTraffic {
    /// Recorded blocks, as they come from the waves.
    pub blocks: u64,
    pub l1: HitCount,
    pub scalar: HitCount,
    pub l2: HitCount,
    pub mall: HitCount,
    /// Cycles of all L1 caches together.
    pub l1_cycles: u64,
    /// Bytes between L1 and L2, between L2 and the Infinity Cache, and of HBM.
    pub l2_bytes: u64,
    pub fabric_bytes: u64,
    pub hbm_read_bytes: u64,
    pub hbm_written_bytes: u64,
    /// Bytes read from, and written to, the memory of other GPUs.
    pub link_read_bytes: u64,
    pub link_written_bytes: u64,
}

/// Mean latency of a site, as a sum and a count, and where its loads were served.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SiteLatency {
    pub cycles: u64,
    pub accesses: u64,
    pub hits: LoadHits,
}

/// Hits of loads and atomics in the vector L1 and in L2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LoadHits {
    /// Hits of the L1 caches.
    pub l1: HitCount,
    /// Hits of the L2 caches, among what L1 did not serve.
    pub l2: HitCount,
}

impl LoadHits {
    fn count(&mut self, kind: TouchKind, level: Level) {
        match kind {
            TouchKind::Load => self.l1.count(level == Level::L1),
            TouchKind::CoherentLoad | TouchKind::Atomic => {}
            // The scalar cache is another one, and stores are not waited for.
            TouchKind::ScalarLoad | TouchKind::Store => return,
        }
        if level != Level::L1 {
            self.l2.count(level == Level::L2);
        }
    }

    pub(crate) fn add(&mut self, other: &LoadHits) {
        self.l1.add(&other.l1);
        self.l2.add(&other.l2);
    }
}

/// Result of a replay.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    pub traffic: MemoryTraffic,
    pub latencies: HashMap<Site, SiteLatency>,
}

/// Where an access was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    L1,
    L2,
    Mall,
    Hbm,
    Link,
}

/// Caches that outlive a launch.
#[derive(Debug)]
pub(crate) struct Hierarchy {
    gpu: &'static GpuTiming,
    /// Part of the resident workgroups that is replayed, as a divisor; shared caches shrink by it.
    part: u64,
    l2: Vec<Cache>,
    mall: Option<Cache>,
    pages: HashMap<u64, u64>,
}

impl Hierarchy {
    pub fn new(gpu: &'static GpuTiming) -> Hierarchy {
        Hierarchy::with_part(gpu, 1)
    }

    fn with_part(gpu: &'static GpuTiming, part: u64) -> Hierarchy {
        Hierarchy {
            gpu,
            part,
            l2: (0..gpu.dies).map(|_| Cache::new(gpu.l2, part)).collect(),
            mall: gpu.mall.map(|shape| Cache::new(shape, part)),
            pages: HashMap::new(),
        }
    }

    /// Replays the accesses of a launch. Workgroups are placed round robin over dies and then over compute units, and the waves of
    /// `resident` workgroups take turns, one access each.
    pub fn replay<'a>(
        &mut self,
        groups: impl Iterator<Item = (u64, &'a SampledGroup)>,
        resident: u64,
        part: u64,
        peers: &PeerMemory,
    ) -> Replayed {
        if part != self.part {
            *self = Hierarchy::with_part(self.gpu, part);
        }
        let mut replay = Replay::new(self, peers);
        let mut turn: Vec<(u64, &SampledGroup)> = Vec::new();
        let mut generation = 0;
        for (linear, group) in groups {
            if linear / resident != generation {
                replay.generation(&turn);
                turn.clear();
                generation = linear / resident;
            }
            turn.push((linear, group));
        }
        replay.generation(&turn);
        replay.end()
    }

    fn physical(&mut self, block: u64) -> u64 {
        const BLOCKS: u64 = PAGE / BLOCK;
        let next = self.pages.len() as u64;
        let page = *self.pages.entry(block / BLOCKS).or_insert(next);
        page * BLOCKS + block % BLOCKS
    }
}

/// Position of a wave in its recorded accesses.
struct Cursor<'a> {
    unit: usize,
    die: usize,
    touches: &'a [u64],
}

struct Replay<'h> {
    hierarchy: &'h mut Hierarchy,
    peers: &'h PeerMemory,
    l1: Vec<Cache>,
    scalar: Vec<Cache>,
    done: Replayed,
}

impl<'h> Replay<'h> {
    fn new(hierarchy: &'h mut Hierarchy, peers: &'h PeerMemory) -> Replay<'h> {
        let gpu = hierarchy.gpu;
        let units = gpu.cus();
        Replay {
            l1: (0..units).map(|_| Cache::new(gpu.l1, 1)).collect(),
            scalar: (0..units.div_ceil(2)).map(|_| Cache::new(gpu.scalar, 1)).collect(),
            hierarchy,
            peers,
            done: Replayed::default(),
        }
    }

    fn generation(&mut self, groups: &[(u64, &SampledGroup)]) {
        let gpu = self.hierarchy.gpu;
        let dies = u64::from(gpu.dies);
        let mut cursors: Vec<Cursor> = Vec::new();
        for (linear, group) in groups {
            let die = linear % dies;
            let unit = die * u64::from(gpu.cus_per_die) + linear / dies % u64::from(gpu.cus_per_die);
            let cursor = |touches| Cursor { unit: unit as usize, die: die as usize, touches };
            cursors.extend(group.touches.iter().map(|touches| cursor(touches.as_slice())));
        }
        while !cursors.is_empty() {
            cursors.retain_mut(|cursor| {
                let Some((header, rest)) = cursor.touches.split_first() else { return false };
                let touch = Touch::from_word(*header);
                let (runs, rest) = rest.split_at(touch.runs.min(rest.len()));
                cursor.touches = rest;
                self.touch(cursor.unit, cursor.die, touch, runs);
                true
            });
        }
    }

    fn touch(&mut self, unit: usize, die: usize, touch: Touch, runs: &[u64]) {
        let gpu = self.hierarchy.gpu;
        let per_line = gpu.l1.line / BLOCK;
        let mut worst = Level::L1;
        let mut cycles = 0;
        let mut hits = LoadHits::default();
        for run in runs.iter().map(|word| Run::from_word(*word)) {
            self.done.traffic.blocks += run.blocks();
            let mut last = u64::MAX;
            for block in run.first()..run.first() + run.blocks() {
                let remote = self.peers.contains(block * BLOCK);
                let block = self.hierarchy.physical(block);
                let line = block / per_line;
                cycles +=
                    u64::from(touch.kind != TouchKind::ScalarLoad) * BLOCK.div_ceil(gpu.l1_bytes_per_cycle);
                let level = match touch.kind {
                    // The blocks of a line come from L1 together.
                    TouchKind::Load if line == last => continue,
                    TouchKind::Load => {
                        let hit = self.l1[unit].access(line, false).hit;
                        self.done.traffic.l1.count(hit);
                        match (hit, remote) {
                            (true, _) => Level::L1,
                            (false, false) => self.read(die, line * per_line, gpu.l1.line),
                            (false, true) => self.read_peer(gpu.l1.line),
                        }
                    }
                    TouchKind::Store if remote => self.write_peer(),
                    TouchKind::CoherentLoad if remote => self.read_peer(BLOCK),
                    TouchKind::Atomic if remote => {
                        self.write_peer();
                        self.read_peer(BLOCK)
                    }
                    TouchKind::CoherentLoad => self.read(die, block, BLOCK),
                    TouchKind::ScalarLoad => {
                        let hit = self.scalar[unit / 2].access(block, false).hit;
                        self.done.traffic.scalar.count(hit);
                        match (hit, remote) {
                            (true, _) => Level::L1,
                            (false, false) => self.read(die, block, BLOCK),
                            (false, true) => self.read_peer(BLOCK),
                        }
                    }
                    TouchKind::Store => self.write(die, block),
                    TouchKind::Atomic => {
                        let level = self.read(die, block, BLOCK);
                        self.write(die, block);
                        level
                    }
                };
                last = line;
                hits.count(touch.kind, level);
                worst = worst.max(level);
            }
        }
        self.done.traffic.l1_cycles += cycles;
        let latency = match (worst, touch.kind) {
            (Level::L1, TouchKind::ScalarLoad) => gpu.latency.scalar,
            (Level::L1, _) => gpu.latency.l1,
            (Level::L2, _) => gpu.latency.l2,
            (Level::Mall, _) => gpu.cycles(gpu.latency.mall_ns),
            (Level::Hbm, _) => gpu.cycles(gpu.latency.hbm_ns),
            (Level::Link, _) => gpu.cycles(gpu.latency.link_ns),
        };
        let site = self.done.latencies.entry(touch.site).or_default();
        site.cycles += latency + cycles.saturating_sub(1);
        site.accesses += 1;
        site.hits.add(&hits);
    }

    /// Reads `bytes` of a block's line through the L2 of a die.
    fn read(&mut self, die: usize, block: u64, bytes: u64) -> Level {
        self.done.traffic.l2_bytes += bytes;
        let gpu = self.hierarchy.gpu;
        let line = block * BLOCK / gpu.l2.line;
        let outcome = self.hierarchy.l2[die].access(line, false);
        self.done.traffic.l2.count(outcome.hit);
        if let Some(evicted) = outcome.evicted {
            self.write_back(evicted);
        }
        if outcome.hit {
            return Level::L2;
        }
        self.done.traffic.fabric_bytes += gpu.l2.line;
        let Some(mall) = &mut self.hierarchy.mall else {
            self.done.traffic.hbm_read_bytes += gpu.l2.line;
            return Level::Hbm;
        };
        let outcome = mall.access(line, false);
        self.done.traffic.mall.count(outcome.hit);
        if outcome.evicted.is_some() {
            self.done.traffic.hbm_written_bytes += gpu.l2.line;
        }
        if outcome.hit {
            return Level::Mall;
        }
        self.done.traffic.hbm_read_bytes += gpu.l2.line;
        Level::Hbm
    }

    /// Reads from the memory of another GPU. L2 does not keep it, because nothing would tell it of changes.
    fn read_peer(&mut self, bytes: u64) -> Level {
        self.done.traffic.link_read_bytes += bytes;
        Level::Link
    }

    /// Writes a block to the memory of another GPU. The wave does not wait for it.
    fn write_peer(&mut self) -> Level {
        self.done.traffic.link_written_bytes += BLOCK;
        Level::L2
    }

    /// Writes a block to L2, which does not read the rest of its line.
    fn write(&mut self, die: usize, block: u64) -> Level {
        self.done.traffic.l2_bytes += BLOCK;
        let line = block * BLOCK / self.hierarchy.gpu.l2.line;
        let outcome = self.hierarchy.l2[die].access(line, true);
        self.done.traffic.l2.count(outcome.hit);
        if let Some(evicted) = outcome.evicted {
            self.write_back(evicted);
        }
        Level::L2
    }

    fn write_back(&mut self, line: u64) {
        let bytes = self.hierarchy.gpu.l2.line;
        self.done.traffic.fabric_bytes += bytes;
        let evicted = match &mut self.hierarchy.mall {
            None => true,
            Some(mall) => mall.access(line, true).evicted.is_some(),
        };
        self.done.traffic.hbm_written_bytes += u64::from(evicted) * bytes;
    }

    fn end(mut self) -> Replayed {
        for die in 0..self.hierarchy.l2.len() {
            for line in self.hierarchy.l2[die].clean() {
                self.write_back(line);
            }
        }
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wave that accesses these blocks, one per instruction.
    fn wave(kind: TouchKind, blocks: impl Iterator<Item = u64>) -> Vec<u64> {
        let touch = |block: u64| [(kind as u64) << 16 | 1, block << 12 | 1];
        blocks.flat_map(touch).collect()
    }

    fn replay(gpu: &'static GpuTiming, groups: &[Vec<u64>]) -> MemoryTraffic {
        replay_with(gpu, groups, &PeerMemory::default())
    }

    fn replay_with(gpu: &'static GpuTiming, groups: &[Vec<u64>], peers: &PeerMemory) -> MemoryTraffic {
        let groups: Vec<SampledGroup> = groups
            .iter()
            .map(|touches| SampledGroup { paths: vec![0], touches: vec![touches.clone()] })
            .collect();
        let numbered = groups.iter().enumerate().map(|(linear, group)| (linear as u64, group));
        Hierarchy::new(gpu).replay(numbered, 1 << 20, 1, peers).traffic
    }

    fn mi300x() -> &'static GpuTiming {
        GpuTiming::find("mi300x").unwrap()
    }

    fn mi210() -> &'static GpuTiming {
        GpuTiming::find("mi210").unwrap()
    }

    #[test]
    fn a_second_pass_over_a_small_array_hits_l1() {
        let twice = (0..64).chain(0..64);
        let traffic = replay(mi210(), &[wave(TouchKind::Load, twice)]);
        assert_eq!((traffic.l1.hits, traffic.l1.accesses), (64, 128));
        assert_eq!(traffic.hbm_read_bytes, 64 * BLOCK);
        // Lines of L2 are twice as long: every other miss of L1 finds its line there.
        assert_eq!((traffic.l2.hits, traffic.l2.accesses), (32, 64));
    }

    #[test]
    fn coherent_loads_pass_by_l1() {
        let twice = (0..64).chain(0..64);
        let traffic = replay(mi300x(), &[wave(TouchKind::CoherentLoad, twice)]);
        assert_eq!(traffic.l1.accesses, 0);
        assert_eq!(traffic.l2.accesses, 128);
    }

    #[test]
    fn dies_share_the_infinity_cache_but_not_l2() {
        let read = || wave(TouchKind::Load, (0..256).step_by(2));
        // Workgroups 0 and 1 are on different dies, 0 and 8 on different compute units of one die.
        let traffic = replay(mi300x(), &[read(), read()]);
        assert_eq!((traffic.l2.hits, traffic.mall.hits), (0, 128));
        let nine: Vec<Vec<u64>> =
            (0..9).map(|group| if group % 8 == 0 { read() } else { Vec::new() }).collect();
        let traffic = replay(mi300x(), &nine);
        assert_eq!((traffic.l1.hits, traffic.l2.hits, traffic.mall.hits), (0, 128, 0));
    }

    #[test]
    fn written_lines_reach_hbm_without_being_read() {
        let traffic = replay(mi210(), &[wave(TouchKind::Store, 0..1024)]);
        assert_eq!((traffic.hbm_read_bytes, traffic.hbm_written_bytes), (0, 1024 * BLOCK));
        let traffic = replay(mi300x(), &[wave(TouchKind::Store, 0..1024)]);
        assert_eq!(traffic.hbm_written_bytes, 0, "they stay in the Infinity Cache");
        assert_eq!(traffic.fabric_bytes, 1024 * BLOCK);
    }

    #[test]
    fn memory_of_another_gpu_is_read_through_the_link_each_time() {
        let peers = PeerMemory::new(std::iter::once(64 * BLOCK..128 * BLOCK));
        let both = wave(TouchKind::CoherentLoad, (0..128).chain(0..128));
        let traffic = replay_with(mi300x(), &[both], &peers);
        assert_eq!(traffic.link_read_bytes, 2 * 64 * BLOCK);
        assert_eq!(traffic.l2.accesses, 2 * 64);
        let traffic = replay_with(mi300x(), &[wave(TouchKind::Store, 60..70)], &peers);
        assert_eq!((traffic.link_written_bytes, traffic.fabric_bytes), (6 * BLOCK, 4 * BLOCK));
    }

    #[test]
    fn traffic_does_not_depend_on_addresses_of_pages() {
        let at = |base: u64| replay(mi300x(), &[wave(TouchKind::Load, (0..4096).map(move |k| base + k * 3))]);
        assert_eq!(at(0), at(0x7f31_2345 * 64));
    }
}
