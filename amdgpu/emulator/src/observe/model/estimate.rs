//! Estimate of a launch: the time of every resource from the recording, and the latency bound.
//!
//! The launch takes as long as its most used resource, or as its waves need one after another in the slots that occupancy leaves them
//! (Little's law), whichever is longer.

use std::collections::{BTreeMap, HashMap};

use code_object::{Occupancy, Resources};
use serde::Serialize;

use super::gpu::{ADDRESS_LANES, GpuTiming, SIMDS};
use super::hierarchy::{Hierarchy, HitCount, LoadHits, Replayed};
use super::peer::PeerMemory;
use super::record::{Recording, SiteCount};
use super::scoreboard::{Event, PathTime, Scoreboard, Wait};
use super::site::Site;
use super::unit::{Timed, Unit, flops};
use crate::Level;
use crate::observe::listing::Listing;
use crate::program::Program;

/// What takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// Issue to the vector ALUs.
    Valu,
    /// Matrix cores.
    Matrix,
    /// Issue to the scalar ALUs, and branches.
    Salu,
    /// LDS without bank conflicts.
    Lds,
    /// LDS cycles lost to bank conflicts.
    BankConflicts,
    /// Issue of vector memory instructions: one address per lane.
    VectorMemory,
    /// L1 bandwidth.
    L1,
    /// L2 bandwidth.
    L2,
    /// Infinity Cache bandwidth.
    InfinityCache,
    /// HBM bandwidth.
    Hbm,
    /// Waves that wait, with too few others to fill the time.
    Latency,
    /// Start and end of the kernel.
    Launch,
    /// Bandwidth of the link to other GPUs, whose memory the kernel accesses.
    Link,
    /// Bandwidth of the link to the host. Only copies use it.
    HostLink,
}

impl Resource {
    /// All resources, in the order of reports.
    pub const ALL: [Resource; 14] = [
        Resource::Valu,
        Resource::Matrix,
        Resource::Salu,
        Resource::Lds,
        Resource::BankConflicts,
        Resource::VectorMemory,
        Resource::L1,
        Resource::L2,
        Resource::InfinityCache,
        Resource::Hbm,
        Resource::Latency,
        Resource::Launch,
        Resource::Link,
        Resource::HostLink,
    ];

    /// Words for reports.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Valu => "VALU issue",
            Resource::Matrix => "MFMA throughput",
            Resource::Salu => "SALU issue",
            Resource::Lds => "LDS bandwidth",
            Resource::BankConflicts => "LDS bank conflicts",
            Resource::VectorMemory => "vector memory issue",
            Resource::L1 => "L1 bandwidth",
            Resource::L2 => "L2 bandwidth",
            Resource::InfinityCache => "Infinity Cache bandwidth",
            Resource::Hbm => "HBM bandwidth",
            Resource::Latency => "latency: not enough waves",
            Resource::Launch => "launch overhead",
            Resource::Link => "link bandwidth between GPUs",
            Resource::HostLink => "link bandwidth to the host",
        }
    }
}

/// Time in picoseconds: integers, so that sums do not depend on their order.
pub(crate) type Picoseconds = u64;

/// Estimate of one launch.
#[derive(Clone, Debug)]
pub(crate) struct LaunchEstimate {
    pub time: Picoseconds,
    pub resources: BTreeMap<Resource, Picoseconds>,
    pub occupancy: Occupancy,
    pub groups: u64,
    pub sampled_groups: u64,
    pub waves: u64,
    pub instructions: u64,
    pub flops: u64,
    pub l1: HitCount,
    pub scalar: HitCount,
    pub l2: HitCount,
    pub mall: HitCount,
    pub hbm_bytes: u64,
    /// Bytes read from and written to the memory of other GPUs.
    pub link_bytes: u64,
    /// Cycles of the sampled waves, and those lost by site and cause.
    pub wave_cycles: u64,
    pub stalls: BTreeMap<(Site, Wait), u64>,
    /// Cache hits of loads, by site.
    pub hits: BTreeMap<Site, LoadHits>,
    /// Base addresses of the programs that sites name.
    pub bases: Vec<u64>,
}

/// Shape of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub gpu: &'static GpuTiming,
    pub groups: u64,
    pub waves_per_group: u64,
    pub occupancy: Occupancy,
}

impl Shape {
    pub fn new(gpu: &'static GpuTiming, listing: &Listing, groups: u64, block: u32, lds: u32) -> Shape {
        let kernel = &listing.kernel.kernel;
        let resources = Resources { vgprs: kernel.vgpr_count, sgprs: kernel.sgpr_count, lds: u64::from(lds) };
        let mut occupancy = resources.occupancy(block, gpu.lds_bytes);
        occupancy.groups = occupancy.groups.max(1);
        Shape { gpu, groups, waves_per_group: u64::from(block.div_ceil(64)), occupancy }
    }

    /// Workgroups that are resident at once.
    pub fn resident(&self) -> u64 {
        self.gpu.cus() * u64::from(self.occupancy.groups)
    }
}

/// Sums over all executed instructions.
#[derive(Debug, Default)]
struct Work {
    instructions: u64,
    busy: HashMap<Unit, u64>,
    executions: HashMap<Unit, u64>,
    lds_cycles: u64,
    lds_conflicts: u64,
    blocks: u64,
    flops: u64,
}

/// Estimates a launch from its recording.
pub(crate) fn estimate(
    shape: &Shape,
    listing: &Listing,
    level: Level,
    bases: Vec<u64>,
    recording: &Recording,
    hierarchy: &mut Hierarchy,
    peers: &PeerMemory,
) -> LaunchEstimate {
    let gpu = shape.gpu;
    let programs: Vec<Option<&Program>> =
        bases.iter().map(|base| listing.kernel.program_at(level, *base)).collect();
    let work = work(gpu, &programs, recording);
    let groups = recording.groups.iter().map(|(linear, group)| (*linear, group));
    let replayed = hierarchy.replay(groups, shape.resident(), recording.sampling.part(), peers);
    let waves = waves(gpu, &programs, recording, &replayed);

    let traffic = &replayed.traffic;
    let scale = if traffic.blocks == 0 { 0.0 } else { work.blocks as f64 / traffic.blocks as f64 };
    let scaled = |bytes: u64| bytes as f64 * scale;
    // Compute units with one workgroup more than others are busy for longer.
    let cus = gpu.cus();
    let uneven = (shape.groups.div_ceil(cus) * cus) as f64 / shape.groups.max(1) as f64;
    let ns = |cycles: f64| cycles / gpu.ghz();
    let per_cu = |cycles: u64| ns(cycles as f64 * uneven / cus as f64);
    let of = |map: &HashMap<Unit, u64>, unit| map.get(&unit).copied().unwrap_or(0);
    let slower = f64::from(gpu.clock_mhz) / f64::from(gpu.matrix_clock_mhz);
    let l1_cycles = work.blocks * super::coalesce::BLOCK / gpu.l1_bytes_per_cycle;
    let hbm_bytes = scaled(traffic.hbm_read_bytes + traffic.hbm_written_bytes);
    let generations = shape.groups.div_ceil(shape.resident());
    let mean_group = waves.group_cycles as f64 / waves.groups.max(1) as f64;
    let times = [
        (Resource::Valu, per_cu(of(&work.busy, Unit::Valu)) / SIMDS as f64),
        (Resource::Matrix, per_cu(of(&work.busy, Unit::Matrix)) / SIMDS as f64 * slower),
        (Resource::Salu, per_cu(of(&work.executions, Unit::Salu).max(of(&work.executions, Unit::Branch)))),
        (Resource::Lds, per_cu(work.lds_cycles - work.lds_conflicts)),
        (Resource::BankConflicts, per_cu(work.lds_conflicts)),
        (Resource::VectorMemory, per_cu(of(&work.executions, Unit::VectorMemory) * 64 / ADDRESS_LANES)),
        (Resource::L1, per_cu(l1_cycles)),
        (Resource::L2, ns(scaled(traffic.l2_bytes) / (gpu.l2_bytes_per_cycle * u64::from(gpu.dies)) as f64)),
        (
            Resource::InfinityCache,
            if gpu.mall.is_some() {
                scaled(traffic.fabric_bytes) / (gpu.mall_gb_s * gpu.mall_efficiency)
            } else {
                0.0
            },
        ),
        (Resource::Hbm, hbm_bytes / gpu.hbm_rate()),
        (Resource::Latency, ns(mean_group * waves.scale * generations as f64)),
        (Resource::Launch, gpu.launch_ns),
        // Both directions work at the same time.
        (Resource::Link, scaled(traffic.link_read_bytes.max(traffic.link_written_bytes)) / gpu.link_rate()),
    ];
    let resources: BTreeMap<Resource, Picoseconds> =
        times.iter().map(|(resource, ns)| (*resource, (ns * 1000.0).round() as u64)).collect();
    LaunchEstimate {
        time: total(&resources),
        resources,
        occupancy: shape.occupancy,
        groups: shape.groups,
        sampled_groups: recording.groups.len() as u64,
        waves: shape.groups * shape.waves_per_group,
        instructions: work.instructions,
        flops: work.flops,
        l1: traffic.l1,
        scalar: traffic.scalar,
        l2: traffic.l2,
        mall: traffic.mall,
        hbm_bytes: hbm_bytes.round() as u64,
        link_bytes: scaled(traffic.link_read_bytes + traffic.link_written_bytes).round() as u64,
        wave_cycles: waves.wave_cycles,
        stalls: waves.stalls,
        hits: replayed.latencies.iter().map(|(site, latency)| (*site, latency.hits)).collect(),
        bases,
    }
}

/// Time of a launch: its longest resource plus its start and end. Bank conflicts are part of the LDS.
pub(crate) fn total(resources: &BTreeMap<Resource, Picoseconds>) -> Picoseconds {
    let of = |resource| resources.get(&resource).copied().unwrap_or(0);
    let longest = Resource::ALL
        .into_iter()
        .filter(|resource| *resource != Resource::Launch)
        .map(|resource| match resource {
            Resource::Lds => of(Resource::Lds) + of(Resource::BankConflicts),
            other => of(other),
        })
        .max();
    longest.unwrap_or(0) + of(Resource::Launch)
}

/// The resource that decides the time.
pub(crate) fn limit(resources: &BTreeMap<Resource, Picoseconds>) -> Resource {
    let of = |resource| resources.get(&resource).copied().unwrap_or(0);
    let lds = of(Resource::Lds) + of(Resource::BankConflicts);
    let worse =
        if of(Resource::BankConflicts) > of(Resource::Lds) { Resource::BankConflicts } else { Resource::Lds };
    let mut found = (worse, lds);
    for resource in Resource::ALL {
        if !matches!(resource, Resource::Lds | Resource::BankConflicts) && of(resource) > found.1 {
            found = (resource, of(resource));
        }
    }
    found.0
}

fn work(gpu: &GpuTiming, programs: &[Option<&Program>], recording: &Recording) -> Work {
    let mut work = Work::default();
    for (slot, counts) in recording.counts.iter().enumerate() {
        let Some(program) = programs.get(slot).copied().flatten() else { continue };
        for (at, count) in counts.iter().enumerate().filter(|(_, count)| count.executions > 0) {
            let Some(inst) = program.inst_of(at) else { continue };
            let timed = Timed::of(gpu.arch, inst);
            work.instructions += count.executions;
            *work.busy.entry(timed.unit).or_default() += count.executions * timed.busy;
            *work.executions.entry(timed.unit).or_default() += count.executions;
            work.lds_cycles += count.lds_cycles;
            work.lds_conflicts += count.lds_conflicts;
            work.blocks += count.blocks;
            work.flops += match timed.unit {
                Unit::Matrix => count.executions * flops(inst, 64),
                _ => flops(inst, count.lanes),
            };
        }
    }
    work
}

/// Times of the sampled waves and workgroups.
#[derive(Debug, Default)]
struct Waves {
    groups: u64,
    group_cycles: u64,
    wave_cycles: u64,
    stalls: BTreeMap<(Site, Wait), u64>,
    /// Executed instructions for each recorded one: more than one if waves were too long to record.
    scale: f64,
}

fn waves(
    gpu: &GpuTiming,
    programs: &[Option<&Program>],
    recording: &Recording,
    replayed: &Replayed,
) -> Waves {
    let mut events = Events { gpu, programs, counts: &recording.counts, replayed, known: HashMap::new() };
    let times: Vec<PathTime> =
        (0..recording.paths()).map(|number| events.path_time(recording.path(number))).collect();
    let mut waves = Waves { scale: 1.0, ..Waves::default() };
    let mut used = vec![0u64; times.len()];
    let mut recorded = 0;
    for group in recording.groups.values() {
        waves.groups += 1;
        let segments = group.paths.iter().map(|path| times[*path as usize].segments.len()).max().unwrap_or(0);
        for segment in 0..segments {
            let own = |path: &u32| times[*path as usize].segments.get(segment).copied().unwrap_or(0);
            let longest = group.paths.iter().map(own).max().unwrap_or(0);
            waves.group_cycles += longest;
            for path in &group.paths {
                if let Some(site) = times[*path as usize].barriers.get(segment) {
                    let waited = longest - own(path);
                    waves.wave_cycles += waited;
                    if waited > 0 {
                        *waves.stalls.entry((*site, Wait::Barrier)).or_default() += waited;
                    }
                }
            }
        }
        for path in &group.paths {
            used[*path as usize] += 1;
            let sites = recording.path(*path);
            recorded += sites.iter().filter(|site| !Site::from_word(**site).is_dropped()).count() as u64;
        }
    }
    for (time, used) in times.iter().zip(used) {
        waves.wave_cycles += time.cycles() * used;
        for (place, cycles) in &time.stalls {
            *waves.stalls.entry(*place).or_default() += cycles * used;
        }
    }
    let executed: u64 = recording.counts.iter().flatten().map(|count| count.executions).sum();
    if recording.groups.len() as u64 == recording.sampling.groups && recorded > 0 {
        waves.scale = (executed as f64 / recorded as f64).max(1.0);
    }
    waves
}

/// Events of the sites of a launch.
struct Events<'a> {
    gpu: &'a GpuTiming,
    programs: &'a [Option<&'a Program>],
    counts: &'a [Vec<SiteCount>],
    replayed: &'a Replayed,
    known: HashMap<Site, (Event, u64, u64)>,
}

impl Events<'_> {
    fn path_time(&mut self, path: &[u32]) -> PathTime {
        let mut scoreboard = Scoreboard::new();
        let mut sites = path.iter().map(|word| Site::from_word(*word)).peekable();
        while let Some(site) = sites.next() {
            let (event, _, end) = self.of(site);
            let jumps =
                matches!(event, Event::Branch) && sites.peek().is_some_and(|next| self.of(*next).1 != end);
            scoreboard.step(site, &event, jumps);
        }
        scoreboard.finish()
    }

    /// The event of a site, its address, and the address after it.
    fn of(&mut self, site: Site) -> (Event, u64, u64) {
        if let Some(known) = self.known.get(&site) {
            return *known;
        }
        let found = self.find(site).unwrap_or((Event::Nothing, 0, 0));
        self.known.insert(site, found);
        found
    }

    fn find(&self, site: Site) -> Option<(Event, u64, u64)> {
        let program = self.programs.get(site.slot()).copied().flatten()?;
        if site.is_dropped() {
            let (offset, inst) = program.dropped.get(site.index())?;
            let address = program.base() + u64::from(*offset);
            return Some((Event::of_dropped(inst), address, address + u64::from(inst.size)));
        }
        let inst = program.inst_of(site.index())?;
        let address = program.address_of(site.index());
        let event = Event::of(self.gpu, inst, || self.latency(site, inst));
        Some((event, address, address + u64::from(inst.size)))
    }

    /// Mean latency of a memory instruction. An instruction that accesses both LDS and global memory has the longer one.
    fn latency(&self, site: Site, inst: &isa::Inst) -> u64 {
        let count = self.counts.get(site.slot()).and_then(|counts| counts.get(site.index()));
        let lds = count.filter(|count| count.lds_cycles > 0);
        let lds = lds.map(|count| self.gpu.latency.lds + count.lds_conflicts / count.executions.max(1));
        let global = self.replayed.latencies.get(&site);
        let global = global.map(|latency| latency.cycles / latency.accesses.max(1));
        lds.max(global).unwrap_or(match Unit::of(inst) {
            Unit::Lds => self.gpu.latency.lds,
            Unit::ScalarMemory => self.gpu.latency.scalar,
            // No lane was active.
            _ => self.gpu.latency.l1,
        })
    }
}
